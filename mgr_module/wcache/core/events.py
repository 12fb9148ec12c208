"""What crosses the edge of a state machine: events in, actions out; plain data, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import FrozenSet, Optional, Tuple, Union

from .config_database import ConfigRequest
from .loads import Block, BlocksRequest, CapacityCall, CapacityRecipe
from .model import LoadPoint
from .protocol import Request
from .record import CounterDelta, LatencyHistogram, Period, Precondition, Record


@dataclass(frozen=True)
class LoadRequest:
    """One measurement on an OSD: `count` samples, or `seconds` of its own traffic.

    `spread`: `count` samples spread over `seconds`; of its own traffic, the mean
    commit latency of each `count`-th part of them.  `histogram`: with the client writes by
    latency all the same.  `recipe`: of an OSD's capacity, which takes one call.

    `beside` are other OSDs on the drives: of traffic, theirs counts with it; of a bench, what
    they commit meanwhile is told.
    """

    osd_id: int
    load_point: LoadPoint
    count: int
    seconds: float
    latency_limit_ms: float
    spread: bool = False
    histogram: bool = False
    recipe: Optional[CapacityRecipe] = None
    beside: Tuple[int, ...] = ()


@dataclass(frozen=True)
class LoadSamples:
    """What a measurement gave.

    `aborted` says why it must not go on (latency limit); `unusable` why this load cannot
    be measured on this OSD (too little traffic), while others still can.  `at_ns` says
    when each sample of a spread measurement began.  `later_counters` is what `counters`
    gained in about the second half, where that was read; `histogram` the client writes by
    latency, where the OSD tells.  `beside` is what other OSDs on the drives committed meanwhile.
    `moved`: an OSD on the drives has sent or got PGs' data meanwhile, by its own counters.
    """

    seconds: float
    samples_ns: Tuple[int, ...] = ()
    counters: Tuple[CounterDelta, ...] = ()
    bytes_written: int = 0
    aborted: str = ""
    unusable: str = ""
    at_ns: Tuple[int, ...] = ()
    later_counters: Tuple[CounterDelta, ...] = ()
    histogram: Optional[LatencyHistogram] = None
    capacity: Optional[CapacityCall] = None
    beside: Optional[CounterDelta] = None
    moved: bool = False


# ---- events


@dataclass(frozen=True)
class Begin:
    """Start, or go on after a restart of the mgr."""


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class LoadFailed:
    """Why a measurement could not be made (OSD stopped, command refused, time-out)."""

    message: str


@dataclass(frozen=True)
class Answered:
    """What was asked for under a token is there.

    The outcome of a task that the probe has posted; the LoadSamples of a measurement, or
    LoadFailed; the ConfigState after what was to be written was written or refused; or what OSDs
    have done, or not, for a trial, which is of the trial's own kind.
    """

    token: str
    answer: object


@dataclass(frozen=True)
class Decided:
    """The analysis has looked; `failed` is its one line where it could not.

    `same`: it would go on only to show that nothing differs.
    """

    token: str
    stop: bool
    failed: str = ""
    same: bool = False


@dataclass(frozen=True)
class LeaseLost:
    """The probe restarted or its lease ran out: the prior state is back, by its word."""

    detail: str


@dataclass(frozen=True)
class AgentSilent:
    """The probe has not been heard for longer than a lease lasts.

    `removed`: its host was removed from wcache, so nobody waits for it.
    """

    detail: str
    removed: bool = False


@dataclass(frozen=True)
class Halt:
    """Stop now and restore.

    `unfit`: a precondition broke.  `by_will`: an admin wants it, and nothing is wrong.
    `unsaved`: the mons did not store it, which says nothing of the drives.
    """

    reason: str
    unfit: bool = False
    by_will: bool = False
    unsaved: bool = False


FREEZE = Halt("frozen by an admin", by_will=True)
STOP = Halt("stopped by an admin", by_will=True)


@dataclass(frozen=True)
class Unmet:
    """What is recorded of a run that measures: what does not hold, and which checks are raised."""

    items: Tuple[Precondition, ...]
    checks: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Ill:
    """Why OSDs of a run are left alone, by a look while it measures; empty where all are well.

    It may be of the whole cluster.
    """

    why: str


@dataclass(frozen=True)
class Waits:
    """A run that has not begun waits for more than its turn; why, in words, or empty again."""

    reason: str


@dataclass(frozen=True)
class ClusterSeen:
    """Which preconditions do not hold now.

    `together`: so many of the first groups that were asked about may stop at the same time;
    None where none were.  `controls` are OSDs that can stand beside them unchanged.  `detail`
    says more of what does not hold, and `moved` which change no longer fits, and why.  `later` are
    the changes that are put off, by index; None where that was not looked at.  `beside` are OSDs
    of what else goes on, of which the mons were asked together with each of the groups.
    """

    token: str
    missed: Tuple[Precondition, ...]
    together: Optional[int] = None
    controls: Tuple[int, ...] = ()
    detail: str = ""
    moved: str = ""
    later: Optional[Tuple[int, ...]] = None
    beside: FrozenSet[int] = frozenset()


@dataclass(frozen=True)
class BlockSeen:
    """A block of clients' load has ended; `ill` are OSDs of it that are not well now."""

    token: str
    block: Block
    ill: FrozenSet[int] = frozenset()


@dataclass(frozen=True)
class BlocksEnded:
    """A watch ended before its last block; `past_limit`: for an OSD past the latency limit.

    `silent`: since the OSD does not answer, and not by what it has told.
    """

    token: str
    why: str
    past_limit: bool = False
    silent: bool = False


Event = Union[
    Begin, Tick, Answered, Decided, LeaseLost, AgentSilent, Halt, Unmet, Ill, Waits, ClusterSeen,
    BlockSeen, BlocksEnded,
]

# ---- actions


@dataclass(frozen=True)
class GiveTask:
    """Hand this to the probe at its next poll; replaces the task before it."""

    task_id: str
    request: Request


@dataclass(frozen=True)
class AskConfig:
    """Read values in the config database and write others; answered with a ConfigState."""

    token: str
    request: ConfigRequest


@dataclass(frozen=True)
class MeasureLoad:
    """Run a measurement; answered with LoadSamples or LoadFailed."""

    token: str
    request: LoadRequest


@dataclass(frozen=True)
class AskAnalysis:
    """Have the analysis look at a record; answered with Decided."""

    token: str
    record: Record


@dataclass(frozen=True)
class SavePeriod:
    """Keep a finished period, before anything else is done; `pair_index` is `slot.index`."""

    experiment_index: int
    pair_index: int
    second: bool
    period: Period


@dataclass(frozen=True)
class SaveRecord:
    """Keep a finished experiment; of a factorial, what it says of either drive."""

    record: Record


@dataclass(frozen=True)
class SaveRun:
    """Keep where a run, a rollout or a trial stands, before anything else is done."""


@dataclass(frozen=True)
class LookAtCluster:
    """Look whether what must hold before a change does; answered with ClusterSeen.

    `groups` are the OSDs of each change that may be made together.
    """

    token: str
    groups: Tuple[Tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class WatchBlocks:
    """Watch clients' load in blocks: a BlockSeen each, BlocksEnded where it ends early."""

    token: str
    request: BlocksRequest


@dataclass(frozen=True)
class WatchOsds:
    """Watch OSDs of a drive that a run toggles, until the next such watch or the run's end.

    BlocksEnded if one is past the latency limit.  Nothing follows from it but an end, so it
    waits for no store.
    """

    token: str
    request: BlocksRequest


@dataclass(frozen=True)
class AskOsds:
    """Have OSDs do what the trial of a knob is made of; answered by its own kind.

    `back`: it brings back what was there before, and waits for nobody.
    """

    token: str
    knob: str
    request: object
    back: bool = False


@dataclass(frozen=True)
class Note:
    """A line for the audit log, and with `loud` one for the cluster's."""

    text: str
    severity: Optional[str] = None
    loud: bool = False


Action = Union[
    GiveTask, AskConfig, MeasureLoad, AskAnalysis, SavePeriod, SaveRecord, SaveRun, LookAtCluster,
    WatchBlocks, WatchOsds, AskOsds, Note,
]

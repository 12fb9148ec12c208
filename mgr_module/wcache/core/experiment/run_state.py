"""What a run is to do, and what is stored of where it stands beside its periods."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, FrozenSet, Optional, Set, Tuple

from ..drive.prior import Prior
from ..drive_kind import DriveKind
from ..hardware.bcache import Dirty
from ..loads import WATCHED_MAX
from ..model import LoadPoint
from ..options.entries import BY_NAME
from ..options.option import Place
from ..options.trial import OptionTrial
from ..record import CHECKS_MAX, ExperimentSetup, Precondition
from ..simulation import OfDrives
from .factorial import crossed_domain
from .observed import Observed
from .pairs import Discarded


class RunStatus(str, Enum):
    """Where a run stands; the last two are final."""

    WAITING = "waiting"
    RUNNING = "running"
    RELEASING = "releasing"
    DONE = "done"
    ABORTED = "aborted"


OVER = (RunStatus.DONE, RunStatus.ABORTED)


@dataclass(frozen=True)
class RunSpec(OfDrives):
    """What is to be measured on one cache domain; fixed when the campaign starts.

    The budgets (`run_budget`) are each experiment's.

    The experiments of a run are all factorials with one other cache domain, or none is.
    """

    run_id: str
    campaign_id: str
    hostname: str
    domain_id: str
    lease_id: str
    experiments: Tuple[ExperimentSetup, ...]
    latency_limit_ms: float
    seconds_max: float
    bytes_max: int
    simulated: bool = False
    throwaway: bool = False
    consent_turn_on: bool = False
    missed: Tuple[Precondition, ...] = ()
    forced: bool = False
    client_wait_max_s: float = 1e9
    same_share: float = 1.0  # of each budget, where it looks as if nothing differs
    observes: bool = False  # toggles nothing, and holds no lease
    # other cache domains of its OSD, which are looked at as well
    looks_at: Tuple[str, ...] = ()
    # other OSDs on what it toggles: their clients wait too
    beside: Tuple[int, ...] = field(default=(), metadata={"max_items": WATCHED_MAX})
    trial: bool = False  # of a `try`
    dirty: Dirty = Dirty.ANY  # where bcache's dirty data is to be when a period begins
    starting_bytes: int = 0  # of `bytes_max`: what may be written to bring it there
    instead_of: str = ""  # the run whose OSDs were ill, in whose place this one is

    @property
    def domain_ids(self) -> Tuple[str, ...]:
        """Every cache domain the run toggles: its own, and in factorials the other one."""
        other = crossed_domain(self.experiments)
        return (self.domain_id,) if other is None else (self.domain_id, other)

    @property
    def osd_ids(self) -> FrozenSet[int]:
        """Every OSD on what it toggles, and the one that it measures."""
        return frozenset((*(setup.osd_id for setup in self.experiments), *self.beside))

    @property
    def option(self) -> Optional[OptionTrial]:
        """What it compares in place of the cache modes: all its experiments, or none, do."""
        return self.experiments[0].option if self.experiments else None

    @property
    def option_osd(self) -> Optional[int]:
        """The OSD whose option it compares; None where it compares what a probe sets."""
        entry = None if self.option is None else BY_NAME.get(self.option.name)
        return None if entry is None or entry.on_host else self.experiments[0].osd_id

    @property
    def heeds_cluster(self) -> bool:
        """Whether the cluster's state may keep it from measuring, or interrupt it."""
        return self.has_clients and not self.forced

    @property
    def toggles(self) -> bool:
        """Whether it changes something of a drive."""
        return not self.observes and self.option_osd is None

    @property
    def waits_for_controller(self) -> bool:
        """Whether a period begins only when bcache's rate controller has settled."""
        entry = None if self.option is None else BY_NAME.get(self.option.name)
        return entry is not None and entry.place is Place.BCACHE

    @property
    def bears(self) -> Tuple[Precondition, ...]:
        """What need not hold while it measures: its records say where it did not.

        Where clients wait for slow operations, people ask what a drive does.  A run that
        toggles nothing, one of the clients' own writes and a `try` add little to that.
        """
        loads = {setup.load_point for setup in self.experiments}
        looks = self.observes and LoadPoint.OSD_BENCH_CAPACITY not in loads
        gentle = looks or self.trial or loads <= {LoadPoint.OSD_TRAFFIC}
        return (Precondition.NO_SLOW_OPS,) if gentle else ()


def may_turn_on(spec: RunSpec) -> Set[DriveKind]:
    """The drive models whose caches a run may turn on that are off otherwise."""
    if not spec.consent_turn_on:
        return set()
    setups = spec.experiments
    models = {setup.drive_model for setup in setups}
    models |= {setup.crossed.drive_model for setup in setups if setup.crossed is not None}
    return {DriveKind("", str(model), spec.simulated) for model in models}


@dataclass(frozen=True)
class RunState:
    """What is stored of a run beside its periods."""

    VERSION: ClassVar[int] = 7
    STORED_BY: ClassVar[str] = "spec.run_id"
    spec: RunSpec
    status: RunStatus
    reason: str = ""
    finished: Tuple[str, ...] = ()  # record ids, one for each experiment that ended
    restored: bool = True
    waste: Tuple[Discarded, ...] = ()
    # What the experiments in `finished` cost; their periods are dropped once recorded.
    finished_seconds: float = 0.0
    finished_bytes: int = 0
    # of `spec.domain_ids` those whose prior state nobody has confirmed; all where empty
    owed: Tuple[str, ...] = ()
    began_at_s: float = 0.0  # when the mgr that saved this took the run up
    # of each cache domain, from before the first task that may touch it
    priors: Tuple[Prior, ...] = ()
    accepted: Tuple[str, ...] = ()  # domains that an admin takes as they are, not restored
    # what a probe said that contradicts `priors`, or why one is lost; in words
    dispute: str = ""
    # whose journal has the entries of this run; empty until its probe is known
    probe_id: str = ""
    told_back: Tuple[str, ...] = ()  # domains that its probe said it had restored
    unfit: bool = False  # it was not begun, or stopped, since preconditions were not met
    # of a run that toggles nothing, one for each load that is over
    observed: Tuple[Observed, ...] = ()
    # what did not hold at some time while it measured, of what it bears
    unmet: Tuple[Precondition, ...] = ()
    by_will: bool = False  # an admin had it end: nothing is wrong then
    # what the experiment under way has written for its periods to begin where they should, saved
    # before it is; and of that what neither a saved period nor `waste` counts yet
    starting_bytes: int = 0
    starting_open: int = 0
    # since when its OSDs are ill: its drives are given back, and it waits until they are well
    ill_since_s: float = 0.0
    ill_times: int = 0  # how often that was so
    # why its load failed, where Ceph's maps have shown nobody ill since then: that it waits for
    load_failed: str = ""
    # when that was last: of what began before, only complete pairs count
    voided_at_s: float = 0.0
    # health checks that were raised at some time while it measured
    checks: Tuple[str, ...] = field(default=(), metadata={"max_items": CHECKS_MAX})

    @property
    def index(self) -> int:
        """Of the experiment under way, or of the load that is observed."""
        return len(self.finished) + len(self.observed)

    @property
    def missed(self) -> Tuple[Precondition, ...]:
        """Every precondition that its records miss."""
        return tuple(dict.fromkeys((*self.spec.missed, *self.unmet)))

    @property
    def settled(self) -> bool:
        """Whether nothing is owed any more: restored, or taken as it is by an admin."""
        return self.restored or set(self.owed or self.spec.domain_ids) <= set(self.accepted)

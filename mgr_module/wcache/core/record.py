"""The record of an experiment: raw samples with all that a decision needs, immutable.

A record is what analysis reads, wherever it runs: in the mgr's child process, in
`wcache analyze FILE` on a laptop.  It is written once, when its experiment ends, and
never changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Optional, Tuple

from .hardware import BcacheState, FlushCounters
from .host_report import OfDriveKind
from .model import Arm, CacheMode, DriveModel, DriveState, LoadPoint, Role, Transport
from .options.entries import OptionTrial

RECORD_FORMAT = "wcache.record"
RECORD_VERSION = 6
# What the analysis answers about a record, and what pooling takes.
RESULT_FORMAT = "wcache.result"
RESULT_VERSION = 1
RECORD_BYTES_MAX = 8_000_000
PAIRS_MAX = 512
BUCKETS_MAX = 64  # an OSD has 32


class Precondition(str, Enum):
    """What must hold before measuring; missed ones are recorded with the result."""

    CLUSTER_HEALTHY = "cluster healthy"
    OSDS_WELL = "the OSDs on the drive are well"
    PGS_CLEAN = "PGs active+clean"
    NO_RECOVERY = "no recovery or backfill"
    NO_SLOW_OPS = "no slow operations (SLOW_OPS)"
    NO_SCRUB = "no scrub on the OSD"
    NOT_BUSY = "the OSDs on the drive move no data"
    JOURNAL_SETTLED = "the probe's journal is known and holds no lease of the drive"
    # what a wave of a rollout needs besides
    NO_SLOW_BLUESTORE = "no slow operations in BlueStore lately (BLUESTORE_SLOW_OP_ALERT)"
    NO_UPGRADE = "no orchestrated upgrade"
    NO_MAINTENANCE = "no host in maintenance"
    PROBES_HEARD = "the probes of these hosts and of most others are heard"
    NO_OTHER_PLAN = "no other plan, campaign or measurement"
    OK_TO_STOP = "`ceph osd ok-to-stop` allows the OSDs of the step"
    CLIENT_LOAD = "client load that shows what the change did"
    GATE_DECIDED = "the gate has decided that clients are no worse off"
    IN_WINDOW = "a maintenance window is open (auto_windows)"
    NOT_FROZEN = "the cluster is not frozen"
    VERDICT_STANDS = "the verdict that the next change is planned by still stands"
    PLAN_STANDS = "what the next change was planned from and consented to is as it was"


# What goes on somewhere on a large cluster all the time: kept with what is measured meanwhile, and
# it forbids nothing.
RECORDED = (
    Precondition.PGS_CLEAN, Precondition.NO_RECOVERY, Precondition.NO_SLOW_OPS,
    Precondition.NO_SCRUB, Precondition.NOT_BUSY, Precondition.NO_SLOW_BLUESTORE,
)
CHECKS_MAX = 32


@dataclass(frozen=True)
class CounterDelta:
    """What an OSD's counter gained in a period: a sum of latencies and how many."""

    name: str
    sum_s: float
    count: int


@dataclass(frozen=True)
class LatencyHistogram:
    """How many client writes an OSD answered in a period, by latency.

    `counts[i]` took from `upper_ns[i - 1]` (0 for the first) to less than `upper_ns[i]`;
    no bucket but the first spans more than a factor of two.
    """

    upper_ns: Tuple[int, ...] = field(metadata={"max_items": BUCKETS_MAX})
    counts: Tuple[int, ...] = field(metadata={"max_items": BUCKETS_MAX})

    def __post_init__(self) -> None:
        if not self.upper_ns or len(self.upper_ns) != len(self.counts):
            raise ValueError("a histogram needs a count for each of its buckets")
        if self.upper_ns[0] < 1 or any(
            not low < high <= 2 * low for low, high in zip(self.upper_ns, self.upper_ns[1:])
        ):
            raise ValueError("a histogram's buckets must rise, each at most twofold")


@dataclass(frozen=True)
class CrossedPeriod:
    """The other drive of a factorial during a period: its mode, and what was read of it."""

    mode: CacheMode
    state_before: Tuple[DriveState, ...] = ()
    state_after: Tuple[DriveState, ...] = ()
    flush_counters: Tuple[FlushCounters, ...] = ()


@dataclass(frozen=True)
class Period:
    """One stretch of measuring in one arm.

    Depth-1 benches and timers give `samples_ns` (one latency each); batches give one
    sample per call, in ns per write; the OSD's own traffic gives `counters` (sums and
    counts at the edges).  `seconds` is drive time: settling and measuring together.
    """

    VERSION: ClassVar[int] = 2
    arm: Arm
    started_at_s: float  # wall clock
    settle_s: float
    seconds: float
    samples_ns: Tuple[int, ...] = field(default=(), metadata={"max_items": 10_000})
    counters: Tuple[CounterDelta, ...] = ()
    bytes_written: int = 0
    state_before: Tuple[DriveState, ...] = ()
    state_after: Tuple[DriveState, ...] = ()
    flush_counters: Tuple[FlushCounters, ...] = ()  # at the start, then at the end
    crossed: Optional[CrossedPeriod] = None  # of a factorial
    # of a settling check: when each sample began, since the toggle was answered
    at_ns: Tuple[int, ...] = field(default=(), metadata={"max_items": 10_000})
    # of traffic: what `counters` gained in about the second half; none where it was not read
    later_counters: Tuple[CounterDelta, ...] = ()
    # of traffic: the client writes of the period, where the OSD tells
    histogram: Optional[LatencyHistogram] = None
    # of the bcache devices above the drive: at the start, then at the end
    bcache: Tuple[BcacheState, ...] = ()
    # of a bench: what other OSDs on the drives committed meanwhile, where there are any
    beside: Optional[CounterDelta] = None
    # beyond `settle_s`, until bcache was where the period begins; no load of ours in it
    waited_s: float = 0.0
    written_s: float = 0.0  # for how long a bench brought bcache there

    @property
    def loaded_s(self) -> float:
        """For how long it may have kept clients waiting."""
        return max(0.0, self.seconds - self.settle_s - self.waited_s)


@dataclass(frozen=True)
class Pair:
    """Two adjacent periods, one in each arm; `first` was chosen by the seeded coin."""

    index: int
    first: Arm
    a: Period
    b: Period

    @property
    def periods(self) -> Tuple[Period, Period]:
        """Both, that in arm A first."""
        return self.a, self.b

    def period(self, arm: Arm) -> Period:
        """Return the one in an arm."""
        return self.a if arm is Arm.A else self.b


@dataclass(frozen=True)
class CrossedDrive:
    """The other drive that a factorial toggles, and the role it plays for the OSD."""

    domain_id: str
    drive_id: str
    drive_model: DriveModel
    transport: Transport
    role: Role
    rotational: Optional[bool] = None


@dataclass(frozen=True)
class ExperimentSetup(OfDriveKind):
    """What was measured, where, and how; two records pool only where these agree."""

    fsid: str
    ceph_version: str
    hostname: str
    osd_id: int
    device_class: str
    role: Role
    load_point: LoadPoint
    domain_id: str
    drive_id: str
    drive_model: DriveModel
    transport: Transport
    samples_per_period: int
    period_s: float
    settle_s: float
    seed: int
    pairs_max: int
    rotational: Optional[bool] = None
    simulated: bool = False
    throwaway: bool = False
    crossed: Optional[CrossedDrive] = None
    # 0: no settling check is made before the first pair, and `settle_s` is what is used
    watch_samples: int = field(default=0, metadata={"max": 256})
    # the roles that lie on other drives than the OSD's block: what a commit waits for
    apart: Tuple[Role, ...] = ()
    # a load of ours that is kept up meanwhile, where nothing is toggled
    beside: Optional[LoadPoint] = None
    # what is compared in place of the cache modes
    option: Optional[OptionTrial] = None


@dataclass(frozen=True)
class Settling:
    """How long periods settle: chosen before the first pair, then frozen.

    `fading_s` is the time constant of the slowest effect seen after a toggle, 0 where
    none was seen; `amplitude_ln` its size at the toggle, in ln of latency.
    """

    settle_s: float
    fading_s: float = 0.0
    amplitude_ln: float = 0.0


@dataclass(frozen=True)
class Record:
    """One finished (or stopped) experiment.  `ended` says why it ended."""

    VERSION: ClassVar[int] = RECORD_VERSION
    STORED_BY: ClassVar[str] = "record_id"
    format: str
    version: int
    record_id: str
    campaign_id: str
    setup: ExperimentSetup
    pairs: Tuple[Pair, ...] = field(metadata={"max_items": PAIRS_MAX})
    started_at_s: float
    ended_at_s: float
    ended: str
    interrupted_periods: int = 0
    interrupted_seconds: float = 0.0
    interrupted_bytes: int = 0
    missed_preconditions: Tuple[Precondition, ...] = ()
    forced: bool = False
    # what the settling was chosen from; none where none was made
    watches: Tuple[Period, ...] = field(default=(), metadata={"max_items": 8})
    settling: Optional[Settling] = None
    # made between pairs, to see whether a toggle leaves something behind after all
    late_watches: Tuple[Period, ...] = field(default=(), metadata={"max_items": 8})
    # health checks that were raised at some time meanwhile, wherever
    checks: Tuple[str, ...] = field(default=(), metadata={"max_items": CHECKS_MAX})

    @property
    def periods(self) -> Tuple[Period, ...]:
        """All finished periods: the settling checks, then those of the pairs."""
        return self.watches + self.late_watches + tuple(
            period for pair in self.pairs for period in pair.periods
        )

    @property
    def bytes_written(self) -> int:
        """Bytes the experiment wrote by itself, interrupted periods included."""
        return self.interrupted_bytes + sum(period.bytes_written for period in self.periods)

    @property
    def seconds(self) -> float:
        """Drive time the experiment took, interrupted periods included, in seconds."""
        return self.interrupted_seconds + sum(period.seconds for period in self.periods)

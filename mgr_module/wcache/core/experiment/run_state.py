"""What a run is to do, with what is stored of where it stands.

Two adjacent periods, one in each arm, form a pair; which comes first is decided by a
coin that the recorded seed determines, so that drift cannot favour an arm.  The pair is
the unit of the statistics, since samples within a period are correlated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, FrozenSet, Iterable, Optional, Set, Tuple

from ..drive.prior import UNKNOWN, Prior
from ..hardware import Dirty
from ..host_report import DriveKind, OfDrives
from ..loads import WATCHED_MAX
from ..model import LoadPoint
from ..options.entries import BY_NAME, OptionTrial
from ..options.option import Place
from ..protocol import ReleaseRequest
from ..record import CHECKS_MAX, ExperimentSetup, Pair, Period, Precondition
from .design import Periods, Slot, design_of
from .observed import Observed

# The analysis looks after every pair from this one on: fewer say too little of their spread.  Its
# boundaries are made for that (repeated confidence intervals, `core/verdict/sequential.py`), and a
# look costs milliseconds where a pair costs seconds.
FIRST_LOOK = 4
# Without numpy nobody can look: a fixed number is measured, for `wcache analyze` later.
PAIRS_WITHOUT_ANALYSIS = 8
IN_PROGRESS = "in progress"  # what a record says whose experiment has not ended


def next_slot(done: Iterable[Slot]) -> Slot:
    """The first slot of a pair that has no period yet."""
    taken = set(done)
    slot = Slot(0, False)
    while slot in taken:
        slot = slot.following
    return slot


def pairs_of(setup: ExperimentSetup, periods: Periods) -> Tuple[Pair, ...]:
    """The complete pairs among `periods`, in order; a half pair is left out.

    In a factorial they come two by two: what is no whole replicate is left out.
    """
    return design_of(setup).pairs(setup, periods)


def whole(setup: ExperimentSetup, periods: Periods, before_s: float) -> Periods:
    """The periods without those of a pair or settling check that was cut off at `before_s`."""
    used = {
        id(period) for pair in pairs_of(setup, periods)
        for period in pair.periods
    }

    def counts(slot: Slot, period: Period) -> bool:
        if slot.checks:
            both = {Slot(slot.index, False), Slot(slot.index, True)} <= periods.keys()
        else:
            both = id(period) in used
        return both or period.started_at_s >= before_s

    return {slot: period for slot, period in periods.items() if counts(slot, period)}


def is_look(setup: ExperimentSetup, next_one: Slot) -> bool:
    """Whether the analysis is asked when `next_one` is the first slot without a period."""
    if next_one.second:
        return False
    unit = design_of(setup).pairs_per_unit
    units, rest = divmod(next_one.index, unit)
    return not rest and units >= min(FIRST_LOOK, setup.pairs_max // unit)


@dataclass(frozen=True)
class Discarded:
    """What interrupted periods cost; their samples are not in the record."""

    periods: int = 0
    seconds: float = 0.0
    bytes_written: int = 0


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
        crossed = [one.crossed.domain_id for one in self.experiments if one.crossed is not None]
        return (self.domain_id, *crossed[:1])

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

    def prior_of(self, domain_id: str) -> Prior:
        """What is known of a domain before the run; UNKNOWN where it has never touched it."""
        return next((one for one in self.priors if one.domain_id == domain_id), UNKNOWN)

    def touched(self, domain_id: str) -> bool:
        """Whether it may have touched a domain: what was there is stored before it does."""
        return self.prior_of(domain_id).known

    def without(self, domain_id: str) -> RunState:
        """Return it as if the domain were not touched yet: it is looked at before it is."""
        priors = tuple(one for one in self.priors if one.domain_id != domain_id)
        told_back = tuple(name for name in self.told_back if name != domain_id)
        return replace(self, priors=priors, told_back=told_back)

    def release(self, domain_id: str) -> ReleaseRequest:
        """Say what ends its lease on a domain."""
        spec = self.spec
        return ReleaseRequest(domain_id, spec.lease_id, spec.throwaway, self.prior_of(domain_id))

    @property
    def unsettled(self) -> Tuple[str, ...]:
        """The domains that it may have touched, neither read back nor accepted as they are."""
        return tuple(
            name for name in self.owed or self.spec.domain_ids
            if name not in self.accepted and self.touched(name)
        )

    @property
    def settled(self) -> bool:
        """Whether nothing is owed any more: restored, or taken as it is by an admin."""
        return self.restored or set(self.owed or self.spec.domain_ids) <= set(self.accepted)

"""An OSD's capacity as mClock counts it, measured by the OSD's own recipe.

An OSD benches itself when it starts with the compiled default in force: 12,288,000 bytes
in random 4 KiB writes over 100 objects of 4 MiB, written beforehand, and stores the result
of this single call under its own name (src/osd/OSD.cc,
`maybe_override_max_osd_capacity_for_qos`).  The same call made several times gives the
capacity with an interval.  Capacities are positive and spread by factors, so everything
is computed on logarithms, and the drive is the unit where several were measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import ClassVar, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from ...core.cluster import OsdInfo
from ...core.config_database import Config, Entry, mask_of
from ...core.experiment.observed import CAPACITY_CALLS_MAX
from ...core.experiment.observing_plan import drives_by_osd, setting_of, stack_of
from ...core.figures.student_t import t95
from ...core.host_report import HostReport
from ...core.loads import QUEUE, SCHEDULER, capacity_limits
from ...core.model import FindingCode, Role
from ...core.text import named
from ..knob import Knob

# Two calls give an interval of a factor of thousands; four are worth their bytes.
CALLS_MIN, CALLS_MAX, CALLS_DEFAULT = 3, CAPACITY_CALLS_MAX, 4
# The compiled defaults: with one of them in force an OSD benches itself at every start.
DEFAULT_IOPS = {True: 315.0, False: 21500.0}
# osd_mclock_iops_capacity_{low_,}threshold_*: an OSD discards its own result outside.
PLAUSIBLE_IOPS = {True: (50.0, 500.0), False: (1000.0, 80_000.0)}
# Two calls are taken to differ by at least this for no reason (sd of the logarithm).
SD_MIN = 0.02
# OSDs and drive models whose capacities are this close share one value.
ONE_CLASS = 1.25
VAGUE = 2.0
NAMED_MAX = 4


@dataclass(frozen=True)
class Measurement:
    """Bench calls on one OSD with its drives in one setting; the newest of an OSD is kept.

    `stack` is what `stacks` says of the OSD, `setting` what `settings` said before and after.
    """

    VERSION: ClassVar[int] = 1
    STORED_BY: ClassVar[str] = "osd_id"
    osd_id: int
    hostname: str
    device_class: str
    rotational: bool
    stack: str
    setting: str
    iops: Tuple[float, ...] = field(metadata={"max_items": CALLS_MAX})
    seconds: float
    bytes_written: int
    ended_at_s: float
    scheduler: str = SCHEDULER
    iops_min: float = 0.0  # the OSD's own thresholds
    iops_max: float = 0.0
    forced: bool = False

    def holds_beside(self, later: Measurement) -> bool:
        """Whether a later one is of the same drives in the same setting, and was forced."""
        same = (self.stack, self.setting) == (later.stack, later.setting)
        return later.forced and not self.forced and same


@dataclass(frozen=True)
class Capacity:
    """IOPS at 4 KiB: geometric mean, its 95% interval, and where one more OSD's call falls.

    `drives` is the number of OSDs, `calls` that of all bench calls behind it.
    """

    iops: float
    low: float
    high: float
    next_low: float
    next_high: float
    drives: int
    calls: int


def option(rotational: bool) -> str:
    """The option that an OSD on such a drive reads (by its drive, not by its class)."""
    return f"osd_mclock_max_capacity_iops_{'hdd' if rotational else 'ssd'}"


def of_one(iops: Sequence[float]) -> Optional[Capacity]:
    """The capacity of one OSD from its calls; None for fewer than CALLS_MIN.

    mean +- t s / sqrt(n) of the logarithms, and mean +- t s sqrt(1 + 1/n) for one more call.
    """
    n = len(iops)
    if n < CALLS_MIN:
        return None
    mean, sd = _mean_sd([math.log(value) for value in iops])
    t = t95(n - 1)
    return _capacity(mean, t * sd / math.sqrt(n), t * sd * math.sqrt(1 + 1 / n), 1, n)


def of_model(measured: Sequence[Measurement]) -> Optional[Capacity]:
    """The capacity of OSDs on the same drive models, with the OSD as the unit.

    The interval is that of the mean over OSDs, t with k - 1 degrees of freedom; forty calls
    on one drive are one drive.  The spread of one more OSD's single call adds the spread
    between drives and that within one.
    """
    usable = [item for item in measured if len(item.iops) >= CALLS_MIN]
    k = len(usable)
    if k < 2:
        return of_one(usable[0].iops) if usable else None
    logs = [[math.log(value) for value in item.iops] for item in usable]
    each = [_mean_sd(values) for values in logs]
    mean, between = _mean_sd([drive_mean for drive_mean, _ in each])
    calls = sum(len(values) for values in logs)
    within = math.sqrt(sum(sd**2 for _, sd in each) / k)
    t = t95(k - 1)
    one_call = math.sqrt(between**2 * (1 + 1 / k) + within**2 * max(0.0, 1 - k / calls))
    return _capacity(mean, t * between / math.sqrt(k), t * one_call, k, calls)


def _mean_sd(logs: Sequence[float]) -> Tuple[float, float]:
    return fmean(logs), max(SD_MIN, stdev(logs))


def _capacity(mean: float, half: float, half_next: float, drives: int, calls: int) -> Capacity:
    return Capacity(
        math.exp(mean), math.exp(mean - half), math.exp(mean + half),
        math.exp(mean - half_next), math.exp(mean + half_next), drives, calls,
    )


# ---- whether it says enough to set a value by it
#
# mClock shares out the value it is told.  Its default profile reserves one half of it for clients
# and the other for recovery ("balanced", src/osd/scheduler/mClockScheduler.cc): told twice of what
# there is, one half is all of it; told half, the reservations are quarters.  An interval that
# reaches that far supports no value.


def uncertain(
    current: Sequence[Measurement], given: Mapping[str, int], osds: Mapping[str, int]
) -> List[str]:
    """Why nothing may be set, a line for each reason; none where the values are supported.

    `given` is the value that the OSDs on a stack of drive models would get, `osds` how many
    there are of it, measured or not.
    """
    lines: List[str] = []
    for stack, value in sorted(given.items()):
        mine = [m for m in current if m.stack == stack and len(m.iops) >= CALLS_MIN]
        lines += _contradicted(stack, value, mine)
        # where all were measured, nothing is concluded from some of them about others
        count = osds.get(stack, 0)
        lines += _vague_each(mine) if len(mine) >= count else _vague_model(stack, mine, count)
    return lines


def _contradicted(stack: str, value: int, mine: Sequence[Measurement]) -> List[str]:
    apart = []
    for item in mine:
        one = of_one(item.iops)
        if one is not None and not (one.low <= value * ONE_CLASS and value <= one.high * ONE_CLASS):
            apart.append(f"osd.{item.osd_id} ({one.low:.0f} to {one.high:.0f} IOPS)")
    if not apart:
        return []
    return [
        f"{stack}: {named(apart, NAMED_MAX)} would be set to {value}, which is more "
        "than a quarter off; find out why these OSDs differ (their load, a failing drive), "
        "measure again, or set them by hand"
    ]


def _vague_each(mine: Sequence[Measurement]) -> List[str]:
    each = ((item, of_one(item.iops)) for item in mine)
    return [
        f"osd.{item.osd_id}: {_too_wide(one)}; repeat it with more --calls, while the OSD is quiet"
        for item, one in each if one is not None and one.high > VAGUE * one.iops
    ][:NAMED_MAX]


def _vague_model(stack: str, mine: Sequence[Measurement], count: int) -> List[str]:
    found = of_model(mine)
    if found is not None and found.drives == 1:
        return [
            f"{stack}: osd.{mine[0].osd_id} alone of {count} OSDs was measured, which says nothing "
            "of how much the others differ; measure more of its OSDs (--drives-per-model)"
        ]
    if found is None or found.high <= VAGUE * found.iops:
        return []
    return [
        f"{stack}, {found.drives} OSDs: {_too_wide(found)}; measure more of its OSDs "
        "(--drives-per-model)"
    ]


def _too_wide(found: Capacity) -> str:
    return f"interval {found.low:.0f}-{found.high:.0f} IOPS is too wide to set a value"


# ---- what an OSD's drives are set to


def settings(
    reports: Iterable[HostReport], without: Iterable[Tuple[str, str]] = ()
) -> Dict[int, str]:
    """The setting of every OSD; those with a domain in `without` are unknown.

    `without` are (hostname, domain id) pairs that are being toggled.
    """
    moving, reports = set(without), tuple(reports)
    unknown = {
        use.osd_id for report in reports for drive in report.drives
        if (report.hostname, drive.domain_id) in moving for use in drive.uses
    }
    return {
        osd_id: "" if osd_id in unknown else setting_of(drives)
        for osd_id, drives in drives_by_osd(reports).items()
    }


def stacks(reports: Iterable[HostReport]) -> Dict[int, str]:
    """The drive models under every OSD, in words (`stack_of`).

    An OSD with a separate DB has another capacity than one without, on the same drive model.
    """
    return {
        osd_id: stack_of(drives) for osd_id, drives in drives_by_osd(reports).items()
        if Role.BLOCK in drives
    }


CAPACITIES = (option(True), option(False))
FORCED_BENCH = "osd_mclock_force_run_benchmark_on_init"
NAMES = (*CAPACITIES, QUEUE, FORCED_BENCH, *capacity_limits(True), *capacity_limits(False))
ADVICE = (
    (
        FindingCode.MCLOCK_STALE,
        "value{s} of osd_mclock_max_capacity_iops_* {does|do} not fit the cache mode the drives "
        "are in",
        "measure again and set it: `ceph wcache campaign start --loads=capacity`, then `ceph "
        "wcache plan --knob=mclock`",
    ),
)
# Capacities are measured anew after a change of the cache mode, so they have a plan of their own.
MCLOCK = Knob("mclock", NAMES, ADVICE, together=False)


@dataclass(frozen=True)
class Known:
    """A value with the setting that the OSD's drives were in when it was first seen."""

    who: str
    name: str
    value: str
    setting: str = ""


@dataclass(frozen=True)
class Knowns:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[Known, ...] = field(default=(), metadata={"max_items": 100_000})


def scheduler(config: Config, osd: OsdInfo, compiled: str) -> str:
    """The scheduler that the OSD is told to use; `compiled` is the release's default.

    An OSD takes it when it starts, and a ceph.conf of its own is not seen here.
    """
    entry = config.of_osd(osd, QUEUE)
    return entry.value if entry is not None else compiled


def by_mclock(config: Config, osd: OsdInfo, compiled: str) -> bool:
    """Whether the OSD is told to schedule by mClock."""
    return scheduler(config, osd, compiled) == SCHEDULER


def see(
    known: Mapping[Tuple[str, str], Known], config: Config, osds: Mapping[int, OsdInfo],
    settings: Mapping[int, str],
) -> Dict[Tuple[str, str], Known]:
    """`known` after one more reading: what is new was stored in the present setting.

    A value that stays keeps the setting in which it was first seen, so that it is known to
    be older than a change of the cache mode.
    """
    now: Dict[Tuple[str, str], Known] = {}
    for entry in config.entries:
        if entry.name not in CAPACITIES:
            continue
        key = (entry.who, entry.name)
        before = known.get(key)
        if before is None or before.value != entry.value:
            before = Known(entry.who, entry.name, entry.value)
        if not before.setting:
            # that of all OSDs that the section covers; none where they differ
            said = {settings.get(osd.osd_id, "") for osd in covered(entry, osds)}
            before = replace(before, setting=said.pop() if len(said) == 1 else "")
        now[key] = before
    return now


def covered(entry: Entry, osds: Mapping[int, OsdInfo]) -> List[OsdInfo]:
    """The OSDs that would read an entry, if nothing took precedence over it."""
    if entry.name not in CAPACITIES:
        return []
    rotational, mask = entry.name == option(True), mask_of(entry.who)
    mine: Iterable[OsdInfo] = osds.values()
    if mask.section.startswith("osd.") and mask.section[4:].isdecimal():
        osd = osds.get(int(mask.section[4:]))
        mine = [osd] if osd is not None else []
    return [osd for osd in mine if osd.rotational is rotational and mask.covers(osd)]


# ---- which values override one for a device class
#
# An OSD's own plain key is not among them: it is removed with the class's value.  What narrows a
# value down to a CRUSH location stays, since others may have meant it so.


@dataclass(frozen=True)
class Override:
    """One entry that overrides a device class's value: surely for some OSDs, for others maybe."""

    entry: Entry
    surely: FrozenSet[int]
    maybe: FrozenSet[int]


def overrides(config: Config, name: str, members: Sequence[OsdInfo]) -> Tuple[Override, ...]:
    """The entries of option `name`, masked by a location, that override a class's value.

    Those that are known to cover none of `members` are left out.
    """
    found = []
    for entry in config.entries:
        mask = mask_of(entry.who)
        if entry.name != name or not mask.precedes_class() or "/" not in entry.who:
            continue
        covers = [(osd.osd_id, mask.covers(osd)) for osd in members]
        surely = frozenset(osd_id for osd_id, said in covers if said)
        maybe = frozenset(osd_id for osd_id, said in covers if said is None)
        if surely or maybe:
            found.append(Override(entry, surely, maybe))
    return tuple(found)

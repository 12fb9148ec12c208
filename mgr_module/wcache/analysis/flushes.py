"""What the kernel's counters say of the flushes in an experiment: enough, too fast, none at all."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence

from ..core.cluster import flush_role
from ..core.loads import flush_floor_us
from ..core.model import CacheMode, KernelView, LoadPoint, Role, Transport
from ..core.options.entries import arm_of
from ..core.record import CounterDelta, Pair, Period, Record
from . import summary

FLUSHES_MIN = 16
# With the cache off a pinned kernel still flushes, and there is nothing to flush.  One that
# has to write takes longer; where write back wins and its flushes do not, nothing is written.
# Beyond the time to program a page or two, empty flushes may only be queueing behind writes.
EMPTY_FACTOR = 1.5
EMPTY_CEILING_US = 400.0
FLUSH_TICK_MS = 1.0  # /sys/block/*/stat counts whole milliseconds
# Only where a sample is one commit; batches share theirs.
ONE_COMMIT_EACH = (LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.FDATASYNC_TIMER)
NOT_COUNTED = (
    "the kernel counted no flushes (from Linux 5.5 on it does), and this load does not show "
    "whether the drive executes them: write back is not recommended on it alone"
)


class Gained(NamedTuple):
    """What the kernel's counters gained in some periods, over all drives of the domain."""

    writes: int = 0
    flushes: int = 0
    flush_ms: float = 0.0


def gained(periods: Sequence[Period], lost_ms: float = 0.0) -> Gained:
    """The sum over periods; one in which a counter went back is left out: its disk came anew.

    `lost_ms` is what whole milliseconds may hide at a period's edges, to be added.
    """
    found = Gained()
    for period in periods:
        drives = len(period.flush_counters) // 2  # all at the start, then all at the end
        edges = list(zip(period.flush_counters[:drives], period.flush_counters[drives:]))
        if any(end.flushes < start.flushes or end.writes < start.writes for start, end in edges):
            continue
        found = Gained(
            found.writes + sum(end.writes - start.writes for start, end in edges),
            found.flushes + sum(end.flushes - start.flushes for start, end in edges),
            found.flush_ms
            + sum(end.flush_ms - start.flush_ms + lost_ms for start, end in edges),
        )
    return found


def mean_flush_us(periods: Sequence[Period], lost_ms: float = 0.0) -> Optional[float]:
    """Mean time of the kernel's flushes; None where too few were counted.  See `gained`."""
    found = gained(periods, lost_ms)
    if found.flushes < FLUSHES_MIN or found.flush_ms < 0:
        return None
    return found.flush_ms * 1e3 / found.flushes


def _periods(record: Record, pairs: Sequence[Pair], mode: CacheMode) -> List[Period]:
    """Those in a cache mode; none where the values of an option are compared, in one mode all."""
    return [] if record.setup.option is not None else [pair.period(arm_of(mode)) for pair in pairs]


def too_fast(record: Record, pairs: Sequence[Pair]) -> str:
    """Doubt about a drive whose flushes in write back are faster than a drive can do, or ''.

    The kernel's flush counters tell it at any load; without them only the load points
    whose samples are single commits do, since a commit holds at least one flush.
    """
    setup = record.setup
    if setup.transport is Transport.LOOP:
        return ""
    on = _periods(record, pairs, CacheMode.WRITE_BACK)
    flush_us = mean_flush_us(on)
    empty_us = mean_flush_us(_periods(record, pairs, CacheMode.WRITE_THROUGH), FLUSH_TICK_MS)
    if (
        flush_us is not None and empty_us is not None
        and flush_us < min(EMPTY_CEILING_US, EMPTY_FACTOR * empty_us)
    ):
        return (
            f"a flush in write back takes {flush_us:.3g} us, no longer than one with the cache "
            f"off ({empty_us:.3g} us): the drive may be ignoring flushes"
        )
    if flush_us is None and setup.load_point in ONE_COMMIT_EACH:
        times_us = [ns / 1e3 for period in on for ns in period.samples_ns]
        flush_us = summary.median(times_us) if times_us else None
    if flush_us is None or flush_us >= flush_floor_us(setup.rotational):
        return ""
    return (
        f"a flush in write back takes {flush_us:.3g} us, faster than a drive without power-loss "
        "protection can write: the drive may be ignoring flushes"
    )


def fast_at_any_load(record: Record, pairs: Sequence[Pair]) -> str:
    """Doubt about the drive model whatever this experiment decides, or ''.

    It takes a commit's flush, so there was something to write; a bare flush may have had nothing.
    """
    setup = record.setup
    bare = setup.load_point is LoadPoint.FDATASYNC_TIMER
    if bare or setup.role is not flush_role((Role.BLOCK, *setup.apart)):
        return ""
    return too_fast(record, pairs)


def unproven(record: Record, pairs: Sequence[Pair]) -> bool:
    """Whether neither the kernel's counters nor the samples show that flushes are carried out.

    Counters that stand still count nothing.  Samples show it where each is one commit, and
    takes as long as a flush of such a drive has to.
    """
    setup = record.setup
    if setup.option is not None:
        return False  # the cache is in one mode throughout
    on = _periods(record, pairs, CacheMode.WRITE_BACK)
    counted = gained(on).flushes >= FLUSHES_MIN
    if setup.transport is Transport.LOOP or counted:
        return False
    if setup.load_point not in ONE_COMMIT_EACH:
        return True
    return not any(period.samples_ns for period in on) or bool(too_fast(record, pairs))


def missing(record: Record, pairs: Sequence[Pair]) -> str:
    """What shows that the kernel flushes nothing, though its view says that it does; or ''.

    The drive is the one that takes the flush of each kv commit (BlueFS::_flush_bdev); one
    that serves only the OSD's data beside a DB elsewhere may get neither writes nor flushes.
    Its own writes grew at least with each commit, so it was this drive that was written to,
    and the flushes of all its paths did not grow.
    """
    setup = record.setup
    if setup.option is not None:
        return ""  # the cache is in one mode throughout
    if setup.transport is Transport.LOOP or setup.load_point is LoadPoint.FDATASYNC_TIMER:
        return ""  # no cache of its own; commits nothing
    if setup.role is not flush_role((Role.BLOCK, *setup.apart)):
        return ""
    periods = [
        period for pair in pairs for period in pair.periods
        if _would_flush(period)
    ]
    commits, found = sum(map(_commits, periods)), gained(periods)
    if commits < FLUSHES_MIN or found.flushes:
        return ""
    if any(gained([period]).writes < max(1, _commits(period)) for period in periods):
        return ""
    return (
        f"{commits} commits, {found.writes} writes and no flush reached the drive, though the "
        "kernel's view of it is write back: what its cache holds is lost at a power cut"
    )


def _would_flush(period: Period) -> bool:
    """Whether the kernel said all along that it flushes, and every path's flushes were read."""
    states = period.state_before + period.state_after
    views = {state.kernel_view for state in states}
    counters = period.flush_counters
    return views == {KernelView.WRITE_BACK} and bool(counters) and all(
        one.paths > 0 for one in counters
    )


def _commits(period: Period) -> int:
    """How often the OSD has committed at least."""
    syncs = _kv_syncs(period)
    return len(period.samples_ns) if syncs is None else syncs.count


def _kv_syncs(period: Period) -> Optional[CounterDelta]:
    """The syncs of the OSD's kv store, where they were read."""
    for counter in period.counters:
        if counter.name.rsplit(".", 1)[-1] == "kv_sync_lat":
            return counter
    return None


def pin_price_us(record: Record, pairs: Sequence[Pair]) -> Optional[float]:
    """The price of the pin in write through: mean time of a flush with nothing to write, in us.

    None where none was sent, or too few were counted.
    """
    periods = _periods(record, pairs, CacheMode.WRITE_THROUGH)
    views = {state.kernel_view for period in periods for state in period.state_after}
    if views != {KernelView.WRITE_BACK}:
        return None  # where the kernel's view is write through, it sends none
    return mean_flush_us(periods)


def commit_us(record: Record, pairs: Sequence[Pair]) -> Optional[float]:
    """Mean time of a commit in write through that waits for a flush of this drive, in us.

    One sample where each is one commit; of traffic, a sync of the kv store (BlueStore's
    _kv_sync_thread).  Each holds one flush at least.  None where no commit was timed.
    """
    setup = record.setup
    if setup.role is not flush_role((Role.BLOCK, *setup.apart)):
        return None
    periods = _periods(record, pairs, CacheMode.WRITE_THROUGH)
    if setup.load_point is LoadPoint.OSD_BENCH_DEPTH1:
        times_ns = [ns for period in periods for ns in period.samples_ns]
        return sum(times_ns) / len(times_ns) / 1e3 if times_ns else None
    if setup.load_point is not LoadPoint.OSD_TRAFFIC:
        return None  # batches share their commits, and a timer makes none
    found = [item for period in periods if (item := _kv_syncs(period)) is not None]
    count = sum(item.count for item in found)
    return sum(item.sum_s for item in found) / count * 1e6 if count > 0 else None

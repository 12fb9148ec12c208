"""All options that are tried or set; whatever is not here is refused by name.

Bounds are the kernel's own (drivers/md/bcache/sysfs.c, __cached_dev_store(); block/blk-sysfs.c)
or narrower.  The kernel cuts a number off at its bounds and says nothing, so a value is held
against its entry before it is written, and read back after.

`doc/add-a-setting.md` says how to add one.

What an experiment compares, an arm each: the two cache modes, or two values of an option.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

from ..errors import MalformedError, NotFoundError, RefusalKind, RefusedError
from ..hardware import NAME_CHARS_MAX, VALUE_CHARS_MAX, Dirty
from ..model import Arm, CacheMode, DriveReport, DriveState, LoadPoint, Verdict
from ..text import amount, roughly, typed
from .option import Follow, Option, Place

_TRAFFIC = (LoadPoint.OSD_TRAFFIC,)
_SMALL = (LoadPoint.OSD_TRAFFIC, LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH)
_WRITES = (*_SMALL, LoadPoint.OSD_BENCH_4M)
_QUEUED = (LoadPoint.OSD_TRAFFIC, LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_BENCH_4M)
_UINT_MAX = 2**32 - 1
# The controller looks every writeback_rate_update_seconds, 5 by default.
_CONTROLLER = "the rate controller, which looks every 5 s and has an integral term"
_DIRTY = "what it does differs below the target of dirty data, at it and beyond it"
_SHARED = "the cache set serves other OSDs too"
_NO_OVERRIDING_SIZE = (("bluestore_prefer_deferred_size", "0"),)

OPTIONS: Tuple[Option, ...] = (
    Option(
        "sequential_cutoff", Place.BCACHE, "from which size of a stream on bcache is bypassed",
        settle_s=5.0, settles="streams that have begun", loads=_WRITES,
        hazards=(
            "0 sends all writes through the cache device, which wears and fills with them",
            "the kernel prints it to a tenth of its unit: a size that is no whole one is put "
            "back to within that",
        ),
        low=0, high=2**30, unit="bytes",
    ),
    Option(
        "writeback_percent", Place.BCACHE, "the target of dirty data, in percent of the cache",
        settle_s=60.0, settles=_CONTROLLER, loads=_WRITES,
        hazards=(_DIRTY, _SHARED, "0 writes back all there is at once, at no bounded rate"),
        low=1, high=40, unit="%",
    ),
    Option(
        "writeback_rate_minimum", Place.BCACHE, "the least rate of writeback",
        settle_s=30.0, settles=_CONTROLLER, loads=_WRITES,
        hazards=(_DIRTY, "a high one keeps the backing drive busy while clients read from it"),
        low=1, high=2**21, unit="sectors/s",
    ),
    Option(
        "writeback_rate_p_term_inverse", Place.BCACHE,
        "the inverse of the controller's proportional term",
        settle_s=60.0, settles=_CONTROLLER, loads=_WRITES,
        hazards=(_DIRTY, "a small one swings: the backing drive is at 100% for dozens of seconds"),
        low=1, high=_UINT_MAX, unit="(divisor)",
    ),
    Option(
        "writeback_rate_i_term_inverse", Place.BCACHE,
        "the inverse of the controller's integral term",
        settle_s=120.0, settles=_CONTROLLER, loads=_WRITES,
        hazards=(_DIRTY, "its effect adds up over minutes: short periods do not show it"),
        low=1, high=_UINT_MAX, unit="(divisor)",
    ),
    Option(
        "cache_mode", Place.BCACHE, "whether bcache acknowledges what its cache device alone has",
        settle_s=60.0, settles=_CONTROLLER, loads=_WRITES,
        hazards=(
            "in writeback what an OSD was acknowledged is on the cache device alone until it is "
            "written back: if that device fails, all OSDs behind it lose it at once",
            "a change to another mode is done when dirty_data reads 0: bcache writes back first",
            "the backing drive keeps it in its superblock, so it survives a reboot",
        ),
        follow=Follow.ADMIN, words=("writethrough", "writeback", "writearound"),
        dirty_in="writeback",
    ),
    Option(
        "scheduler", Place.QUEUE, "the kernel's I/O scheduler of the drive",
        settle_s=2.0, settles="the queue is drained and made anew", loads=_QUEUED,
        hazards=("it resets nr_requests and wbt_lat_usec: the three are put back in order",),
        words=("none", "mq-deadline", "kyber", "bfq"), resets=("nr_requests", "wbt_lat_usec"),
    ),
    Option(
        "nr_requests", Place.QUEUE, "how many requests the drive's queue holds",
        settle_s=2.0, settles="requests that are in the queue", loads=_QUEUED,
        hazards=("with scheduler none the drive's own queue depth bounds it",),
        low=4, high=4096, unit="requests",
    ),
    Option(
        "read_ahead_kb", Place.QUEUE, "how much the kernel reads ahead of buffered reads",
        settle_s=2.0, settles="reads that are under way", loads=_TRAFFIC,
        hazards=(
            "BlueStore asks the kernel for no read-ahead (KernelDevice::open), and a volume "
            "above the drive has a read-ahead of its own: expect no difference",
        ),
        low=0, high=16384, unit="KiB",
    ),
    Option(
        "wbt_lat_usec", Place.QUEUE, "the latency that throttles buffered writeback; 0: none",
        settle_s=2.0, settles="the window of writeback throttling, 100 ms", loads=_QUEUED,
        hazards=("an OSD's direct writes are throttled too where reads suffer",),
        low=0, high=10_000_000, unit="us",
    ),
    Option(
        "bluestore_prefer_deferred_size_hdd", Place.OSD,
        "below which size writes to a drive that rotates are deferred",
        settle_s=10.0, settles="deferred writes that are not drained", loads=_WRITES,
        hazards=(
            "deferred writes are written twice",
            "bluestore_prefer_deferred_size takes precedence where it is not 0",
        ),
        low=0, high=4 * 2**20, unit="bytes", rotational=True, needs=_NO_OVERRIDING_SIZE,
    ),
    Option(
        "bluestore_prefer_deferred_size_ssd", Place.OSD,
        "below which size writes to a drive that does not rotate are deferred",
        settle_s=10.0, settles="deferred writes that are not drained", loads=_WRITES,
        hazards=(
            "deferred writes are written twice, which wears flash",
            "bluestore_prefer_deferred_size takes precedence where it is not 0",
        ),
        low=0, high=4 * 2**20, unit="bytes", rotational=False, needs=_NO_OVERRIDING_SIZE,
    ),
    Option(
        "bluestore_deferred_batch_ops_hdd", Place.OSD,
        "how many deferred writes a drive that rotates is given at once",
        settle_s=4.0, settles="deferred writes, which are drained after 3 s", loads=_SMALL,
        hazards=(
            "after each batch a commit flushes the drive, also where DB and WAL are on another",
            "a PG with more than bluestore_max_deferred_txc (32) is drained whatever it is",
            "what is not drained is replayed when the OSD starts after a crash",
            "bluestore_deferred_batch_ops takes precedence where it is not 0",
        ),
        low=1, high=65535, unit="writes", rotational=True,
        needs=(("bluestore_deferred_batch_ops", "0"),),
    ),
    Option(
        "bluestore_throttle_bytes", Place.OSD, "how much may be on its way to the drive at once",
        settle_s=2.0, settles="transactions that are on their way", loads=_QUEUED,
        hazards=(
            "a small one takes throughput from recovery and scrubs too",
            "each I/O counts as bluestore_throttle_cost_per_io more, 670,000 bytes on a drive "
            "that rotates",
            "deferred writes may have as much, and bluestore_throttle_deferred_bytes besides",
        ),
        low=2**16, high=2**30, unit="bytes",
    ),
    Option(
        "bluefs_buffered_io", Place.OSD, "whether RocksDB's files are read through the page cache",
        settle_s=30.0, settles="the page cache, which fills or empties", loads=_TRAFFIC,
        hazards=(
            "the page cache is beyond osd_memory_target",
            "an OSD says that it may need a restart, and goes by it from the next read on",
        ),
        follow=Follow.NEVER, words=("true", "false"),
    ),
    Option(
        "osd_mclock_profile", Place.OSD, "how mClock shares out the OSD between kinds of work",
        settle_s=10.0, settles="operations that are queued", loads=_TRAFFIC,
        hazards=(
            "it does nothing where osd_op_queue is wpq, as on Ceph 16",
            "clients gain what recovery and scrubs lose, which no latency of clients shows",
        ),
        follow=Follow.NEVER, words=("balanced", "high_client_ops", "high_recovery_ops"),
        needs=(("osd_op_queue", "mclock_scheduler"),),
    ),
)

DRAINS = "writeback_rate_minimum"  # dirty data, for a clean start
BY_NAME: Dict[str, Option] = {one.name: one for one in OPTIONS}

# Why the best known of those that are not there are not.
REFUSED = {
    "write_cache": "it changes what is durable: plans of the cache mode alone do that",
    "fua": "it changes what is durable",
    "cache_type": "it changes what is durable: plans of the cache mode alone do that",
    "bluestore_min_alloc_size": "an OSD takes it when it is made",
    "osd_op_queue": "an OSD takes it when it starts, and restarting OSDs is left to admins",
}


def option(name: str) -> Option:
    """The option of a name; RefusedError where it has no entry."""
    found = BY_NAME.get(name)
    if found is None:
        why = REFUSED.get(name, "it has no entry")
        raise RefusedError(
            f"{name[:64]!r} is not changed: {why}", "see `ceph wcache option ls`"
        )
    return found


def comparable(name: str) -> Option:
    """The option of a name whose values may be tried under a lease; RefusedError for any other."""
    found = option(name)
    if found.follow is Follow.ADMIN:
        raise RefusedError(
            f"{name} is changed by an admin's plan alone",
            typed("ceph wcache plan --knob=options --option={}=...", name),
        )
    return found


def left_dirty(name: str, value: str, state: DriveState) -> Optional[int]:
    """Return the bytes to be written back; 0 of an option that this version does not know."""
    found = BY_NAME.get(name)
    return 0 if found is None else found.left_dirty(value, state)


def names_of(name: str) -> Tuple[str, ...]:
    """Name an option and those that the kernel resets with it, in the order of the way back."""
    return (name, *option(name).resets)


def leased_names(name: str) -> Tuple[str, ...]:
    """Name all that a lease on an option holds; of bcache also what drains dirty data first."""
    drains = option(name).place is Place.BCACHE and name != DRAINS
    return (*names_of(name), DRAINS) if drains else names_of(name)


def kept_from(drive: DriveReport, name: str) -> str:
    """Say why an option of a drive is never touched, whatever its value; "" where it may be.

    Module and probe both ask.  A reboot takes a value in sysfs away, and a journal in RAM with it;
    what outlives the reboot would stay, and nobody would know what was there before.
    """
    if drive.foreign_uses:
        return f"it is shared with {drive.foreign_uses[0]}, which is not an OSD"
    if not option(name).outlives_boot:
        return ""
    lost = (one.text for one in drive.refusals if one.kind is RefusalKind.JOURNAL_LOST)
    return next(lost, "")


def left_words(name: str, left: Optional[int], rate_bytes_s: Optional[int] = None) -> str:
    """Tell of a backing drive's dirty data that is still to be written back; "" where none is.

    `left` is None where nobody knows how much.
    """
    if left == 0:
        return ""
    if left is None:
        return f"dirty data of {name}, which cannot be read"
    if not rate_bytes_s:
        return f"{amount(left)} of dirty data of {name} to be written back"
    return (
        f"{amount(left)} of dirty data of {name} to be written back at {amount(rate_bytes_s)}/s: "
        f"{roughly(left / rate_bytes_s)} at that rate"
    )


@dataclass(frozen=True)
class Arms:
    """The words for two arms.

    `alike` is what to do where neither is better.
    """

    a: str
    b: str
    alike: str = "leave it as it is"

    def name(self, arm: Arm) -> str:
        """Name an arm."""
        return self.a if arm is Arm.A else self.b

    def said(self, verdict: Verdict) -> str:
        """Say a verdict in words: which arm is better, if one is."""
        return verdict.value if verdict.arm is None else self.name(verdict.arm)

    def meant(self, said: str) -> Verdict:
        """The verdict that is said so; ValueError where none is."""
        return {self.a: Verdict.A, self.b: Verdict.B}.get(said) or Verdict(said)


_MODES = {Arm.A: CacheMode.WRITE_BACK, Arm.B: CacheMode.WRITE_THROUGH}


def mode_of_arm(arm: Arm) -> CacheMode:
    """The cache mode of an arm, where cache modes are compared."""
    return _MODES[arm]


def arm_of(mode: CacheMode) -> Arm:
    """The arm of a cache mode, where cache modes are compared."""
    return Arm.A if mode is CacheMode.WRITE_BACK else Arm.B


def better_mode(verdict: Verdict) -> Optional[CacheMode]:
    """The cache mode that a verdict on cache modes prefers, if it prefers one."""
    return None if verdict.arm is None else mode_of_arm(verdict.arm)


CACHE_MODES = Arms(
    CacheMode.WRITE_BACK.value, CacheMode.WRITE_THROUGH.value, "leave the mode as it is"
)


@dataclass(frozen=True)
class OptionTrial:
    """An option and two of its values, one for each arm.

    `dirty` is where bcache's dirty data was when each period began: what holds for one place need
    not hold for another, so they are never taken together.
    """

    name: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    a: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    b: str = field(metadata={"max_chars": VALUE_CHARS_MAX})
    dirty: Dirty = Dirty.ANY

    def value(self, arm: Arm) -> str:
        """The value of an arm."""
        return self.a if arm is Arm.A else self.b

    @property
    def entry(self) -> Option:
        """Its entry; RefusedError where this version has none."""
        return option(self.name)

    @property
    def arms(self) -> Arms:
        """What is compared, in words."""
        return Arms(f"{self.name} {self.a}", f"{self.name} {self.b}")

    def __str__(self) -> str:
        began = f" --dirty-data={self.dirty.value}" if self.dirty is not Dirty.ANY else ""
        return f"{self.name}={self.a},{self.b}{began}"


def arms_of(trial: Optional[OptionTrial]) -> Arms:
    """Return the words for two values of an option, or for the cache modes."""
    return CACHE_MODES if trial is None else trial.arms


def parse_trial(text: str) -> OptionTrial:
    """OPTION=A,B; raises a WcacheError that says what is wrong with it."""
    name, _, values = text.partition("=")
    parts = values.split(",")
    if len(parts) != 2 or not all(parts):
        raise MalformedError(
            f"{text[:80]!r} is not OPTION=A,B", "as in `ceph wcache ab nr_requests=64,256`"
        )
    comparable(_typed(name, *parts).name)
    if parts[0] == parts[1]:
        raise MalformedError(f"{name} {parts[0]} is no other value than {parts[1]}")
    return OptionTrial(name, parts[0], parts[1])


def parse_assignment(text: str) -> Tuple[Option, str]:
    """OPTION=VALUE; raises a WcacheError where no admin's plan may name it."""
    name, _, value = text.partition("=")
    if not value:
        raise MalformedError(
            f"{text[:80]!r} is not OPTION=VALUE",
            "as in `ceph wcache plan --knob=options --option=cache_mode=writethrough`",
        )
    entry = _typed(name, value)
    if entry.follow is not Follow.ADMIN:
        raise RefusedError(
            f"{name} goes by verdicts",
            typed("ceph wcache ab {}=A,B", name) + ", then `ceph wcache plan --knob=options`",
        )
    return entry, value


def known(name: str) -> Option:
    """The option of a name that an admin has typed; NotFoundError where nobody has such one."""
    if name not in BY_NAME and name not in REFUSED:
        raise NotFoundError(f"there is no option {name[:64]!r}", "see `ceph wcache option ls`")
    return option(name)


def _typed(name: str, *values: str) -> Option:
    """The same with values of it; MalformedError where it does not take one."""
    found = known(name)
    for value in values:
        if not found.allows(value):
            raise MalformedError(
                f"{name} is not set to {value[:40]!r}", f"its values are {found.range}"
            )
    return found

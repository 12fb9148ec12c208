"""What an option is: where it lives, which values it may have, what to mind about it.

An option is data (`entries.py`).  Mgr and probe both hold a value against its entry before
anything is asked for or written, so neither needs to believe the other.

What is lost at once where the cache device of a bcache device fails with dirty data on it.

In writeback an acknowledged write is on the cache device alone until it is written back, and one
cache device may stand before the backing drives of several OSDs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import List, Optional, Sequence, Set, Tuple

from ..errors import RefusedError
from ..hardware import DEVICES_MAX
from ..host_report import HostReport
from ..model import DriveReport, DriveState, LoadPoint
from ..text import named

_WHOLE = re.compile(r"0|[1-9][0-9]{0,18}")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class Place(str, Enum):
    """Where an option lives."""

    BCACHE = "bcache"  # /sys/block/bcacheN/bcache/NAME, of the backing drive
    QUEUE = "queue"  # /sys/block/DRIVE/queue/NAME
    OSD = "osd"  # an option of the OSD itself


class Follow(str, Enum):
    """Who may act on a verdict about an option."""

    AUTO = "auto"
    NEVER = "never"  # an admin alone
    ADMIN = "an admin's plan that names it"  # and nothing else: no verdict, no `ab`, no `auto`


# Read beside an option that has `dirty_in`: how many bytes bcache has still to write back.
DIRTY_DATA = "dirty_data"

# How each place is leased and undone.
UNDONE = {
    Place.BCACHE: "the probe writes the value; its journal has the one before",
    Place.QUEUE: "the probe writes the value; its journal has the one before",
    Place.OSD: "the mgr, which has stored the one before: `ceph tell osd.N config set`, undone by "
               "`config unset` and by a restart of the OSD",
}


@dataclass(frozen=True)
class Option:
    """One option.

    It takes the `words`, or whole numbers from `low` to `high` in `unit`.  `settle_s` is how long
    nothing is measured after it was set, and `settles` says why.  `loads` are those that it can
    touch: at others it is not tried.  `resets` are options that the kernel sets anew with it.
    `rotational`: it concerns OSDs of drives that rotate, or of others; None: both.  `needs` are
    other options of an OSD with the values at which this one does something.  `dirty_in` is the
    value of bcache's mode in which what was acknowledged may be on the cache device alone.
    """

    name: str
    place: Place
    title: str
    settle_s: float
    settles: str
    loads: Tuple[LoadPoint, ...]
    hazards: Tuple[str, ...]
    follow: Follow = Follow.AUTO
    words: Tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    unit: str = ""
    resets: Tuple[str, ...] = ()
    rotational: Optional[bool] = None
    needs: Tuple[Tuple[str, str], ...] = ()
    dirty_in: str = ""

    @property
    def range(self) -> str:
        """The values that it may have, for people."""
        if self.words:
            return "|".join(self.words)
        return f"{self.low} to {self.high}" + (f" {self.unit}" if self.unit else "")

    @property
    def outlives_boot(self) -> bool:
        """Whether what it was set to is there after a reboot: bcache keeps its mode on a drive.

        drivers/md/bcache/sysfs.c, __cached_dev_store(): bch_write_bdev_super() with cache_mode.
        """
        return bool(self.dirty_in)

    @property
    def on_host(self) -> bool:
        """Whether the probe sets it."""
        return self.place is not Place.OSD

    def allows(self, value: str) -> bool:
        """Whether it may be set to a value."""
        if self.words:
            return value in self.words
        return _WHOLE.fullmatch(value) is not None and self.low <= int(value) <= self.high

    def could_be(self, text: str) -> bool:
        """Whether a text can be a value: what was read is put back also beyond the bounds."""
        return (_WORD if self.words else _WHOLE).fullmatch(text) is not None

    def left_dirty(self, value: str, state: DriveState) -> Optional[int]:
        """Bytes to be written back before a drive that was given a value has it; None: unknown."""
        if not self.dirty_in or value == self.dirty_in:
            return 0
        text = state.option(DIRTY_DATA) or ""
        return int(text) if _WHOLE.fullmatch(text) else None

    def require(self, value: str) -> None:
        """Raise RefusedError where it may not be set to a value."""
        if not self.allows(value):
            raise RefusedError(
                f"{self.name} is not set to {value[:40]!r}", f"its values are {self.range}"
            )


SHARED_MAX = 256


@dataclass(frozen=True)
class SharedCache:
    """The cache drives (more than one where they are an array), and all that is behind them.

    `all_copies`: a pool spreads its copies over OSDs of one host, so all may be behind them.
    """

    hostname: str = ""
    devices: Tuple[str, ...] = field(default=(), metadata={"max_items": SHARED_MAX})
    bcaches: Tuple[str, ...] = field(default=(), metadata={"max_items": SHARED_MAX})
    osd_ids: Tuple[int, ...] = field(default=(), metadata={"max_items": SHARED_MAX})
    all_copies: bool = False

    @property
    def words(self) -> str:
        """The device, and who is behind it, for people."""
        return (
            f"{', '.join(self.devices)} of {self.hostname}, which is the cache of "
            f"{', '.join(self.bcaches)} under {', '.join(f'osd.{one}' for one in self.osd_ids)}"
        )


def shared_cache(report: HostReport, drives: Sequence[DriveReport]) -> SharedCache:
    """What shares the cache device of backing drives of a host, whatever the pools' rules.

    Raises RefusedError where that cannot be told.
    """
    mine = _names(drives, is_cache=False)
    caches = caches_of(report, drives)
    bare = sorted(mine - _names(caches, is_cache=True))
    if bare or not mine:
        raise RefusedError(
            f"what shares the cache device of {named(bare) or 'it'} cannot be told: none is "
            "attached, or the probe does not see it"
        )
    for one in caches:
        if len(one.bcache) >= DEVICES_MAX:
            raise RefusedError(
                f"what shares the cache device {one.dev_name} cannot be told: it has "
                f"{DEVICES_MAX} bcache devices or more"
            )
    names = _names(caches, is_cache=True)
    behind = [one for one in report.drives if names & _names((one,), is_cache=False)]
    osd_ids = sorted({use.osd_id for one in behind for use in one.uses})
    found = SharedCache(
        report.hostname, tuple(drive_words(one) for one in caches), tuple(sorted(names)),
        tuple(osd_ids),
    )
    if max(map(len, (found.devices, found.bcaches, found.osd_ids))) > SHARED_MAX:
        raise RefusedError(f"the cache of {named(sorted(mine))} is shared by too many to be named")
    return found


def caches_of(report: HostReport, drives: Sequence[DriveReport]) -> List[DriveReport]:
    """The cache drives of backing drives of a host."""
    mine = _names(drives, is_cache=False)
    return [one for one in report.drives if mine & _names((one,), is_cache=True)]


def _names(drives: Sequence[DriveReport], *, is_cache: bool) -> Set[str]:
    """The bcache devices that drives are the cache of, or the backing drive."""
    return {one.name for drive in drives for one in drive.bcache if one.is_cache is is_cache}


def drive_words(drive: DriveReport) -> str:
    """The drive by its name, its model and its serial number, where these are known."""
    known: List[str] = [str(drive.drive_model)] if str(drive.drive_model) else []
    known += [f"serial {drive.serial}"] if drive.serial else []
    return drive.dev_name + (f" ({', '.join(known)})" if known else "")

"""What is lost at once where the cache device of a bcache device fails with dirty data on it.

In writeback an acknowledged write is on the cache device alone until it is written back, and one
cache device may stand before the backing drives of several OSDs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Sequence, Set, Tuple

from ..errors import RefusedError
from ..hardware.bcache import DEVICES_MAX
from ..host_report import HostReport
from ..model import DriveReport
from ..text import named

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

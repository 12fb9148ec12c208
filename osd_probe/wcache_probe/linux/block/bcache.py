"""bcache devices above a drive, as their files in sysfs describe them.

Documentation/admin-guide/bcache.rst; sizes are as drivers/md/bcache/util.c, bch_hprint()
prints them ("4.0M").
"""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Tuple

from wcache.core.hardware import DEVICES_MAX, BcacheState
from wcache.core.model import LayerKind

from .host_files import printable, read_text
from .stack import standing_on
from .sysfs import BlockDevice

_SIZE = re.compile(r"(-?[0-9]{1,18})(?:\.([0-9]))?([kMGTPEZY]?)")
_UNITS = "kMGTPEZY"
MODES = ("writethrough", "writeback", "writearound", "none")


def bcaches_on(drive: BlockDevice) -> Tuple[BcacheState, ...]:
    """Every bcache device that the drive is a member of."""
    tops = [one for one in standing_on(drive) if one.kind is LayerKind.BCACHE]
    return tuple(_state(top, drive) for top in tops[:DEVICES_MAX])


def _state(top: BlockDevice, drive: BlockDevice) -> BcacheState:
    def said(name: str) -> str:
        return read_text(os.path.join(top.folder, "bcache", name)) or ""

    debug, dirty = _table(said("writeback_rate_debug")), parse_size(said("dirty_data"))
    return BcacheState(
        printable(top.name, 64), is_cache(top, drive), _mode(said("cache_mode")),
        parse_size(said("sequential_cutoff")), debug.get("dirty") if dirty is None else dirty,
        debug.get("target"), debug.get("rate"),
        {"0": False, "1": True}.get(said("writeback_consider_fragment")), _backing_busy_ms(top),
        state=printable(said("state"), 16),
    )


def _backing_busy_ms(top: BlockDevice) -> Optional[int]:
    """For how long its backing disk was busy: field 10 of `stat` (Documentation/block/stat.rst)."""
    for member in top.below():
        if os.path.exists(os.path.join(member.folder, "bcache", "cache_mode")):
            fields = (read_text(os.path.join(member.disk_folder, "stat")) or "").split()
            return int(fields[9]) if len(fields) > 9 and fields[9].isdigit() else None
    return None


def is_cache(top: BlockDevice, drive: BlockDevice) -> bool:
    """A backing device has a mode of its own; a cache has none (drivers/md/bcache/sysfs.c)."""
    members = [
        member for member in top.below()
        if drive.number in (member.number, *(one.number for one in member.below()))
    ]
    return bool(members) and not any(
        os.path.exists(os.path.join(member.folder, "bcache", "cache_mode")) for member in members
    )


def _mode(text: str) -> str:
    """The mode in brackets; "unknown" where none is."""
    found = re.search(r"\[([a-z]+)\]", text)
    return found.group(1) if found and found.group(1) in MODES else "unknown"


def _table(text: str) -> Dict[str, int]:
    """`writeback_rate_debug`: a name and a size in each line."""
    found: Dict[str, int] = {}
    lines: List[str] = text.splitlines()
    for line in lines[:32]:
        name, _, value = line.partition(":")
        size = parse_size(value.strip().partition("/")[0])
        if size is not None:
            found[name.strip()] = size
    return found


def parse_size(text: str) -> Optional[int]:
    """A size as bcache prints it, the least of those that it prints so; None where it is none.

    bcache cuts off the second digit after the point: a size below would be printed as another one
    when it is written back.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    whole, tenth, unit = found.groups()
    unit_bytes = 1024 ** (_UNITS.index(unit) + 1) if unit else 1
    parts = -(-int(tenth or 0) * 1024 // 10)  # of 1,024
    if parts and int(whole) == 0 and unit not in ("", "k"):
        parts = max(parts, 1000)  # from 1,000 of a unit on it goes by the next, as 0.9
    return max(0, int(whole) * unit_bytes + parts * unit_bytes // 1024)

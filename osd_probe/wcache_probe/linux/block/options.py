"""Options of a drive as files in sysfs, bcache's among them: read, or written where allowed.

Beside bcache's mode its dirty data is read: at a mode that keeps none, a drive is when that is 0.
Of bcache tells Documentation/admin-guide/bcache.rst; sizes are as drivers/md/bcache/util.c,
bch_hprint() prints them ("4.0M").

Nothing is written that has no entry in `wcache.core.options.entries`, whoever asks for it: the
probe does not go by the mgr's word.
"""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Tuple

from wcache.core.errors import RefusedError
from wcache.core.hardware import DEVICES_MAX, BcacheState, OptionValue
from wcache.core.model import LayerKind
from wcache.core.options.entries import OPTIONS, option
from wcache.core.options.option import DIRTY_DATA, Option, Place

from .host_files import printable, read_text, write_attribute
from .sysfs import BlockDevice, standing_on

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


_CHOSEN = re.compile(r"\[([a-z][a-z0-9_-]{0,31})\]")


def values_on(drive: BlockDevice) -> Tuple[OptionValue, ...]:
    """Every option that the drive has, with its value now."""
    found = []
    for one in OPTIONS:
        value = _read(drive, one) if one.on_host else None
        if value is not None:
            found.append(OptionValue(one.name, value))
        if value is not None and one.dirty_in:
            dirty = _dirty(drive, one)
            found += [] if dirty is None else [OptionValue(DIRTY_DATA, str(dirty))]
    return tuple(found)


def _dirty(drive: BlockDevice, one: Option) -> Optional[int]:
    """Bytes that are to be written back; the kernel rounds none of them to 0 (bch_hprint())."""
    path = _file(drive, one)
    text = read_text(os.path.join(os.path.dirname(path), DIRTY_DATA)) if path else None
    # less than nothing is a sum that the kernel got wrong
    return None if text is None or text.startswith("-") else parse_size(text)


def set_option(drive: BlockDevice, name: str, value: str, *, back: bool = False) -> None:
    """Write a value; RefusedError by name where no entry allows it, or the drive has it not.

    `back`: it is what was there before, which may lie beyond what an entry allows.
    """
    one = option(name)
    if not one.on_host:
        raise RefusedError(f"{name} is an option of the OSD: the mgr sets it, and not the probe")
    if not back:
        one.require(value)
    elif not one.could_be(value):
        raise RefusedError(f"{value[:40]!r} is no value of {name}")
    path = _file(drive, one)
    if path is None or _read(drive, one) is None:
        gone = back and one.place is Place.BCACHE
        raise RefusedError(
            f"{drive.name} has no {name}",
            "register its bcache device: it is tried again" if gone
            else "see `ceph wcache option ls`",
        )
    write_attribute(path, value)


def _read(drive: BlockDevice, one: Option) -> Optional[str]:
    """The value in the words of `Option`; None where there is none."""
    path = _file(drive, one)
    text = read_text(path) if path is not None else None
    if text is None:
        return None
    if one.words:  # "[mq-deadline] kyber none"; with one scheduler alone it stands bare
        found = _CHOSEN.search(text)
        text = found.group(1) if found else text
    elif one.unit == "bytes":
        size = parse_size(text)
        text = "" if size is None else str(size)
    return text if one.could_be(text) else None


def _file(drive: BlockDevice, one: Option) -> Optional[str]:
    if one.place is Place.QUEUE:
        return os.path.join(drive.disk_folder, "queue", one.name)
    backed = [
        top for top in standing_on(drive)
        if top.kind is LayerKind.BCACHE and not is_cache(top, drive)
    ]
    # two of them on partitions of one drive share its OSDs' load, and cannot be told apart
    return os.path.join(backed[0].folder, "bcache", one.name) if len(backed) == 1 else None

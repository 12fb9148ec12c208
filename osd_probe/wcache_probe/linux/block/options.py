"""Options of a drive as files in sysfs: read, and written where an entry allows the value.

Beside bcache's mode its dirty data is read: at a mode that keeps none, a drive is when that is 0.

Nothing is written that has no entry in `wcache.core.options.entries`, whoever asks for it: the
probe does not go by the mgr's word.
"""

from __future__ import annotations

import os
import re
from typing import Optional, Tuple

from wcache.core.errors import RefusedError
from wcache.core.hardware import OptionValue
from wcache.core.model import LayerKind
from wcache.core.options.entries import OPTIONS, option
from wcache.core.options.option import DIRTY_DATA, Option, Place

from .bcache import is_cache, parse_size
from .host_files import read_text, write_attribute
from .stack import standing_on
from .sysfs import BlockDevice

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

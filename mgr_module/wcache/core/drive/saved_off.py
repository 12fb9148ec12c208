"""Drives that keep their cache off by themselves: the boot rule leaves them out.

A pin has the kernel flush a drive whatever its cache is.  Below a cache that is off each of these
flushes has nothing to write, and each commit waits for it.  A SCSI drive takes its saved page up
at each power-on and reset (SPC-6, mode parameters), so one that is off, and saves that, comes on
by none of them.  It needs a pin only once wcache is to toggle it.
"""

from __future__ import annotations

from typing import Callable, Iterable, List, Sequence, Tuple

from ..model import CacheMode, DeviceCache, DriveReport, Transport
from ..text import named, typed
from .safety import boots_with_rule, flush_unproven, may_be_pinned

NAMES_MAX = 24
PRICE = "each of its commits pays for a flush with nothing to write from the next boot on"


def why_pinned(domain: Sequence[DriveReport], named_by: Callable[[DriveReport], str]) -> str:
    """Why the boot rule has to name the drives of a cache domain; "" where it leaves them out.

    `domain` is every drive that shares the switch, read now.  `named_by` says what names a drive:
    a journal entry, a plan's rule, the mark of a lease, or a line of an earlier boot rule.
    """
    if not domain:
        return "its drive could not be looked at"
    for drive in domain:
        why = _may_come_on(drive) or named_by(drive)
        if why:
            return f"{drive.dev_name}: {why}"
    return ""


def saves_off(drive: DriveReport) -> bool:
    """Whether a drive is off and keeps that by its own saved page; not of its whole domain."""
    return not _may_come_on(drive)


def _may_come_on(drive: DriveReport) -> str:
    """Why a reset or a power cycle may find its cache on, as far as it can be told."""
    foreign = _not_its_own_page(drive)
    if foreign:
        return foreign
    if drive.state.page.saved is not CacheMode.WRITE_THROUGH:
        # a default says what a drive is made with, and not what it is after a reset
        return "it does not save write through"
    if drive.state.device_cache is not DeviceCache.WRITE_THROUGH:
        return "its cache is not off now"
    return ""


def _not_its_own_page(drive: DriveReport) -> str:
    """Why what counts as saved is not what the drive itself keeps; "" where it is."""
    if not drive.transport.by_mode_page:
        return "its cache is not switched by its own mode page"
    if drive.transport is Transport.SAS_RAID or flush_unproven(drive):
        return "an adapter answers for its mode page"
    if drive.state.page.by_rule:
        return "it saves nothing itself, and a udev rule sets it"
    return ""


def saves_by_itself(drive: DriveReport) -> bool:
    """Whether a drive keeps a mode over power cycles and resets by its own saved page."""
    return drive.state.page.saved is not None and not _not_its_own_page(drive)


def how_to_name(drive: DriveReport) -> str:
    """Why the boot rule does not name such a drive, and what has it named, at what price."""
    prepare = typed("wcache-probe prepare --drive={}", drive.dev_name)
    return (
        "the boot rule does not name it, since it is off and saves that itself; to have it "
        f"measured in both modes: {prepare} on this host, and {PRICE}"
    )


def made_to_flush(drives: Iterable[DriveReport]) -> Tuple[str, ...]:
    """The drives that a pin will have the kernel flush though their caches are off, by name."""
    found: List[str] = [
        drive.dev_name for drive in drives
        if boots_with_rule(drive.transport) and may_be_pinned(drive)
        and drive.state.device_cache is DeviceCache.WRITE_THROUGH
    ]
    return tuple(dict.fromkeys(found))


def say_flushed(names: Sequence[str]) -> str:
    """One line about these drives; "" where there are none."""
    if not names:
        return ""
    return (
        f"off, and flushed all the same from the next boot on: {named(list(names), NAMES_MAX)}; "
        "each of their commits pays for a flush with nothing to write"
    )

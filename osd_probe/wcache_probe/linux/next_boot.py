"""What the next boot would lack of a drive's way back: its journal, its pin."""

from __future__ import annotations

from dataclasses import replace
from typing import AbstractSet, Sequence, Tuple

from wcache.core.drive.safety import FOR_THE_NEXT_BOOT, boots_with_rule, may_be_pinned, not_named
from wcache.core.drive.saved_off import how_to_name, saves_off
from wcache.core.errors import Refusal, RefusalKind, left
from wcache.core.model import (
    Cure,
    DeviceCache,
    DriveReport,
    Finding,
    FindingCode,
    Severity,
    Transport,
)
from wcache.core.text import named

from .persistence.preparation import NOT_NAMED, Prepared, boots_once

NAMES_MAX = 8


def for_next_boot(drive: DriveReport, pins: Prepared) -> Tuple[Refusal, ...]:
    """What the next boot would lack of a drive's way back: its journal, its pin.

    The one place where that is asked, for every kind of touch: of its cache, and of an option that
    outlives the boot.  Nothing toggles a drive that has no cache, so it needs no pin; a loop device
    is touched on a throwaway cluster alone, and gone at the next boot.
    """
    if drive.transport is Transport.LOOP:
        return ()
    has_cache = drive.state.device_cache is not DeviceCache.NONE
    pinned = has_cache and boots_with_rule(drive.transport) and may_be_pinned(drive)
    pin = pins.refusal(drive.wwid) if pinned else ""
    if pin == NOT_NAMED and saves_off(drive):
        pin = how_to_name(drive)
    lacks = (RefusalKind.JOURNAL_LOST, pins.journal_lost), (RefusalKind.NOT_PREPARED, pin)
    return tuple(Refusal(kind, why) for kind, why in lacks if why)


def with_next_boot(drive: DriveReport, pins: Prepared) -> DriveReport:
    """The report with what the next boot lacks; a finding too where nothing else is against it."""
    refusals = (*left(drive.refusals, FOR_THE_NEXT_BOOT), *for_next_boot(drive, pins))
    found = replace(drive, refusals=refusals, findings=tuple(
        item for item in drive.findings if item.code is not FindingCode.NOT_PREPARED
    ))
    if not not_named(found) or found.state.device_cache is DeviceCache.NONE:
        return found
    why = found.toggle_refusal
    said = Finding(
        FindingCode.NOT_PREPARED, Severity.INFO, drive.dev_name, why,
        Cure.BOOT_ONCE if boots_once(why) else Cure.GENERAL,
    )
    return replace(found, findings=(*found.findings, said))


def told_once(
    drives: Sequence[DriveReport], held: AbstractSet[str]
) -> Tuple[Tuple[DriveReport, ...], Tuple[Finding, ...]]:
    """The drives without that finding, and one of the host in its place.

    It is a warning where the journal holds one of them (`held` are domain ids): a drive that
    may be off.  For all others it says only what has to be done before they are toggled; of one
    that keeps itself off nothing has to be done, and its refusal says how it is named all the same.
    """
    lacking = [d for d in drives if any(map(_is_one, d.findings))]
    urgent = [drive for drive in lacking if drive.domain_id in held]
    lacking = [d for d in lacking if d in urgent or d.toggle_refusal != how_to_name(d)]
    quiet = tuple(
        replace(drive, findings=tuple(f for f in drive.findings if not _is_one(f)))
        for drive in drives
    )
    if not lacking:
        return quiet, ()
    told = [item for drive in urgent or lacking for item in drive.findings if _is_one(item)]
    # what wants a command comes before what waits for the next boot
    first = next((item for item in told if item.cure is not Cure.BOOT_ONCE), told[0])
    names = [drive.dev_name for drive in (urgent or lacking)]
    finding = Finding(
        FindingCode.NOT_PREPARED, Severity.WARNING if urgent else Severity.INFO,
        "boot rule", f"{named(names, NAMES_MAX)}: {first.detail}", first.cure,
    )
    return quiet, (finding,)


def _is_one(finding: Finding) -> bool:
    return finding.code is FindingCode.NOT_PREPARED

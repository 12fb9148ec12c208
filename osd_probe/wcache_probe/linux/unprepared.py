"""Drives that the next boot would not pin, told once for the host and not for each drive."""

from __future__ import annotations

from dataclasses import replace
from typing import AbstractSet, Sequence, Tuple

from wcache.core.drive.saved_off import how_to_name
from wcache.core.model import Cure, DriveReport, Finding, FindingCode, Severity
from wcache.core.text import named

NAMES_MAX = 8


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

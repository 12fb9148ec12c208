"""What the drives under an OSD are, and what their caches are set to, in words."""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Tuple

from ...host_report import HostReport
from ...model import DeviceCache, DriveReport, Role


def drives_by_osd(reports: Iterable[HostReport]) -> Dict[int, Dict[Role, DriveReport]]:
    """The drives under each OSD that these hosts report."""
    found: Dict[int, Dict[Role, DriveReport]] = {}
    for report in reports:
        for drive in report.drives:
            for use in drive.uses:
                found.setdefault(use.osd_id, {})[use.role] = drive
    return found


def setting_of(drives: Mapping[Role, DriveReport]) -> str:
    """The cache modes of all drives of an OSD in words; empty where one is not known.

    "write back", or "block write through, db write back" where they differ.
    """
    by_role = {role: mode_words(drive) for role, drive in drives.items()}
    said = set(by_role.values())
    if "" in said:
        return ""
    if len(said) == 1:
        return said.pop()
    return ", ".join(f"{role.value} {by_role[role]}" for role in Role if role in by_role)


def mode_words(drive: DriveReport) -> str:
    """What a drive's cache is set to; empty where that is not known."""
    if drive.mode is not None:
        return drive.mode.value
    return "no volatile cache" if drive.state.device_cache is DeviceCache.NONE else ""


def stack_of(drives: Mapping[Role, DriveReport]) -> str:
    """The drive models under one OSD: "ACME HD1 1.0 with db, wal on ACME N1 2.0"."""
    block = drives[Role.BLOCK]
    if len(drives) == 1:
        return str(block.drive_model)
    on: Dict[str, List[str]] = {}
    for role in (Role.DB, Role.WAL):
        drive = drives.get(role)
        if drive is not None and drive.drive_id != block.drive_id:
            on.setdefault(str(drive.drive_model), []).append(role.value)
    others = [f"{', '.join(names)} on {model}" for model, names in on.items()]
    return " with ".join([str(block.drive_model), *([" and ".join(others)] if others else [])])


def setting_and_stack(osd_id: int, drives: Iterable[DriveReport]) -> Tuple[str, str]:
    """Both of one OSD; empty where its drives are not among these, or not known."""
    by_role = {
        use.role: drive for drive in drives for use in drive.uses if use.osd_id == osd_id
    }
    if Role.BLOCK not in by_role:
        return "", ""
    return setting_of(by_role), stack_of(by_role)

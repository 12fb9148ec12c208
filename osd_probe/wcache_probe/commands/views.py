"""What `wcache-probe look` and `status` print."""

from __future__ import annotations

import json
from typing import Any, Dict

from wcache.core import codec
from wcache.core.drive.journal import EntryKind, JournalEntry
from wcache.core.drive.manual import pin_word
from wcache.core.drive.safety import Safety, judge
from wcache.core.ports import DriveHost
from wcache.core.shell import command
from wcache.core.text import amount, table, when

from ..journal.journal_file import MATRIX, PROBE, StateFolder
from ..switcher import read_journal

FORMAT_VERSION = 1


def look(host: DriveHost, hostname: str, style: str) -> int:
    """The drives of this host; exit code 1 where one is in an unsafe state."""
    drives = host.look()
    findings = host.host_findings()
    unsafe = any(judge(drive.state) is Safety.UNSAFE for drive in drives)
    if style == "json":
        data: Dict[str, Any] = {
            "format_version": FORMAT_VERSION, "hostname": hostname,
            "drives": [
                {**codec.to_plain(drive), "toggle_refusal": drive.toggle_refusal}
                for drive in drives
            ],
            "findings": codec.to_plain(findings),
        }
        print(json.dumps(data, indent=2))
        return 1 if unsafe else 0
    rows = []
    for drive in drives:
        osds = ", ".join(f"osd.{use.osd_id} {use.role.value}" for use in drive.uses)
        rows.append(
            (
                drive.dev_name, str(drive.drive_model), drive.transport.value,
                amount(drive.size_bytes), drive.state.device_cache.value,
                drive.state.kernel_view.value,
                pin_word(drive.transport.value, drive.state.pinned),
                judge(drive.state).value, osds,
            )
        )
    heads = (
        "DRIVE", "DRIVE MODEL", "TRANSPORT", "SIZE", "DEVICE CACHE", "KERNEL VIEW", "PINNED",
        "STATE", "OSDS",
    )
    print(table(heads, rows) if rows else f"no OSD of {hostname} was found on this host")
    if any(row[heads.index("PINNED")] == "unknown" for row in rows):
        print("PINNED: only the probe that runs here knows what it has pinned; ask the mgr: "
              + command("ceph wcache drive ls host:{}", hostname))
    for drive in drives:
        for layer in dict.fromkeys(drive.state.layers):
            if layer.kernel_view is not drive.state.kernel_view:
                print(f"{drive.dev_name}: {layer.name} ({layer.kind.value}) "
                      f"says {layer.kernel_view.value}")
        if drive.toggle_refusal:
            print(f"{drive.dev_name}: not toggled, {drive.toggle_refusal}")
    for finding in (*findings, *(f for drive in drives for f in drive.findings)):
        print(f"{finding.severity.value}: {finding.code.value} {finding.subject}: "
              f"{finding.detail}")
    return 1 if unsafe else 0


def status(state: StateFolder, style: str) -> int:
    """What runs with this folder and what its journal holds; exit code 1 where it is damaged."""
    sound, damaged = read_journal(state.journal)
    pid = state.holder()
    program = state.program() if pid else ""
    if style == "json":
        data = {
            "format_version": FORMAT_VERSION, "state_dir": state.path, "pid": pid or None,
            "program": program or None, "journal": codec.to_plain(sound), "damaged": damaged,
        }
        print(json.dumps(data, indent=2))
        return 1 if damaged else 0
    print(f"state:  {state.path}")
    print(f"probe:  {f'running with pid {pid}' if program == PROBE else 'not running'}")
    if program == MATRIX:
        print(f"matrix: running with pid {pid}")
    rows = [
        (
            _why(entry), entry.owner_id, ", ".join(d.dev_name for d in entry.drives),
            ", ".join(dict.fromkeys(d.words for d in entry.drives)),
            when(entry.written_at_s),
        )
        for entry in sound.values()
    ]
    heads = ("WHY", "ID", "DRIVES", "BEFORE", "SINCE (UTC)")
    print(table(heads, rows) if rows else "the journal is empty: nothing is held or applied")
    for line in damaged.values():
        print(f"damaged: {line}")
    return 1 if damaged else 0


def _why(entry: JournalEntry) -> str:
    """Who the entry is for; a matrix writes one as a lease does."""
    of_matrix = entry.kind is EntryKind.LEASE and entry.owner_id.startswith(f"{MATRIX}.")
    return MATRIX if of_matrix else entry.kind.value

"""`wcache-probe look`, `inspect`: the drives of this host, each with its score.

Both only read, and need neither a mgr nor a right in the cluster.  The score begins at 100; each
reason takes what stands beside it, so that nothing in it is hidden.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

from wcache.core import codec
from wcache.core.drive.manual import pin_word
from wcache.core.drive.safety import Safety, judge, lost_after_reset, raised_by
from wcache.core.fleet.findings import ADVICE
from wcache.core.model import Cure, DeviceCache, DriveReport, Finding, FindingCode, Severity
from wcache.core.ports import DriveHost
from wcache.core.text import amount, command, commented, table

from ..linux.persistence.preparation import told_once

FORMAT_VERSION = 1
_BY_SAFETY = {
    Safety.UNSAFE: (100, "its cache is on and the kernel sends no flush: a power cut loses data"),
    Safety.AFTER_RESET: (60, "a reset may turn its cache on under a layer that drops flushes"),
    Safety.UNKNOWN: (40, "whether the kernel flushes it is not known"),
}
_BY_SEVERITY = {Severity.ERROR: 40, Severity.WARNING: 20}


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


@dataclass(frozen=True)
class Reason:
    """What takes points from a score."""

    points: int
    text: str


@dataclass(frozen=True)
class Inspected:
    """A drive with its score, from 0 to 100."""

    drive: DriveReport
    reasons: Tuple[Reason, ...]

    @property
    def score(self) -> int:
        """100 without what the reasons take."""
        return max(0, 100 - sum(reason.points for reason in self.reasons))


def inspect(host: DriveHost, hostname: str, style: str) -> int:
    """Print the drives under OSDs of this host; exit code 1 where one is in an unsafe state."""
    drives, unprepared = told_once(host.look(), frozenset())
    found = [inspected(drive) for drive in drives]
    of_host = (*host.host_findings(), *unprepared)
    following = next_step(found, of_host)
    unsafe = any(judge(one.drive.state) is Safety.UNSAFE for one in found)
    if style == "json":
        print(json.dumps(_plain(found, of_host, hostname, following), indent=2))
        return int(unsafe)
    if not found:
        print(f"no OSD of {hostname} was found on this host")
    else:
        rows = [
            (one.score, one.drive.dev_name, str(one.drive.drive_model),
             one.drive.state.device_cache.value, one.drive.state.kernel_view.value,
             judge(one.drive.state).value)
            for one in sorted(found, key=lambda one: (one.score, one.drive.dev_name))
        ]
        print(table(
            ("SCORE", "DRIVE", "DRIVE MODEL", "DEVICE CACHE", "KERNEL VIEW", "STATE"), rows
        ))
    for one in found:
        for reason in one.reasons:
            print(f"{one.drive.dev_name}: -{reason.points}: {reason.text}")
    for item in of_host:
        print(f"{item.severity.value}: {item.code.value}: {item.detail}")
    print(f"next: {following}")
    return int(unsafe)


def inspected(drive: DriveReport) -> Inspected:
    """The score of a drive: what its state, the probe's findings and its switch take from it."""
    reasons: List[Reason] = []
    if judge(drive.state) in _BY_SAFETY:
        reasons.append(Reason(*_BY_SAFETY[judge(drive.state)]))
    reasons += [
        Reason(_BY_SEVERITY[item.severity], f"{item.code.value}: {item.detail}")
        for item in drive.findings if item.severity in _BY_SEVERITY
    ]
    if drive.toggle_refusal and drive.state.device_cache is not DeviceCache.NONE:
        reasons.append(Reason(10, f"cannot be measured in both modes: {drive.toggle_refusal}"))
    return Inspected(drive, tuple(reasons))


def next_step(found: Sequence[Inspected], of_host: Sequence[Finding]) -> str:
    """The one thing to do: data first, then what keeps drives from being measured."""
    first: Dict[Safety, DriveReport] = {}
    for one in found:
        first.setdefault(judge(one.drive.state), one.drive)
    if Safety.UNSAFE in first:
        return f"{first[Safety.UNSAFE].dev_name}: {ADVICE[FindingCode.UNSAFE][1]}"
    if Safety.AFTER_RESET in first:
        drive = first[Safety.AFTER_RESET]
        dropping = ", ".join(lost_after_reset(drive.state))
        return f"{drive.dev_name}: {dropping} does not flush; {raised_by(drive)}"
    lacking = [item for item in of_host if item.code is FindingCode.NOT_PREPARED]
    if lacking:
        waits = lacking[0].cure is Cure.BOOT_ONCE
        return "boot this host once" if waits else "wcache-probe prepare --dry-run"
    for cache in (DeviceCache.WRITE_BACK, DeviceCache.UNKNOWN):
        names = [one.drive.dev_name for one in found if one.drive.state.device_cache is cache]
        if names:
            time = command("wcache-probe time {}", "/dev/" + names[0])
            known = cache is not DeviceCache.UNKNOWN
            return time if known else commented(time, "whether its cache is on is not known")
    return "nothing; no drive here has its volatile cache on" if found else "wcache-probe look"


def _plain(
    found: Sequence[Inspected], of_host: Sequence[Finding], hostname: str, following: str
) -> Dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION, "hostname": hostname, "next": following,
        "drives": [
            {
                "dev_name": one.drive.dev_name, "drive_model": str(one.drive.drive_model),
                "device_cache": one.drive.state.device_cache.value,
                "kernel_view": one.drive.state.kernel_view.value,
                "state": judge(one.drive.state).value, "score": one.score,
                "reasons": codec.to_plain(one.reasons),
            }
            for one in found
        ],
        "findings": [
            {"code": item.code.value, "severity": item.severity.value, "detail": item.detail}
            for item in of_host
        ],
    }

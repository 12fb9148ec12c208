"""Drives that somebody turned off, with volumes loaded while they were: told once, and cured.

Ceph's documentation has a udev rule that turns write caches off.  On a drive that saves nothing
LVM and dm-crypt then load their tables with the view `write through`, and keep it: they would
drop flushes once a cache came on.  While the caches are off nothing is lost, and nothing of ours
has touched them, so it is a warning, one for all of them.  A drive that wcache has touched, one
that saves `write back`, and any cache that is on without flushes stay errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import AbstractSet, Dict, Iterable, List, Mapping, Optional, Tuple

from ..drive.safety import Safety, dropping_above, judge
from ..drive.saved_off import saves_off
from ..host_report import HostReport
from ..model import (
    CacheMode,
    DeviceCache,
    DriveReport,
    Finding,
    FindingCode,
    LayerKind,
    OsdUse,
    Severity,
)
from ..shell import command, ticked
from ..text import many, named

DRIVES_NAMED_MAX = 12
ON = "its cache is on and flushes are dropped: turn it off first (WCACHE_UNSAFE)"
# Layers that are made anew when they are closed and opened.
RELOADED = (LayerKind.LVM, LayerKind.CRYPT)
_OWN = (LayerKind.DISK, LayerKind.PARTITION)
COMMAND = command("ceph wcache drive reload")
ADVICE = (
    "write caches were turned off by something else, with volumes loaded on them since",
    "nothing is lost while they stay off. Measure what is there at once: `ceph wcache campaign "
    "start --observe`. To have the drives measured in both modes, load the volumes anew on pinned "
    f"disks, one OSD at a time: {ticked(COMMAND)} prints a script that says what it does and what "
    "comes next; see doc/found-off.md. To leave it as it is: `ceph health mute WCACHE_LOADED_OFF`",
)


def lenient(drive: DriveReport, touched: bool) -> bool:
    """Whether volumes that were loaded with the cache off are a warning only.

    A SCSI drive that saves `write back` takes it up at the next reset of its logical unit (SPC,
    mode parameters), so somebody turned it off for the moment: that stays an error.
    """
    page = drive.state.page
    wakes = page.saved is CacheMode.WRITE_BACK or page.by_rule
    return judge(drive.state) is Safety.AFTER_RESET and not touched and not wakes


def touched_domains(report: HostReport) -> AbstractSet[str]:
    """Cache domains that the probe's journal names; all, where an entry of it is damaged."""
    noted = {note.domain_id for note in report.journal}
    if any(not note.drives for note in report.journal):
        return {drive.domain_id for drive in report.drives} | noted
    return noted


def together(found: Iterable[Finding]) -> List[Finding]:
    """The findings, those of drives that were loaded off as one."""
    kept: List[Finding] = []
    loaded: List[Finding] = []
    for item in found:
        (loaded if item.code is FindingCode.LOADED_OFF else kept).append(item)
    if not loaded:
        return kept
    hosts = {item.subject.partition(" ")[0] for item in loaded}
    drives = named([f"{item.subject} ({item.detail})" for item in loaded], DRIVES_NAMED_MAX)
    return [*kept, Finding(
        FindingCode.LOADED_OFF, Severity.WARNING,
        f"{many(len(loaded), 'drive')} on {many(len(hosts), 'host')}",
        "the caches are off, and not by wcache; the volumes on them were loaded with that view, "
        f"and would drop flushes if a reset or a power cycle turned a cache on: {drives}",
    )]


@dataclass(frozen=True)
class Reload:
    """An OSD whose volumes are to be loaded anew, and why that cannot be done, if it cannot."""

    hostname: str
    osd_id: int
    layers: Tuple[str, ...]  # that drop flushes
    why_not: str = ""
    to_name: Tuple[str, ...] = ()  # disks that `prepare` leaves out of the boot rule by itself


def reloads(
    reports: Iterable[HostReport], by_hand: Mapping[str, str]
) -> Tuple[Reload, ...]:
    """The OSDs with layers that drop flushes, by host: those that keep a cache from coming on.

    `by_hand`: why a host's OSDs cannot be stopped and started by a script.
    """
    found: Dict[Tuple[str, int], Reload] = {}
    for report in sorted(reports, key=lambda one: one.hostname):
        for drive in report.drives:
            dropping = set(dropping_above(drive))
            cached = drive.state.device_cache in (DeviceCache.WRITE_THROUGH, DeviceCache.WRITE_BACK)
            for use in drive.uses if cached and dropping else ():
                one = _reload(report.hostname, drive, use, dropping, by_hand)
                known = found.get((report.hostname, use.osd_id))
                if one is not None:
                    found[report.hostname, use.osd_id] = _both(known, one)
    return tuple(sorted(found.values(), key=lambda one: (one.hostname, one.osd_id)))


def _reload(
    hostname: str, drive: DriveReport, use: OsdUse, dropping: AbstractSet[str],
    by_hand: Mapping[str, str],
) -> Optional[Reload]:
    """What has to be done for one use of a drive; None where it stands on no such layer."""
    layers = tuple(one.name for one in use.layers if one.name in dropping)
    if not layers:
        return None
    why = by_hand.get(hostname, "")
    odd = [one for one in use.layers if one.kind not in (*RELOADED, *_OWN)]
    if odd:
        why = f"{odd[0].name} is {odd[0].kind.value}, which a script cannot make anew"
    if drive.state.device_cache is DeviceCache.WRITE_BACK:
        why = f"{drive.dev_name}: {ON}"
    return Reload(
        hostname, use.osd_id, layers, why, (drive.dev_name,) if saves_off(drive) else ()
    )


def _both(known: Optional[Reload], one: Reload) -> Reload:
    """An OSD that stands on two such drives is loaded anew once."""
    if known is None:
        return one
    return replace(
        one, layers=tuple(dict.fromkeys((*known.layers, *one.layers))),
        why_not=known.why_not or one.why_not,
        to_name=tuple(dict.fromkeys((*known.to_name, *one.to_name))),
    )

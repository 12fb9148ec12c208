"""Rules of others that set write caches: whether they agree, what they left behind.

A rule that agrees is no trouble, but it pins nothing: the way to ours is to have wcache keep the
mode first (`plan --persist`), and to remove the rule then, so that no boot comes in between
without either.

Drives that somebody turned off, with volumes loaded while they were: told once, and cured.

Ceph's documentation has a udev rule that turns write caches off.  On a drive that saves nothing
LVM and dm-crypt then load their tables with the view `write through`, and keep it: they would
drop flushes once a cache came on.  While the caches are off nothing is lost, and nothing of ours
has touched them, so it is a warning, one for all of them.  A drive that wcache has touched, one
that saves `write back`, and any cache that is on without flushes stay errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import AbstractSet, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

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
from ..text import command, many, named, ticked, typed

FROM_OURS = "and only then remove this rule"


class Sets(Enum):
    """What a line sets."""

    WRITE_BACK = "write back"
    WRITE_THROUGH = "write through"
    KERNEL_ONLY = "the kernel's view alone"  # flushes are dropped, whatever the drive does
    PIN = "a pin"
    UNKNOWN = "unknown"

    @property
    def mode(self) -> Optional[CacheMode]:
        """The cache mode it puts drives into."""
        if self in (Sets.WRITE_BACK, Sets.WRITE_THROUGH):
            return CacheMode(self.value)
        return None


# queue_wc_store() (block/blk-sysfs.c) takes "none" for "write through"
_VIEW = re.compile(
    r"write_cache\b.*(write back|write through|\bnone\b)"
    r"|(write back|write through|\bnone\b).*write_cache"
)
_TYPE = re.compile(r"cache_type\b.*write (back|through)|write (back|through).*cache_type")
# (what it looks like with the cache on, and off)
_TOOLS = (
    (
        r"\bsdparm\b.*(--set[=\s]\s*|-s\s*)WCE(?!=0)",
        r"\bsdparm\b.*(--clear[=\s]\s*|-c\s*)WCE|\bWCE=0",
    ),
    (r"\bhdparm\b.*\s-[a-zA-Z]*W\s*1", r"\bhdparm\b.*\s-[a-zA-Z]*W\s*0"),
    (r"\bnvme\b.*(-v|-V|--value)[ =]*(0x0?)?1\b", r"\bnvme\b.*(-v|-V|--value)[ =]*(0x)?0+\b"),
    (r"\bwcache(-sct)?,on\b", r"\bwcache(-sct)?,off\b"),
    (r"--(sctW|w)riteCache[= ]+enable\b", r"--(sctW|w)riteCache[= ]+disable\b"),  # openSeaChest
    (r"\bwrite_cache\s*=\s*on\b", r"\bwrite_cache\s*=\s*off\b"),
)


def sets(line: str) -> Sets:
    """What a line of a rule, a script or a daemon's settings sets."""
    if "cache_type" in line or "write_cache" in line:
        found = _TYPE.search(line)
        if found:
            word = next(part for part in found.groups() if part)
            if "temporary" in line:
                # drivers/scsi/sd.c, cache_type_store(): the kernel's belief alone
                return Sets.PIN if word == "back" else Sets.KERNEL_ONLY
            return Sets(f"write {word}")
        found = _VIEW.search(line)
        if found:
            return Sets.KERNEL_ONLY
    for on, off in _TOOLS:
        if re.search(off, line):
            return Sets.WRITE_THROUGH
        if re.search(on, line):
            return Sets.WRITE_BACK
    return Sets.UNKNOWN


def _flag(line: str) -> str:
    """How to lift the write through that a rule of `queue/write_cache` left; '' for any other.

    block/blk-sysfs.c, queue_wc_store(), from Linux 6.11 on: BLK_FLAG_WRITE_CACHE_DISABLED, which
    nothing but this attribute clears; sd_set_flush_flag() (drivers/scsi/sd.c) leaves it alone.
    """
    found = _VIEW.search(line)
    if found is None or "write back" in found.groups():
        return ""
    return (
        "; from Linux 6.11 on no pin lifts what it set, but this line does, for each DISK, and for "
        "each path nvmeXcYnZ of an NVMe drive as well: "
        "`echo \"write back\" > /sys/block/DISK/queue/write_cache`"
    )


def judged(
    finding: Finding, hostname: str, drives: Sequence[DriveReport],
    wanted: Sequence[Optional[CacheMode]],
) -> Finding:
    """The finding with whether its rule agrees, and what to do in which order.

    `wanted` is what is recommended for each of `drives`, the OSD drives of the host.
    """
    line = finding.detail.partition(": ")[2]
    found = sets(line)

    def said(text: str, severity: Severity = Severity.WARNING) -> Finding:
        return replace(finding, severity=severity, detail=f"{finding.detail}: {text}")

    if found is Sets.KERNEL_ONLY:
        return said(
            "it changes only what the kernel believes, so flushes are dropped while the drive's "
            f"cache is on; remove it now, whatever is recommended{_flag(line)}"
        )
    if found is Sets.PIN:
        return said("it only pins, which is safe beside wcache", Severity.INFO)
    mode = found.mode
    if mode is None:
        return said(
            "compare it with `ceph wcache recommend`; keep the recommended mode with `ceph wcache "
            f"plan --persist` and `apply --persist`, {FROM_OURS}"
        )
    if not drives:
        return said(f"it sets {mode.value}; no OSD drive was reported here", Severity.INFO)
    against = [one for one in wanted if one is mode.other]
    open_ = [one for one in wanted if one is None]
    if against:
        plan = command("ceph wcache plan --persist")
        if mode is CacheMode.WRITE_THROUGH:
            plan = command("ceph wcache plan --persist --consent-turn-on")
        return said(
            f"it contradicts the recommendation: it sets {mode.value}, and {mode.other.value} is "
            f"recommended for {len(against)} of {len(drives)} OSD drives here; run "
            f"{ticked(plan)} and `apply --persist`, then remove this rule before the next boot, "
            "which would undo the change"
        )
    if open_:
        return said(
            f"it sets {mode.value}, and nothing is recommended for {len(open_)} of {len(drives)} "
            "OSD drives here, so leave it for now: measure with "
            + typed("ceph wcache campaign start --scope=host:{}", hostname)
        )
    if all(drive.state.page.saved is mode for drive in drives):
        return said(
            f"it agrees with the recommendation ({mode.value}), which wcache keeps over a boot "
            "already: remove this rule", Severity.INFO,
        )
    return said(
        f"it agrees with the recommendation ({mode.value}); to have wcache keep it without a gap, "
        f"run `ceph wcache plan --persist` and `apply --persist`, {FROM_OURS}", Severity.INFO,
    )


DRIVES_NAMED_MAX = 12
ON = "its cache is on and flushes are dropped: turn it off first (WCACHE_UNSAFE)"
# Layers that are made anew when they are closed and opened.
RELOADED = (LayerKind.LVM, LayerKind.CRYPT)
_OWN = (LayerKind.DISK, LayerKind.PARTITION)
RELOAD = command("ceph wcache drive reload")
ADVICE = (
    "write caches were turned off by something else, with volumes loaded on them since",
    "nothing is lost while they stay off. Measure what is there at once: `ceph wcache campaign "
    "start --observe`. To have the drives measured in both modes, load the volumes anew on pinned "
    f"disks, one OSD at a time: {ticked(RELOAD)} prints a script that says what it does and what "
    "comes next; see doc/found-off.md. To leave it as it is: `ceph health mute WCACHE_LOADED_OFF`",
)


def lenient(drive: DriveReport, touched: bool) -> bool:
    """Whether volumes that were loaded with the cache off are a warning only.

    A SCSI drive that saves `write back` takes it up at the next reset of its logical unit (SPC,
    mode parameters), so somebody turned it off for the moment: that stays an error.  So does a
    hidden path of an NVMe drive: it copies no view, so somebody had it drop flushes.
    """
    page = drive.state.page
    wakes = page.saved is CacheMode.WRITE_BACK or page.by_rule
    loaded = judge(drive.state) is Safety.AFTER_RESET and not drive.dropping_path
    return loaded and not touched and not wakes


def touched_domains(report: HostReport) -> AbstractSet[str]:
    """Cache domains that the probe's journal names; all, where an entry is damaged or not told."""
    noted = {note.domain_id for note in report.journal}
    if not report.has_whole_journal or any(not note.drives for note in report.journal):
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

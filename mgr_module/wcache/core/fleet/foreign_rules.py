"""Rules of others that set write caches: whether they agree with what is recommended.

A rule that agrees is no trouble, but it pins nothing: the way to ours is to have wcache keep the
mode first (`plan --persist`), and to remove the rule then, so that no boot comes in between
without either.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import Enum
from typing import Optional, Sequence

from ..model import CacheMode, DriveReport, Finding, Severity
from ..shell import command, ticked, typed

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
        "; from Linux 6.11 on no pin lifts what it set, but this line does, for each DISK: "
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

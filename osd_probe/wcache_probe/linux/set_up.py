"""How a host and its drives are set up, where that costs something: for information.

Each look reads a few small files, and none of a drive itself.
"""

from __future__ import annotations

import os
import re
from typing import Iterable, List, Sequence

from wcache.core.model import Finding, FindingCode, LayerKind, OsdUse, Severity
from wcache.core.text import named

from ..safe_files import read_bytes
from .block.host_files import HostFiles, entries, read_number, read_text
from .block.osds import OsdDevices

_SCALES_BY_ITSELF = ("intel_pstate", "amd-pstate", "amd-pstate-epp", "amd_pstate_epp")
_SAVES = ("power", "balance_power")
_THP_ON = re.compile(rb"^THP_enabled:\s+1$", re.M)
POLICIES_MAX = 1024
OSDS_NAMED_MAX = 8


def of_drive(files: HostFiles, name: str, uses: Iterable[OsdUse]) -> List[Finding]:
    """Partitions below OSDs that do not begin on a physical sector.

    The kernel tells how far off one is (block/partitions/core.c, part_alignment_offset_show()).
    """
    partitions = sorted({
        layer.name for use in uses for layer in use.layers if layer.kind is LayerKind.PARTITION
    })
    found = []
    for part in partitions:
        path = os.path.join(
            files.sys, "class", "block", part.replace("/", "!"), "alignment_offset"
        )
        offset = read_number(path)
        if offset is not None and offset != 0:
            found.append(_info(
                name,
                f"partition {part} does not begin on a physical sector: the drive reads before it "
                "writes at the edges of a 4 KiB write, on a disk for a turn of the platters (8.3 "
                "ms at 7,200 a minute); align it when the OSD is made anew",
            ))
    return found


def of_host(files: HostFiles, osds: Sequence[OsdDevices]) -> List[Finding]:
    """Huge pages of OSDs, and a governor that saves power."""
    return [*_huge_pages(files, osds), *_governor(files)]


def _huge_pages(files: HostFiles, osds: Sequence[OsdDevices]) -> List[Finding]:
    """OSDs that may have them: Ceph turns them off for itself (option `thp`) unless asked."""
    path = os.path.join(files.sys, "kernel", "mm", "transparent_hugepage", "enabled")
    if "[always]" not in (read_text(path) or ""):
        return []
    ids = [
        osd.osd_id for osd in osds if osd.pid and _THP_ON.search(
            read_bytes(os.path.join(files.proc, str(osd.pid), "status"), 65536) or b""
        )
    ]
    if not ids:
        return []
    who = named([f"osd.{osd_id}" for osd_id in ids], OSDS_NAMED_MAX)
    return [_info(
        "memory",
        f"{who} may use transparent huge pages: their memory goes beyond "
        "osd_memory_target, since the allocator gives back less of it; turn the option `thp` off "
        "for OSDs, or set transparent_hugepage/enabled to madvise",
    )]


def _governor(files: HostFiles) -> List[Finding]:
    """Processors that are held at their lowest frequency, or prefer to be.

    `powersave` of intel_pstate and amd-pstate scales by itself (Documentation/admin-guide/pm);
    there the energy preference tells.
    """
    folder = os.path.join(files.sys, "devices", "system", "cpu", "cpufreq")
    slow = set()
    for policy in entries(folder, POLICIES_MAX):
        def read(name: str, policy: str = policy) -> str:
            return read_text(os.path.join(folder, policy, name)) or ""

        if read("scaling_governor") != "powersave":
            continue
        if read("scaling_driver") not in _SCALES_BY_ITSELF:
            slow.add("the governor powersave, which holds the lowest frequency")
        elif read("energy_performance_preference") in _SAVES:
            slow.add(f"the energy preference {read('energy_performance_preference')}")
    return [
        _info(
            "processors",
            f"{text}: the software part of each commit takes longer, which counts most on flash; "
            "what it costs is not measured here; try the governor performance",
        )
        for text in sorted(slow)
    ]


def _info(subject: str, detail: str) -> Finding:
    return Finding(FindingCode.SETUP, Severity.INFO, subject, detail)

"""How a host is set up with its drives: memory within its limits, what costs something.

Each look reads a few small files, and none of a drive itself.

cgroup v2 has `memory.max` in each folder of the unified tree, v1 `memory.limit_in_bytes` in
those of the memory controller; the tightest one on the way up counts.  What is used now is in
`memory.current` or `memory.usage_in_bytes`, page cache in `memory.stat`.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from wcache.core.hardware import CgroupLimit, HostMemory
from wcache.core.model import Finding, FindingCode, LayerKind, OsdUse, Severity
from wcache.core.text import named

from ..safe_files import read_bytes
from .block.host_files import HostFiles, entries, read_number, read_text
from .block.osds import OsdDevices

BYTES_MAX = 2**50
# So coarse that a report changes a few times a day and not each time.
ROUND_SHARE = 32
_LINE = re.compile(rb"^(MemTotal|MemAvailable):\s+([0-9]{1,15}) kB$", re.M)
DEPTH_MAX = 32


class _Version(NamedTuple):
    """Names of files, and of the lines of `memory.stat` with page cache in them."""

    limit: str
    usage: str
    page_cache: Tuple[bytes, bytes]


_V1 = _Version(
    "memory.limit_in_bytes", "memory.usage_in_bytes",
    (b"total_inactive_file", b"total_active_file"),
)
_V2 = _Version("memory.max", "memory.current", (b"inactive_file", b"active_file"))


def memory_of(
    files: HostFiles, osds: Tuple[OsdDevices, ...], cgroup: str = "/sys/fs/cgroup"
) -> Optional[HostMemory]:
    """RAM, what is available of it, limits and use; None where /proc/meminfo says nothing."""
    text = read_bytes(os.path.join(files.proc, "meminfo"), 65536) or b""
    found = {name: int(value) * 1024 for name, value in _LINE.findall(text)}
    total = found.get(b"MemTotal", 0)
    if not 0 < total <= BYTES_MAX:
        return None
    available = min(found.get(b"MemAvailable", 0), total)
    return HostMemory(total, available, _limits(files, osds, cgroup, total))


def rounded(memory: Optional[HostMemory]) -> Optional[HostMemory]:
    """As a report has it: without what changes from moment to moment."""
    if memory is None:
        return None
    step = max(1, memory.total_bytes // ROUND_SHARE)
    limits = tuple(replace(limit, used_bytes=0) for limit in memory.limits)
    return replace(
        memory, available_bytes=memory.available_bytes // step * step, limits=limits
    )


def _limits(
    files: HostFiles, osds: Tuple[OsdDevices, ...], cgroup: str, total: int
) -> Tuple[CgroupLimit, ...]:
    """Every limit below the host's RAM, with the OSDs that share it."""
    groups: Dict[Tuple[str, int, _Version], List[int]] = {}
    for osd in osds:
        for folder, limit, version in _of_process(files, osd.pid, cgroup) if osd.pid else ():
            if limit < total:
                groups.setdefault((folder, limit, version), []).append(osd.osd_id)
    found = [
        CgroupLimit(limit, tuple(sorted(set(ids))), _used(folder, version))
        for (folder, limit, version), ids in groups.items()
    ]
    return tuple(sorted(found, key=lambda item: (item.osd_ids, item.bytes_max)))


def _of_process(
    files: HostFiles, pid: int, cgroup: str
) -> Iterator[Tuple[str, int, _Version]]:
    """(folder, limit, version) of each control group over a process that has one."""
    text = read_text(os.path.join(files.proc, str(pid), "cgroup")) or ""
    for line in text.splitlines()[:64]:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            root, version = cgroup, _V2
        elif "memory" in controllers.split(","):
            root, version = os.path.join(cgroup, "memory"), _V1
        else:
            continue
        folder = path.strip("/")
        if ".." in folder.split("/"):
            continue  # of a namespace above ours
        for _ in range(DEPTH_MAX):
            limit = read_number(os.path.join(root, folder, version.limit))
            if limit is not None and 0 < limit <= BYTES_MAX:
                yield os.path.join(root, folder), limit, version
            if not folder:
                break
            folder = os.path.dirname(folder)


def _used(folder: str, version: _Version) -> int:
    """What the processes of a control group use, without page cache."""
    text = read_bytes(os.path.join(folder, "memory.stat"), 65536) or b""
    cached = 0
    for line in text.splitlines():
        name, _, value = line.partition(b" ")
        if name in version.page_cache and value.isdigit() and len(value) < 20:
            cached += int(value)
    used = read_number(os.path.join(folder, version.usage)) or 0
    return min(BYTES_MAX, max(0, used - cached))


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

"""The memory of this host, and the limits of the control groups that its OSDs are in.

cgroup v2 has `memory.max` in each folder of the unified tree, v1 `memory.limit_in_bytes` in
those of the memory controller; the tightest one on the way up counts.  What is used now is in
`memory.current` or `memory.usage_in_bytes`, page cache in `memory.stat`.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from wcache.core.hardware import CgroupLimit, HostMemory

from ..safe_files import read_bytes
from .block.host_files import HostFiles, read_number, read_text
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


def look(
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

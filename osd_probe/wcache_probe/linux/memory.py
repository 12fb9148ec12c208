"""The memory of this host, and the limits of the control groups that its OSDs are in.

cgroup v2 has `memory.max` in each folder of the unified tree, v1 `memory.limit_in_bytes` in
those of the memory controller; the tightest one on the way up counts.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Optional, Tuple

from wcache.core.hardware.host_memory import CgroupLimit, HostMemory

from .block.host_files import HostFiles, read_bytes, read_text
from .block.osds import OsdDevices

BYTES_MAX = 2**50
# So coarse that a report changes a few times a day and not each time.
ROUND_SHARE = 32
_LINE = re.compile(rb"^(MemTotal|MemAvailable):\s+([0-9]{1,15}) kB$", re.M)
DEPTH_MAX = 32


def look(
    files: HostFiles, osds: Tuple[OsdDevices, ...], cgroup: str = "/sys/fs/cgroup"
) -> Optional[HostMemory]:
    """RAM, what is available of it, and limits; None where /proc/meminfo says nothing."""
    text = read_bytes(os.path.join(files.proc, "meminfo"), 65536) or b""
    found = {name: int(value) * 1024 for name, value in _LINE.findall(text)}
    total = found.get(b"MemTotal", 0)
    if not 0 < total <= BYTES_MAX:
        return None
    step = max(1, total // ROUND_SHARE)
    available = min(found.get(b"MemAvailable", 0), total) // step * step
    return HostMemory(total, available, _limits(files, osds, cgroup, total))


def _limits(
    files: HostFiles, osds: Tuple[OsdDevices, ...], cgroup: str, total: int
) -> Tuple[CgroupLimit, ...]:
    """Every limit below the host's RAM, with the OSDs that share it."""
    groups: Dict[Tuple[str, int], List[int]] = {}
    for osd in osds:
        for folder, limit in _of_process(files, osd.pid, cgroup) if osd.pid else ():
            if limit < total:
                groups.setdefault((folder, limit), []).append(osd.osd_id)
    found = [CgroupLimit(limit, tuple(sorted(set(ids)))) for (_, limit), ids in groups.items()]
    return tuple(sorted(found, key=lambda item: (item.osd_ids, item.bytes_max)))


def _of_process(files: HostFiles, pid: int, cgroup: str) -> Iterator[Tuple[str, int]]:
    """(folder, limit) of each control group over a process that has one."""
    text = read_text(os.path.join(files.proc, str(pid), "cgroup")) or ""
    for line in text.splitlines()[:64]:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            root, name = cgroup, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = os.path.join(cgroup, "memory"), "memory.limit_in_bytes"
        else:
            continue
        folder = path.strip("/")
        if ".." in folder.split("/"):
            continue  # of a namespace above ours
        for _ in range(DEPTH_MAX):
            value = (read_bytes(os.path.join(root, folder, name), 64) or b"").strip()
            if re.fullmatch(rb"[0-9]{1,20}", value) and 0 < int(value) <= BYTES_MAX:
                yield os.path.join(root, folder), int(value)
            if not folder:
                break
            folder = os.path.dirname(folder)

"""Users of block devices inside the kernel, where no process holds a file open.

iSCSI and NVMe targets keep what they export in configfs, a loop device may stand on a disk,
and a ZFS pool leaves only its label.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, Set, Tuple

from .host_files import HostFiles, entries, printable, read_table, read_text
from .sysfs import BlockDevice

EXPORTS_MAX = 4096


def find(files: HostFiles) -> Set[Tuple[str, str]]:
    """Device numbers and what uses each."""
    return {*_loops(files), *_scsi_targets(files), *_nvme_targets(files)}


def label_of(files: HostFiles, device: BlockDevice) -> str:
    """What udev found on a device that a loaded ZFS would take for its own; else empty.

    The kernel keeps no link from a pool to its disks.
    """
    if not os.path.isdir(os.path.join(files.sys, "module", "zfs")):
        return ""
    known: Dict[str, str] = {}
    for line in read_table(os.path.join(files.run, "udev", "data", f"b{device.number}")):
        key, _, value = line.partition("=")
        known[key] = value
    return "has the label of a ZFS pool" if known.get("E:ID_FS_TYPE") == "zfs_member" else ""


def _loops(files: HostFiles) -> Iterator[Tuple[str, str]]:
    folder = os.path.join(files.sys, "block")
    for name in entries(folder):
        if name.startswith("loop"):
            backing = read_text(os.path.join(folder, name, "loop/backing_file"))
            number = files.number_of_word(backing)
            if number:
                yield number, f"under {name}"


def _scsi_targets(files: HostFiles) -> Iterator[Tuple[str, str]]:
    """LIO's backstores (drivers/target/target_core_iblock.c, target_core_file.c)."""
    core = os.path.join(files.sys, "kernel", "config", "target", "core")
    for store in _folders(core, 2):
        info = read_text(os.path.join(store, "info")) or ""
        named = re.search(r"\bFile: (/\S+)", info)
        numbered = re.search(r"\bMajor: ([0-9]{1,4}) Minor: ([0-9]{1,7})\b", info)
        for number in (
            files.number_of_word(read_text(os.path.join(store, "udev_path"))),
            files.number_of_word(named[1] if named else None),
            f"{numbered[1]}:{numbered[2]}" if numbered else None,
        ):
            if number:
                name = printable(os.path.basename(store))
                yield number, f"exported as {name} by a SCSI target"


def _nvme_targets(files: HostFiles) -> Iterator[Tuple[str, str]]:
    """Namespaces of drivers/nvme/target/configfs.c."""
    subsystems = os.path.join(files.sys, "kernel", "config", "nvmet", "subsystems")
    for subsystem in _folders(subsystems, 1):
        for namespace in _folders(os.path.join(subsystem, "namespaces"), 1):
            number = files.number_of_word(read_text(os.path.join(namespace, "device_path")))
            if number:
                name = printable(os.path.basename(subsystem))
                yield number, f"exported as {name} by an NVMe target"


def _folders(top: str, depth: int) -> List[str]:
    found = [top]
    for _ in range(depth):
        found = [
            os.path.join(folder, name)
            for folder in found
            for name in entries(folder)
            if os.path.isdir(os.path.join(folder, name))
        ][:EXPORTS_MAX]
    return found

"""Who else uses a drive: file systems, swap, exports of the kernel, other programs.

iSCSI and NVMe targets keep what they export in configfs, a loop device may stand on a disk, and a
ZFS pool leaves only its label: there no process holds a file open.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Mapping, Set, Tuple

from .host_files import HostFiles, entries, printable, read_table, read_text, unescape
from .mounts import mounts
from .stack import standing_on
from .sysfs import BlockDevice

EXPORTS_MAX = 4096


def exported(files: HostFiles) -> Set[Tuple[str, str]]:
    """Find users inside the kernel: device numbers and what uses each."""
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


NAMESPACES_MAX = 256


@dataclass(frozen=True)
class ForeignUses:
    """What holds each block device of the host, by number ("8:1")."""

    files: HostFiles
    by_number: Dict[str, Tuple[str, ...]]

    def of(self, drive: BlockDevice) -> Tuple[str, ...]:
        """All users of a drive, or of anything that stands on it, OSD devices too."""
        found: List[str] = []
        for device in (drive, *standing_on(drive)):
            label = label_of(self.files, device)
            uses = (*self.by_number.get(device.number, ()), *([label] if label else ()))
            found += [f"{device.name} {use}" for use in uses]
        return tuple(dict.fromkeys(found))[:16]


def find(files: HostFiles, writers: Mapping[str, Tuple[str, ...]]) -> ForeignUses:
    """Mounts in every mount namespace of the host, swaps, exports, and the given writers."""
    uses: Dict[str, List[str]] = {}
    for number, text in _mounts(files) | _swaps(files) | exported(files):
        uses.setdefault(number, []).append(text)
    for number, texts in writers.items():
        uses.setdefault(number, []).extend(texts)
    return ForeignUses(files, {n: tuple(sorted(texts)) for n, texts in uses.items()})


def _mounts(files: HostFiles) -> Set[Tuple[str, str]]:
    """Numbers and mount points; btrfs and overlay show through their mount source."""
    found: Set[Tuple[str, str]] = set()
    for process in _with_own_mounts(files):
        for mount in mounts(files.proc, process):
            text = f"mounted on {printable(mount.point)}"
            numbers = (mount.number, files.number_of_word(mount.source))
            found.update((number, text) for number in numbers if number)
    return found


def _with_own_mounts(files: HostFiles) -> Iterable[str]:
    """One process of each mount namespace: a container may have mounted what we have not."""
    seen: Dict[str, str] = {}
    for name in ("self", *(n for n in entries(files.proc) if n.isdigit())):
        if len(seen) >= NAMESPACES_MAX:
            break
        try:
            namespace = os.readlink(os.path.join(files.proc, name, "ns", "mnt"))
        except OSError:
            namespace = "self" if name == "self" else ""
        if namespace:
            seen.setdefault(namespace, name)
    return seen.values()


def _swaps(files: HostFiles) -> Set[Tuple[str, str]]:
    found = set()
    for line in read_table(os.path.join(files.proc, "swaps"))[1:]:
        number = files.number_of_word(unescape(line.split(" ")[0].split("\t")[0]))
        if number:
            found.add((number, "used as swap"))
    return found

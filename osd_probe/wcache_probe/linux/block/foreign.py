"""Who else uses a drive: file systems, swap, exports of the kernel, programs that hold it open.

iSCSI and NVMe targets keep what they export in configfs, a loop device may stand on a disk, and a
ZFS pool leaves only its label: there no process holds a file open.

A database on a raw disk, a target in user space or a virtual machine leaves no trace in sysfs:
only its open file says that it is there.  Programs that open a disk for a moment (smartd,
LVM's tools) are no users of it, so what is new is looked at again before it counts.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass
from typing import (
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
)

from .host_files import (
    FDS_MAX,
    PROCESSES_MAX,
    HostFiles,
    entries,
    mounts,
    printable,
    read_table,
    read_text,
    unescape,
)
from .sysfs import BlockDevice, standing_on

CONFIRM_S = 1.0
CONFIRM_STEP_S = 0.1

# include/linux/proc_ns.h, PROC_PID_INIT_INO: the pid namespace that sees every process
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
# SHA-256 of a file's name: a test rig whose hosts have pid namespaces of their own has it in
# their /etc, and says by it that its OSDs alone use its loop devices.  The name is nowhere in
# what is installed, so that nobody makes such a file after reading that.
RIG_FILE_SHA256 = "12ae22050adc6c9cba14542f8e71cc795eec79eca990c34638dc915979a831bc"
_ACCESS_MODE = 0o3
_SYS_PTRACE = 1 << 19  # include/uapi/linux/capability.h


@dataclass(frozen=True)
class Opened:
    """One open file of a process that is a block device, by number ("8:1")."""

    pid: str
    fd: str
    number: str


@dataclass(frozen=True)
class Writers:
    """Who holds what; `unknown` says why others may be there that were not seen."""

    by_number: Dict[str, Tuple[str, ...]]
    unknown: str = ""


def is_rig(files: HostFiles) -> bool:
    """Whether the host is one of a test rig, whose loop devices no other program uses."""
    names = map(os.fsencode, entries(files.etc))
    return any(hashlib.sha256(name).hexdigest() == RIG_FILE_SHA256 for name in names)


@dataclass
class WriterSearch:
    """Looks through /proc; remembers what stayed, so that only news takes time."""

    files: HostFiles
    sleep: Callable[[float], None] = time.sleep
    _stayed: FrozenSet[Opened] = frozenset()

    def find(self, by_osds: FrozenSet[Tuple[int, str]] = frozenset()) -> Writers:
        """Everybody, without what OSDs are known to hold: process and number of the device."""
        names = entries(self.files.proc, PROCESSES_MAX + 1)
        pids = [name for name in names if name.isdigit()]
        unknown = self._blindness(len(pids))
        found: Set[Opened] = set()
        for pid in pids:
            opened, why = self._of_process(pid)
            found |= {one for one in opened if (int(pid), one.number) not in by_osds}
            unknown = unknown or why
        self._stayed = frozenset(self._confirmed(found))
        by_number: Dict[str, List[str]] = {}
        for opened_file in sorted(self._stayed, key=lambda o: (int(o.pid), o.number)):
            text = f"open for writing in {self._name(opened_file.pid)}"
            by_number.setdefault(opened_file.number, []).append(text)
        return Writers(
            {number: tuple(dict.fromkeys(who)) for number, who in by_number.items()}, unknown
        )

    def _blindness(self, processes: int) -> str:
        try:
            namespace = os.readlink(os.path.join(self.files.proc, "self", "ns", "pid"))
        except OSError:
            namespace = ""
        if namespace != INITIAL_PID_NAMESPACE:
            return "the processes of the host cannot be seen from this pid namespace"
        status = read_text(os.path.join(self.files.proc, "self", "status")) or ""
        rights = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.MULTILINE)
        if rights and not int(rights[1], 16) & _SYS_PTRACE:
            # descriptors of other users' processes can be listed, but not read
            return "the open files of other users cannot be read without SYS_PTRACE"
        if processes > PROCESSES_MAX:
            return "there are too many processes to look through"
        return ""

    def _of_process(self, pid: str) -> Tuple[Set[Opened], str]:
        """Block devices that it has open for writing, and why that may not be all."""
        folder = os.path.join(self.files.proc, pid, "fd")
        try:
            names = os.listdir(folder)
        except PermissionError:
            return set(), f"the open files of {self._name(pid)} cannot be read"
        except OSError:
            return set(), ""  # it has ended
        found = set()
        for name in names[:FDS_MAX]:
            number = self._written(pid, name)
            if number:
                found.add(Opened(pid, name, number))
        why = f"{self._name(pid)} has too many open files" if len(names) > FDS_MAX else ""
        return found, why

    def _written(self, pid: str, fd: str) -> Optional[str]:
        """The number of the block device behind a descriptor that can write; else None.

        Only names below some /dev are asked for their number: that of a file on a network
        file system could make the probe wait for its server.
        """
        link = os.path.join(self.files.proc, pid, "fd", fd)
        try:
            if "/dev/" not in os.readlink(link):
                return None
        except OSError:
            return None
        number = self.files.number_of_path(link)
        if number is None:
            return None
        info = read_text(os.path.join(self.files.proc, pid, "fdinfo", fd)) or ""
        flags = re.search(r"^flags:\s*([0-7]{1,12})$", info, re.MULTILINE)
        # one that does not say how it is open may well write
        writes = flags is None or int(flags[1], 8) & _ACCESS_MODE != os.O_RDONLY
        return number if writes else None

    def _confirmed(self, found: Set[Opened]) -> Set[Opened]:
        """What was there before, and of what is new only what stays for a while."""
        known = found & self._stayed
        news = found - known
        for _ in range(round(CONFIRM_S / CONFIRM_STEP_S)):
            if not news:
                break
            self.sleep(CONFIRM_STEP_S)
            news = {one for one in news if self._written(one.pid, one.fd) == one.number}
        return known | news

    def _name(self, pid: str) -> str:
        comm = read_text(os.path.join(self.files.proc, pid, "comm")) or "a process"
        return f"{printable(comm, 32)} (pid {pid})"


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


NAMESPACES_MAX = 4096  # each pod has one of its own


@dataclass(frozen=True)
class ForeignUses:
    """What holds each block device of the host, by number ("8:1").

    `unknown` says why others may be there that were not seen.
    """

    files: HostFiles
    by_number: Dict[str, Tuple[str, ...]]
    unknown: str = ""

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
    mounted, unknown = _mounts(files)
    for number, text in mounted | _swaps(files) | exported(files):
        uses.setdefault(number, []).append(text)
    for number, texts in writers.items():
        uses.setdefault(number, []).extend(texts)
    return ForeignUses(files, {n: tuple(sorted(texts)) for n, texts in uses.items()}, unknown)


def _mounts(files: HostFiles) -> Tuple[Set[Tuple[str, str]], str]:
    """Numbers and mount points, and why that may not be all.

    btrfs and overlay show through their mount source.
    """
    found: Set[Tuple[str, str]] = set()
    processes = _with_own_mounts(files)
    for process in processes[:NAMESPACES_MAX]:
        for mount in mounts(files.proc, process):
            text = f"mounted on {printable(mount.point)}"
            numbers = (mount.number, files.number_of_word(mount.source))
            found.update((number, text) for number in numbers if number)
    many = "there are too many mount namespaces to look through"
    return found, many if len(processes) > NAMESPACES_MAX else ""


def _with_own_mounts(files: HostFiles) -> List[str]:
    """One process of each mount namespace: a container may have mounted what we have not."""
    seen: Dict[str, str] = {}
    for name in ("self", *(n for n in entries(files.proc, PROCESSES_MAX) if n.isdigit())):
        try:
            namespace = os.readlink(os.path.join(files.proc, name, "ns", "mnt"))
        except OSError:
            namespace = "self" if name == "self" else ""
        if namespace:
            seen.setdefault(namespace, name)
    return list(seen.values())


def _swaps(files: HostFiles) -> Set[Tuple[str, str]]:
    found = set()
    for line in read_table(os.path.join(files.proc, "swaps"))[1:]:
        number = files.number_of_word(unescape(line.split(" ")[0].split("\t")[0]))
        if number:
            found.add((number, "used as swap"))
    return found

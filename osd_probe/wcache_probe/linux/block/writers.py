"""Processes that hold a block device open for writing and are no OSD that was found.

A database on a raw disk, an iSCSI target or a virtual machine leaves no trace in sysfs:
only its open file says that it is there.  Programs that open a disk for a moment (smartd,
LVM's tools) are no users of it, so what is new is looked at again before it counts.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass
from typing import Callable, Dict, FrozenSet, List, Optional, Set, Tuple

from .host_files import FDS_MAX, PROCESSES_MAX, HostFiles, entries, printable, read_text

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


class WriterSearch:
    """Looks through /proc; remembers what stayed, so that only news takes time."""

    def __init__(
        self, files: HostFiles, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._files = files
        self._sleep = sleep
        self._stayed: FrozenSet[Opened] = frozenset()

    def find(self, by_osds: FrozenSet[Tuple[int, str]] = frozenset()) -> Writers:
        """Everybody, without what OSDs are known to hold: process and number of the device."""
        names = entries(self._files.proc, PROCESSES_MAX + 1)
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
            namespace = os.readlink(os.path.join(self._files.proc, "self", "ns", "pid"))
        except OSError:
            namespace = ""
        if namespace != INITIAL_PID_NAMESPACE:
            return "the processes of the host cannot be seen from this pid namespace"
        status = read_text(os.path.join(self._files.proc, "self", "status")) or ""
        rights = re.search(r"^CapEff:\s*([0-9a-f]{1,16})$", status, re.MULTILINE)
        if rights and not int(rights[1], 16) & _SYS_PTRACE:
            # descriptors of other users' processes can be listed, but not read
            return "the open files of other users cannot be read without SYS_PTRACE"
        if processes > PROCESSES_MAX:
            return "there are too many processes to look through"
        return ""

    def _of_process(self, pid: str) -> Tuple[Set[Opened], str]:
        """Block devices that it has open for writing, and why that may not be all."""
        folder = os.path.join(self._files.proc, pid, "fd")
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
        link = os.path.join(self._files.proc, pid, "fd", fd)
        try:
            if "/dev/" not in os.readlink(link):
                return None
        except OSError:
            return None
        number = self._files.number_of_path(link)
        if number is None:
            return None
        info = read_text(os.path.join(self._files.proc, pid, "fdinfo", fd)) or ""
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
            self._sleep(CONFIRM_STEP_S)
            news = {one for one in news if self._written(one.pid, one.fd) == one.number}
        return known | news

    def _name(self, pid: str) -> str:
        comm = read_text(os.path.join(self._files.proc, pid, "comm")) or "a process"
        return f"{printable(comm, 32)} (pid {pid})"

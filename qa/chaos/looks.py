"""A watcher of all drives that uses none of wcache's readers, and what it makes of its looks."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from drive_lab.agent import GuestProcess
from drive_lab.probe import STATE_DIR

from .hosts import GuestHost, NativeHost
from .stage import LEASE_S

EACH_S = 0.05
BACK = "write back"
ON, OFF = "on", "off"
# What is changed of a loop device: the kernel's view, and by `ab` options of its queue.
CHANGED = ("write_cache", "nr_requests", "scheduler")
# Longer than a lease with all that comes after it on a busy machine.
HELD_MAX_S = LEASE_S + 10.0
GONE = 0x200 | 0x40  # IN_DELETE, IN_MOVED_FROM
EVENT = struct.Struct("iIII")  # struct inotify_event, before its name
SCRIPT = "/wcache/qa/chaos/guest_watch.py"


@dataclass(frozen=True)
class Look:
    """A drive at one moment: its cache before and after kernel and journal were read.

    A loop device has no cache of its own: there "on" is whatever it had before.  `entries` are
    the files of its host's journal, `away` is how many drives of its host are otherwise now.
    """

    at_s: float
    name: str
    before: str
    kernel: str
    after: str
    entries: int
    away: int


def unsafe(look: Look, own_cache: bool) -> str:
    """Why a look shows danger; empty where it does not."""
    if own_cache and look.before == look.after == ON and look.kernel != BACK:
        return f"{look.name}: its cache is on, and the kernel has {look.kernel}"
    if look.before == look.after == OFF and look.entries < look.away:
        return (
            f"{look.name}: {look.away} drives of its host are in another mode, and its journal has "
            f"{look.entries} entries"
        )
    return ""


class Away:
    """Since when drives are otherwise than before."""

    def __init__(self) -> None:
        self._since: Dict[str, float] = {}
        self._now: Dict[str, float] = {}

    def see(self, name: str, away: bool, at_s: float) -> None:
        """One look at one drive."""
        self._now[name] = at_s
        if away:
            self._since.setdefault(name, at_s)
        else:
            self._since.pop(name, None)

    def seconds(self) -> Dict[str, float]:
        """For how long each of them is, by its last look."""
        return {name: self._now[name] - since_s for name, since_s in self._since.items()}


class Told:
    """Tells at once, by inotify(7), where a file of a folder has gone."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._index = {
            self._libc.inotify_add_watch(self._fd, str(folder).encode(), GONE): index
            for index, folder in enumerate(folders)
        }
        if self._fd < 0 or min(self._index) < 0:
            raise OSError(ctypes.get_errno(), "inotify: the journals cannot be watched")

    def wait(self, timeout_s: float) -> List[int]:
        """Which folders it was, within that time."""
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return []
        told, found, at = os.read(self._fd, 1 << 16), [], 0
        while at < len(told):
            watch, _, _, length = EVENT.unpack_from(told, at)
            at += EVENT.size + length
            if watch in self._index:
                found.append(self._index[watch])
        return found

    def close(self) -> None:
        """Watch no more."""
        os.close(self._fd)


class NativeWatcher:
    """Looks at loop devices by sysfs, in a thread."""

    def __init__(self, hosts: Sequence[NativeHost]) -> None:
        self._hosts = [(host, sorted(host.devices().values())) for host in hosts]
        self._prior = {name: seen(name) for _, names in self._hosts for name in names}
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._told = Told([host.probe.state_dir / "journal" for host in hosts])
        self._found: Dict[str, None] = {}
        self._away = Away()
        self.looks = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.is_set():
            # an entry that has gone is looked after at once: what it was about must be back
            first = self._told.wait(EACH_S)
            for host, names in [self._hosts[index] for index in first] or self._hosts:
                self._look(host, names)

    def _look(self, host: NativeHost, names: Sequence[str]) -> None:
        before = [seen(name) for name in names]
        entries = len(host.journal())
        after = [seen(name) for name in names]
        words = [
            [ON if view == self._prior[name] else OFF for view in (first, last)]
            for name, first, last in zip(names, before, after)
        ]
        away = words.count([OFF, OFF])
        now_s = time.monotonic()
        with self._lock:
            self.looks += 1
            for name, (first, last) in zip(names, words):
                look = Look(now_s, name, first, self._prior[name][0], last, entries, away)
                wrong = unsafe(look, own_cache=False)
                if wrong:
                    self._found[f"{host.name}: {wrong}"] = None
                self._away.see(f"{host.name}:{name}", last == OFF, now_s)

    def away_s(self) -> Dict[str, float]:
        """By "host:drive" for how long it is otherwise than before, where it is."""
        with self._lock:
            return self._away.seconds()

    def taken(self) -> List[str]:
        """What was found since the last call."""
        with self._lock:
            found = list(self._found)
            self._found.clear()
        return found

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()
        self._told.close()


class GuestWatcher:
    """Looks at the guest's drives by a process in it, and reads what that writes."""

    def __init__(self, host: GuestHost) -> None:
        self._host = host.name
        self._log = host.lab.share / "watch.log"
        self._found: Dict[str, None] = {}
        self._read_to = 0
        self._away = Away()
        drives = []
        for drive in host.lab.drives:
            name = host.lab.drive(drive.name).disk().name
            drives.append(f"{name}:{'nvme' if name.startswith('nvme') else 'scsi'}")
        self._process: Optional[GuestProcess] = host.lab.guest.spawn(
            ["python3", SCRIPT, "/share/watch.log", f"{STATE_DIR}/journal", *drives]
        )
        self.looks = 0

    def away_s(self) -> Dict[str, float]:
        """See NativeWatcher."""
        self._read()
        return self._away.seconds()

    def taken(self) -> List[str]:
        """See NativeWatcher."""
        self._read()
        found = list(self._found)
        self._found.clear()
        return found

    def _read(self) -> None:
        text = ""
        if self._log.exists():  # its first look takes a while
            with open(self._log, encoding="ascii") as file:
                file.seek(self._read_to)
                text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._read_to += len(whole)
        for look in map(read_look, whole.splitlines()):
            if look is None:
                continue
            self.looks += 1
            wrong = unsafe(look, own_cache=True)
            if wrong:
                self._found[f"{self._host}: {wrong}"] = None
            self._away.see(f"{self._host}:{look.name}", look.after == OFF, look.at_s)

    def end(self) -> None:
        """Look no more."""
        if self._process is not None:
            self._process.kill()
            self._process = None


def read_look(line: str) -> Optional[Look]:
    """A line of guest_watch.py; None where the drive did not answer."""
    words = line.split()
    if len(words) != 6 or "?" in words:
        return None
    at_s, name, before, kernel, after, entries = words
    return Look(
        float(at_s), name, before, kernel.replace("-", " "), after, int(entries),
        int(before == after == OFF),
    )


def seen(name: str) -> Tuple[str, ...]:
    """What a block device of this machine has of what is changed."""
    queue = Path(f"/sys/block/{name}/queue")
    return tuple((queue / each).read_text(encoding="ascii").strip() for each in CHANGED)


def queue_of(name: str) -> Dict[str, str]:
    """All that can be read of a block device's queue."""
    found = {}
    for path in sorted(Path(f"/sys/block/{name}/queue").iterdir()):
        if path.is_file() and os.access(path, os.R_OK):
            try:
                found[path.name] = path.read_text(encoding="ascii").strip()
            except OSError:
                continue
    return found

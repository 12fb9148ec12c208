"""Finding and ending the processes of one cluster, and no others.

Every process of a cluster carries MARKER=<cluster folder> in its environment, and so do its
children.  That tells ours from another cluster's on the same machine, needs no pid file, and
still works for someone else who cleans up after the starter was killed.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Callable, List, Optional

MARKER = "WCACHE_TEST_CLUSTER"


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended but was not waited for (a zombie) does not.

    After a kill -9 the first thread is a zombie while others still hold files, locks and
    ports: the process has ended when it is the only thread left.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False
    # pid (name, which may hold spaces and parentheses) state ...
    return threads > 1 or stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def command_line(pid: int) -> List[str]:
    """A process's arguments; empty when it is gone."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [each.decode("utf-8", "replace") for each in raw.rstrip(b"\0").split(b"\0")]


def belongs_to(pid: int, folder: Path) -> bool:
    """Whether a process was started for the cluster in that folder."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{MARKER}={folder}".encode() in raw.split(b"\0")


def network_entry(pid: int) -> List[str]:
    """The words that start a program in a process's network; none where that is ours."""
    path = f"/proc/{pid}/ns/net"
    same = os.stat(path).st_ino == os.stat("/proc/self/ns/net").st_ino
    return [] if same else ["/usr/bin/nsenter", f"--net={path}", "--"]


def _ancestors() -> List[int]:
    """This process and its parents, which must not be ended by `cluster exec -- cluster stop`."""
    pids = [os.getpid()]
    while pids[-1] > 1:
        stat = Path(f"/proc/{pids[-1]}/stat").read_text(encoding="utf-8", errors="replace")
        pids.append(int(stat.rpartition(")")[2].split()[1]))
    return pids


def pids_of(folder: Path) -> List[int]:
    """The live processes of the cluster in that folder, without us and our parents."""
    spared = set(_ancestors())
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) not in spared and belongs_to(int(entry), folder):
            pid = int(entry)
            if is_alive(pid):
                found.append(pid)
    return found


def wait_until(check: Callable[[], bool], timeout_s: float, step_s: float = 0.05) -> bool:
    """Poll until `check` holds; False when it did not within the time."""
    end_s = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > end_s:
            return False
        time.sleep(step_s)
    return True


def send_signal(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def end_process(pid: int, folder: Path, *, kill: bool, timeout_s: float = 20.0) -> None:
    """End one process of the cluster, and wait for its end.

    SIGTERM first, and SIGKILL when it does not heed that in time; SIGKILL at once with
    `kill`.  A pid that belongs to anything else by now is left alone.
    """
    if not belongs_to(pid, folder):
        return
    if not kill:
        send_signal(pid, signal.SIGTERM)
        if wait_until(lambda: not is_alive(pid), timeout_s):
            return
    if belongs_to(pid, folder):
        send_signal(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), timeout_s)


def kill_all(folder: Path, timeout_s: float = 15.0) -> List[int]:
    """kill -9 everything of a cluster until nothing is left; returns what would not go."""
    end_s = time.monotonic() + timeout_s
    while True:
        left = pids_of(folder)
        if not left or time.monotonic() > end_s:
            return left
        for pid in left:
            send_signal(pid, signal.SIGKILL)
        time.sleep(0.05)


def pid_from_file(path: Path) -> Optional[int]:
    """The pid in a pid file, or None where there is no such file or nothing sound in it."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None

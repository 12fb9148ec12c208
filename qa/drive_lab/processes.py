"""Children of the lab: recorded by pid, and gone when the lab goes, however it goes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Sequence


class LabError(Exception):
    """The lab could not do what was asked; the message says what happened and what to do."""


@dataclass(frozen=True)
class Child:
    """A process we started, and where it says what went wrong."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Children:
    """Starts daemons whose every trace (pid file, log) is inside one folder.

    The kernel kills them when this process dies, even by SIGKILL.  With ``environment``,
    which is added to theirs, it does not: whoever finds them by that ends them.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._environment = environment
        self._children: dict[str, Child] = {}

    def start(self, name: str, argv: Sequence[str]) -> Child:
        """Start a program in a session of its own."""
        log = self._folder / f"{name}.log"
        environment = None
        if self._environment is None:
            argv = ["setpriv", "--pdeathsig", "KILL", "--", *argv]
        else:
            environment = {**os.environ, **self._environment}
        with log.open("ab") as out:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment,
                # a Ctrl-C at the terminal is for us: we stop the children in order
                start_new_session=True,
            )  # fmt: skip
        (self._folder / f"{name}.pid").write_text(f"{process.pid}\n")
        child = Child(name=name, process=process, log=log)
        self._children[name] = child
        return child

    def stop(self, name: str) -> None:
        """Kill one child and reap it; nothing of the lab has anything to save."""
        child = self._children.pop(name, None)
        if child is None:
            return
        if child.process.poll() is None:
            child.process.kill()
        child.process.wait()
        (self._folder / f"{name}.pid").unlink(missing_ok=True)

    def stop_all(self) -> None:
        for name in reversed(list(self._children)):
            self.stop(name)

    def leave_running(self) -> None:
        """Forget them all."""
        self._children.clear()


def wait_for(what: str, ready: Path, child: Child, timeout_s: float) -> None:
    """Wait until a child has made ``ready``; raise LabError with its log when it does not."""
    deadline = time.monotonic() + timeout_s
    while not ready.exists():
        if child.process.poll() is not None or time.monotonic() > deadline:
            said = " | ".join(last_lines(child.log, 5))
            raise LabError(f"{what} did not start: {said or 'no message'}")
        time.sleep(0.01)


def last_lines(log: Path, count: int) -> list[str]:
    """The end of a log; nothing where there is none."""
    try:
        return log.read_text(errors="replace").splitlines()[-count:]
    except OSError:
        return []


def connect(path: Path, timeout_s: float) -> socket.socket:
    """Connect to a unix socket whose server may have bound it and not listen yet."""
    deadline = time.monotonic() + timeout_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
            return connection
        except OSError as error:
            connection.close()
            if time.monotonic() > deadline:
                raise LabError(f"{path.name}: {error.strerror}") from error
            time.sleep(0.01)


def kill_recorded(folder: Path) -> None:
    """Kill what a dead lab left behind: pids it recorded whose command line names its folder."""
    for record in folder.glob("*.pid"):
        try:
            pid = int(record.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if str(folder).encode() in command:
            os.kill(pid, signal.SIGKILL)

"""In the guest: forks one wcache-probe after another, with its modules loaded once.

Python takes seconds to start here.  Each probe is still a process of its own, that can be
killed, with its own mgr in a folder (`osd_probe/tests/worlds/fake_mgr.py`) and a hook that kills it
with SIGKILL after a step of a change.  A request is a file ``N.request``: a probe to start, or
a signal to one that was.  What the probe prints goes to ``N.log``, how it ended to ``N.end``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import IO, Any, Callable, Sequence

import wcache.core
import wcache_probe
from fake_mgr import FolderMgr
from wcache_probe.main import main

POLL_S = 0.02


def serve(folder: Path) -> None:
    """Do requests in the order of their numbers, for ever."""
    number = 1
    running: dict[int, int] = {}
    load_all()
    put(folder / "ready", str(os.getpid()))
    while True:
        path = folder / f"{number}.request"
        if path.exists():
            request = json.loads(path.read_text())
            if "kill" in request:
                kill(running, request["kill"], request["signal"])
            else:
                pid = os.fork()
                if pid == 0:
                    run(request, folder / f"{number}.log")
                running[pid] = number
            number += 1
            continue
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            put(folder / f"{running.pop(pid)}.end", str(code))
        time.sleep(POLL_S)


def load_all() -> None:
    """Load what a probe may import when it needs it: each fork would compile it again."""
    for package in (wcache.core, wcache_probe):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.freeze()  # or the first collection of each fork would copy all of that


def kill(running: dict[int, int], wanted: int, name: str) -> None:
    """Send a signal to the probe of a request, unless it has ended."""
    for pid, number in running.items():
        if number == wanted:
            os.kill(pid, signal.Signals[f"SIG{name}"])


def run(request: dict[str, Any], log: Path) -> None:
    """Be one probe; does not return."""
    code = 70
    try:
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for target in (1, 2):
            os.dup2(fd, target)

        def crash(number: int, _step: object) -> None:
            if number == request["crash_after"]:
                os.kill(os.getpid(), signal.SIGKILL)

        def start(words: Sequence[str]) -> Fork:
            return Fork(lambda: main(words, after_step=crash))

        link = FolderMgr(Path(request["mgr"])) if request["mgr"] else None
        code = main(request["words"], link=link, after_step=crash, start=start)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Fork:
    """What a probe starts of itself: forked, since Python takes seconds to start here."""

    def __init__(self, be: Callable[[], int]) -> None:
        reads, writes = os.pipe()
        self.stdout: IO[bytes] = os.fdopen(reads, "rb", 0)
        self.pid = os.fork()
        if self.pid == 0:
            code = 70
            try:
                os.dup2(writes, 1)
                os.close(writes)
                code = be()
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        os.close(writes)

    def wait(self) -> int:
        """Its exit code, minus the signal's number where one ended it."""
        _, status = os.waitpid(self.pid, 0)
        return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def put(path: Path, text: str) -> None:
    """Write a file whole."""
    part = path.with_suffix(".part")
    part.write_text(text)
    os.rename(part, path)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))

"""Many short-lived probes in the guest, each a process that can be killed at any step.

    forks = ProbeForks(lab)
    forks.start()
    look = forks.fork(["look", "--format", "json"])
    look.wait(), look.output()

The other end is ``guest/probe_forks.py``.  After a reset of the guest, start it again.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

from .agent import GuestProcess
from .lab import Lab
from .probe import PACKAGES
from .processes import LabError

SERVER = "/wcache/qa/drive_lab/guest/probe_forks.py"
FAKE_MGR = "/wcache/osd_probe/tests/worlds"
START_TIMEOUT_S = 900.0
POLL_S = 0.01

_servers = itertools.count(1)


class ForkedProbe:
    """One probe; ``wait`` for its end."""

    def __init__(self, forks: ProbeForks, stem: Path) -> None:
        self._forks = forks
        self._stem = stem

    def ended(self) -> int | None:
        """Its exit code, minus the signal's number where one ended it; None while it runs."""
        try:
            return int(self._stem.with_suffix(".end").read_text())
        except FileNotFoundError:
            return None

    def wait(self, timeout_s: float = 300.0) -> int:
        """Its exit code, once it has ended; LabError when that takes too long."""
        deadline = time.monotonic() + timeout_s
        while True:
            code = self.ended()
            if code is not None:
                return code
            self._forks.check()
            if time.monotonic() > deadline:
                raise LabError(f"the probe still runs after {timeout_s:g} s:\n{self.output()}")
            time.sleep(POLL_S)

    def kill(self, signal: str = "KILL") -> int:
        """Send it a signal and wait for its end; returns its exit code."""
        self.send(signal)
        return self.wait()

    def send(self, signal: str) -> None:
        """Send it a signal, whatever it makes of it."""
        self._forks.request({"kill": int(self._stem.name), "signal": signal})

    def output(self) -> str:
        """What it has printed so far."""
        try:
            return self._stem.with_suffix(".log").read_text(errors="replace")
        except FileNotFoundError:
            return ""


class ProbeForks:
    """The host's end of the guest's fork server.

    ``packages`` is where the guest has the probe that is forked.
    """

    def __init__(self, lab: Lab, packages: str = PACKAGES) -> None:
        self.lab = lab
        self._packages = packages
        self._server: GuestProcess | None = None

    def start(self) -> None:
        """Start the server, anew after the guest's reset."""
        name = f"probes-{next(_servers)}"
        self._folder = self.lab.share / name
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._numbers = itertools.count(1)
        self._server = self.lab.guest.spawn(
            ["python3", SERVER, f"/share/{name}"],
            env={"PYTHONPATH": f"{self._packages}:{FAKE_MGR}"},
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self._folder / "ready").exists():
            self.check()
            if time.monotonic() > deadline:
                raise LabError(f"the guest's Python is not ready after {START_TIMEOUT_S:g} s")
            time.sleep(POLL_S)

    def ensure(self) -> None:
        """Start the server where it does not run: a reset of the guest ends it."""
        try:
            self.check()
        except LabError:
            self.start()

    def stop(self) -> None:
        """End the server; probes that it forked live on."""
        if self._server is not None:
            self._server.kill()
            self._server = None

    def check(self) -> None:
        """Raise LabError where the server has ended."""
        ended = self._server.poll() if self._server else None
        if self._server is None or ended is not None:
            raise LabError(f"no probes can be forked: {ended.stderr[-800:] if ended else ''}")

    def fork(
        self, words: Sequence[str], *, crash_after: int = 0, mgr: Path | None = None
    ) -> ForkedProbe:
        """Start ``wcache-probe WORDS``, which dies by SIGKILL after step ``crash_after``.

        ``mgr`` is a folder on the shared one where a mgr of the tests lives.
        """
        inside = f"/share/{mgr.relative_to(self.lab.share)}" if mgr else ""
        request = {"words": list(words), "crash_after": crash_after, "mgr": inside}
        return ForkedProbe(self, self.request(request))

    def request(self, words: Mapping[str, Any]) -> Path:
        """Tell the server; what comes of it are files of this name."""
        stem = self._folder / str(next(self._numbers))
        part = stem.with_suffix(".new")
        part.write_text(json.dumps(words))
        os.rename(part, stem.with_suffix(".request"))
        return stem

"""The host's end of the writer in the guest: starts it, stops it, hears what it tells."""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from ..agent import GuestProcess
from ..lab import Lab
from ..processes import LabError
from .blocks import ACK_BYTES, decode_acks

SERVER = "/wcache/qa/drive_lab/powercuts/guest_writer.py"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.01


@dataclass(frozen=True)
class Order:
    """What a writer is to do; paths are the guest's."""

    path: str
    fsid: str
    tag: int
    first: int  # number of its first write
    seed: str
    direct: bool
    batch_max: int
    pause_s: float


class Writing:
    """One writer that runs, or has run until its guest was killed."""

    def __init__(self, stem: Path) -> None:
        self._stem = stem

    def told(self) -> list[tuple[int, int]]:
        """Number and block of every write that it has called acknowledged so far."""
        try:
            return decode_acks(self._stem.with_suffix(".acks").read_bytes())
        except FileNotFoundError:
            return []

    def count(self) -> int:
        """How many those are."""
        try:
            return self._stem.with_suffix(".acks").stat().st_size // ACK_BYTES
        except FileNotFoundError:
            return 0

    def wait_first(self) -> None:
        """Wait until it has told of a write."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.count():
            ended = self._ended()
            if ended is not None or time.monotonic() > deadline:
                raise LabError(f"the writer did not begin: {ended or 'nothing is acknowledged'}")
            time.sleep(POLL_S)

    def stop(self) -> str:
        """End it, its volume closed; returns how it ended, which is ``stopped`` or an error."""
        self._stem.with_suffix(".stop").touch()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while True:
            ended = self._ended()
            if ended is not None:
                return ended
            if time.monotonic() > deadline:
                raise LabError(f"the writer did not end in {STOP_TIMEOUT_S:g} s")
            time.sleep(POLL_S)

    def _ended(self) -> str | None:
        try:
            return self._stem.with_suffix(".end").read_text()
        except FileNotFoundError:
            return None


class Writer:
    """Starts one writer after the other; after each boot of the guest, ``start`` it anew."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._generations = itertools.count(1)
        self._server: GuestProcess | None = None

    def start(self) -> None:
        """Start the server; ``wait_ready`` before the first order."""
        name = f"writer-{next(self._generations)}"
        self._folder = self._lab.share / name
        self._folder.mkdir()
        self._numbers = itertools.count(1)
        self._server = self._lab.guest.spawn(
            ["python3", SERVER, f"/share/{name}"],
            env={"PYTHONPATH": "/wcache/qa", "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def wait_ready(self) -> None:
        """Wait until it takes orders."""
        assert self._server is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self._folder / "ready").exists():
            ended = self._server.poll()
            if ended is not None or time.monotonic() > deadline:
                raise LabError(f"the writer did not start: {ended.stderr if ended else ''}")
            time.sleep(POLL_S)

    def write(self, order: Order) -> Writing:
        """Have it write, and wait until something is acknowledged."""
        stem = self._folder / str(next(self._numbers))
        part = stem.with_suffix(".new")
        part.write_text(json.dumps(order.__dict__))
        os.rename(part, stem.with_suffix(".order"))
        writing = Writing(stem)
        writing.wait_first()
        return writing

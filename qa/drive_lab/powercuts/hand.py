"""The host's end of the hand in the guest, and of the writers that it starts."""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

from ..agent import GuestProcess
from ..lab import Lab
from ..processes import LabError
from .blocks import ACK_BYTES, decode_acks

SERVER = "/wcache/qa/drive_lab/powercuts/guest_hand.py"
START_TIMEOUT_S = 900.0
STOP_TIMEOUT_S = 300.0
ANSWER_TIMEOUT_S = 600.0
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


class Hand:
    """Does what a round needs done in the guest; after each boot, ``start`` it anew."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._generations = itertools.count(1)
        self._server: GuestProcess | None = None

    def start(self) -> None:
        """Start the server; ``wait_ready`` before the first order."""
        name = f"hand-{next(self._generations)}"
        self._folder = self._lab.share / name
        self._folder.mkdir()
        self._numbers = itertools.count(1)
        self._server = self._lab.guest.spawn(
            ["python3", SERVER, f"/share/{name}"],
            env={"PYTHONPATH": "/wcache/qa"},
        )

    def wait_ready(self) -> None:
        """Wait until it takes orders."""
        assert self._server is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (self._folder / "ready").exists():
            ended = self._server.poll()
            if ended is not None or time.monotonic() > deadline:
                raise LabError(f"the hand did not start: {ended.stderr if ended else ''}")
            time.sleep(POLL_S)

    def write(self, order: Order) -> Writing:
        """Have a writer write, and wait until something is acknowledged."""
        writing = Writing(self._order("write", order.__dict__))
        writing.wait_first()
        return writing

    def ask(self, what: str, **words: Any) -> Any:
        """Have something done in the guest; what it gives, or LabError."""
        end = self._order(what, words).with_suffix(".end")
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while not end.exists():
            if time.monotonic() > deadline:
                raise LabError(f"no answer to {what} {words}")
            time.sleep(POLL_S)
        answer = json.loads(end.read_text())
        if "error" in answer:
            raise LabError(f"in the guest, {what} {words}: {answer['error']}")
        return answer["gives"]

    def _order(self, what: str, words: Mapping[str, Any]) -> Path:
        stem = self._folder / str(next(self._numbers))
        part = stem.with_suffix(".new")
        part.write_text(json.dumps({"do": what, **words}))
        os.rename(part, stem.with_suffix(".order"))
        return stem

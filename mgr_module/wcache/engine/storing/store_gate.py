"""What waits for the mons: a machine's next step is taken once they have what came before it.

The store answers from a thread of its own; `answers` hands its answers to the engine, which
takes them under its lock.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from ...core import events
from ...core.errors import StorageError
from ...core.ports import Done
from ...core.protocol import ReleaseRequest


@dataclass(frozen=True)
class Answer:
    """The mons' answer to one write: whose it was, and what follows from it."""

    owner: str
    error: Optional[StorageError]
    then: Callable[[], None]
    failed: Optional[Callable[[StorageError], None]]


def _nothing() -> None:
    """What follows from a write that nobody waits for."""


class StoreGate:
    """Writes without an answer, and the step that each of their owners wants to take next.

    Guarded by the engine's lock, but for `Done`, which is called from any thread.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._answers: queue.Queue[Answer] = queue.Queue()
        self._open: Dict[str, int] = {}
        self._held: Dict[str, Tuple[events.Action, float]] = {}

    @staticmethod
    def passes(action: events.Action) -> bool:
        """Whether an action needs nothing stored: all but steps, and ends of leases among them."""
        if isinstance(action, events.GiveTask):
            return isinstance(action.request, ReleaseRequest)
        if isinstance(action, events.AskOsds):
            return action.back
        return not isinstance(action, (events.MeasureLoad, events.AskConfig, events.WatchBlocks))

    def expect(
        self, owner: str, then: Callable[[], None] = _nothing,
        failed: Optional[Callable[[StorageError], None]] = None,
    ) -> Done:
        """For a write of `owner`: what to call with its answer.  `then` follows where it is
        stored, `failed` where it is not (without it, whatever holds for its owner)."""
        self._open[owner] = self._open.get(owner, 0) + 1

        def done(error: Optional[StorageError]) -> None:
            self._answers.put(Answer(owner, error, then, failed))
            self._wake()

        return done

    def answers(self) -> Iterator[Answer]:
        """What the mons have answered since."""
        while True:
            try:
                answer = self._answers.get_nowait()
            except queue.Empty:
                return
            left = self._open[answer.owner] - 1
            self._open[answer.owner] = left
            if not left:
                del self._open[answer.owner]
            yield answer

    def closed(self, owner: str) -> bool:
        """Whether a write of `owner` has no answer yet."""
        return owner in self._open

    def hold(self, owner: str, step: events.Action, now_s: float) -> None:
        """Keep a step until `take`; it replaces the one before."""
        since_s = self._held[owner][1] if owner in self._held else now_s
        self._held[owner] = (step, since_s)

    def take(self, owner: str) -> Optional[events.Action]:
        """The step that waits, which is not kept any more; None where there is none."""
        step, _ = self._held.pop(owner, (None, 0.0))
        return step

    def overdue(self, now_s: float, limit_s: float) -> List[str]:
        """Whose step has waited for longer."""
        return [owner for owner, (_, since_s) in self._held.items() if now_s - since_s > limit_s]

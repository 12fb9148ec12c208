"""OSDs with options, for the port that sets them: they outlive the mgr, what it waited for not."""

from __future__ import annotations

from collections import deque
from typing import Callable, Deque, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from wcache.core.experiment.osd_option import (
    OsdError,
    Program,
    ReadAtRunTime,
    ReadValue,
    SetAtRunTime,
    Step,
)
from wcache.core.protocol import Outcome

Key = Tuple[int, str]
Waiting = Tuple[int, Callable[[], Optional[Program]], Callable[[Outcome], None]]


class MgrLost(Exception):
    """The mgr was killed in the middle of a program."""


class FakeOsdOptions:
    """The `OsdPrograms` port: does what waits when `run` is called.

    `configured` is what config files and the config database say.  `steps_left`: the mgr is lost
    before the step after so many; None: never.  `down` OSDs give no answer, `stubborn` ones do not
    take what they are given.
    """

    def __init__(self) -> None:
        self.configured: Dict[Key, str] = {}
        self.at_run_time: Dict[Key, str] = {}
        self.down: Set[int] = set()
        self.stubborn: Set[int] = set()
        self.set_so_far: List[Tuple[int, str, Optional[str]]] = []
        self.steps_left: Optional[int] = None
        self._waiting: Deque[Waiting] = deque()

    def start(
        self, osd_id: int, make: Callable[[], Optional[Program]],
        done: Callable[[Outcome], None],
    ) -> None:
        """See OsdPrograms."""
        self._waiting.append((osd_id, make, done))

    def values(
        self, osd_ids: Sequence[int], names: Sequence[str], timeout_s: float
    ) -> Mapping[int, Mapping[str, str]]:
        """See OsdPrograms."""
        assert timeout_s > 0
        return {
            osd_id: {name: self.value(osd_id, name) for name in names}
            for osd_id in osd_ids if osd_id not in self.down
        }

    @property
    def waiting(self) -> int:
        """How many programs are not begun."""
        return len(self._waiting)

    def lose(self) -> None:
        """The mgr is gone."""
        self._waiting.clear()

    def value(self, osd_id: int, name: str) -> str:
        """What the OSD goes by."""
        return self.at_run_time.get((osd_id, name)) or self.configured[osd_id, name]

    def restart(self, osd_id: int) -> None:
        """The OSD starts again: what it was given at run time is gone."""
        for key in [key for key in self.at_run_time if key[0] == osd_id]:
            del self.at_run_time[key]

    def run(self) -> None:
        """Do what waits, one after the other."""
        while self._waiting:
            osd_id, make, done = self._waiting.popleft()
            program = make()
            if program is not None:
                done(self._run(osd_id, program))

    def _run(self, osd_id: int, program: Program) -> Outcome:
        try:
            step = next(program)
            while True:
                if osd_id in self.down:
                    step = program.throw(OsdError(f"osd.{osd_id} went down"))
                else:
                    step = program.send(self._do(osd_id, step))
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome

    def _do(self, osd_id: int, step: Step) -> Optional[str]:
        if self.steps_left is not None:
            if self.steps_left == 0:
                raise MgrLost
            self.steps_left -= 1
        key = osd_id, step.name
        if isinstance(step, ReadValue):
            return self.value(*key)
        if isinstance(step, ReadAtRunTime):
            return self.at_run_time.get(key)
        assert isinstance(step, SetAtRunTime)
        self.set_so_far.append((osd_id, step.name, step.value))
        if osd_id in self.stubborn:
            return None
        if step.value is None:
            self.at_run_time.pop(key, None)
        else:
            self.at_run_time[key] = step.value
        return None

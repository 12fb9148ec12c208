"""What OSDs are told by `ceph tell`: an option at run time, or a bench by mClock's recipe."""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, Callable, Deque, Dict, Mapping, Optional, Sequence

from ..core.codec import as_object
from ..core.events import LoadRequest, LoadSamples
from ..core.experiment.osd_option import (
    OsdError,
    Program,
    ReadAtRunTime,
    ReadValue,
    SetAtRunTime,
    Step,
)
from ..core.loads import (
    CAPACITY_BYTES,
    CAPACITY_CALL_BYTES,
    CAPACITY_OBJECT_BYTES,
    CAPACITY_OBJECTS,
    QUEUE,
    SCHEDULER,
    CapacityCall,
    CapacityRecipe,
    capacity_limits,
)
from ..core.protocol import FailureOutcome, Outcome
from .command import OPTION_TIMEOUT_S, CommandFailed, Osds, parse_object, value_text
from .compat import bench_seconds

Work = Callable[[], None]


class CephOsdOptions:
    """The `OsdPrograms` port over a mgr module: a thread for each OSD that has something to do."""

    def __init__(self, osds: Osds) -> None:
        self._osds = osds
        self._lock = threading.Lock()
        self._due: Dict[int, Deque[Work]] = {}

    def start(
        self, osd_id: int, make: Callable[[], Optional[Program]],
        done: Callable[[Outcome], None],
    ) -> None:
        def work() -> None:
            outcome = self._outcome(osd_id, make)
            if outcome is not None:
                done(outcome)

        with self._lock:
            due = self._due.setdefault(osd_id, deque())
            due.append(work)
            if len(due) == 1:
                threading.Thread(
                    target=self._work, args=(due,), daemon=True,
                    name=f"wcache-option-osd.{osd_id}",
                ).start()

    def values(
        self, osd_ids: Sequence[int], names: Sequence[str], timeout_s: float
    ) -> Mapping[int, Mapping[str, str]]:
        """Return by OSD what it says of its options; all OSDs are asked at once."""
        until_s = time.monotonic() + timeout_s
        asked = [
            (osd_id, name, self._osds.put(osd_id, {"prefix": "config get", "var": name}))
            for osd_id in osd_ids if self._osds.is_up(osd_id) for name in names
        ]
        found: Dict[int, Dict[str, str]] = {}
        for osd_id, name, reply in asked:
            if not reply.wait(max(0.0, until_s - time.monotonic())):
                continue
            with suppress(CommandFailed):
                value = value_text(parse_object(reply.out, "config get").get(name))
                if value is not None:
                    found.setdefault(osd_id, {})[name] = value
        return found

    def _work(self, due: Deque[Work]) -> None:
        while True:
            due[0]()  # stays in line until it is over: what comes after waits for it
            with self._lock:
                due.popleft()
                if not due:
                    return

    def _outcome(
        self, osd_id: int, make: Callable[[], Optional[Program]]
    ) -> Optional[Outcome]:
        try:
            program = make()
            return None if program is None else self._run(osd_id, program)
        except Exception as error:
            # a thread's exception would go nowhere, and the run wait for ever
            said = f"the option of osd.{osd_id} could not be set or read: {error!r}"
            return FailureOutcome(said[:300], restored=False)

    def _run(self, osd_id: int, program: Program) -> Outcome:
        try:
            step = next(program)
            while True:
                try:
                    answer = self._do(osd_id, step)
                except CommandFailed as failure:
                    step = program.throw(OsdError(str(failure)))
                else:
                    step = program.send(answer)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome

    def _do(self, osd_id: int, step: Step) -> Optional[str]:
        if isinstance(step, ReadValue):
            return self._osds.option(osd_id, step.name)
        if isinstance(step, ReadAtRunTime):
            command = {"prefix": "config diff get", "var": step.name}
            found = self._osds.read(osd_id, command, OPTION_TIMEOUT_S)
            if "diff" not in found:
                raise CommandFailed(f"osd.{osd_id} does not tell what it was given at run time")
            said = as_object(as_object(found["diff"]).get(step.name))
            return value_text(said.get("override"))
        assert isinstance(step, SetAtRunTime)  # there is no other  # noqa: S101
        asked: Dict[str, Any] = {"prefix": "config unset", "var": step.name}
        if step.value is not None:
            asked = {"prefix": "config set", "var": step.name, "val": [step.value]}
        self._osds.ask(osd_id, asked, OPTION_TIMEOUT_S)
        return None


# 3,000 writes on a drive that makes 25 in a second, and 400 MiB before them.
CALL_TIMEOUT_S = 150.0
_WRITE_BYTES = 4096


def bench_capacity(
    osds: Osds, ask: Callable[[int, Mapping[str, Any], float], str], request: LoadRequest
) -> LoadSamples:
    """Bench an OSD once by `ask`, which cannot be interrupted.

    Raises CommandFailed, also where mClock does not serve it.
    """
    osd_id = request.osd_id
    recipe = request.recipe or CapacityRecipe(rotational=True)
    scheduler = _option(osds, osd_id, QUEUE)
    if scheduler != SCHEDULER and not recipe.forced:
        raise CommandFailed(f"osd.{osd_id} schedules by {scheduler}, not by mClock")
    low, high = (_number(osds, osd_id, name) for name in capacity_limits(recipe.rotational))
    begin_s = time.monotonic()
    text = ask(osd_id, {
        "prefix": "bench", "count": CAPACITY_BYTES, "size": _WRITE_BYTES,
        "object_size": CAPACITY_OBJECT_BYTES, "object_num": CAPACITY_OBJECTS,
    }, CALL_TIMEOUT_S)
    parsed = bench_seconds(text)
    if parsed is None or parsed[1] < _WRITE_BYTES:
        raise CommandFailed(f"osd.{osd_id} refused to bench: {text.strip()[:200]}")
    seconds, written = parsed
    iops = written / _WRITE_BYTES / seconds
    return LoadSamples(
        time.monotonic() - begin_s, (int(1e9 / iops),), (), CAPACITY_CALL_BYTES,
        capacity=CapacityCall(iops, scheduler, low, high),
    )


def _option(osds: Osds, osd_id: int, name: str) -> str:
    """The value that the OSD uses; empty where its release has no such option."""
    try:
        return osds.option(osd_id, name, CALL_TIMEOUT_S) or ""
    except CommandFailed:
        return ""


def _number(osds: Osds, osd_id: int, name: str) -> float:
    try:
        number = float(_option(osds, osd_id, name))
    except ValueError:
        return 0.0
    return number if 0 < number < 1e12 else 0.0

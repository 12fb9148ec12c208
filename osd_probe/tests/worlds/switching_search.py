"""Every way of a script through a world: `explore` runs all orders of steps, events and crashes.

It returns the ways that lead to a state where acknowledged data can be lost by our doing.
"By our doing": an untouched twin lives through the same events.  Where the twin would
lose data too (a drive that comes back with its cache on under a kernel that was told
there is none), the world is to blame and not the program.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Callable, Dict, Generator, Iterator, List, NamedTuple, Optional, Tuple

from switching_world import (
    NEW_KERNEL,
    WORDS,
    Journal,
    World,
    carry_out,
    happening,
    in_new_kernel,
    same,
    twin_beside,
    without_probe,
)
from wcache.core.errors import WcacheError

EVENTS_MAX = 2
CRASHES_MAX = 1
Program = Generator[object, object, None]
Script = Callable[[], Program]
Filter = Callable[[Script], Script]


class History:
    """What a script was sent so far, and the step that it wants then.

    Equal histories of a script are one object for all worlds: a script that was sent the same
    wants the same, whatever the world.  A program that stands at the end of a history goes on
    into the first that continues it; for each other one a new program is sent the whole of it.
    """

    __slots__ = ("_before", "_program", "_then", "_value", "ended", "script", "step")

    def __init__(self, script: Script, before: Optional[History], value: object) -> None:
        self.script = script
        self._before = before
        self._value = value
        self._then: Dict[object, History] = {}
        program = before and before._program
        if before and program:
            before._program = None
            values: Tuple[object, ...] = (value,)
        else:
            program = script()
            values = self._all_sent()
        self.step, self.ended = _sent(program, values)  # no step: ended so
        self._program = program if self.step is not None else None

    def then(self, value: object) -> History:
        """The history that goes on with this value."""
        key = str(value) if isinstance(value, WcacheError) else id(value)
        after = self._then.get(key)
        if after is None:
            after = self._then[key] = History(self.script, self, value)
        return after

    def _all_sent(self) -> Tuple[object, ...]:
        values, history = [], self
        while history:
            values.append(history._value)
            history = history._before
        return tuple(reversed(values))


def _sent(program: Program, values: Tuple[object, ...]) -> Tuple[object, str]:
    step = None
    try:
        for value in values:
            failed = isinstance(value, WcacheError)
            step = program.throw(value) if failed else program.send(value)
    except StopIteration:
        return None, "done"
    except WcacheError as error:
        return None, type(error).__name__
    return step, ""


@cache
def begun(script: Script) -> History:
    """The history of a script that was sent nothing yet."""
    return History(script, None, None)


def forget_histories() -> None:
    """Free what the searches so far have learned of scripts: it is much."""
    begun.cache_clear()


class Moment(NamedTuple):
    """Where a script, the drive, its untouched twin and the journal are; what may still happen."""

    history: History
    world: World
    twin: World
    journal: Journal
    events: int
    crashes: int

    @property
    def key(self) -> object:
        history, world, twin, journal, events, crashes = self
        return id(history), id(world), id(twin), id(journal), events, crashes


class Node:
    """A moment, and what led to it."""

    __slots__ = ("_before", "_word", "journal", "moment", "twin", "world")

    def __init__(self, moment: Moment, before: Optional[Node] = None, word: str = "") -> None:
        self.moment = moment
        self.world, self.twin, self.journal = moment[1:4]
        self._before = before
        self._word = word

    @property
    def way(self) -> Tuple[str, ...]:
        """The words of what led here, in order."""
        words, node = [], self
        while node._before:
            words.append(node._word)
            node = node._before
        return tuple(reversed(words))


Watch = Callable[[Node, object], None]


def explore(
    script: Script, recovery: Script, begin: World, events_max: int = EVENTS_MAX,
    watch: Optional[Watch] = None,
) -> Tuple[List[Tuple[str, ...]], int, List[Node]]:
    """All ways into an unsafe state by our doing; how many moments there are; the ends.

    `watch` is shown each moment and the step that a script is about to take in it.
    """
    begin = same(begin)
    first = Moment(begun(script), begin, begin, None, events_max, CRASHES_MAX)
    queue, seen = deque([Node(first)]), {first.key}
    found: List[Tuple[str, ...]] = []
    ends: List[Node] = []
    while queue:
        node = queue.popleft()
        if node.world.unsafe and not node.twin.unsafe:
            found.append(node.way)
            continue
        step = node.moment.history.step
        if step is None:
            ends.append(node)
        elif watch:
            watch(node, step)
        for moment, word in _next_moments(node.moment, step, recovery):
            key = moment.key
            if key not in seen:
                seen.add(key)
                queue.append(Node(moment, node, word))
    return found, len(seen), ends


def _next_moments(
    moment: Moment, step: object, recovery: Script
) -> Iterator[Tuple[Moment, str]]:
    history, world, twin, journal, events, crashes = moment
    if step is not None:
        ways = carry_out(step, world, journal)
        may_fail = len(ways) > 1
        name = step if isinstance(step, str) else getattr(step, "name", type(step).__name__)
        for after, written, value in ways:
            failed = may_fail and isinstance(value, WcacheError)
            if failed and not events:
                continue
            yield Moment(
                history.then(value), after, twin_beside(twin, step, world, after), written,
                events - failed, crashes,
            ), f"{name} fails" if isinstance(value, WcacheError) else name
    if crashes and (step is not None or journal):
        yield Moment(
            begun(recovery), without_probe(world), twin, journal, events, crashes - 1
        ), "CRASH"
    if events:
        yield Moment(
            begun(recovery), in_new_kernel(world), in_new_kernel(twin),
            None if world.journal_in_ram else journal, events - 1, crashes,
        ), NEW_KERNEL.upper()
        for word, after, after_twin in zip(WORDS, happening(world), happening(twin)):
            if after is not world or after_twin is not twin:
                yield Moment(history, after, after_twin, journal, events - 1, crashes), word

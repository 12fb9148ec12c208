"""A world for the switching programs: one drive, its kernel, what happens to both, a journal.

The world is the truth; a program sees of it only what its steps read.  `explore` runs a
script through every order of steps, events and crashes within a budget, and returns the
ways that lead to a state where acknowledged data can be lost by our doing.

"By our doing": an untouched twin lives through the same events.  Where the twin would
lose data too (a drive that comes back with its cache on under a kernel that was told
there is none), the world is to blame and not the program.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Callable, Dict, Generator, Iterator, List, NamedTuple, Optional, Tuple

from wcache.core.drive import toggle as sw
from wcache.core.drive.journal import JournalEntry
from wcache.core.errors import StorageError, WcacheError
from wcache.core.model import (
    CacheMode,
    CachePage,
    DeviceCache,
    DriveModel,
    DriveReport,
    DriveState,
    KernelView,
    Layer,
    LayerKind,
    Transport,
)

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
EVENTS_MAX = 2
CRASHES_MAX = 1


@dataclass(frozen=True)
class World:
    """Everything that matters of one drive; `view` and `layer` are what the kernel flushes."""

    transport: Transport
    on: bool  # the device cache
    wakes_on: bool  # what a reset or a power cycle makes it: the saved or the default mode
    savable: bool
    view: bool  # the disk's kernel view is write back
    override: bool = False  # the pin
    layer: Optional[bool] = None  # the view that a device mapper table was loaded with
    remembered: bool = False  # the living probe pinned this disk instance
    rule: Optional[bool] = None  # our udev rule: the mode it sets
    boot_rule: bool = False  # `prepare` ran: the disk's own block event pins it
    obeys: bool = True
    guarded: bool = True  # the adapters turn no cache on but in a disk that they pinned

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # worlds are made seldom and looked up often
        return hash(tuple(getattr(self, item.name) for item in fields(self)))

    @property
    def unsafe(self) -> bool:
        """A power cut now loses acknowledged writes."""
        return self.on and not (self.view and self.layer is not False)

    @property
    def may_come_on(self) -> bool:
        """What the adapters' guard says (`Pins.require`)."""
        free = self.transport is Transport.NVME or not self.guarded
        return free or (self.remembered and self.view)

    @cache  # noqa: B019 - as many as there are worlds
    def read(self) -> DriveState:
        """What the probe reads of it."""
        pinned = self.view if self.transport is Transport.NVME else None
        if self.transport is not Transport.NVME and self.remembered:
            pinned = self.view
        layers = ()
        if self.layer is not None:
            layers = (Layer("dm-0", LayerKind.LVM, view_of(self.layer)),)
        page = CachePage(True, None, mode_of(self.wakes_on) if self.savable else None)
        if not self.savable and self.rule is not None:
            page = replace(page, saved=mode_of(self.rule), by_rule=True)
        cache = DeviceCache(mode_of(self.on).value)
        state = DriveState(cache, view_of(self.view), pinned, page, layers)
        return READINGS.setdefault(state, state)

    def rescanned(self, answered: bool = True) -> World:
        """sd_read_cache_type(): an override stays; without an answer there is no cache."""
        if self.override or self.transport is Transport.NVME:
            return self
        return replace(self, view=self.on and answered)


# Equal worlds, readings and entries are one object each, so a search knows them by their id.
WORLDS: Dict[World, World] = {}
READINGS: Dict[DriveState, DriveState] = {}
ENTRIES: Dict[JournalEntry, JournalEntry] = {}


def same(world: World) -> World:
    """The one object of all equal worlds."""
    return WORLDS.setdefault(world, world)


@cache
def changed(world: World, **changes: Optional[bool]) -> World:
    """The world with these fields changed."""
    return same(replace(world, **changes))


def view_of(flushes: bool) -> KernelView:
    return KernelView.WRITE_BACK if flushes else KernelView.WRITE_THROUGH


def mode_of(on: bool) -> CacheMode:
    return BACK if on else THROUGH


# What can happen beside us

def reset(world: World) -> World:
    """LUN, bus or controller reset, or a power cycle that the kernel did not see."""
    after = replace(world, on=world.wakes_on)
    return after.rescanned() if world.transport is Transport.SATA else after


def reset_unanswered(world: World) -> World:
    """libata looks again after a link reset, and this time IDENTIFY fails."""
    after = replace(world, on=world.wakes_on)
    return after.rescanned(False) if world.transport is Transport.SATA else after


def appears(world: World) -> World:
    """The kernel makes a new disk: no override, a fresh look, the table loaded anew.

    The boot rule pins it in the disk's own block event, and whatever is stacked on the
    disk comes after that event.
    """
    view = world.on or world.transport is Transport.NVME
    after = replace(world, override=False, remembered=False, view=view)
    if world.boot_rule and world.transport is not Transport.NVME:
        after = replace(after, override=True, view=True)
    return replace(after, layer=None if world.layer is None else after.view)


def replug(world: World) -> World:
    """The drive loses its power, and comes back."""
    return appears(replace(world, on=world.wakes_on))


def udev_runs_rule(world: World) -> World:
    """Our rule pins, then sets the device."""
    if world.rule is None or not world.obeys:
        return world
    return replace(world, view=True, override=True, on=world.rule)


EVENTS: Dict[str, Callable[[World], World]] = {
    "reset": reset,
    "reset, and the drive does not answer": reset_unanswered,
    "rescan": lambda world: world.rescanned(),
    "rescan without an answer": lambda world: world.rescanned(False),
    "table loaded anew": lambda w: w if w.layer is None else replace(w, layer=w.view),
    "unplugged and plugged in": replug,
    "new disk, drive kept its power": appears,  # driver rebound; deleted and scanned
    "udev runs our rule": udev_runs_rule,
}
WORDS = tuple(name.upper() for name in EVENTS)
# A warm reboot, or a kdump and the boot after it: the probe dies too, and starts again.
NEW_KERNEL = "new kernel, drive kept its power"


@cache
def happening(world: World) -> Tuple[World, ...]:
    """The world after each of `EVENTS`, in their order."""
    return tuple(same(happens(world)) for happens in EVENTS.values())


@cache
def in_new_kernel(world: World) -> World:
    """The world after `NEW_KERNEL`."""
    return same(appears(world))


@cache
def without_probe(world: World) -> World:
    """The world after the probe died: what it remembered is gone."""
    return same(replace(world, remembered=False))


# The steps

LOOK, ENTRY, LOST = "look", "entry", "the journal is lost"


def drive_of(world: World) -> DriveReport:
    return looked_at(world.transport, world.read())[0]


@cache
def looked_at(transport: Transport, state: DriveState) -> Tuple[DriveReport, ...]:
    """What a look at the drive finds: by what was read, so equal looks are one object."""
    return (DriveReport("d", "d", "sda", DriveModel("V", "M", "F"), transport, state),)


Journal = Optional[JournalEntry]
StepResult = Tuple[World, Journal, object]


def carry_out(step: object, world: World, journal: Journal) -> List[StepResult]:
    """Every way a step can end: (world, journal, what the program gets)."""
    if isinstance(step, sw.ReadState):
        return [(world, journal, world.read())]
    if step == LOOK:
        return [(world, journal, looked_at(world.transport, world.read()))]
    if step == ENTRY:
        return [(world, journal, journal)]
    if step == LOST:
        return [(world, None, None)]
    if isinstance(step, sw.WriteJournal):
        return [(world, ENTRIES.setdefault(step.entry, step.entry), None)]
    if isinstance(step, sw.RemoveJournal):
        return [(world, None, None)]
    failed = StorageError("the step failed")
    if isinstance(step, sw.Pin):
        held = changed(world, view=True, override=True, remembered=True)
        return [(held, journal, None), (world, journal, failed)]
    if isinstance(step, sw.SetCache):
        if step.mode is BACK and not world.may_come_on:
            return [(world, journal, failed)]
        done = world
        if world.obeys:
            done = changed(world, on=step.mode is BACK)
            done = same(done.rescanned()) if world.transport is Transport.SATA else done
        return [(done, journal, None), (done, journal, failed), (world, journal, failed)]
    if isinstance(step, sw.SaveCache):
        if (step.mode or step.saved) is BACK and world.savable and not world.may_come_on:
            return [(world, journal, failed)]
        return [(saved, journal, None) for saved in save(step, world)]
    assert isinstance(step, sw.Flush)
    return [(world, journal, None), (world, journal, failed)]


def save(step: sw.SaveCache, world: World) -> Iterator[World]:
    """Where the page is savable, SP=1 turns the current value too, then it is set back."""
    wanted = step.mode or step.saved
    if not world.savable:
        yield changed(world, rule=None if wanted is None else wanted is BACK)
    elif wanted is None:
        yield world
    else:
        # also the moment between the two MODE SELECTs, as if the probe stopped there
        yield changed(world, wakes_on=wanted is BACK, on=wanted is BACK)
        yield changed(world, wakes_on=wanted is BACK)


Program = Generator[object, object, None]
Script = Callable[[], Program]
Filter = Callable[[Script], Script]


class History:
    """What a script was sent so far, and the step that it wants then.

    Equal histories of a script are one object for all worlds: a script that was sent the same
    wants the same, whatever the world.  A program that stands at the end of a history goes on
    into the first that continues it; for each other one a new program is sent the whole of it.
    """

    __slots__ = ("_before", "_program", "_then", "_value", "script", "step")

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
        self.step = _sent(program, values)  # None when the script has ended
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


def _sent(program: Program, values: Tuple[object, ...]) -> object:
    step = None
    try:
        for value in values:
            failed = isinstance(value, WcacheError)
            step = program.throw(value) if failed else program.send(value)
    except (StopIteration, WcacheError):
        return None
    return step


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
        name = step if isinstance(step, str) else type(step).__name__
        for after, written, value in ways:
            failed = may_fail and isinstance(value, WcacheError)
            if failed and not events:
                continue
            yield Moment(
                history.then(value), after, twin, written, events - failed, crashes
            ), f"{name} fails" if isinstance(value, WcacheError) else name
    if crashes and (step is not None or journal):
        yield Moment(
            begun(recovery), without_probe(world), twin, journal, events, crashes - 1
        ), "CRASH"
    if events:
        yield Moment(
            begun(recovery), in_new_kernel(world), in_new_kernel(twin), journal, events - 1,
            crashes,
        ), NEW_KERNEL.upper()
        for word, after, after_twin in zip(WORDS, happening(world), happening(twin)):
            if after is not world or after_twin is not twin:
                yield Moment(history, after, after_twin, journal, events - 1, crashes), word

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
        # asked for a few times for each moment: worlds are made seldom and met often
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
        cache = DeviceCache(mode_of(self.on).value)
        return DriveState(cache, view_of(self.view), pinned, page, layers)

    def rescanned(self, answered: bool = True) -> World:
        """sd_read_cache_type(): an override stays; without an answer there is no cache."""
        if self.override or self.transport is Transport.NVME:
            return self
        return replace(self, view=self.on and answered)


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
# A warm reboot, or a kdump and the boot after it: the probe dies too, and starts again.
NEW_KERNEL = "new kernel, drive kept its power"


@cache
def happening(world: World) -> Tuple[World, ...]:
    """The world after each of `EVENTS`, in their order."""
    return tuple(happens(world) for happens in EVENTS.values())


@cache
def without_probe(world: World) -> World:
    """The world after the probe died: what it remembered is gone."""
    return replace(world, remembered=False)


# The steps

LOOK, ENTRY, LOST = "look", "entry", "the journal is lost"


@cache
def drive_of(world: World) -> DriveReport:
    return DriveReport(
        "d", "d", "sda", DriveModel("V", "M", "F"), world.transport, world.read()
    )


Journal = Optional[JournalEntry]
ENTRIES: Dict[JournalEntry, JournalEntry] = {}  # equal ones are one object, known by its id
StepResult = Tuple[World, Journal, object]


def carry_out(step: object, world: World, journal: Journal) -> List[StepResult]:
    """Every way a step can end: (world, journal, what the program gets)."""
    failed = StorageError("the step failed")
    if step == LOOK:
        return [(world, journal, (drive_of(world),))]
    if step == ENTRY:
        return [(world, journal, journal)]
    if step == LOST:
        return [(world, None, None)]
    if isinstance(step, sw.ReadState):
        return [(world, journal, world.read())]
    if isinstance(step, sw.WriteJournal):
        return [(world, ENTRIES.setdefault(step.entry, step.entry), None)]
    if isinstance(step, sw.RemoveJournal):
        return [(world, None, None)]
    if isinstance(step, sw.Pin):
        held = replace(world, view=True, override=True, remembered=True)
        return [(held, journal, None), (world, journal, failed)]
    if isinstance(step, sw.SetCache):
        if step.mode is BACK and not world.may_come_on:
            return [(world, journal, failed)]
        done = world
        if world.obeys:
            done = replace(world, on=step.mode is BACK)
            done = done.rescanned() if world.transport is Transport.SATA else done
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
        yield replace(world, rule=None if step.mode is None else step.mode is BACK)
    elif wanted is None:
        yield world
    else:
        # also the moment between the two MODE SELECTs, as if the probe stopped there
        yield replace(world, wakes_on=wanted is BACK, on=wanted is BACK)
        yield replace(world, wakes_on=wanted is BACK)


Program = Generator[object, object, None]
Script = Callable[[], Program]
Filter = Callable[[Script], Script]


class Node(NamedTuple):
    """A moment: the script so far is the values it was sent."""

    script: Script
    sent: Tuple[object, ...]
    heard: Tuple[int, ...]  # the same as small numbers, which compare fast
    world: World
    twin: World
    journal: Journal
    events: int
    crashes: int
    way: Tuple[str, ...]

    @property
    def key(self) -> object:
        return (
            self.script, self.heard, self.world, self.twin, id(self.journal), self.events,
            self.crashes,
        )


class Heard:
    """Numbers for the values that programs are sent, and the step that follows each history.

    A program that stands at the end of a history goes on into the first that continues it;
    for each other one a new program is sent the whole of it.
    """

    def __init__(self) -> None:
        self._numbers: Dict[object, int] = {}
        self._steps: Dict[object, object] = {}
        self._standing: Dict[object, Program] = {}

    def number(self, value: object) -> int:
        key = str(value) if isinstance(value, WcacheError) else value
        return self._numbers.setdefault(key, len(self._numbers))

    def next_step(self, node: Node) -> object:
        """The step a script wants after what it was sent; None when it has ended."""
        key = (node.script, node.heard)
        if key not in self._steps:
            program = self._standing.pop((node.script, node.heard[:-1]), None)
            step, program = _sent(program, node.sent[-1:]) if program and node.heard else _sent(
                node.script(), (None, *node.sent)
            )
            self._steps[key] = step
            if step is not None:
                self._standing[key] = program
        return self._steps[key]


def _sent(program: Program, values: Tuple[object, ...]) -> Tuple[object, Program]:
    """The step a program wants after these values; None when it has ended."""
    step = None
    try:
        for value in values:
            failed = isinstance(value, WcacheError)
            step = program.throw(value) if failed else program.send(value)
    except (StopIteration, WcacheError):
        return None, program
    return step, program


# One for all worlds: a script that was sent the same wants the same, whatever the world.
HEARD = Heard()


Watch = Callable[[Node, object], None]


def explore(
    script: Script, recovery: Script, begin: World, events_max: int = EVENTS_MAX,
    watch: Optional[Watch] = None,
) -> Tuple[List[Tuple[str, ...]], int, List[Node]]:
    """All ways into an unsafe state by our doing; how many moments there are; the ends.

    `watch` is shown each moment and the step that a script is about to take in it.
    """
    first = Node(script, (), (), begin, begin, None, events_max, CRASHES_MAX, ())
    queue, seen = deque([first]), {first.key}
    found: List[Tuple[str, ...]] = []
    ends: List[Node] = []
    while queue:
        node = queue.popleft()
        if node.world.unsafe and not node.twin.unsafe:
            found.append(node.way)
            continue
        step = HEARD.next_step(node)
        if step is None:
            ends.append(node)
        elif watch:
            watch(node, step)
        for child in _children(node, step, recovery):
            key = child.key
            if key not in seen:
                seen.add(key)
                queue.append(child)
    return found, len(seen), ends


def _children(node: Node, step: object, recovery: Script) -> Iterator[Node]:
    if step is not None:
        ways = carry_out(step, node.world, node.journal)
        for world, journal, value in ways:
            failed = isinstance(value, WcacheError)
            if failed and not node.events and len(ways) > 1:
                continue
            name = step if isinstance(step, str) else type(step).__name__
            yield node._replace(
                sent=(*node.sent, value), heard=(*node.heard, HEARD.number(value)),
                world=world, journal=journal,
                events=node.events - (failed and len(ways) > 1),
                way=(*node.way, name + (" fails" * failed)),
            )
    if node.events:
        yield node._replace(
            script=recovery, sent=(), heard=(), events=node.events - 1,
            world=appears(node.world), twin=appears(node.twin),
            way=(*node.way, NEW_KERNEL.upper()),
        )
    if node.crashes and (step is not None or node.journal):
        yield node._replace(
            script=recovery, sent=(), heard=(), crashes=node.crashes - 1,
            world=without_probe(node.world), way=(*node.way, "CRASH"),
        )
    if node.events:
        for name, world, twin in zip(EVENTS, happening(node.world), happening(node.twin)):
            if (world, twin) != (node.world, node.twin):
                yield node._replace(
                    world=world, twin=twin, events=node.events - 1,
                    way=(*node.way, name.upper()),
                )

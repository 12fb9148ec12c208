"""A world for the switching programs: one drive, its kernel, what happens to both, a journal.

The world is the truth; a program sees of it only what its steps read.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from wcache.core.drive.journal import JournalEntry
from wcache.core.errors import Refusal, RefusalKind, StorageError
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
from wcache_probe.switching import steps

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH

OURS, NEWER, ELSEWHERE = "ours", "made since the images were checked", "not on the host"


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
    image: str = OURS  # what the next boot is from; only ours has the rule
    etc_in_ram: bool = False  # the next boot has no rule of the root's own
    journal_in_ram: bool = False  # the next boot has no journal
    obeys: bool = True
    guarded: bool = True  # the adapters turn no cache on but in a disk that they pinned
    # of its pages: says the saved one `write through`, whatever it wakes in; the default one; that
    # of a second LUN, which shares the switch; may firmware or others change what it saves
    lies: bool = False
    default: Optional[CacheMode] = None
    second: Optional[CacheMode] = None
    fickle: bool = False

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
        """What the adapters' guard says (`PinnedSwitch.require_pin`)."""
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
        kept = THROUGH if self.lies or self.second is not None else mode_of(self.wakes_on)
        page = CachePage(True, self.default, kept if self.savable else None)
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
def changed(world: World, **changes: object) -> World:
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
    found = newly_found(world)
    if world.boot_rule:
        found = ruled(found)
    return replace(found, layer=None if world.layer is None else found.view)


def newly_found(world: World) -> World:
    view = world.on or world.transport is Transport.NVME
    return replace(world, override=False, remembered=False, view=view)


def ruled(world: World) -> World:
    return world if world.transport is Transport.NVME else replace(world, override=True, view=True)


def boots(world: World) -> World:
    """A new kernel, under which the drive kept its power.

    The image stacks tables on the disk before the root, with its own rule, is there.
    """
    ours = world.boot_rule and world.image == OURS and not world.etc_in_ram
    found = ruled(newly_found(world)) if ours else newly_found(world)
    found = replace(found, layer=None if world.layer is None else found.view)
    if world.etc_in_ram:
        return replace(found, boot_rule=False, etc_in_ram=False)
    return ruled(found) if world.boot_rule else found


def replug(world: World) -> World:
    """The drive loses its power, and comes back."""
    return appears(replace(world, on=world.wakes_on))


def udev_runs_rule(world: World) -> World:
    """Our rule pins, then sets the device."""
    if world.rule is None or not world.obeys:
        return world
    return replace(world, view=True, override=True, on=world.rule)


def forgets(world: World) -> World:
    """New firmware loses the saved page: it is the default one, as MODE SENSE says from now on."""
    return replace(world, wakes_on=True, lies=False) if world.fickle else world


def set_by_others(world: World) -> World:
    """Somebody turns the cache on and saves that, by /dev/sgN: the kernel does not follow."""
    return replace(forgets(world), on=True) if world.fickle else world


EVENTS: Dict[str, Callable[[World], World]] = {
    "reset": reset,
    "reset, and the drive does not answer": reset_unanswered,
    "rescan": lambda world: world.rescanned(),
    "rescan without an answer": lambda world: world.rescanned(False),
    "table loaded anew": lambda w: w if w.layer is None else replace(w, layer=w.view),
    "unplugged and plugged in": replug,
    "new disk, drive kept its power": appears,  # driver rebound; deleted and scanned
    "udev runs our rule": udev_runs_rule,
    "new firmware loses the saved page": forgets,
    "others save that it is on": set_by_others,
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
    return same(boots(world))


@cache
def without_probe(world: World) -> World:
    """The world after the probe died: what it remembered is gone."""
    return same(replace(world, remembered=False))


# The steps
LOOK, ENTRY, LOST = "look", "entry", "the journal is lost"


@dataclass(frozen=True)
class Beside:
    """Somebody does something to the host at this point of a script."""

    name: str
    happens: Callable[[World, Optional[JournalEntry]], World]
    twin: Optional[Callable[[World, World], World]] = None  # of the twin and the drive before it


def twin_beside(twin: World, step: object, before: World, world: World) -> World:
    """The untouched twin after a step: it stands in the same host as the drive."""
    if not isinstance(step, Beside):
        return twin
    if step.twin is not None:
        return same(step.twin(twin, before))
    return changed(
        twin, boot_rule=world.boot_rule, image=world.image, etc_in_ram=world.etc_in_ram,
        journal_in_ram=world.journal_in_ram,
    )


@dataclass(frozen=True)
class Survey:
    """A look that also says why the drive may not be toggled; `refusal` tells it of a world."""

    refusal: Callable[[World], str]
    name: str = "survey"


def drive_of(world: World) -> DriveReport:
    return looked_at(world.transport, world.read())[0]


@cache
def looked_at(
    transport: Transport, state: DriveState, refusal: str = ""
) -> Tuple[DriveReport, ...]:
    """What a look at the drive finds: by what was read, so equal looks are one object.

    Its refusal is of a kind that nothing lifts: that a drive which loses data now goes off though
    the next boot lacks its pin is decided, and would be found here.
    """
    refusals = (Refusal(RefusalKind.LEFT_ALONE, refusal),) if refusal else ()
    return (DriveReport(
        "d", "d", "sda", DriveModel("V", "M", "F"), transport, state, refusals=refusals,
    ),)


Journal = Optional[JournalEntry]
StepResult = Tuple[World, Journal, object]


def carry_out(step: object, world: World, journal: Journal) -> List[StepResult]:
    """Every way a step can end: (world, journal, what the program gets)."""
    if isinstance(step, steps.ReadState):
        return [(world, journal, world.read())]
    if isinstance(step, Survey) or step == LOOK:
        refusal = step.refusal(world) if isinstance(step, Survey) else ""
        return [(world, journal, looked_at(world.transport, world.read(), refusal))]
    if isinstance(step, Beside):
        return [(same(step.happens(world, journal)), journal, None)]
    if step == ENTRY:
        return [(world, journal, journal)]
    if step == LOST:
        return [(world, None, None)]
    if isinstance(step, steps.WriteJournal):
        return [(world, ENTRIES.setdefault(step.entry, step.entry), None)]
    if isinstance(step, steps.RemoveJournal):
        return [(world, None, None)]
    failed = StorageError("the step failed")
    if isinstance(step, steps.Pin):
        held = changed(world, view=True, override=True, remembered=True)
        return [(held, journal, None), (world, journal, failed)]
    if isinstance(step, steps.SetCache):
        if step.mode is BACK and not world.may_come_on:
            return [(world, journal, failed)]
        done = world
        if world.obeys:
            done = changed(world, on=step.mode is BACK)
            done = same(done.rescanned()) if world.transport is Transport.SATA else done
        return [(done, journal, None), (done, journal, failed), (world, journal, failed)]
    if isinstance(step, steps.SaveCache):
        if (step.mode or step.saved) is BACK and world.savable and not world.may_come_on:
            return [(world, journal, failed)]
        return [(saved, journal, None) for saved in save(step, world)]
    assert isinstance(step, steps.Flush)
    return [(world, journal, None), (world, journal, failed)]


def save(step: steps.SaveCache, world: World) -> Iterator[World]:
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

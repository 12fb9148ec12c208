"""A LUN of the same cache domain that came after a change shares the switch that goes back.

Two drives are two worlds with one cache.  Whatever the later one is like and whatever happens
after any step, no drive of the domain is unsafe that would not be so untouched.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from switching_world import BACK, EVENTS, THROUGH, World, carry_out, drive_of
from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry
from wcache.core.drive.prior import prior_from
from wcache.core.errors import RefusalKind, RefusedError, WcacheError
from wcache.core.model import Transport
from wcache_probe.switching import steps
from wcache_probe.switching import toggle as sw
from wcache_probe.switching.toggle import bring_back

NAMES = ("A", "B")
WAS_ON = World(Transport.SCSI, True, True, False, True, layer=True)
OFF = replace(WAS_ON, on=False, override=True)
LATER = [
    World(transport, False, wakes_on, savable, view, layer=layer)
    for transport in (Transport.SCSI, Transport.NVME)
    for wakes_on, savable, view, layer in itertools.product(
        (True, False), (True, False), (True, False), (None, True, False)
    )
]


def report(name, world):
    return replace(drive_of(world), drive_id=name, dev_name=name)


def like(world, later):
    """A world of the same drive as the later one: the same switch, the same page."""
    return replace(world, transport=later.transport, savable=later.savable)


def prior(later):
    return prior_from("", "d", [report("A", like(WAS_ON, later))])


def brought_back(known, drives):
    return bring_back(
        known, drives, kind=EntryKind.LEASE, owner_id="l", now_s=0.0, throwaway=False
    )


def restored(known, drives, persisted=False):
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.ACTION, "a", "d", known.drives, 0.0, persisted=persisted
    )
    return sw.restore(entry, drives)


def restored_and_forgotten(known, drives):
    return restored(known, drives, persisted=True)


WAYS = pytest.mark.parametrize("way", [brought_back, restored, restored_and_forgotten])


def carried_out(step, worlds):
    """The worlds after a step: what it does to the cache of one, it does to the other."""
    if not hasattr(step, "drive"):
        return worlds, None
    name = step.drive.drive_id
    after, _, value = carry_out(step, worlds[name], None)[0]
    worlds = {**worlds, name: after}
    if isinstance(step, (steps.SetCache, steps.SaveCache)):
        worlds = {
            key: replace(world, on=after.on, wakes_on=after.wakes_on).rescanned()
            if key != name and world.transport is Transport.SATA
            else replace(world, on=after.on, wakes_on=after.wakes_on)
            for key, world in worlds.items()
        }
    return worlds, value


def played(way, known, worlds, event=None, after=-1):
    """Every moment of a program, with an event after a step; and what it ended with."""
    program = way(known, [report(name, worlds[name]) for name in sorted(worlds)])
    twins, value, moments = dict(worlds), None, []
    for number in itertools.count():
        try:
            failed = isinstance(value, WcacheError)
            step = program.throw(value) if failed else program.send(value)
        except StopIteration:
            return moments, worlds, None
        except WcacheError as error:
            return moments, worlds, error
        worlds, value = carried_out(step, worlds)
        if number == after:
            worlds = {name: event(world) for name, world in worlds.items()}
            twins = {name: event(world) for name, world in twins.items()}
        moments.append((worlds, twins, type(step).__name__))


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("later", LATER, ids=str)
def test_no_drive_that_came_later_is_unsafe_by_a_way_back_whatever_happens(way, later):
    known = prior(later)
    begin = {"A": replace(like(OFF, later), wakes_on=later.wakes_on), "B": later}
    calm, _, _ = played(way, known, begin)
    runs = [calm]
    for event, after in itertools.product(EVENTS.values(), range(len(calm))):
        runs.append(played(way, known, begin, event, after)[0])
    for worlds, twins, step in itertools.chain.from_iterable(runs):
        for name in NAMES:
            assert not (worlds[name].unsafe and not twins[name].unsafe), (name, step)


@WAYS
def test_a_way_back_is_refused_where_a_drive_that_came_later_drops_flushes(way):
    begin = {"A": OFF, "B": World(Transport.SCSI, False, True, False, False, layer=False)}
    _, after, error = played(way, prior(OFF), begin)
    assert "B: dm-0 does not flush" in str(error)
    assert not any(world.on for world in after.values())


@WAYS
def test_a_drive_that_came_later_and_flushes_once_it_is_pinned_is_no_hindrance(way):
    begin = {"A": OFF, "B": World(Transport.SCSI, False, True, False, False)}
    _, after, error = played(way, prior(OFF), begin)
    assert error is None
    assert all(world.on and world.view for world in after.values())


@pytest.mark.parametrize("change", [
    {"foreign_uses": ("mounted at /srv",)},
    {"refusals": make.refused("it is reached over several paths")},
], ids=str)
@pytest.mark.parametrize("name", ["sda", "sdb"])
def test_what_the_mgr_alone_knows_is_not_brought_back_on_a_drive_that_is_not_ours_alone(
    change, name
):
    was = make.drive("sda", 0, mode=BACK)
    here = [make.drive(n, 0, mode=THROUGH, domain_id="domain-sda") for n in ("sda", "sdb")]
    here = [replace(drive, **change) if drive.dev_name == name else drive for drive in here]
    program = brought_back(prior_from("", "domain-sda", [was]), here)
    for drive in here:
        step = next(program) if drive is here[0] else program.send(here[0].state)
        assert isinstance(step, steps.ReadState)  # nothing is touched, nothing journalled
    with pytest.raises(RefusedError, match=f"{name}: "):
        program.send(here[1].state)


@pytest.mark.parametrize("change", [
    {"foreign_uses": ("mounted at /srv",)},
    {"refusals": make.refused("it is reached over several paths")},
], ids=str)
@pytest.mark.parametrize("name", ["sda", "sdb"])
@pytest.mark.parametrize("way", [restored, restored_and_forgotten])
def test_no_cache_comes_on_by_an_entry_where_a_drive_of_its_domain_is_not_ours_alone(
    way, change, name
):
    """Saving a mode turns the cache on for a moment too, whatever it was."""
    was = make.drive("sda", 0, mode=BACK)
    if way is restored_and_forgotten:
        off = make.state(THROUGH)
        was = replace(was, state=replace(off, page=replace(off.page, saved=BACK)))
    here = [make.drive(n, 0, mode=THROUGH, domain_id="domain-sda") for n in ("sda", "sdb")]
    here = [replace(drive, **change) if drive.dev_name == name else drive for drive in here]
    with pytest.raises(RefusedError, match=f"{name}: .* no cache of its domain is turned on"):
        next(way(prior_from("", "domain-sda", [was]), here))


def test_a_cache_comes_back_on_also_where_the_boot_rule_does_not_name_its_drive():
    was = make.drive("sda", 0, mode=BACK)
    told = "the boot rule does not name it"
    off = make.drive(
        "sda", 0, mode=THROUGH, refusals=make.refused(told, RefusalKind.NOT_PREPARED)
    )
    program = brought_back(prior_from("", "domain-sda", [was]), [off])
    step = next(program)
    assert isinstance(program.send(step.drive.state), steps.WriteJournal)


def test_drives_on_one_switch_are_called_back_when_all_were_read_after_the_last_turn():
    """What the first one was turned to, the second one's turn takes away again."""
    was = [report("A", WAS_ON), report("B", replace(WAS_ON, on=False))]
    begin = {"A": OFF, "B": replace(OFF, on=True)}
    known = prior_from("", "d", was)
    moments, after, error = played(restored, known, begin)
    assert not any(world.on for world in after.values())
    assert "A accepted a change to write back but did not make it" in str(error)
    assert "RemoveJournal" not in [name for _, _, name in moments]


def lease(entry, drives):
    return sw.lease_set(
        drives, entry, lease_id="a", mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=False,
    )


def apply(entry, drives):
    return sw.apply(
        drives, entry, action_id="a", expected=BACK, mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=False, persist=False,
    )


@pytest.mark.parametrize(("change", "kind"), [
    (lease, EntryKind.LEASE), (apply, EntryKind.ACTION),
])
def test_a_drive_that_the_entry_does_not_have_is_not_toggled_with_the_others(change, kind):
    drives = [report(name, WAS_ON) for name in NAMES]
    known = prior_from("", "d", drives[:1])
    entry = JournalEntry(JOURNAL_VERSION, kind, "a", "d", known.drives, 0.0)
    with pytest.raises(RefusedError, match="B shares the cache since, and the journal does not"):
        next(change(entry, drives))
    assert isinstance(next(change(entry, drives[:1])), steps.ReadState)

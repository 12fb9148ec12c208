"""No order of steps, crashes, resets and rescans leads to a volatile cache not flushed.

Every script of the probe is run through every state a drive can be found in; the same
search finds the unsafe ways at once when a program is made wrong, so it can fail.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from switching_world import (
    BACK,
    ENTRY,
    LOOK,
    LOST,
    NEW_KERNEL,
    THROUGH,
    World,
    carry_out,
    explore,
    forget_histories,
    mode_of,
)
from wcache.core.drive import toggle as sw
from wcache.core.drive.journal import EntryKind
from wcache.core.drive.prior import prior_from
from wcache.core.errors import WcacheError
from wcache.core.model import KernelView, Transport


@pytest.fixture(scope="module", autouse=True)
def _histories():
    yield
    forget_histories()


def toggled(mode, consent=False):
    """One change under a lease, as the probe does it."""
    drives = yield LOOK
    entry = yield ENTRY
    yield from sw.lease_set(
        drives, entry, lease_id="l", mode=mode, now_s=0.0, throwaway=False,
        consent_turn_on=consent,
    )


def restored():
    """What a probe does when it starts, and when a lease ends."""
    entry = yield ENTRY
    if entry is not None:
        drives = yield LOOK
        yield from sw.restore(entry, drives)


def recovery():
    """At its start the probe pins what its journal names, then restores leases."""
    entry = yield ENTRY
    if entry is None:
        return
    drives = yield LOOK
    yield from sw.hold(drives)
    if entry.kind is EntryKind.LEASE:
        yield from restored()


def pair_off_first():
    yield from toggled(THROUGH)
    yield from toggled(BACK)
    yield from restored()


def pair_on_first():
    yield from toggled(BACK, consent=True)
    yield from toggled(THROUGH)
    yield from restored()


def applied(mode, persist):
    drives = yield LOOK
    entry = yield ENTRY
    yield from sw.apply(
        drives, entry, action_id="a", expected=mode.other, mode=mode, now_s=0.0,
        throwaway=False, consent_turn_on=True, persist=persist,
    )


def applied_off_and_rolled_back():
    yield from applied(THROUGH, True)
    yield from restored()


def applied_on_and_rolled_back():
    yield from applied(BACK, True)
    yield from restored()


def applied_again_to_persist_and_rolled_back():
    yield from applied(THROUGH, False)
    yield from applied(THROUGH, True)
    yield from restored()


def applied_off_for_now():
    yield from applied(THROUGH, False)


def brought_back_without_a_journal():
    drives = yield LOOK
    known = prior_from("", "d", drives)
    yield from toggled(THROUGH)
    yield LOST
    drives = yield LOOK
    yield from sw.bring_back(
        known, drives, kind=EntryKind.LEASE, owner_id="l", now_s=0.0, throwaway=False
    )


SCRIPTS = (
    pair_off_first, pair_on_first, applied_off_and_rolled_back, applied_on_and_rolled_back,
    applied_again_to_persist_and_rolled_back,
)
# nothing is taken back here, so the drive goes on being off under whatever happens
SCRIPTS_AND_APPLIED = (*SCRIPTS, applied_off_for_now, brought_back_without_a_journal)


def worlds(transport, **more):
    """Every state that a drive can be found in, on a host that was prepared."""
    more.setdefault("boot_rule", True)
    for on, wakes_on, view, layer, savable in itertools.product(
        (True, False), (True, False), (True, False), (None, True, False), (True, False)
    ):
        if savable and transport is Transport.SATA:
            continue
        yield World(transport, on, wakes_on, savable, view, layer=layer, **more)


def all_ways(script, transport, events_max, mutate=lambda script: script, **more):
    found, moments, ends = [], 0, []
    changed = mutate(script)
    back = mutate(recovery)
    for world in worlds(transport, **more):
        ways, size, last = explore(changed, back, world, events_max)
        found += [(world, way) for way in ways]
        moments += size
        ends += last
    return found, moments, ends


EVERY = pytest.mark.parametrize(
    "transport", [Transport.SCSI, Transport.SATA, Transport.NVME], ids=lambda t: t.value
)
SCRIPT = pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.__name__)
SCRIPT_OR_APPLIED = pytest.mark.parametrize(
    "script", SCRIPTS_AND_APPLIED, ids=lambda s: s.__name__
)


@EVERY
@SCRIPT_OR_APPLIED
def test_no_way_leads_to_acknowledged_data_that_is_lost(script, transport):
    found, moments, _ = all_ways(script, transport, events_max=1)
    assert found == []
    assert moments > 1000


def with_most_to_lose(transport, **more):
    """The states that are not savable and wake with the cache on."""
    for view, layer in itertools.product((True, False), (None, True, False)):
        yield World(transport, True, True, False, view, layer=layer, **more)


def ways_through_events(script, transport, events_max, **more):
    found = []
    for world in with_most_to_lose(transport, **more):
        found += explore(script, recovery, world, events_max)[0]
    return found


@EVERY
@SCRIPT_OR_APPLIED
def test_no_two_events_and_a_crash_lose_data_on_a_prepared_host(script, transport):
    assert ways_through_events(script, transport, 2, boot_rule=True) == []


@pytest.mark.parametrize(
    "script", [pair_off_first, applied_off_and_rolled_back], ids=lambda s: s.__name__
)
def test_no_two_new_kernels_and_a_reset_lose_data_on_a_prepared_host(script):
    """In the middle of a restore too: the second one comes while the probe restores."""
    assert ways_through_events(script, Transport.SCSI, 3, boot_rule=True) == []


@EVERY
def test_where_the_boot_rule_is_missing_one_event_alone_loses_nothing(transport):
    """A rule that an admin took away: toggling is refused then, and what is held goes back."""
    found, _, _ = all_ways(pair_off_first, transport, events_max=1, boot_rule=False)
    assert found == []


@EVERY
@SCRIPT
def test_a_drive_that_takes_commands_and_does_not_obey_is_no_danger(script, transport):
    found, _, _ = all_ways(script, transport, events_max=1, obeys=False)
    assert found == []


def prior_of(journal):
    """The mode, the saved mode and whether a rule of ours was there, as an entry has them."""
    (drive,) = journal.drives
    page = drive.state.page
    if page.by_rule:
        return drive.mode, None, page.saved is BACK
    return drive.mode, page.saved, None


def truth_of(world):
    saved = mode_of(world.wakes_on) if world.savable else None
    return mode_of(world.on), saved, world.rule


def seen_last(node):
    """Whether nothing has happened beside us since the drive was last looked at."""
    for word in reversed(node.way):
        if word in (LOOK, "ReadState"):
            return True
        if word.isupper() and word != "CRASH":
            return False
    return False


def promises_of_the_journal(node, step):
    """What must hold when a script is about to take a step, whatever happened before it."""
    if isinstance(step, (sw.SetCache, sw.SaveCache)):
        assert node.journal is not None, ("nothing was written down", node.way)
    if isinstance(step, sw.WriteJournal):
        if node.journal is not None:
            assert step.entry.drives == node.journal.drives, ("another prior", node.way)
        elif seen_last(node):
            assert prior_of(step.entry) == truth_of(node.world), ("not as it was", node.way)
    if isinstance(step, sw.RemoveJournal):
        mode, saved, rule = truth_of(node.world)
        prior, *persisted = prior_of(node.journal)
        assert [saved, rule] == persisted, ("what is persisted is not as before", node.way)
        assert mode is prior or not seen_last(node), ("prior mode is not back", node.way)


@EVERY
@SCRIPT
def test_whatever_crashed_the_prior_mode_is_back_or_the_journal_still_knows_it(
    script, transport
):
    """After a crash the probe starts again, and whoever rolled back does so again."""
    for world in worlds(transport):
        if not world.view or world.layer is False:
            continue  # there it is refused
        _, _, ends = explore(script, restored, world, 1, promises_of_the_journal)
        assert ends
        for end in ends:
            if "WriteJournal" not in end.way:
                assert truth_of(end.world) == truth_of(end.twin), end.way
        # where nothing goes wrong, all is back and the journal is empty at the end
        _, _, calm = explore(script, restored, world, 0)
        ends_as = {(end.journal, truth_of(end.world)) for end in calm}
        assert ends_as == {(None, truth_of(world))}


def taken_and_not_made(program):
    """The program on a drive that takes each change of its cache and makes none."""
    step = next(program, None)
    while step is not None:
        value = None if isinstance(step, sw.SetCache) else (yield step)
        try:
            step = program.send(value)
        except StopIteration:
            return


@EVERY
def test_a_drive_that_obeys_no_more_keeps_its_entry_until_its_prior_mode_is_back(transport):
    def obeys_no_more():
        yield from toggled(THROUGH)
        yield from taken_and_not_made(restored())

    begin = World(transport, True, True, False, True)
    _, _, ends = explore(obeys_no_more, restored, begin, 1, promises_of_the_journal)
    calm = [
        end for end in ends
        if not any(word.isupper() or word.endswith("fails") for word in end.way)
    ]
    assert calm
    assert all(end.journal is not None and not end.world.on for end in calm)


# Somebody else takes a flush away between our command and our look at what it did.

def went_through(script, world, taken_away):
    """The world after a script, where turning the cache on is followed by `taken_away`."""
    program, journal = script(), None
    step = next(program)
    while step is not None:
        world, journal, value = carry_out(step, world, journal)[0]
        if isinstance(step, sw.SetCache) and step.mode is BACK:
            world = replace(world, **taken_away)
        try:
            failed = isinstance(value, WcacheError)
            step = program.throw(value) if failed else program.send(value)
        except StopIteration:
            return world, journal, None
        except WcacheError as error:
            return world, journal, error
    raise AssertionError("not reached: a program ends or raises")


@EVERY
@pytest.mark.parametrize("persist", [None, False, True], ids=["lease", "apply", "persist"])
def test_a_change_that_a_drive_took_and_did_not_make_is_never_called_made(transport, persist):
    def changed():
        change = toggled(THROUGH) if persist is None else applied(THROUGH, persist)
        yield from taken_and_not_made(change)

    begin = World(transport, True, True, False, True, boot_rule=True)
    world, journal, error = went_through(changed, begin, {})
    assert "did not make it" in str(error)
    assert (world.on, journal) == (True, None)


@EVERY
@pytest.mark.parametrize("savable", [True, False], ids=["page", "rule"])
def test_a_mode_that_is_to_last_and_does_not_read_back_so_is_taken_back(transport, savable):
    def changed():
        change = applied(THROUGH, True)
        step = next(change, None)
        while step is not None:
            forgets = isinstance(step, sw.SaveCache) and step.mode is not None
            value = None if forgets else (yield step)
            try:
                step = change.send(value)
            except StopIteration:
                return

    begin = World(transport, True, True, savable, True, boot_rule=True)
    world, journal, error = went_through(changed, begin, {})
    assert "was told to keep write through over a power cycle" in str(error)
    assert (truth_of(world), journal) == (truth_of(begin), None)


def off_and_restored():
    yield from toggled(THROUGH)
    yield from restored()


def off_and_on():
    yield from toggled(THROUGH)
    yield from toggled(BACK)


def on_by_consent():
    yield from toggled(BACK, consent=True)


def applied_on():
    yield from applied(BACK, False)


def kept_on():
    drives = yield LOOK
    yield from sw.keep(drives, BACK)


@EVERY
@pytest.mark.parametrize("taken_away", [{"layer": False}, {"view": False}], ids=str)
@pytest.mark.parametrize(
    "script", [off_and_restored, off_and_on, on_by_consent, applied_on, kept_on],
    ids=lambda script: script.__name__,
)
def test_a_cache_that_came_on_where_a_flush_was_taken_away_is_off_again(
    script, taken_away, transport
):
    on = script in (off_and_restored, off_and_on)
    begin = World(transport, on, True, False, True, layer=True, remembered=True)
    world, journal, error = went_through(script, begin, taken_away)
    assert error is not None
    assert not world.unsafe
    if on:
        assert journal is not None  # what was there before is not back


# The search must find what a wrong program does: each of these makes the program wrong.


def blind_to(change):
    """A mutation: the program is told a lie by some of its steps."""

    def mutate(script):
        def lied_to():
            program = script()
            step = next(program, None)
            while step is not None:
                step, passed = change(step)
                try:
                    value = (yield step) if passed else None
                except WcacheError as error:
                    step = program.throw(error)
                    continue
                try:
                    step = program.send(change.lie(value))
                except StopIteration:
                    return

        return lied_to

    return mutate


class NoPin:
    """The pin is left out, and its read-back says that it is there."""

    def __call__(self, step):
        return step, not isinstance(step, sw.Pin)

    def lie(self, value):
        if isinstance(value, sw.DriveState):
            return sw.replace(value, pinned=True, kernel_view=KernelView.WRITE_BACK)
        return value


class NoLayers:
    """The layers above the drive are not looked at."""

    def __call__(self, step):
        return step, True

    def lie(self, value):
        if isinstance(value, sw.DriveState):
            return sw.replace(value, layers=())
        if isinstance(value, tuple):
            return tuple(sw.replace(d, state=sw.replace(d.state, layers=())) for d in value)
        return value


def test_without_the_pin_the_search_finds_lost_data():
    found, _, _ = all_ways(
        pair_off_first, Transport.SCSI, 1, blind_to(NoPin()), guarded=False
    )
    assert found


def test_with_the_layers_ignored_the_search_finds_lost_data():
    found, _, _ = all_ways(applied_on_and_rolled_back, Transport.SCSI, 0, blind_to(NoLayers()))
    assert found


@pytest.mark.parametrize("transport", [Transport.SCSI, Transport.SATA], ids=lambda t: t.value)
@pytest.mark.parametrize(
    "script", [pair_off_first, applied_off_for_now, applied_off_and_rolled_back],
    ids=lambda s: s.__name__,
)
def test_without_the_boot_rule_the_search_finds_the_drive_that_kept_its_power(
    script, transport
):
    found = ways_through_events(script, transport, 2, boot_rule=False)
    assert any(NEW_KERNEL.upper() in way for way in found)
    assert all("KEPT ITS POWER" in " ".join(way) for way in found)


def test_without_the_adapters_guard_the_search_finds_the_replugged_disk():
    found, _, _ = all_ways(
        pair_off_first, Transport.SCSI, 1, guarded=False, boot_rule=False
    )
    assert found
    new_disk = ("UNPLUGGED AND PLUGGED IN", "NEW DISK, DRIVE KEPT ITS POWER")
    assert all(any(event in way for event in new_disk) for _, way in found)


# Off is always allowed

UNSAFE = [
    World(transport, True, True, False, view, layer=layer)
    for transport, view, layer in (
        (Transport.SCSI, False, None), (Transport.SCSI, True, False),
        (Transport.SATA, False, False), (Transport.NVME, True, False),
    )
]


def applied_off():
    yield from applied(THROUGH, False)


def applied_off_and_rolled_back_for_now():
    yield from applied_off()
    yield from restored()


@pytest.mark.parametrize("world", UNSAFE, ids=lambda w: f"{w.transport.value}-{w.view}-{w.layer}")
def test_a_drive_that_loses_data_can_be_switched_off_and_comes_on_only_where_all_flushes(world):
    assert world.unsafe
    _, _, calm = explore(applied_off, recovery, world, 0)
    assert {end.world.on for end in calm if "CRASH" not in end.way} == {False}
    _, _, ends = explore(applied_off_and_rolled_back_for_now, recovery, world, 1)
    finished = [end for end in ends if "RemoveJournal" in end.way]
    assert not [end.way for end in ends if end.world.unsafe and "SetCache" in end.way
                and not end.twin.unsafe]
    dropping = [end.way for end in finished if end.world.layer is False]
    assert not dropping, "no way back while a layer drops flushes"
    assert finished, "there is one once the layer was loaded anew, or where there is none"


@pytest.mark.parametrize("world", UNSAFE, ids=lambda w: f"{w.transport.value}-{w.view}-{w.layer}")
def test_off_without_the_boot_rule_makes_nothing_worse_by_one_event_nor_by_two_in_one_kernel(world):
    assert not world.boot_rule
    assert explore(applied_off, recovery, world, 1)[0] == []
    for way in explore(applied_off, recovery, world, 2)[0]:
        assert "KEPT ITS POWER" in " ".join(way), way


@pytest.mark.parametrize("world", UNSAFE, ids=lambda w: f"{w.transport.value}-{w.view}-{w.layer}")
def test_no_experiment_begins_on_a_drive_that_loses_data(world):
    _, _, ends = explore(pair_off_first, recovery, world, 0)
    assert not [end.way for end in ends if "WriteJournal" in end.way]

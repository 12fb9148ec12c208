"""What a change says is so: nothing is called made or back that did not read so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from switching_scripts import (
    EVERY,
    SCRIPT,
    applied,
    applied_on_and_rolled_back,
    keep_each,
    restored,
    toggled,
    worlds,
)
from switching_search import explore
from switching_world import (
    BACK,
    LOOK,
    THROUGH,
    Beside,
    World,
    carry_out,
    mode_of,
)
from wcache.core.drive.safety import boots_with_rule, pinnable
from wcache.core.errors import WcacheError
from wcache.core.model import Transport
from wcache_probe.switching import steps


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
    if isinstance(step, (steps.SetCache, steps.SaveCache)):
        assert node.journal is not None, ("nothing was written down", node.way)
    if isinstance(step, steps.WriteJournal):
        if node.journal is not None:
            assert step.entry.drives == node.journal.drives, ("another prior", node.way)
        elif seen_last(node):
            assert prior_of(step.entry) == truth_of(node.world), ("not as it was", node.way)
    if isinstance(step, steps.RemoveJournal):
        mode, saved, rule = truth_of(node.world)
        prior, *persisted = prior_of(node.journal)
        assert [saved, rule] == persisted, ("what is persisted is not as before", node.way)
        assert mode is prior or not seen_last(node), ("prior mode is not back", node.way)


@pytest.mark.slow
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
        value = None if isinstance(step, steps.SetCache) else (yield step)
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
        # the last way to save a mode is the one that nothing cuts short
        world, journal, value = carry_out(step, world, journal)[
            -1 if isinstance(step, steps.SaveCache) else 0]
        if isinstance(step, steps.SetCache) and step.mode is BACK:
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


def made_to_last(instead):
    """A change that is to last, with another step in place of the one that saves its mode."""
    change = applied(THROUGH, True)
    step = next(change, None)
    while step is not None:
        saves = isinstance(step, steps.SaveCache) and step.mode is not None
        value = yield Beside("instead", instead) if saves else step
        try:
            step = change.send(value)
        except StopIteration:
            return


def forgotten(world, journal):
    return world


def left(world, journal):
    return replace(world, on=True, rule=None if world.savable else False,
                   wakes_on=not world.savable)


SAVES = pytest.mark.parametrize("savable", [True, False], ids=["page", "rule"])


@EVERY
@SAVES
def test_a_mode_that_is_to_last_and_does_not_read_back_so_is_taken_back(transport, savable):
    begin = World(transport, True, True, savable, True, boot_rule=True)
    world, journal, error = went_through(lambda: made_to_last(forgotten), begin, {})
    assert "was told to keep write through over a power cycle" in str(error)
    assert (truth_of(world), journal) == (truth_of(begin), None)


@EVERY
@SAVES
@pytest.mark.parametrize("meanwhile", [forgotten, left])
def test_a_mode_that_was_made_before_stays_with_its_entry_where_it_cannot_last(
    transport, savable, meanwhile
):
    """Where the drive has left it meanwhile that is said, and the entry knows the way back."""
    def changed():
        yield from applied(THROUGH, False)
        yield from made_to_last(meanwhile)

    begin = World(transport, True, True, savable, True, boot_rule=True)
    world, journal, error = went_through(changed, begin, {})
    assert truth_of(world) == (mode_of(meanwhile is left), *truth_of(begin)[1:])
    assert prior_of(journal) == truth_of(begin)
    assert "the prior state is back" not in str(error)
    assert ("sda is in write back and was in write through" in str(error)) is (meanwhile is left)


def steps_of(script, world):
    """The steps that a script takes where nothing fails, readings left out."""
    program, journal, taken = script(), None, []
    step = next(program, None)
    while step is not None:
        if not isinstance(step, (str, steps.ReadState)):
            taken.append(step)
        # the last way to save a mode is the one that nothing cuts short
        world, journal, value = carry_out(step, world, journal)[
            -1 if isinstance(step, steps.SaveCache) else 0]
        try:
            step = program.send(value)
        except StopIteration:
            break
    return taken


@EVERY
@SCRIPT
def test_what_the_cache_holds_is_flushed_before_each_toggle_and_after_it(script, transport):
    """Before: a drive need not write out what it has cached when its cache is turned off."""
    on = script is not applied_on_and_rolled_back
    taken = steps_of(script, World(transport, on, True, False, True, boot_rule=True))
    places = [n for n, step in enumerate(taken) if isinstance(step, steps.SetCache)]
    assert places
    for place in places:
        around = taken[place - 1], taken[place + 1]
        assert all(isinstance(step, steps.Flush) for step in around)
        assert {step.drive.drive_id for step in around} == {taken[place].drive.drive_id}


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
    yield from keep_each(drives, BACK)


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


# drivers/scsi/sd.c makes a `scsi_disk` of each of these, whose view of the cache is the kernel's
BY_SD = {
    Transport.SCSI, Transport.SAS, Transport.SAS_RAID, Transport.SATA, Transport.SATA_HBA,
}


@pytest.mark.parametrize("transport", Transport, ids=lambda transport: transport.value)
def test_whatever_the_scsi_disk_driver_serves_is_pinned_now_and_at_each_boot(transport):
    assert boots_with_rule(transport) is (transport in BY_SD)
    assert pinnable(transport) is (transport in BY_SD | {Transport.SIMULATED})

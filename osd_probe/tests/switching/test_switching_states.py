"""No order of steps, crashes, resets and rescans leads to a volatile cache not flushed.

Every script of the probe is run through every state a drive can be found in, and what it does
there is as it was recorded (`steps/README`); the same search finds the unsafe ways at once when a
program is made wrong, so it can fail.
"""

from __future__ import annotations

import pytest
import recorded_steps
from switching_scripts import (
    EVERY,
    SCRIPT,
    SCRIPT_OR_APPLIED,
    SCRIPTS_AND_APPLIED,
    TRANSPORTS,
    all_ways,
    applied,
    applied_again_to_persist_and_rolled_back,
    applied_off_and_rolled_back,
    applied_off_for_now,
    applied_on_and_rolled_back,
    brought_back_without_a_journal,
    pair_off_first,
    pair_on_first,
    recovery,
    restored,
    with_most_to_lose,
)
from switching_search import explore
from switching_world import (
    NEW_KERNEL,
    THROUGH,
    World,
)
from wcache.core.errors import WcacheError
from wcache.core.model import KernelView, Transport
from wcache_probe.switching import steps
from wcache_probe.switching import toggle as sw


@pytest.mark.slow
@EVERY
@SCRIPT_OR_APPLIED
def test_no_way_leads_to_acknowledged_data_that_is_lost(script, transport):
    found, recording = recorded_steps.ways(script, transport, events_max=1)
    assert found == []
    recorded_steps.require_same(f"{script.__name__}-{transport.value}", recording)


# The programs with the most steps; on a disk there are more events than on NVMe.
LONGEST = (applied_off_and_rolled_back, applied_again_to_persist_and_rolled_back)
EVENTS = pytest.mark.parametrize(
    ("script", "transport"),
    [
        pytest.param(
            script, transport, id=f"{script.__name__}-{transport.value}",
            marks=[pytest.mark.slow]
            if script in LONGEST and transport is not Transport.NVME else [],
        )
        for script in SCRIPTS_AND_APPLIED for transport in TRANSPORTS
    ],
)


# How many states a search visits, by transport; fewer would be a search that sees less.
STATES = {
    pair_off_first: (10_759, 11_685, 1_404),
    pair_on_first: (9_037, 9_637, 1_164),
    applied_off_and_rolled_back: (20_599, 23_045, 4_664),
    applied_on_and_rolled_back: (2_061, 2_061, 433),
    applied_again_to_persist_and_rolled_back: (51_077, 59_187, 10_805),
    applied_off_for_now: (7_504, 8_060, 1_354),
    brought_back_without_a_journal: (11_929, 12_807, 2_105),
}


def ways_through_events(script, transport, events_max, **more):
    """The unsafe ways, and how many states were visited."""
    found, states = [], 0
    for world in with_most_to_lose(transport, **more):
        ways, size, _ = explore(script, recovery, world, events_max)
        found += ways
        states += size
    return found, states


@pytest.mark.slow
@EVENTS
def test_no_two_events_and_a_crash_lose_data_on_a_prepared_host(script, transport):
    found, states = ways_through_events(script, transport, 2, boot_rule=True)
    assert found == []
    assert states >= STATES[script][TRANSPORTS.index(transport)]


@pytest.mark.parametrize(
    "script", [pair_off_first, pytest.param(applied_off_and_rolled_back, marks=pytest.mark.slow)],
    ids=lambda s: s.__name__,
)
def test_no_two_new_kernels_and_a_reset_lose_data_on_a_prepared_host(script):
    """In the middle of a restore too: the second one comes while the probe restores."""
    found, states = ways_through_events(script, Transport.SCSI, 3, boot_rule=True)
    assert found == []
    assert states > 3 * STATES[script][0]


@pytest.mark.slow
@EVERY
def test_where_the_boot_rule_is_missing_one_event_alone_loses_nothing(transport):
    """A rule that an admin took away: toggling is refused then, and what is held goes back."""
    found, _, _ = all_ways(pair_off_first, transport, events_max=1, boot_rule=False)
    assert found == []


@pytest.mark.slow
@EVERY
@SCRIPT
def test_a_drive_that_takes_commands_and_does_not_obey_is_no_danger(script, transport):
    found, _, _ = all_ways(script, transport, events_max=1, obeys=False)
    assert found == []


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
        return step, not isinstance(step, steps.Pin)

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


@pytest.mark.slow
def test_without_the_pin_the_search_finds_lost_data():
    found, _, _ = all_ways(
        pair_off_first, Transport.SCSI, 1, blind_to(NoPin()), guarded=False
    )
    assert found


def test_with_the_layers_ignored_the_search_finds_lost_data():
    found, _, _ = all_ways(applied_on_and_rolled_back, Transport.SCSI, 0, blind_to(NoLayers()))
    assert found


@pytest.mark.slow
@pytest.mark.parametrize("transport", [Transport.SCSI, Transport.SATA], ids=lambda t: t.value)
@pytest.mark.parametrize(
    "script", [pair_off_first, applied_off_for_now, applied_off_and_rolled_back],
    ids=lambda s: s.__name__,
)
def test_without_the_boot_rule_the_search_finds_the_drive_that_kept_its_power(
    script, transport
):
    found, _ = ways_through_events(script, transport, 2, boot_rule=False)
    assert any(NEW_KERNEL.upper() in way for way in found)
    assert all("KEPT ITS POWER" in " ".join(way) for way in found)


@pytest.mark.slow
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

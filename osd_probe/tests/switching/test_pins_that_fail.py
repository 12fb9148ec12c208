"""A drive that loses nothing now is left as it is where its pin fails; one that does goes off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from switching_scripts import keep_each
from switching_world import BACK, THROUGH, World, drive_of
from wcache.core.drive.prior import prior_from
from wcache.core.errors import RefusedError, StorageError, WcacheError
from wcache.core.model import KernelView, Transport
from wcache_probe.switching import toggle
from wcache_probe.switching.steps import Pin, ReadState, SetCache


def switched_off(world: World):
    """The drive's cache after `apply` of off, on a host whose pins all fail; and what it raised."""
    drive = drive_of(world)
    program = toggle.apply(
        (drive,), action_id="a", expected=BACK, mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=True, persist=False, known=prior_from("", "d", (drive,)),
    )
    on, value, error = world.on, None, None
    while True:
        try:
            step = program.throw(error) if error else program.send(value)
        except StopIteration:
            return on, None
        except WcacheError as ended:
            return on, ended
        value = error = None
        if isinstance(step, Pin):
            error = StorageError("the pin failed")
        elif isinstance(step, SetCache):
            on = step.mode is BACK
        elif isinstance(step, ReadState):
            value = World(
                world.transport, on, world.wakes_on, world.savable, world.view, layer=world.layer
            ).read()


@pytest.mark.parametrize("flushes", [True, False])
def test_off_without_the_pin_is_for_a_drive_that_loses_data_and_no_other(flushes):
    """Off and unpinned, a rescan lowers the view, and a reset turns the cache on under it."""
    world = World(Transport.SCSI, on=True, wakes_on=True, savable=False, view=flushes)
    on, ended = switched_off(world)
    assert on is flushes
    assert (ended is not None) is flushes


@pytest.mark.parametrize(("mode", "pinned", "view"), [
    (THROUGH, False, KernelView.WRITE_BACK), (THROUGH, None, KernelView.WRITE_BACK),
    (BACK, False, KernelView.WRITE_BACK), (BACK, None, KernelView.WRITE_BACK),
    (BACK, True, KernelView.WRITE_THROUGH),
])
def test_nothing_is_toggled_where_a_pin_that_was_taken_does_not_read_back(mode, pinned, view):
    """The kernel took the word, and somebody else's word came after it."""
    world = World(Transport.SCSI, on=mode is THROUGH, wakes_on=True, savable=False, view=True)
    read = replace(world.read(), pinned=pinned, kernel_view=view)
    program = keep_each((drive_of(world),), mode)
    steps = [next(program), program.send(read), program.send(None)]
    assert [type(step) for step in steps] == [ReadState, Pin, ReadState]
    with pytest.raises(RefusedError, match="could not be pinned"):
        program.send(read)

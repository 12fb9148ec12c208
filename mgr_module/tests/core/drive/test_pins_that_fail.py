"""A drive that loses nothing now is left as it is where its pin fails; one that does goes off."""

from __future__ import annotations

import pytest
from switching_world import BACK, THROUGH, World, drive_of
from wcache.core.drive import toggle
from wcache.core.drive.prior import prior_from
from wcache.core.errors import StorageError, WcacheError
from wcache.core.model import Transport


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
        if isinstance(step, toggle.Pin):
            error = StorageError("the pin failed")
        elif isinstance(step, toggle.SetCache):
            on = step.mode is BACK
        elif isinstance(step, toggle.ReadState):
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

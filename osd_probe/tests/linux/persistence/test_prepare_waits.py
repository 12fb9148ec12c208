"""`prepare` waits for programs that open a drive for a moment, and not for ever."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache_probe.commands.prepare import LOOKS_MAX, wait_for_others


class Host:
    """A host whose drive is held by another program at the first looks."""

    def __init__(self, held):
        self.held, self.looks = held, 0

    def look(self):
        self.looks += 1
        uses = ("sda open for writing in lvm (pid 1)",) if self.looks <= self.held else ()
        return (replace(make.drive("sda", 0), foreign_uses=uses),)


@pytest.mark.parametrize(("held", "looks"), [(0, 1), (2, 3), (99, LOOKS_MAX)])
def test_a_drive_that_is_held_for_a_moment_is_waited_for_and_one_that_stays_so_is_not(
    held, looks, capsys
):
    host, slept = Host(held), []
    wait_for_others(host, slept.append)
    assert host.looks == looks
    assert len(slept) == min(held, LOOKS_MAX)
    assert ("sda: used by something" in capsys.readouterr().out) == bool(held)

"""Off cures a drive that loses data, also where the kernel view cannot be raised."""

from __future__ import annotations

import os

import pytest
from prepare_bench import Bank, host_of
from wcache.core.drive.prior import prior_from
from wcache.core.drive.safety import Safety, judge
from wcache.core.model import CacheMode
from wcache.core.protocol import ApplyRequest, FailureOutcome, StateOutcome, Task
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.mgr_link import Identity
from wcache_probe.restoring.owed import Holds
from wcache_probe.switcher import Switcher, read_journal
from wcache_probe.switching.lease import LeaseKeeper
from wcache_probe.tasks import TaskRunner

WT, WB = CacheMode.WRITE_THROUGH, CacheMode.WRITE_BACK


@pytest.fixture
def world(fake_host):
    """A drive whose cache is on, and whose kernel view a pin does not raise.

    As Linux 6.11 keeps it after `write through` was written into queue/write_cache.
    """
    bank = Bank()
    host_of(fake_host, bank=bank)
    host = fake_host.drive_host(
        switches=Switches(scsi=bank), find_foreign_rules=tuple, boot_pins=fake_host.boot_pins,
        sleep=lambda _s: None,
    )
    os.makedirs(fake_host.root / "state", mode=0o700)
    state = StateFolder(str(fake_host.root / "state"), str(fake_host.root / "run"))
    keeper = LeaseKeeper({})
    runner = TaskRunner(
        host=host, switcher=Switcher(host, state.journal), keeper=keeper,
        holds=Holds(keeper, lambda: read_journal(state.journal)),
        identity=Identity("h", "p", "i", False), clock=lambda: 0.0,
    )
    fake_host.set_view("sda", "write through")
    return host, runner


def test_off_is_done_though_the_pin_does_not_take_and_on_is_refused_then(world):
    host, runner = world

    def applied(action_id, mode):
        (drive,) = host.look()
        return runner.perform(Task(action_id, ApplyRequest(
            drive.domain_id, action_id, mode.other, mode, consent_turn_on=True,
            prior=prior_from("f" * 8, drive.domain_id, [drive]),
        )))

    assert judge(host.look()[0].state) is Safety.UNSAFE
    assert isinstance(applied("a1", WT), StateOutcome)
    (drive,) = host.look()
    assert drive.mode is WT
    assert judge(drive.state) is not Safety.UNSAFE
    assert isinstance(applied("a2", WB), FailureOutcome)
    assert host.look()[0].mode is WT

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
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.restoring.owed import Holds
from wcache_probe.switcher import Switcher, read_journal
from wcache_probe.switching.lease import LeaseKeeper
from wcache_probe.tasks import Identity, TaskRunner

WT, WB = CacheMode.WRITE_THROUGH, CacheMode.WRITE_BACK


class AllPrepared:
    """Every drive is in the boot rule."""

    journal_lost = ""

    def refusal(self, _wwid):
        return ""


@pytest.fixture
def world(fake_host):
    """A drive whose cache is on, and whose kernel view a pin does not raise.

    As Linux 6.11 keeps it after `write through` was written into queue/write_cache.
    """
    bank = Bank()
    host_of(fake_host, bank=bank)
    host = LinuxDriveHost(
        files=fake_host.files, osd_data_globs=[fake_host.osd_glob], switches=Switches(scsi=bank),
        find_foreign_rules=tuple, boot_pins=AllPrepared, sleep=lambda _s: None,
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


def applied(runner, drive, expected, mode):
    prior = prior_from("f" * 8, drive.domain_id, [drive])
    return runner.perform(
        Task("t", ApplyRequest(drive.domain_id, "a1", expected, mode, prior=prior,
                               consent_turn_on=True))
    )  # fmt: skip


def test_off_is_done_though_the_pin_does_not_take(world):
    host, runner = world
    (drive,) = host.look()
    assert judge(drive.state) is Safety.UNSAFE
    assert isinstance(applied(runner, drive, WB, WT), StateOutcome)
    (drive,) = host.look()
    assert drive.mode is WT
    assert judge(drive.state) is not Safety.UNSAFE


def test_on_is_refused_where_the_pin_does_not_take(world):
    host, runner = world
    (drive,) = host.look()
    applied(runner, drive, WB, WT)
    (drive,) = host.look()
    again = prior_from("f" * 8, drive.domain_id, [drive])
    outcome = runner.perform(
        Task("u", ApplyRequest(drive.domain_id, "a2", WT, WB, prior=again, consent_turn_on=True))
    )
    assert isinstance(outcome, FailureOutcome)
    (drive,) = host.look()
    assert drive.mode is WT

"""bcache's mode: never under a lease, towards writeback by consent, back once nothing is dirty."""

from __future__ import annotations

import pytest
from fake_mgr import FSID
from hypothesis import given
from hypothesis import strategies as st
from sim_drives import OBEYS, Crash, Probe, StopNever, crash_after, lease
from wcache.core.drive.prior import prior_from
from wcache.core.errors import NotFoundError, NotReadyError
from wcache.core.option_value import OptionValue
from wcache.core.protocol import (
    ApplyOptionRequest,
    FailureOutcome,
    RollbackRequest,
    SetOptionRequest,
    StateOutcome,
)
from wcache_probe.commands.restore import line_of
from wcache_probe.sim.drive_schema import parse_drive_file
from wcache_probe.sim.host import SimulatedHost

DRIVES = f"""
schema = 1
[[drive]]
name = "disk"
model = "HDD"
transport = "sas"
wwn = "{OBEYS}"
[drive.latency]
fua_write = {{ median_us = 300 }}
dirty_flush = {{ median_us = 12000 }}
[drive.options]
cache_mode = {{ value = "writethrough" }}
"""
KEY = "action/p1.0"


class BackingHost(SimulatedHost):
    """Its drive is behind a bcache device, which has so much to write back."""

    dirty = "0"

    def option_values(self, drive):
        more = () if self.dirty is None else (OptionValue("dirty_data", self.dirty),)
        return (*super().option_values(drive), *more)


class BackingProbe(Probe):
    """A probe on that drive, with no lease."""

    def __init__(self, mode="writethrough") -> None:
        super().__init__()
        self.host = BackingHost(parse_drive_file(DRIVES), "sim1", clock_ns=self.clock.ns)
        self.mgr.host = None
        self.asked = 0
        self.restart()
        self.host.set_option(self.drive, "cache_mode", mode)
        self.mgr.lease = None
        self.prior = prior_from(FSID, OBEYS, (self.drive,), ("cache_mode",))

    @property
    def drive(self):
        (drive,) = self.host.domain(OBEYS)
        return drive

    @property
    def mode_of_bcache(self):
        return self.drive.state.option("cache_mode")

    def ask(self, request):
        self.asked += 1
        self.mgr.ask(f"t{self.asked}", request)
        self.agent(StopNever(self)).run_turn()
        return self.mgr.outcome(f"t{self.asked}")

    def apply(self, value, consent=False):
        expected = self.prior.drives[0].options[0].value
        return self.ask(ApplyOptionRequest(
            OBEYS, "p1.0", "cache_mode", expected, value, self.prior, consent
        ))

    def take_back(self):
        return self.ask(RollbackRequest(OBEYS, "p1.0", prior=self.prior))


def test_it_is_set_under_no_lease():
    probe = BackingProbe()
    probe.mgr.lease = lease()
    outcome = probe.ask(SetOptionRequest(OBEYS, "cache_mode", "writearound", probe.prior))
    assert isinstance(outcome, FailureOutcome)
    assert "cache_mode is changed by an admin's plan alone" in outcome.message
    assert (probe.mode_of_bcache, probe.journal.entries) == ("writethrough", {})


def test_towards_writeback_the_probe_wants_the_consent_too():
    probe = BackingProbe()
    outcome = probe.apply("writeback")
    assert isinstance(outcome, FailureOutcome)
    assert "nobody has agreed" in outcome.message
    assert (probe.mode_of_bcache, probe.journal.entries) == ("writethrough", {})
    assert isinstance(probe.apply("writeback", consent=True), StateOutcome)
    assert probe.mode_of_bcache == "writeback"
    assert KEY in probe.journal.entries


def test_none_is_never_set():
    probe = BackingProbe()
    assert "writethrough|writeback|writearound" in probe.apply("none", consent=True).advice
    assert (probe.mode_of_bcache, probe.journal.entries) == ("writethrough", {})


def test_what_is_dirty_is_read_after_the_mode_was_set():
    probe = BackingProbe("writeback")
    probe.host.dirty = "8192"
    outcome = probe.apply("writethrough")
    assert outcome.after[0].option("cache_mode") == "writethrough"
    assert outcome.after[0].option("dirty_data") == "8192"
    probe.host.dirty = "0"
    again = probe.apply("writethrough")
    assert (again.changed, again.after[0].option("dirty_data")) == (True, "0")


@pytest.mark.parametrize("dirty", ["4096", None])
def test_the_way_back_from_writeback_is_over_when_nothing_is_dirty(dirty):
    probe = BackingProbe()
    probe.apply("writeback", consent=True)
    probe.host.dirty = dirty
    back = probe.take_back()
    assert back.after[0].option("cache_mode") == "writethrough"
    assert back.after[0].option("dirty_data") == dirty
    assert KEY in probe.journal.entries, "the way back is not over"
    probe.host.dirty = "0"
    assert isinstance(probe.take_back(), StateOutcome)
    assert probe.journal.entries == {}


def test_the_way_back_to_writeback_waits_for_nothing_and_wants_no_consent():
    probe = BackingProbe("writeback")
    probe.host.dirty = "4096"
    probe.apply("writethrough")
    probe.take_back()
    assert (probe.mode_of_bcache, probe.journal.entries) == ("writeback", {})


def test_without_a_mgr_it_goes_back_by_the_journal_and_says_what_is_left():
    probe = BackingProbe()
    probe.apply("writeback", consent=True)
    probe.host.dirty = str(3 * 2**20)
    (entry,) = probe.switcher.read_journal()[0].values()
    for _ in range(2):
        with pytest.raises(NotReadyError) as early:
            probe.switcher.restore_key(KEY)
        assert probe.mode_of_bcache == "writethrough"
        line = line_of(entry, early.value)
        assert not line.restored
        assert "3.0 MiB of dirty data of sim-sd0 to be written back" in line.text
        assert "writeback_rate_minimum" in line.text
    probe.host.dirty = "0"
    probe.switcher.restore_key(KEY)
    assert probe.journal.entries == {}
    with pytest.raises(NotFoundError):
        probe.switcher.restore_key(KEY)


@given(st.integers(1, 8), st.integers(1, 12), st.booleans())
def test_a_crash_at_any_step_leaves_the_journal_to_go_back_by(forth, back, dirty):
    probe = BackingProbe()
    for step, ask in ((forth, lambda: probe.apply("writeback", consent=True)),
                      (back, probe.take_back)):
        probe.host.dirty = "4096" if dirty else "0"
        probe.restart(crash_after(step))
        try:
            ask()
        except Crash:
            probe.mgr.tasks.clear()
            probe.restart()
            assert probe.mode_of_bcache == "writethrough" or KEY in probe.journal.entries
            assert isinstance(ask(), StateOutcome)
        probe.restart()
    assert probe.mode_of_bcache == "writethrough"
    assert (KEY in probe.journal.entries) is dirty
    probe.host.dirty = "0"
    probe.take_back()
    assert probe.journal.entries == {}

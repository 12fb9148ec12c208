"""bcache's mode: never under a lease, towards writeback by consent, back once nothing is dirty."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from fake_mgr import FSID
from hypothesis import given
from hypothesis import strategies as st
from sim_drives import OBEYS, Crash, Probe, crash_after, lease
from wcache.core.drive.prior import prior_from
from wcache.core.errors import NotFoundError, NotReadyError, Refusal, RefusalKind
from wcache.core.hardware import BcacheState, OptionValue
from wcache.core.model import DeviceCache, KernelView
from wcache.core.options.option import SharedCache
from wcache.core.protocol import (
    ApplyOptionRequest,
    FailureOutcome,
    RollbackRequest,
    SetOptionRequest,
    StateOutcome,
)
from wcache_probe.commands.restore import line_of
from wcache_sim.host import SimulatedHost

FLASH = "0x5000c500a1b2c300"
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
[[drive]]
name = "flash"
model = "SSD"
transport = "sas"
wwn = "{FLASH}"
[drive.latency]
fua_write = {{ median_us = 30 }}
dirty_flush = {{ median_us = 1200 }}
"""
AGREED = SharedCache("sim1", ("sim-sd1 (SIM SSD 0001, serial F1)",), ("bcache0",), (0,))
KEY = "action/p1.0"


class BackingHost(SimulatedHost):
    """Its drive is behind a bcache device, which has so much to write back.

    `flash` changes what its cache device, the other drive, is read as, by how often it was.
    """

    dirty = "0"
    looks = 0
    lost = MappingProxyType({})

    @staticmethod
    def flash(drive, looks):
        return drive

    def look(self):
        self.looks += 1
        disk, cache = super().look()
        cache = replace(cache, serial="F1")
        members = ((disk, False), (self.flash(cache, self.looks), True))
        return tuple(
            replace(drive, bcache=(BcacheState("bcache0", is_cache, "unknown"),))
            if not drive.bcache else drive for drive, is_cache in members
        )

    def lost_writes(self):
        return self.lost

    def option_values(self, drive):
        more = () if self.dirty is None else (OptionValue("dirty_data", self.dirty),)
        return (*super().option_values(drive), *more)


class BackingProbe(Probe):
    """A probe on that drive, with no lease."""

    make_host = BackingHost

    def __init__(self, mode="writethrough") -> None:
        super().__init__(DRIVES)
        self.mgr.host = None
        self.host.set_option(self.drive, "cache_mode", mode)
        self.mgr.lease = None
        self.prior = prior_from(FSID, OBEYS, (self.drive,), ("cache_mode",))

    @property
    def mode_of_bcache(self):
        return self.drive.state.option("cache_mode")

    def apply(self, value, consent=False, agreed=AGREED):
        expected = self.prior.drives[0].options[0].value
        return self.ask(ApplyOptionRequest(
            OBEYS, "p1.0", "cache_mode", expected, value, self.prior,
            agreed if consent else None,
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


@pytest.mark.slow
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


# ---- what is acknowledged is on the cache device alone

def unflushed(drive):
    return replace(drive, state=replace(
        drive.state, device_cache=DeviceCache.WRITE_BACK, kernel_view=KernelView.WRITE_THROUGH
    ))


def of_no_known_cache(drive):
    return replace(drive, state=replace(drive.state, device_cache=DeviceCache.UNKNOWN))


def shared_by_more(drive):
    return replace(drive, bcache=(BcacheState("bcache0", True, "unknown"),
                                  BcacheState("bcache7", True, "unknown")))


def detached(drive):
    return replace(drive, bcache=(BcacheState("bcache7", True, "unknown"),))


UNSAFE = {
    "not flushed": (
        unflushed, "the cache device sim-sd1 (SIM SSD 0001, serial F1) may not hold alone what is "
                   "acknowledged: its cache is volatile and disk does not flush",
    ),
    "unknown": (of_no_known_cache, "sim-sd1 (SIM SSD 0001, serial F1) may not hold alone"),
    "detached": (detached, "none is attached"),
}
VOID = {"another shares it": (shared_by_more, "bcache0, bcache7 under osd.0 now, which nobody has")}


@pytest.mark.parametrize("why", [*UNSAFE, *VOID])
@pytest.mark.parametrize("since", ["before", "while it was set", "a crash after it was set"])
def test_above_a_cache_device_that_can_lose_writes_it_is_refused_and_goes_back(why, since):
    change, words = {**UNSAFE, **VOID}[why]
    probe = BackingProbe()
    if since.startswith("a crash"):
        probe.apply("writeback", consent=True)
        probe.restart()
    looks_before = probe.host.looks + 1 if since == "while it was set" else 0
    probe.host.flash = lambda d, looks: change(d) if looks > looks_before else d
    outcome = probe.apply("writeback", consent=True)
    assert isinstance(outcome, FailureOutcome)
    assert words in outcome.message
    assert outcome.restored
    assert (probe.mode_of_bcache, probe.journal.entries) == ("writethrough", {})


def test_a_model_that_lost_writes_in_a_power_cut_on_this_host_is_no_cache_device():
    probe = BackingProbe()
    probe.host.lost = {"SIM SSD 0001": "this host: it lost 37 acknowledged writes"}
    outcome = probe.apply("writeback", consent=True)
    assert "lose writes: this host: it lost 37" in outcome.message
    assert (probe.mode_of_bcache, probe.journal.entries) == ("writethrough", {})


@pytest.mark.parametrize("why", UNSAFE)
@pytest.mark.parametrize("journal", [True, False])
def test_no_way_back_leads_into_writeback_above_it(why, journal):
    change, words = UNSAFE[why]
    probe = BackingProbe("writeback")
    probe.apply("writethrough")
    probe.host.flash = lambda drive, looks: change(drive)
    if not journal:
        probe.journal.entries.clear()
    outcome = probe.take_back()
    assert isinstance(outcome, FailureOutcome)
    assert words in outcome.message
    assert not outcome.restored
    assert probe.mode_of_bcache == "writethrough"
    assert KEY in probe.journal.entries, "the way back is not over"
    probe.host.flash = lambda drive, looks: drive
    probe.take_back()
    assert (probe.mode_of_bcache, probe.journal.entries) == ("writeback", {})


@pytest.mark.parametrize("journal_lost", ["", "its folder is on tmpfs"])
def test_what_outlives_a_reboot_is_not_touched_where_the_journal_does_not(journal_lost):
    probe = BackingProbe("writeback")
    domain = probe.host.domain

    def told(domain_id):
        why = (Refusal(RefusalKind.JOURNAL_LOST, journal_lost),) if journal_lost else ()
        return tuple(replace(drive, refusals=why) for drive in domain(domain_id))

    probe.host.domain = probe.host.anew = told
    probe.host.anew = lambda drives: told(OBEYS)
    outcome = probe.apply("writearound")
    assert isinstance(outcome, FailureOutcome) is bool(journal_lost)
    if journal_lost:
        assert outcome.message == "sim-sd0: its folder is on tmpfs"
    assert probe.mode_of_bcache == ("writeback" if journal_lost else "writearound")
    assert bool(probe.journal.entries) is not bool(journal_lost)

"""An option under a lease: journalled with what it resets, and back whatever happens."""

from __future__ import annotations

import json

import pytest
from fake_mgr import FSID
from hypothesis import given
from hypothesis import strategies as st
from sim_drives import BACK, OBEYS, THROUGH, Crash, Probe, StopNever, crash_after, lease
from wcache.core.drive import journal
from wcache.core.drive.prior import PriorDoubt, prior_from
from wcache.core.errors import StorageError
from wcache.core.model import KernelView
from wcache.core.options.entries import DRAINS, leased_names, names_of
from wcache.core.protocol import (
    ApplyOptionRequest,
    FailureOutcome,
    OptionsRequest,
    ReleaseRequest,
    RollbackRequest,
    SetModeRequest,
    SetOptionRequest,
    StateOutcome,
)

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
scheduler = {{ value = "mq-deadline" }}
nr_requests = {{ value = "256", slow_value = "32", slow_factor = 1.5 }}
wbt_lat_usec = {{ value = "75000" }}
"""
P_TERM = "writeback_rate_p_term_inverse"
ON_BCACHE = f"""{DRIVES}{P_TERM} = {{ value = "40" }}
{DRAINS} = {{ value = "8" }}
"""
# An admin has tuned the queue: what the scheduler resets is not what was there before.
TUNED = {"scheduler": "mq-deadline", "nr_requests": "128", "wbt_lat_usec": "0"}


class OptionProbe(Probe):
    """A probe on one drive with options, as an admin has left them."""

    def __init__(self, drives=DRIVES) -> None:
        super().__init__(drives)
        self.mgr.host = None
        for name, value in TUNED.items():
            self.host.set_option(self.drive, name, value)
        self.mgr.lease = lease()

    @property
    def values(self):
        return {one.name: one.value for one in self.host.option_values(self.drive)}

    def prior(self, name="scheduler"):
        return prior_from(FSID, OBEYS, (self.drive,), names_of(name))

    def set(self, value="none", name="scheduler", prior=None):
        return self.ask(SetOptionRequest(OBEYS, name, value, prior or self.prior(name)))

    def apply(self, value="none", name="scheduler", prior=None, expected="mq-deadline"):
        return self.ask(ApplyOptionRequest(
            OBEYS, "p1.0", name, expected, value, prior or self.prior(name)
        ))

    def take_back(self, prior):
        return self.ask(RollbackRequest(OBEYS, "p1.0", prior=prior))


@pytest.fixture
def probe():
    return OptionProbe()


def test_one_lease_holds_the_scheduler_with_what_it_resets_and_puts_them_back_in_order(probe):
    known = probe.prior()
    outcome = probe.set()
    assert isinstance(outcome, StateOutcome)
    assert outcome.changed
    assert outcome.after[0].option("scheduler") == "none"
    assert probe.values["nr_requests"] == "256"  # the kernel's own, as it resets it
    (entry,) = probe.switcher.read_journal()[0].values()
    assert [one.name for one in entry.drives[0].options] == list(TUNED)
    released = probe.ask(ReleaseRequest(OBEYS, "L1", prior=known))
    assert {one.name: one.value for one in released.after[0].options} == TUNED
    assert (probe.values, probe.journal.entries) == (TUNED, {})


def test_a_lease_on_an_option_of_bcache_holds_the_rate_that_drains_it_too():
    probe = OptionProbe(ON_BCACHE)
    before = probe.values
    known = prior_from(FSID, OBEYS, (probe.drive,), leased_names(P_TERM))
    assert isinstance(probe.set("4000", P_TERM, known), StateOutcome)
    assert isinstance(probe.set("8192", DRAINS, known), StateOutcome)
    assert (probe.values[P_TERM], probe.values[DRAINS]) == ("4000", "8192")
    probe.mgr.lease = None
    probe.restart()  # killed with both set: its journal has both
    probe.run()
    assert (probe.values, probe.journal.entries) == (before, {})


def test_the_cache_mode_is_not_touched_and_nothing_is_pinned(probe):
    before = probe.host.state(probe.drive)
    probe.set()
    probe.mgr.lease = None
    probe.agent(StopNever(probe)).run_turn()
    assert probe.values == TUNED
    after = probe.host.state(probe.drive)
    assert (after.pinned, after.kernel_view) == (before.pinned, before.kernel_view)
    assert (after.pinned, after.kernel_view) == (False, KernelView.WRITE_BACK)


@pytest.mark.slow
@given(st.integers(1, 12), st.booleans())
def test_a_crash_after_any_step_leaves_what_was_there_before(step, silent):
    probe = OptionProbe()
    known = probe.prior()
    probe.restart(crash_after(step))
    try:
        probe.set(prior=known)
        probe.ask(ReleaseRequest(OBEYS, "L1", prior=known))
    except Crash:
        pass
    probe.mgr.tasks.clear()
    if not silent:  # the mgr has ended the lease meanwhile
        probe.mgr.lease = None
    probe.restart()
    probe.run()
    assert (probe.values, probe.journal.entries) == (TUNED, {})


def test_a_silent_mgr_ends_the_lease(probe):
    probe.set()
    probe.mgr.error = StorageError("nobody there")
    probe.clock.now_s += 31.0
    probe.agent(StopNever(probe)).run_turn()
    assert (probe.values, probe.journal.entries) == (TUNED, {})


REFUSED = (
    ("write_cache", "write through", "durable"), ("cache_type", "write through", "durable"),
    ("max_sectors_kb", "4", "no entry"), ("nr_requests", "3", "4 to 4096"),
    ("scheduler", "cfq", "none|mq-deadline"),
)


@pytest.mark.parametrize(("leased", "name", "value", "words"), [
    *((leased, *refused) for leased in (True, False) for refused in REFUSED),
    (True, "fua", "0", "durable"), (True, "osd_mclock_profile", "balanced", "has no"),
    (True, "writeback_percent", "10", "has no"),
    (False, "cache_mode", "writeback", "nobody has agreed"),
    (False, "osd_mclock_profile", "balanced", "plan was made for"),
])
def test_the_probe_refuses_by_name_and_journals_nothing(probe, leased, name, value, words):
    """Under a lease, or for a plan."""
    probe.mgr.lease = probe.mgr.lease if leased else None
    outcome = (probe.set if leased else probe.apply)(value, name, probe.prior("nr_requests"))
    assert isinstance(outcome, FailureOutcome)
    assert name in outcome.message
    assert words in f"{outcome.message} {outcome.advice}"
    assert (outcome.restored, probe.values, probe.journal.entries) == (True, TUNED, {})


def test_without_a_live_lease_nothing_is_set(probe):
    probe.mgr.lease = None
    outcome = probe.set()
    assert "no live lease" in outcome.message
    assert probe.values == TUNED


def test_what_is_not_as_the_mgr_knows_it_is_not_set(probe):
    known = probe.prior()
    probe.host.set_option(probe.drive, "nr_requests", "64")
    outcome = probe.set(prior=known)
    assert outcome.doubt is PriorDoubt.OTHER_STATE
    assert "nr_requests of sim-sd0 is 64 and was 128" in outcome.message
    assert (probe.values["scheduler"], probe.journal.entries) == ("mq-deadline", {})


def test_under_a_lease_of_options_the_cache_mode_is_refused_and_the_other_way_round(probe):
    known = probe.prior()
    probe.set()
    outcome = probe.ask(SetModeRequest(OBEYS, THROUGH, prior=known))
    assert "about options" in outcome.message
    assert probe.mode(OBEYS) is BACK
    probe.ask(ReleaseRequest(OBEYS, "L1", prior=known))
    plain = prior_from(FSID, OBEYS, (probe.drive,))
    assert isinstance(probe.ask(SetModeRequest(OBEYS, THROUGH, prior=plain)), StateOutcome)
    outcome = probe.set(prior=plain)
    assert "not about scheduler" in outcome.message
    assert probe.values == TUNED


def test_where_the_journal_is_lost_the_mgr_knows_the_way_back(probe):
    known = probe.prior()
    probe.set()
    probe.journal.entries.clear()
    outcome = probe.ask(ReleaseRequest(OBEYS, "L1", prior=known))
    assert {one.name: one.value for one in outcome.after[0].options} == TUNED
    assert (probe.values, probe.journal.entries) == (TUNED, {})


def test_what_a_plan_sets_stays_over_starts_and_goes_back_in_order(probe):
    probe.mgr.lease = None
    known = probe.prior()
    outcome = probe.apply(prior=known)
    assert isinstance(outcome, StateOutcome)
    assert (outcome.changed, outcome.after[0].option("scheduler")) == (True, "none")
    probe.restart()
    probe.run()
    assert probe.values["scheduler"] == "none"
    assert probe.values["nr_requests"] != TUNED["nr_requests"]
    assert probe.apply(prior=known).changed is True  # asked again, it is ours still
    back = probe.take_back(known)
    assert {one.name: one.value for one in back.after[0].options} == TUNED
    assert (probe.values, probe.journal.entries) == (TUNED, {})


@pytest.mark.slow
@given(st.integers(1, 8), st.integers(1, 12))
def test_a_crash_at_any_step_of_a_plan_and_of_its_way_back_loses_nothing(forth, back):
    probe = OptionProbe()
    probe.mgr.lease = None
    known = probe.prior()
    for step, ask in ((forth, lambda: probe.apply(prior=known)),
                      (back, lambda: probe.take_back(known))):
        probe.restart(crash_after(step))
        try:
            ask()
        except Crash:
            probe.mgr.tasks.clear()
            probe.restart()
            # the journal was written first: what was changed can be gone back to
            assert probe.values == TUNED or "action/p1.0" in probe.journal.entries
            assert isinstance(ask(), StateOutcome)
        probe.restart()
    assert (probe.values, probe.journal.entries) == (TUNED, {})


def test_after_a_reboot_there_is_nothing_to_take_back_and_the_entry_goes(probe):
    probe.mgr.lease = None
    known = probe.prior()
    probe.apply(prior=known)
    for name, value in TUNED.items():
        probe.host.set_option(probe.drive, name, value)
    assert probe.take_back(known).changed is False
    assert (probe.values, probe.journal.entries) == (TUNED, {})


def test_without_the_journal_the_mgr_knows_what_a_plan_has_changed(probe):
    probe.mgr.lease = None
    known = probe.prior()
    probe.apply(prior=known)
    probe.journal.entries.clear()
    probe.take_back(known)
    assert (probe.values, probe.journal.entries) == (TUNED, {})


def test_a_value_that_is_not_what_the_plan_was_made_for_is_left(probe):
    probe.mgr.lease = None
    outcome = probe.apply(expected="kyber")
    assert "scheduler of sim-sd0 is mq-deadline, and the plan was made for kyber" in outcome.message
    assert (probe.values, probe.journal.entries) == (TUNED, {})


def test_while_an_experiment_holds_the_drive_no_plan_sets_an_option(probe):
    known = probe.prior()
    probe.set()
    outcome = probe.apply("kyber", prior=known)
    assert "an experiment holds" in outcome.message
    assert probe.values["scheduler"] == "none"


def test_options_are_read_with_the_state(probe):
    (state,) = probe.ask(OptionsRequest(OBEYS)).after
    assert {one.name: one.value for one in state.options} == TUNED
    assert state.device_cache.mode is BACK


def test_a_probe_that_knows_no_options_takes_no_entry_by_the_number_alone(probe):
    probe.set()
    ((key, text),) = probe.journal.entries.items()
    assert json.loads(text)["version"] > 3, "3 is the last number of probes that know none"
    assert journal.parse(key, text).of_options

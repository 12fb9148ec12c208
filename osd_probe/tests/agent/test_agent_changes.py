"""Changes of a plan outlive leases and crashes, and go back by their rollback alone."""

from __future__ import annotations

import pytest
from sim_drives import BACK, OBEYS, OFF, THROUGH, Probe, StopNever, hold
from wcache.core.errors import NotFoundError
from wcache.core.protocol import AcceptRequest, ApplyRequest, RollbackRequest


@pytest.fixture
def probe() -> Probe:
    return Probe()


def test_an_applied_change_outlives_leases_stops_and_crashes_until_its_rollback(probe):
    probe.mgr.ask("apply", ApplyRequest(OBEYS, "a1", BACK, THROUGH, consent_persist=True))
    probe.run()
    assert probe.mgr.outcome("apply").changed
    probe.restart()
    probe.run(turns=3)
    assert probe.mode(OBEYS) is THROUGH
    probe.mgr.ask("back", RollbackRequest(OBEYS, "a1"))
    probe.run()
    assert probe.mgr.outcome("back").changed
    (drive,) = probe.host.domain(OBEYS)
    assert (drive.mode, drive.state.page.saved) == (BACK, BACK)
    probe.mgr.ask("again", RollbackRequest(OBEYS, "a1"))
    probe.run()
    assert not probe.mgr.outcome("again").changed


def test_a_rollback_whose_answer_was_lost_in_a_crash_is_still_ours(probe):
    probe.mgr.ask("apply", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.run()
    probe.restart()
    probe.mgr.ask("apply again", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.run()
    assert probe.mgr.outcome("apply again").changed
    probe.mgr.ask("back", RollbackRequest(OBEYS, "a1"))
    probe.run()
    assert probe.mode(OBEYS) is BACK


def test_a_plan_made_from_another_mode_is_refused(probe):
    probe.mgr.ask("apply", ApplyRequest(OFF, "a1", BACK, BACK, consent_turn_on=True))
    probe.run()
    assert probe.mgr.outcome("apply").refused
    assert probe.mode(OFF) is THROUGH


def test_an_experiment_keeps_an_apply_out(probe):
    hold(probe)
    probe.mgr.ask("apply", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.agent(StopNever(probe)).run_turn()
    assert "an experiment holds" in probe.mgr.outcome("apply").message


@pytest.mark.parametrize("counters", ["none", "refused"])
def test_on_a_kernel_that_counts_no_flushes_a_change_and_its_way_back_are_done(probe, counters):
    probe.host.counters = {"none": lambda drive: None, "refused": refuse}[counters]
    probe.mgr.ask("apply", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.mgr.ask("back", RollbackRequest(OBEYS, "a1"))
    probe.run()
    for name, mode in (("apply", THROUGH), ("back", BACK)):
        done = probe.mgr.outcome(name)
        assert (done.changed, done.counters) == (True, ())
        assert done.after[0].device_cache.value == mode.value
    assert probe.journal.entries == {}


def refuse(drive):
    raise NotFoundError(f"{drive.dev_name} is not there any more")


@pytest.mark.parametrize("method", ["domain", "state"])
def test_the_entry_of_a_drive_that_died_is_dropped_when_an_admin_gives_it_up(probe, method):
    probe.mgr.ask("apply", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.run()
    setattr(probe.host, method, gone)
    probe.mgr.ask("accept", AcceptRequest(OBEYS, ("action/a1",)))
    probe.run()
    assert probe.mgr.outcome("accept").after == ()
    assert probe.journal.entries == {}


def gone(_):
    raise NotFoundError("it is not there any more")

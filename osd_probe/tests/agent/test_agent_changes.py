"""Changes of a plan outlive leases and crashes, and go back by their rollback alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_mgr import FSID
from sim_drives import BACK, NVME, OBEYS, OFF, THROUGH, StopNever, hold, lease
from wcache.core.drive.prior import prior_from
from wcache.core.errors import NotFoundError, StorageError
from wcache.core.model import Transport
from wcache.core.protocol import (
    PROTOCOL_VERSION,
    AcceptRequest,
    ApplyRequest,
    PollReply,
    ReleaseRequest,
    RollbackRequest,
    SetModeRequest,
    StateOutcome,
    Task,
)
from wcache_probe.switching.steps import RemoveJournal, WriteJournal


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


def test_a_change_that_cannot_be_made_to_last_later_stays_until_its_rollback(probe):
    probe.ask(ApplyRequest(NVME, "a1", BACK, THROUGH))
    for _ in range(2):
        failed = probe.ask(ApplyRequest(NVME, "a1", BACK, THROUGH, consent_persist=True))
        assert failed.message == "sim-nvme3n1 cannot keep a cache mode over a power cycle"
        assert (failed.restored, [state.device_cache.value for state in failed.after]) == (
            False, ["write through"])
        assert (probe.mode(NVME), [*probe.journal.entries]) == (THROUGH, ["action/a1"])
        probe.restart()
    assert probe.ask(RollbackRequest(NVME, "a1")).changed
    assert (probe.mode(NVME), [*probe.journal.entries]) == (BACK, [])


def test_a_rollback_whose_answer_was_lost_in_a_crash_is_still_ours(probe):
    probe.ask(ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.restart()
    assert probe.ask(ApplyRequest(OBEYS, "a1", BACK, THROUGH)).changed
    probe.ask(RollbackRequest(OBEYS, "a1"))
    assert probe.mode(OBEYS) is BACK


def test_a_plan_made_from_another_mode_is_refused(probe):
    assert probe.ask(ApplyRequest(OFF, "a1", BACK, BACK, consent_turn_on=True)).refused
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
    probe.ask(ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    setattr(probe.host, method, gone)
    assert probe.ask(AcceptRequest(OBEYS, ("action/a1",))).after == ()
    assert probe.journal.entries == {}


def gone(_):
    raise NotFoundError("it is not there any more")


def test_only_entries_of_the_domain_that_was_accepted_are_given_up(probe):
    probe.mgr.ask("a1", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    probe.mgr.ask("a2", ApplyRequest(NVME, "a2", BACK, THROUGH))
    assert isinstance(probe.ask(AcceptRequest(OBEYS, ("action/a1", "action/a2"))), StateOutcome)
    assert list(probe.journal.entries) == ["action/a2"]


def test_nothing_is_given_up_of_a_domain_under_a_live_lease(probe):
    """The lease could not be undone: what was there before it stands in that entry alone."""
    hold(probe)
    key = f"lease/{OBEYS}"
    probe.mgr.ask("accept", AcceptRequest(OBEYS, (key,)))
    probe.agent(StopNever(probe)).run_turn()
    assert "lease L1 holds" in probe.mgr.outcome("accept").message
    assert list(probe.journal.entries) == [key]
    probe.mgr.lease = None
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK


@pytest.mark.parametrize("back", [False, True], ids=["apply", "rollback"])
def test_a_change_is_one_of_its_own_domain_alone(probe, back):
    """Two plans that gave one id would take the entry of one drive for that of another."""
    known = prior_from(FSID, NVME, probe.host.domain(NVME))
    probe.ask(ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    entries = dict(probe.journal.entries)
    other = ApplyRequest(NVME, "a1", BACK, THROUGH, prior=known)
    if back:
        other = RollbackRequest(NVME, "a1", prior=known)
    probe.mgr.ask("other", other)
    probe.run()
    assert f"action a1 changed {OBEYS}" in probe.mgr.outcome("other").message
    assert probe.journal.entries == entries
    assert (probe.mode(OBEYS), probe.mode(NVME)) == (THROUGH, BACK)


@pytest.mark.parametrize("request_of", [
    lambda prior: ReleaseRequest(OBEYS, "L2", prior=prior),
    lambda prior: SetModeRequest(OBEYS, BACK, prior=prior),
], ids=["release", "set mode"])
def test_a_domain_that_one_lease_holds_is_not_changed_or_released_by_another(probe, request_of):
    """The runner says so by its journal, also where the keeper has not heard of the entry."""
    prior = prior_from(FSID, OBEYS, probe.host.domain(OBEYS))
    hold(probe)
    entries = dict(probe.journal.entries)
    probe.keeper.is_free(OBEYS)
    probe.keeper.heard(
        PollReply(PROTOCOL_VERSION, 1.0, None, lease(lease_id="L2")), probe.clock(), probe.clock()
    )
    outcome = probe.runner.perform(Task("t", request_of(prior)))
    assert outcome.refused
    assert "lease L1" in outcome.message
    assert (probe.mode(OBEYS), probe.journal.entries) == (THROUGH, entries)


@pytest.mark.parametrize("of", [NVME, ""], ids=["of another domain", "none"])
def test_the_runner_changes_nothing_without_a_live_lease_of_the_domain(probe, of):
    """It is the last that looks: a lease may end while the host is surveyed."""
    prior = prior_from(FSID, OBEYS, probe.host.domain(OBEYS))
    reply = PollReply(PROTOCOL_VERSION, 1.0, None, lease(of) if of else None)
    probe.keeper.heard(reply, probe.clock(), probe.clock())
    outcome = probe.runner.perform(Task("t", SetModeRequest(OBEYS, THROUGH, prior=prior)))
    assert "there is no live lease" in outcome.message
    assert (probe.mode(OBEYS), probe.journal.entries) == (BACK, {})


@pytest.mark.parametrize("request_of", [
    lambda: SetModeRequest(OBEYS, THROUGH), lambda: ApplyRequest(OBEYS, "a1", BACK, THROUGH),
], ids=["lease", "apply"])
def test_a_change_that_failed_is_called_restored_by_what_is_read_at_its_end(probe, request_of):
    """Its entry is gone, and then somebody else switches the drive."""
    (drive,) = probe.host.domain(OBEYS)
    flush, flushes = probe.host.flush, []

    def second_one_fails(of):
        flushes.append(of)
        if len(flushes) == 2:
            raise StorageError("the drive does not answer")
        flush(of)

    def after_step(_number, step):
        if isinstance(step, RemoveJournal):
            probe.host.set_cache(drive, THROUGH)

    probe.host.flush = second_one_fails
    probe.switcher.after_step = after_step
    probe.mgr.lease = lease()
    probe.mgr.ask("t1", request_of())
    probe.agent(StopNever(probe)).run_turn()
    outcome = probe.mgr.outcome("t1")
    assert "does not answer" in outcome.message
    assert (outcome.restored, probe.journal.entries) == (False, {})


def as_loop_devices(probe):
    """Its drives are loop devices from now on: only a throwaway cluster may lose their flushes."""
    domain = probe.host.domain
    probe.host.domain = lambda domain_id: tuple(
        replace(drive, transport=Transport.LOOP) for drive in domain(domain_id)
    )


@pytest.mark.parametrize("request_of", [
    lambda: SetModeRequest(OBEYS, THROUGH, throwaway=True),
    lambda: ApplyRequest(OBEYS, "a1", BACK, THROUGH, throwaway=True),
], ids=["lease", "apply"])
def test_a_task_that_calls_the_cluster_throwaway_is_not_believed_where_the_mgr_does_not(
    probe, request_of
):
    """A task waits for long in a store; the reply says what the option is now."""
    as_loop_devices(probe)
    probe.mgr.lease = lease()
    probe.mgr.ask("task", request_of())
    probe.run()
    assert "loop device" in probe.mgr.outcome("task").message
    assert (probe.mode(OBEYS), probe.journal.entries) == (BACK, {})
    probe.mgr.throwaway = True
    probe.mgr.ask("again", request_of())
    probe.run()
    assert "loop device" not in probe.mgr.outcome("again").message


@pytest.mark.parametrize("request_of", [
    lambda prior: ReleaseRequest(OBEYS, "L1", True, prior),
    lambda prior: RollbackRequest(OBEYS, "a1", True, prior),
], ids=["release", "rollback"])
@pytest.mark.parametrize("throwaway", [False, True])
def test_an_entry_of_a_way_back_calls_the_cluster_throwaway_where_the_mgr_does_too(
    probe, request_of, throwaway
):
    prior = prior_from(FSID, OBEYS, probe.host.domain(OBEYS))
    probe.host.set_cache(probe.host.domain(OBEYS)[0], THROUGH)
    written = []
    probe.switcher.after_step = lambda number, step: written.append(step)
    probe.mgr.throwaway = throwaway
    assert isinstance(probe.ask(request_of(prior)), StateOutcome)
    (entry,) = [step.entry for step in written if isinstance(step, WriteJournal)]
    assert entry.throwaway is throwaway
    assert probe.mode(OBEYS) is BACK

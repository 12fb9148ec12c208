"""What was there before a change: both witnesses, what happens without one, and acceptance."""

import errno
import json
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.builders import CLUSTER_ID
from module_world import (
    WB,
    WT,
    a_mgr,
    all_modes,
    codes,
    findings_of,
    measured,
    ok,
    refused,
    said,
    start,
    unconsented,
)
from prior_world import errors, held_and_lost, unread, wiped
from wcache.core.drive.journal import PriorDrive
from wcache.core.model import Transport
from wcache.core.protocol import (
    Notice,
    ReleaseRequest,
)


def test_a_drive_whose_journal_is_gone_is_restored_from_what_the_mgr_stored():
    mgr = a_mgr()
    held_and_lost(mgr)
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)
    mgr.restart()
    mgr.steps(10)
    assert all_modes(mgr) == {WB}
    assert "WCACHE_RESTORE_FAILED" not in codes(mgr)


def stopped_in_a_run(mgr, told):
    """h1's probe was stopped while it held a drive: it restored it, and ended."""
    start(mgr)
    probe = mgr.probes["h1"]
    while not probe.leased:
        mgr.step()
    (domain_id,), lease = probe.leased, probe.lease
    probe.lose_lease()
    probe.lease = ""
    if told:
        probe.post("", None, notices=(Notice("n1", "back", domain_id, True, lease),))
    probe.muted = True
    while not all(machine.over for machine in mgr.inside.runs.values()):
        mgr.step(5.0)
    return probe


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False])
def test_a_drive_of_a_probe_that_is_gone_is_a_warning_until_it_is_read(told):
    mgr = a_mgr()
    probe = stopped_in_a_run(mgr, told)
    mgr.steps(20, 5.0)
    (finding,) = findings_of(mgr, "WCACHE_RESTORE_FAILED")
    assert (errors(mgr), finding["severity"]) == ([], "warning")
    assert ("its probe has restored the prior state" in finding["detail"]) is told
    assert "the probe does not respond" in finding["detail"]
    probe.muted = False
    mgr.report_all()
    assert "WCACHE_RESTORE_FAILED" not in codes(mgr)


def test_a_drive_that_its_probe_cannot_bring_back_is_an_error():
    mgr = a_mgr()
    start(mgr)
    probe = mgr.probes["h1"]
    while not probe.leased:
        mgr.step()
    probe.stuck = set(probe.drives)
    mgr.steps(50, 5.0)
    assert "WCACHE_RESTORE_FAILED" in {f["code"] for f in errors(mgr)}


def restored_unheard(mgr):
    """A probe restores by itself, its word is lost, and an admin switches the drive off by hand."""
    return held_and_lost(mgr, "probe-h1")


def asked_to_release(probe):
    """What the probe is asked to release from now on."""
    seen, do = [], probe.do

    def watched(task):
        if isinstance(task.request, ReleaseRequest):
            seen.append(task.request.domain_id)
        return do(task)

    probe.do = watched
    return seen


@pytest.mark.parametrize("restarted", [False, True])
def test_a_cache_that_an_admin_switched_off_after_a_restore_nobody_heard_of_stays_off(restarted):
    mgr = a_mgr()
    probe, domain_id = restored_unheard(mgr)
    asked = asked_to_release(probe)
    if restarted:
        mgr.restart()
    mgr.steps(90, 1.0)
    assert asked == []
    assert probe.modes()[domain_id] is WT
    (finding,) = [f for f in errors(mgr) if f["code"] == "WCACHE_PRIOR_LOST"]
    assert "has no entry of" in finding["detail"]
    ok(mgr.command("drive accept", hostname="h1", domain_id=domain_id, accept_cost=True))
    mgr.report_all()
    assert errors(mgr) == []


def test_a_cache_that_an_admin_switched_off_after_the_probe_said_it_was_back_stays_off():
    mgr = a_mgr()
    # the probe that spoke is replaced too, with its journal
    probe, domain_id = held_and_lost(mgr)
    lease_id = next(m.spec.lease_id for m in mgr.inside.runs.values()
                    if m.spec.domain_id == domain_id)
    asked = asked_to_release(probe)
    probe.post("", None, notices=(Notice("n", "it is back", domain_id, True, lease_id),))
    mgr.steps(90, 1.0)
    assert asked == []
    assert probe.modes()[domain_id] is WT


def test_a_drive_whose_saved_mode_was_changed_is_not_as_wcache_left_it_and_not_touched():
    mgr = a_mgr()
    probe, domain_id = held_and_lost(mgr)
    probe._keep(domain_id, WT)
    asked = asked_to_release(probe)
    mgr.steps(90, 1.0)
    assert asked == []
    assert "WCACHE_PRIOR_LOST" in codes(mgr)


def test_what_was_read_after_a_restore_that_was_asked_for_settles_it_at_once():
    """An admin who changes the drive before the next report is not overruled a minute later."""
    mgr = a_mgr()
    probe, domain_id = held_and_lost(mgr)
    asked = asked_to_release(probe)
    mgr.restart()
    for _ in range(20):
        if asked:
            break
        mgr.step()
    probe.switch(domain_id, WT)
    mgr.steps(90, 1.0)
    assert len(asked) == 1
    assert probe.modes()[domain_id] is WT
    assert errors(mgr) == []


def test_an_answer_to_a_restore_that_shows_another_state_settles_nothing():
    mgr = a_mgr()
    probe, domain_id = held_and_lost(mgr)
    asked, do = asked_to_release(probe), probe.do

    def stays(task):
        outcome = do(task)
        released = isinstance(task.request, ReleaseRequest)
        return probe.switch(domain_id, WT) if released else outcome

    probe.do = stays
    mgr.restart()
    while not asked:
        mgr.step()
    probe.muted = True  # no report comes after it
    mgr.step()
    assert asked == [domain_id]
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)


def test_one_report_that_was_made_while_a_restore_ended_is_no_dispute():
    mgr = a_mgr()
    probe, domain_id = restored_unheard(mgr)
    probe.turn(1)
    probe.switch(domain_id, WB)
    mgr.steps(20)
    assert errors(mgr) == []


def test_a_probes_word_that_a_state_is_back_settles_nothing():
    mgr = a_mgr()
    probe, domain_id = held_and_lost(mgr)
    probe.stuck = set(probe.drives)
    probe.post("", None, notices=(Notice("n", "it is back", domain_id, True),))
    mgr.steps(10)
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)


def test_a_probe_that_tells_of_ever_other_prior_states_has_one_write_made(monkeypatch):
    mgr = measured()
    (machine,) = [one for one in mgr.inside.runs.values() if one.spec.hostname == "h1"][:1]
    stored = []
    put = mgr.inside.archive.put
    monkeypatch.setattr(
        mgr.inside.archive, "put", lambda kind, *of: stored.append(kind) or put(kind, *of)
    )
    domain_id, state = machine.spec.domain_id, replace(make.state(WB), layers=())
    for number in range(20):
        prior = PriorDrive(f"w{number}", "s", Transport.SCSI, WB, state)
        mgr.probes["h1"].post("", None, notices=(
            Notice(f"n{number}", "x", domain_id, True, machine.spec.lease_id, (prior,)),
        ))
    assert machine.state.dispute
    assert [kind.prefix for kind in stored] == ["run"]


def test_nothing_is_begun_where_a_prior_state_is_owed():
    mgr = a_mgr()
    probe, _ = held_and_lost(mgr)
    probe.stuck = set(probe.drives)
    mgr.report_all()
    code, out, error = mgr.command("campaign start", loads="depth1", scope="host:h1",
                                   accept_cost=True, format="json")
    skipped = json.loads(out)["forecast"]["skipped"] if code == 0 else [error]
    assert any("was not read back yet" in line for line in skipped)


def test_an_entry_the_mgr_knows_nothing_of_is_told_until_an_admin_accepts_the_drive():
    mgr = a_mgr()
    wiped(mgr)
    assert "WCACHE_PRIOR_LOST" in codes(mgr)
    error, _ = unconsented(mgr, "drive accept", hostname="h1", domain_id="domain-sda")
    assert "--accept-cost" in error
    assert "WCACHE_PRIOR_LOST" in codes(mgr)
    done = said(mgr, "drive accept", hostname="h1", domain_id="domain-sda", accept_cost=True)
    assert done["journal_entries"] == ["action/p1.0"]
    assert done["stored"] is True
    assert done["next"].endswith("the probe has dropped it")
    mgr.report_all()
    mgr.report_all()
    assert "WCACHE_PRIOR_LOST" not in codes(mgr)
    assert "accepted as it is" in ok(mgr.command("history"))
    error = refused(
        mgr, "drive accept", errno.ENOENT, hostname="h1", domain_id="domain-sda", accept_cost=True
    )


def test_no_plan_touches_a_drive_that_is_in_dispute():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    wiped(mgr, fsid="another-cluster")
    assert "another-cluster" in refused(mgr, "apply", errno.EPERM, plan_id=plan_id)
    assert all_modes(mgr) == {WB}
    left = said(mgr, "plan")["left_alone"]
    assert any("another-cluster" in line for line in left)


LATER = '{"version": 99}'


def test_an_entry_of_a_version_that_its_probe_does_not_know_waits_for_that_probe():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    unread(mgr, LATER)
    (told,) = [f for f in errors(mgr) if f["subject"] == "h1 domain-sda"]
    assert told["code"] == "WCACHE_RESTORE_FAILED"
    assert "action/p9.0.abc is of version 99: update its probe" in told["detail"]
    error = refused(mgr, "apply", errno.EPERM, plan_id=plan_id)
    assert "h1 domain-sda: journal entry action/p9.0.abc is of version 99" in error
    assert "drive accept" not in error
    assert "damaged" not in ok(mgr.command("status"))
    # what an admin gives up of the domain is not that
    refused(mgr, "drive accept", errno.ENOENT, hostname="h1", domain_id="domain-sda",
            accept_cost=True)
    by_key = {"hostname": "h1", "domain_id": "action/p9.0.abc", "accept_cost": True}
    assert said(mgr, "drive accept", **by_key)["journal_entries"] == ["action/p9.0.abc"]


@pytest.mark.parametrize(("text", "said_of_it"), [
    ("{", "cannot be read by its probe"), (LATER, "of version 99"),
])
def test_an_entry_that_names_no_drive_may_be_of_any_of_its_host(text, said_of_it):
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    unread(mgr, text, domain_id="")
    error = refused(mgr, "apply", errno.EPERM, plan_id=plan_id)
    assert "h1 domain-sd" in error
    assert said_of_it in error
    assert ("drive accept h1 action/p9.0.abc" in error) is (text == "{")
    plan = said(mgr, "plan")
    assert {change["hostname"] for change in plan["changes"]} == {"h2"}
    assert any(said_of_it in line for line in plan["left_alone"])
    assert refused(mgr, "agent rm", errno.EPERM, hostname="h1").startswith("h1: journal entry")


def test_a_run_that_waits_does_not_begin_beside_an_entry_that_may_be_of_its_drive():
    mgr = a_mgr()
    start(mgr, scope="host:h1")
    unread(mgr, "{", domain_id="")
    mgr.restart()
    mgr.engine.tick()
    mgr.report_all()
    mgr.settle()
    assert {*mgr.probes["h1"].modes().values()} == {WB}
    runs = list(mgr.inside.runs.values())
    assert all(run.over for run in runs)
    assert all("may be of any drive there" in run.state.reason for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
def test_a_dispute_holds_and_nothing_begins_while_no_new_report_is_there(restarted):
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    wiped(mgr, fsid="another-cluster")
    if restarted:
        mgr.restart()
    mgr.inside.hosts.reported_at_s.clear()
    assert "WCACHE_PRIOR_LOST" in codes(mgr)
    assert "another-cluster" in refused(mgr, "apply", errno.EPERM, plan_id=plan_id)
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_nothing_is_applied_before_a_hosts_journal_is_known():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    mgr.restart()
    assert "journal" in refused(mgr, "apply", errno.EAGAIN, plan_id=plan_id)
    assert all_modes(mgr) == {WB}
    mgr.report_all()
    ok(mgr.command("apply", plan_id=plan_id))


def test_a_waiting_run_begins_only_once_its_hosts_journal_is_known_and_agrees():
    mgr = a_mgr()
    start(mgr, scope="host:h1")
    wiped(mgr, fsid="another-cluster")
    mgr.restart()
    probe, real = mgr.probes["h1"], mgr.probes["h1"].report
    mgr.engine.tick()
    assert not probe.leased
    assert all(not run.over and not run.holds_lease for run in mgr.inside.runs.values())
    mgr.report_all()
    mgr.settle()
    assert real is probe.report
    assert probe.modes()["domain-sda"] is WB
    (run,) = (r for r in mgr.inside.runs.values() if "domain-sda" in r.spec.domain_ids)
    assert "another-cluster" in run.state.reason


@pytest.mark.parametrize("restarted", [False, True])
def test_an_entry_of_a_lease_that_no_run_owns_is_told_and_can_be_given_up(restarted):
    mgr = a_mgr()
    probe = mgr.probes["h1"]
    wiped(mgr, key="lease/domain-sda", fsid=CLUSTER_ID)
    probe.stuck.add("domain-sda")
    if restarted:
        mgr.restart()
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)
    done = said(mgr, "drive accept", hostname="h1", domain_id="domain-sda", accept_cost=True)
    assert done["journal_entries"] == ["lease/domain-sda"]
    mgr.report_all()
    mgr.report_all()
    assert codes(mgr) == set()


@pytest.mark.slow
def test_the_next_p1_never_has_the_id_of_an_old_change():
    ids = set()
    for _ in range(3):
        mgr = measured()
        changes = said(mgr, "plan")["changes"]
        ids |= {change["action_id"] for change in changes}
        assert all(change["action_id"].startswith("p1.") for change in changes)
    assert len(ids) == 3 * len(changes)
    leases = {run.spec.lease_id for run in mgr.inside.runs.values()}
    assert all(len(name.split(".")[-1]) == 16 for name in leases)

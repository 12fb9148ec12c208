"""What was there before a change: both witnesses, what happens without one, and acceptance."""

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
from mgr_fakes import builders as make
from mgr_fakes.builders import CLUSTER_ID
from mgr_fakes.module import FakeMgr
from mgr_fakes.store import MemoryStore
from module_world import WB, WT, a_mgr, all_modes, measured, ok, said, start
from wcache.core.drive.prior import PriorDoubt, prior_from
from wcache.core.model import JournalNote, KeptPrior
from wcache.core.protocol import (
    AcceptRequest,
    FailureOutcome,
    Notice,
    ReleaseRequest,
    RollbackRequest,
)

STORED = Path(__file__).parents[2] / "qa" / "stored_v1"


def codes(mgr):
    return {f["code"] for f in said(mgr, "status")["findings"]}


def errors(mgr):
    return [f for f in said(mgr, "status")["findings"] if f["severity"] == "error"]


def held_and_lost(mgr, probe_id="probe-made-anew"):
    """A run's probe is gone with its journal, and the drive is left in the other mode."""
    campaign_id = start(mgr)
    probe = mgr.probes["h1"]
    for _ in range(400):
        mgr.step()
        if WT in probe.modes().values() and probe.leased:
            break
    assert probe.leased
    mgr.now_s += 95.0
    mgr.engine.tick()
    probe.leased.clear()
    probe.probe_id = probe_id
    probe.turn(0)
    assert WT in probe.modes().values()
    return campaign_id, probe


def test_a_drive_whose_journal_is_gone_is_restored_from_what_the_mgr_stored():
    mgr = a_mgr()
    held_and_lost(mgr)
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)
    mgr.restart()
    for _ in range(10):
        mgr.step()
    assert all_modes(mgr) == {WB}
    assert "WCACHE_RESTORE_FAILED" not in codes(mgr)


def restored_unheard(mgr):
    """A probe restores by itself, its word is lost, and an admin switches the drive off by hand."""
    _, probe = held_and_lost(mgr, "probe-h1")
    return probe, next(name for name, mode in probe.modes().items() if mode is WT)


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
    for _ in range(90):
        mgr.step(1.0)
    assert asked == []
    assert probe.modes()[domain_id] is WT
    (finding,) = [f for f in errors(mgr) if f["code"] == "WCACHE_PRIOR_LOST"]
    assert "has restored" in finding["detail"]
    ok(mgr.command("drive accept", hostname="h1", domain_id=domain_id, yes=True))
    mgr.report_all()
    assert errors(mgr) == []


def test_a_cache_that_an_admin_switched_off_after_the_probe_said_it_was_back_stays_off():
    mgr = a_mgr()
    _, probe = held_and_lost(mgr)  # the probe that spoke is replaced too, with its journal
    domain_id = next(name for name, mode in probe.modes().items() if mode is WT)
    lease_id = next(m.spec.lease_id for m in mgr.engine.runs.values()
                    if m.spec.domain_id == domain_id)
    asked = asked_to_release(probe)
    probe.post("", None, notices=(Notice("n", "it is back", domain_id, True, lease_id),))
    for _ in range(90):
        mgr.step(1.0)
    assert asked == []
    assert probe.modes()[domain_id] is WT


def test_a_drive_whose_saved_mode_was_changed_is_not_as_wcache_left_it_and_not_touched():
    mgr = a_mgr()
    _, probe = held_and_lost(mgr)
    domain_id = next(name for name, mode in probe.modes().items() if mode is WT)
    probe._keep(domain_id, WT)
    asked = asked_to_release(probe)
    for _ in range(90):
        mgr.step(1.0)
    assert asked == []
    assert "WCACHE_PRIOR_LOST" in codes(mgr)


def test_what_was_read_after_a_restore_that_was_asked_for_settles_it_at_once():
    """An admin who changes the drive before the next report is not overruled a minute later."""
    mgr = a_mgr()
    _, probe = held_and_lost(mgr)
    domain_id = next(name for name, mode in probe.modes().items() if mode is WT)
    asked = asked_to_release(probe)
    mgr.restart()
    for _ in range(20):
        if asked:
            break
        mgr.step()
    probe.switch(domain_id, WT)
    for _ in range(90):
        mgr.step(1.0)
    assert len(asked) == 1
    assert probe.modes()[domain_id] is WT
    assert errors(mgr) == []


def test_one_report_that_was_made_while_a_restore_ended_is_no_dispute():
    mgr = a_mgr()
    probe, domain_id = restored_unheard(mgr)
    probe.turn(1)
    probe.switch(domain_id, WB)
    for _ in range(20):
        mgr.step()
    assert errors(mgr) == []


def test_a_probes_word_that_a_state_is_back_settles_nothing():
    mgr = a_mgr()
    _, probe = held_and_lost(mgr)
    probe.stuck = set(probe.drives)
    domain_id = next(name for name, mode in probe.modes().items() if mode is WT)
    probe.post("", None, notices=(Notice("n", "it is back", domain_id, True),))
    for _ in range(10):
        mgr.step()
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)


def test_nothing_is_begun_where_a_prior_state_is_owed():
    mgr = a_mgr()
    _, probe = held_and_lost(mgr)
    probe.stuck = set(probe.drives)
    mgr.report_all()
    code, out, error = mgr.command("campaign start", loads="depth1", scope="host:h1",
                                   accept_cost=True, format="json")
    skipped = json.loads(out)["forecast"]["skipped"] if code == 0 else [error]
    assert any("nobody has read" in line for line in skipped)


def wiped(mgr, key="action/p1.0", fsid="", mode=WB):
    """h1's journal has an entry that the mgr knows nothing of, as after a redeployment."""
    probe = mgr.probes["h1"]
    real = probe.report

    def report():
        note = JournalNote(key, "domain-sda", fsid, (KeptPrior("wwn-sda", mode),))
        return replace(real(), journal=(*real().journal, note) if probe.wiped else real().journal)

    probe.wiped, probe.report = True, report
    accept = probe._accept

    def accepted(request):
        if key in request.keys:
            probe.wiped = False
        return accept(request)

    probe._accept = accepted
    mgr.engine.hosts.reported_at_s.clear()
    mgr.report_all()


def test_an_entry_the_mgr_knows_nothing_of_is_told_until_an_admin_accepts_the_drive():
    mgr = a_mgr()
    wiped(mgr)
    assert "WCACHE_PRIOR_LOST" in codes(mgr)
    code, _, error = mgr.command("drive accept", hostname="h1", domain_id="domain-sda")
    assert code == -errno.EPERM
    assert "--yes" in error
    assert "WCACHE_PRIOR_LOST" in codes(mgr)
    done = said(mgr, "drive accept", hostname="h1", domain_id="domain-sda", yes=True)
    assert done["journal_entries"] == ["action/p1.0"]
    assert done["stored"] is True
    assert done["next"].endswith("once the probe has dropped its entries")
    mgr.report_all()
    mgr.report_all()
    assert "WCACHE_PRIOR_LOST" not in codes(mgr)
    assert "accepted as it is" in ok(mgr.command("history"))
    code, _, error = mgr.command("drive accept", hostname="h1", domain_id="domain-sda", yes=True)
    assert code == -errno.ENOENT


def test_no_plan_touches_a_drive_that_is_in_dispute():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    wiped(mgr, fsid="another-cluster")
    code, _, error = mgr.command("apply", plan_id=plan_id)
    assert code == -errno.EPERM
    assert "another-cluster" in error
    assert all_modes(mgr) == {WB}
    left = said(mgr, "plan")["left_alone"]
    assert any("another-cluster" in line for line in left)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_dispute_holds_and_nothing_begins_while_no_new_report_is_there(restarted):
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    wiped(mgr, fsid="another-cluster")
    if restarted:
        mgr.restart()
    mgr.engine.hosts.reported_at_s.clear()
    assert "WCACHE_PRIOR_LOST" in codes(mgr)
    code, _, error = mgr.command("apply", plan_id=plan_id)
    assert (code, all_modes(mgr)) == (-errno.EPERM, {WB})
    assert "another-cluster" in error


def test_nothing_is_applied_before_a_hosts_journal_is_known():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    mgr.restart()
    code, _, error = mgr.command("apply", plan_id=plan_id)
    assert (code, all_modes(mgr)) == (-errno.EAGAIN, {WB})
    assert "journal" in error
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
    assert all(not run.over and not run.holds_lease for run in mgr.engine.runs.values())
    mgr.report_all()
    mgr.settle()
    assert real is probe.report
    assert probe.modes()["domain-sda"] is WB
    (run,) = (r for r in mgr.engine.runs.values() if "domain-sda" in r.spec.domain_ids)
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
    done = said(mgr, "drive accept", hostname="h1", domain_id="domain-sda", yes=True)
    assert done["journal_entries"] == ["lease/domain-sda"]
    mgr.report_all()
    mgr.report_all()
    assert codes(mgr) == set()


def test_the_next_p1_never_has_the_id_of_an_old_change():
    ids = set()
    for _ in range(3):
        mgr = measured()
        changes = said(mgr, "plan")["changes"]
        ids |= {change["action_id"] for change in changes}
        assert all(change["action_id"].startswith("p1.") for change in changes)
    assert len(ids) == 3 * len(changes)
    leases = {run.spec.lease_id for run in mgr.engine.runs.values()}
    assert all(len(name.split(".")[-1]) == 16 for name in leases)


# ---- what version 1 stored


def loaded(name):
    """A mgr that takes over what version 1 stored, and the drive as it was at that moment."""
    kept = json.loads((STORED / f"{name}.json").read_text())
    names = {"drive_id": "0x5000000000000001", "domain_id": "0x5000000000000001"}
    drive = make.drive("sim-sd0", 0, mode=WT, **names)
    store = MemoryStore()
    store.kept.update(kept["store"])
    mgr = FakeMgr(("sim1", (drive,)), simulated=True, store=store)
    return mgr, mgr.probes["sim1"]


def test_a_plan_of_version_1_loads_and_its_rollback_says_what_it_expects():
    mgr, probe = loaded("applied")
    asked = []
    probe.prior_is_optional = True
    probe.actions["p1.0"] = ("0x5000000000000001", WB)
    real = probe.do

    def do(task):
        asked.append(task.request)
        return real(task)

    probe.do = do
    mgr.report_all()
    assert "WCACHE_PRIOR_LOST" not in codes(mgr), "the mgr's plan and the journal agree"
    assert said(mgr, "rollback", plan_id="p1")["changed"] is True
    mgr.settle()
    (request,) = [r for r in asked if isinstance(r, RollbackRequest)]
    assert (request.action_id, request.expected) == ("p1.0", WB)
    assert said(mgr, "plan show", plan_id="p1")["status"] == "rolled back"
    assert all_modes(mgr) == {WB}


def test_a_plan_of_version_1_whose_entry_is_gone_asks_for_acceptance():
    mgr, probe = loaded("applied")
    probe.prior_is_optional = True
    probe.fails = lambda task: (
        FailureOutcome("the prior state of p1.0 is lost", refused=True,
                       restored=False, doubt=PriorDoubt.LOST)
        if isinstance(task.request, RollbackRequest) else None
    )
    mgr.report_all()
    said(mgr, "rollback", plan_id="p1")
    mgr.settle()
    assert said(mgr, "plan show", plan_id="p1")["status"] == "stopped"
    assert "WCACHE_PRIOR_LOST" in codes(mgr)
    mgr.report_all()
    said(mgr, "drive accept", hostname="sim1", domain_id="0x5000000000000001", yes=True)
    assert "WCACHE_PRIOR_LOST" not in codes(mgr)
    assert said(mgr, "plan show", plan_id="p1")["changes"][0]["status"] == "accepted as it is"


def test_a_run_of_version_1_under_a_lease_ends_and_asks_for_acceptance_or_is_told():
    for told in (True, False):
        mgr, probe = loaded("lease")
        probe.prior_is_optional = True
        probe.switch("0x5000000000000001", WB)  # its new version restored it at its start
        mgr.settle()
        mgr.report_all()
        assert "WCACHE_PRIOR_LOST" in codes(mgr)
        if told:
            (run,) = mgr.engine.runs.values()
            (drive,) = probe.drives.values()
            prior = prior_from("", drive.domain_id, (drive,)).drives
            probe.post("", None, notices=(
                Notice("n", "back", drive.domain_id, True, run.spec.lease_id, prior),
            ))
        else:
            said(mgr, "drive accept", hostname="sim1", domain_id="0x5000000000000001", yes=True)
        mgr.report_all()
        assert "WCACHE_PRIOR_LOST" not in codes(mgr)


def left_over(mgr):
    """A run's drive that does not go back, its entry in the probe's journal, and its domain."""
    _, probe = held_and_lost(mgr)
    probe.stuck = set(probe.drives)
    domain_id = next(name for name, mode in probe.modes().items() if mode is WT)
    probe.leased[domain_id] = WB
    mgr.engine.hosts.reported_at_s.clear()
    mgr.report_all()
    return probe, domain_id


def accept(mgr, domain_id):
    return said(mgr, "drive accept", hostname="h1", domain_id=domain_id, yes=True)


@pytest.mark.parametrize("then", ["wait", "again", "failover"])
def test_an_acceptance_waits_until_the_probe_has_dropped_its_entry(then):
    mgr = a_mgr()
    probe, domain_id = left_over(mgr)
    probe.fails = lambda task: (
        FailureOutcome("another program is at it", restored=False)
        if isinstance(task.request, AcceptRequest) else None
    )
    accept(mgr, domain_id)
    mgr.report_all()
    mgr.report_all()
    assert probe.leased == {domain_id: WB}
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)
    assert "another program is at it" in ok(mgr.command("history"))
    probe.fails = lambda task: None
    if then == "again":
        accept(mgr, domain_id)
    elif then == "failover":
        mgr.restart()
    else:
        mgr.now_s += 61.0
        mgr.engine.tick()
    mgr.report_all()
    mgr.report_all()
    assert (probe.leased, probe.modes()[domain_id], errors(mgr)) == ({}, WT, [])
    probe.stuck = set()
    mgr.restart()
    for _ in range(12):
        mgr.step()
    assert (probe.modes()[domain_id], errors(mgr)) == (WT, [])


def test_a_probe_hears_of_an_acceptance_only_once_the_mons_have_it():
    mgr = a_mgr()
    probe, domain_id = left_over(mgr)
    mgr.store.slow = True
    done = said(mgr, "drive accept", hostname="h1", domain_id=domain_id, yes=True)
    assert done["stored"] is False
    assert "once the mons have stored it and the probe has dropped its entries" in done["next"]
    mgr.report_all()
    assert probe.leased == {domain_id: WB}
    mgr.store.answer()
    mgr.store.slow = False
    mgr.report_all()
    assert (probe.leased, probe.modes()[domain_id]) == ({}, WT)


def test_a_run_whose_acceptance_was_not_stored_is_given_up_by_the_next_mgr():
    mgr = a_mgr()
    probe, domain_id = left_over(mgr)
    mgr.store.fails = lambda key: key.startswith("run/")
    accept(mgr, domain_id)
    mgr.report_all()
    assert probe.leased == {domain_id: WB}
    mgr.store.fails = lambda key: False
    mgr.restart()
    mgr.report_all()
    mgr.report_all()
    assert (probe.leased, probe.modes()[domain_id], errors(mgr)) == ({}, WT, [])


def test_a_freeze_that_the_mons_do_not_have_yet_says_so_and_is_stored_first():
    mgr = a_mgr()
    start(mgr)
    mgr.step()
    mgr.store.slow = True
    assert "not stored yet" in said(mgr, "freeze")["note"]
    keys = [write.key for writes, done in mgr.store._queued if done for write in writes]
    assert keys[0] == "frozen"
    mgr.store.answer()
    mgr.store.slow = False
    assert "note" not in said(mgr, "freeze")
    mgr.restart()
    assert mgr.engine.frozen


def test_a_freeze_that_the_mons_refuse_is_shown_and_tried_again():
    mgr = a_mgr()
    mgr.store.fails = lambda key: key == "frozen"
    assert "not stored yet" in said(mgr, "freeze")["note"]
    assert "WCACHE_STORE_FAILED" in codes(mgr)
    mgr.store.fails = lambda key: False
    mgr.now_s += 20.0
    mgr.engine.tick()
    mgr.engine.tick()
    assert "WCACHE_STORE_FAILED" not in codes(mgr)
    mgr.restart()
    assert mgr.engine.frozen

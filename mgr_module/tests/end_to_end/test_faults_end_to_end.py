"""What the whole module does when probes, the store, the cluster or the analysis fail."""

import errno

import pytest
from mgr_fakes import builders as make
from module_world import (
    WB,
    a_mgr,
    all_modes,
    codes,
    fine,
    has_words,
    measured,
    ok,
    said,
    start,
    taken_over,
    until_benched,
)
from wcache.core.protocol import Notice
from wcache.core.record import Precondition
from wcache.engine.watchdog import STALL_S


@pytest.mark.slow
def test_a_bench_cut_off_by_a_lost_lease_is_cancelled_before_the_next_one():
    mgr = a_mgr()
    start(mgr)
    until_benched(mgr)
    (token,) = mgr.loads.waiting
    mgr.probes["h1"].crash()
    mgr.probes["h1"].turn()
    assert mgr.loads.cancelled == [token]
    mgr.settle()
    fine(mgr)


def test_a_lease_that_runs_out_at_the_probe_repeats_the_period_only():
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.steps(9)
    mgr.probes["h1"].lose_lease()
    mgr.settle()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["status"] == "done"
    assert sum(run["interrupted_periods"] for run in shown["run_list"]) == 1


def test_a_probe_silent_for_a_lease_and_half_a_minute_ends_the_run_and_is_reported():
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.steps(5)
    mgr.now_s += 95.0
    mgr.engine.tick()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["run_list"][0]["status"] == "aborted"
    assert shown["run_list"][0]["restored"] is False
    assert "WCACHE_RESTORE_FAILED" in codes(mgr)
    probe = mgr.probes["h1"]
    probe.lose_lease()
    assert probe.turn(0).lease is None
    probe.post("", None, notices=(Notice("n1", "restored", "domain-sda", True),))
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["run_list"][0]["restored"] is False, "nobody has read it"
    mgr.report_all()
    mgr.restart()
    assert said(mgr, "campaign show", campaign_id=campaign_id)["run_list"][0]["restored"] is True


def test_what_never_answers_is_stopped_so_that_no_lease_is_held_for_ever():
    mgr = a_mgr(experiment_seconds_max=86400.0, experiment_client_wait_max_s=86400.0)
    campaign_id = start(mgr)
    mgr.steps(3)
    mgr.loads.run = lambda: None
    mgr.steps(int(STALL_S / 30) + 6, 30.0)
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert "nothing has happened for" in shown["run_list"][0]["reason"]
    assert mgr.probes["h1"].leased == {}


def test_a_release_that_fails_is_said_until_the_probe_says_otherwise():
    mgr = a_mgr()
    campaign_id = start(mgr, pairs=4)
    probe = mgr.probes["h1"]
    probe.stuck = set(probe.drives)
    mgr.settle()
    taken_over(mgr)
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert has_words(
        ok(mgr.command("campaign show", campaign_id=campaign_id)), "NOT CONFIRMED"
    )
    assert not shown["run_list"][0]["restored"]


@pytest.mark.slow
def test_a_store_that_stops_taking_values_ends_the_run_with_a_release_and_says_so():
    mgr = a_mgr()
    start(mgr)
    mgr.steps(7)
    mgr.store.fails = lambda key: True
    mgr.steps(20)
    assert all_modes(mgr) == {WB}
    assert mgr.probes["h1"].leased == {}
    assert "WCACHE_STORE_FAILED" in codes(mgr)
    assert mgr.command("freeze")[0] == -errno.EAGAIN  # in force, and not stored
    assert said(mgr, "status")["frozen"] is True
    mgr.store.fails = lambda key: False
    mgr.restart()
    mgr.settle()
    assert mgr.exceptions == []


def test_a_campaign_that_could_not_be_stored_whole_does_not_come_to_life_later():
    mgr = a_mgr()
    mgr.store.fails = lambda key: key.startswith("campaign/")
    start(mgr, "timer")
    assert mgr.inside.campaigns == {}
    assert "WCACHE_STORE_FAILED" in ok(mgr.command("status"))
    assert "not started" in ok(mgr.command("history"))
    mgr.store.fails = lambda key: False
    mgr.restart()
    assert not mgr.engine.is_active()
    assert start(mgr) == "c2"


def test_what_cannot_be_read_is_told_and_its_number_is_not_used_again():
    mgr = measured()
    mgr.store.kept["campaign/c1"] = "{"
    mgr.store.kept["rollout/p7"] = "{"
    mgr.restart()
    assert set(said(mgr, "status")["unreadable"]) == {"campaign/c1", "rollout/p7"}
    assert "campaign/c1" in ok(mgr.command("status"))
    mgr.report_all()
    assert start(mgr) == "c2"
    assert said(mgr, "plan")["plan_id"] == "p8"
    assert mgr.store.kept["campaign/c1"] == "{"


@pytest.mark.slow
def test_what_is_measured_in_a_sick_cluster_by_force_stays_out_of_advice():
    mgr = a_mgr()
    mgr.now_s += 60.0
    mgr.view.state = make.cluster(
        mgr.view.state.osds.values(), missed=(Precondition.CLUSTER_HEALTHY,)
    )
    start(mgr, override="cluster_healthy")
    mgr.settle()
    assert said(mgr, "campaign show", campaign_id="c1")["status"] == "done"
    assert said(mgr, "recommend")["recommendations"] == []


@pytest.mark.slow
def test_a_new_mgr_that_knows_no_pgs_yet_waits_instead_of_giving_up():
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.steps(6)
    healthy = mgr.view.state
    mgr.view.state = make.cluster(healthy.osds.values(), missed=(Precondition.CLUSTER_HEALTHY,))
    mgr.restart()
    mgr.steps(10)
    assert said(mgr, "campaign show", campaign_id=campaign_id)["status"] == "running"
    mgr.view.state = healthy
    mgr.settle()
    assert said(mgr, "campaign show", campaign_id=campaign_id)["status"] == "done"


@pytest.mark.slow
def test_a_missing_numpy_still_measures_and_is_analysed_after_a_restart():
    mgr = a_mgr()
    mgr.analysis.error = "numpy is missing"
    start(mgr)
    mgr.settle()
    results = said(mgr, "campaign show", campaign_id="c1")["results"]
    assert [(r["pairs"], r["analysed"]) for r in results] == [(8, False)] * 3
    assert "WCACHE_NO_ANALYSIS" in codes(mgr)
    mgr.restart()
    results = said(mgr, "campaign show", campaign_id="c1")["results"]
    assert {r["verdict"] for r in results} == {"write through"}

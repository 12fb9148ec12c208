"""`try` is one command: what it costs, how far it is, what came out, what to type next."""

import errno
from dataclasses import replace

import pytest
from module_world import (
    WB,
    LateAnalysis,
    a_mgr,
    all_modes,
    apply_plan,
    fine,
    measured,
    ok,
    refused,
    said,
    settled,
    start,
    taken_over,
    with_osds_on,
)
from wcache.ceph.view import CephTraffic
from wcache.core.model import CacheMode

PLAN = "ceph wcache plan"
OFFER = (
    "to see what waits in `ceph health`: `ceph wcache auto recommend  # from now on measures new "
    "and unmeasured drives by itself, within daily limits; applies nothing`"
)


def loads(mgr):
    """The load at which each OSD is measured."""
    return {
        setup.osd_id: setup.load_point.value
        for run in mgr.inside.runs.values() for setup in run.spec.experiments
    }


@pytest.mark.slow
def test_it_measures_tells_how_far_it_is_and_then_the_answer():
    mgr = a_mgr()
    data = said(mgr, "try", accept_cost=True)
    assert data["state"] == "measuring"
    seen = []
    while mgr.engine.is_active():
        mgr.step()
        seen.append(said(mgr, "try"))
    told = [item for item in seen if item["state"] == "measuring"]
    assert [item["percent"] for item in told] == sorted(item["percent"] for item in told)
    assert told[-1]["percent"] > told[0]["percent"]
    assert all(
        100 * item["drives_done"] // item["drives"] <= item["percent"] < 100 for item in told
    ), told
    mgr.report_all()
    answer = said(mgr, "try")
    assert (answer["state"], answer["next"]) == ("answer", PLAN)
    text = " ".join(answer["lines"])
    assert "turn the write cache off" in text
    assert text.count("20.00 ms -> 4.00 ms (-80%, 99%: -80 to -80)") == 2
    assert "times as fast with the cache off" in ok(mgr.command("recommend"))
    assert "to change these drives: `ceph wcache plan`" in answer["lines"]
    assert OFFER in answer["lines"]
    assert ok(mgr.command("try")).splitlines()[-1] == f"next: {PLAN}"
    assert ok(mgr.command("recommend")).splitlines()[-1] == f"next: {PLAN}"
    assert ok(mgr.command("plan"))
    assert all_modes(mgr) == {WB}
    fine(mgr)


@pytest.mark.slow
def test_an_old_run_that_measured_nothing_does_not_hide_what_a_plan_would_change():
    mgr = a_mgr()
    said(mgr, "try", accept_cost=True)
    ok(mgr.command("campaign stop", campaign_id="c1"))
    settled(mgr)
    assert said(mgr, "try")["next"] == "ceph wcache try --accept-cost"
    start(mgr)
    settled(mgr)
    assert said(mgr, "plan", dry_run=True)["changes"]
    answer = said(mgr, "try")
    assert answer["next"] == PLAN
    assert "campaign c1 of 1970-01-12 13:46:41 UTC: aborted" in answer["lines"][0]
    assert "by other measurements: hdd, ACME HD1 1.0: turn the write cache off" in answer["lines"]


@pytest.mark.slow
def test_a_second_consent_while_it_runs_begins_nothing_and_one_after_it_measures_anew():
    mgr = a_mgr()
    first = said(mgr, "try", accept_cost=True)["campaign_id"]
    assert said(mgr, "try", accept_cost=True)["campaign_id"] == first
    mgr.settle()
    assert said(mgr, "try", accept_cost=True)["campaign_id"] != first
    mgr.settle()


@pytest.mark.slow
def test_clients_writes_are_taken_where_there_are_enough_of_them():
    mgr = a_mgr()
    mgr.traffic.rates = {0: 1000.0, 1: 0.5}
    data = said(mgr, "try", dry_run=True)
    assert data["busy_osds"] == [0]
    said(mgr, "try", accept_cost=True)
    found = loads(mgr)
    assert found[0] == "osd_traffic"
    assert set(found.values()) == {"osd_traffic", "osd_bench_depth1"}
    mgr.settle()


def test_at_most_two_drives_of_a_drive_model_on_different_hosts():
    mgr = a_mgr()
    said(mgr, "try", accept_cost=True)
    assert sorted(run.spec.hostname for run in mgr.inside.runs.values()) == ["h1", "h2"]
    mgr.settle()


def test_a_new_mgr_knows_the_answer_still():
    mgr = a_mgr()
    said(mgr, "try", accept_cost=True)
    settled(mgr)
    before = said(mgr, "try")
    taken_over(mgr)
    assert said(mgr, "try")["lines"] == before["lines"]


def test_what_a_shell_would_take_apart_is_quoted_in_the_next_command():
    mgr = a_mgr()
    mgr.view.state = replace(mgr.view.state, osds={
        osd_id: replace(osd, device_class="my class; reboot")
        for osd_id, osd in mgr.view.state.osds.items()
    })
    data = said(mgr, "try", scope="class:my class; reboot", dry_run=True)
    assert data["next"] == "ceph wcache try 'class:my class; reboot' --accept-cost"


@pytest.mark.parametrize(
    ("points", "rate"),
    [([], 0.0), ([(1.0, 1, 1)], 0.0), ([(0.0, 1, 10), (5.0, 2, 60)], 10.0),
     ([(0.0, 1, 60), (5.0, 2, 10)], 0.0), ([(5.0, 1, 1), (5.0, 1, 9)], 0.0)],
)
def test_a_rate_comes_from_the_points_that_the_mgr_has(points, rate):
    series = {"bluestore.txc_commit_lat": points, "bluestore.commit_lat": []}
    assert CephTraffic(lambda _osd_id, name: series[name]).commits_per_s(0) == rate


@pytest.mark.parametrize(("points", "took_ms"), [
    ([(0.0, 1_000_000, 10), (5.0, 301_000_000, 110)], 3.0), ([(0.0, 1, 10)], None),
    ([(0.0, 1, 10), (5.0, 1, 10)], None), ([(0.0, 9, 10), (5.0, 1, 60)], None),
])
def test_what_a_commit_takes_comes_from_them_too(points, took_ms):
    series = {"bluestore.txc_commit_lat": points, "bluestore.commit_lat": []}
    assert CephTraffic(lambda _osd_id, name: series[name]).commit_ms(0) == took_ms


def test_hosts_that_have_not_reported_yet_are_named_before_anything_is_begun():
    mgr = with_osds_on(a_mgr(), "h3")
    ok(mgr.command("agent add", all=True, hosts_read=True))
    data = said(mgr, "try", dry_run=True)
    assert data["not_heard"] == ["h3"]
    assert "not responding: h3" in ok(mgr.command("try", dry_run=True))
    assert data["next"] == (
        "ceph wcache try --accept-cost  # without the hosts that are not responding"
    )


def test_with_no_probe_responding_it_says_so_and_begins_nothing():
    mgr = a_mgr()
    mgr.now_s += 600.0
    data = said(mgr, "try", dry_run=True)
    assert data["not_heard"] == ["h1", "h2"]
    assert data["next"] == "ceph wcache agent ls"
    error = refused(mgr, "try", errno.EPERM, accept_cost=True)
    assert "preconditions not met: no probe is responding" in error
    assert mgr.inside.runs == {}


def test_where_one_host_alone_has_decided_the_next_command_measures_the_other():
    mgr = a_mgr()
    said(mgr, "try", scope="host:h1", accept_cost=True)
    settled(mgr)
    data = said(mgr, "try", scope="host:h1")
    assert "not decided" in " ".join(data["lines"])
    assert data["next"] == "ceph wcache campaign start --scope=host:h2 --dry-run"
    assert ok(mgr.command("recommend")).endswith(data["next"])


@pytest.mark.slow
def test_without_numpy_it_says_that_and_not_that_nothing_was_measured():
    mgr = a_mgr()
    mgr.analysis.error = "No module named 'numpy'"
    said(mgr, "try", accept_cost=True)
    mgr.settle()
    text = ok(mgr.command("try"))
    assert "No module named 'numpy'" in text
    assert "install python3-numpy and python3-scipy on the mgr hosts" in text
    assert "nothing was decided" not in text


@pytest.mark.slow
def test_there_is_no_answer_before_all_that_was_measured_is_analysed(monkeypatch):
    mgr = a_mgr()
    said(mgr, "try", accept_cost=True)
    while said(mgr, "campaign show", campaign_id="c1")["periods_done"] < 2:
        mgr.step()
    late = LateAnalysis(mgr.analysis)
    monkeypatch.setattr(mgr.inside.analyses, "_analysis", late)
    ok(mgr.command("campaign stop", campaign_id="c1"))
    settled(mgr)
    waiting = said(mgr, "try")
    assert (waiting["state"], waiting["next"]) == ("measuring", "ceph wcache try")
    assert waiting["drives_done"] == waiting["drives"]
    assert "the measurements are being analysed: ask again in a moment" in waiting["lines"]
    late.answer()
    mgr.step()
    assert said(mgr, "try")["state"] == "answer"


@pytest.mark.slow
def test_what_is_in_place_is_said_to_be_and_a_plan_under_way_comes_next():
    mgr = measured()
    said(mgr, "try", accept_cost=True)
    mgr.settle()
    apply_plan(mgr)
    assert said(mgr, "try")["next"] == "ceph wcache rollout show p1"
    assert ok(mgr.command("recommend")).endswith("next: ceph wcache rollout show p1")
    settled(mgr)
    data = said(mgr, "try")
    assert "already in write through" in " ".join(data["lines"])
    assert data["next"] == ""
    assert ok(mgr.command("try")).splitlines()[-1] == "next: nothing"
    assert "in place, by plan p1" in ok(mgr.command("plan"))
    # turning caches on needs a consent, which `try` does not take
    again = "ceph wcache campaign start --consent-turn-on --dry-run"
    assert f"to measure again: `{again}`" in data["lines"]
    assert "needs its own consent" in refused(mgr, "try", accept_cost=True)
    forecast = said(mgr, "campaign start", consent_turn_on=True, dry_run=True)
    assert forecast["forecast"]["drives"]


@pytest.mark.slow
def test_a_consent_while_something_else_is_measured_is_refused_and_not_dropped():
    mgr = a_mgr()
    assert start(mgr, scope="host:h1") == "c1"
    error = refused(mgr, "try", errno.EBUSY, accept_cost=True)
    assert "campaign c1 is under way" in error
    assert "begin this after it" in error
    data = said(mgr, "try", dry_run=True)
    assert (data["state"], data["under_way"]) == ("forecast", "c1")
    mgr.settle()
    said(mgr, "try", scope="host:h2", accept_cost=True)
    refused(mgr, "try", errno.EBUSY, accept_cost=True)
    assert said(mgr, "try")["state"] == "measuring"
    mgr.settle()


@pytest.mark.slow
def test_a_plan_under_way_is_named_and_nothing_is_begun_beside_it():
    mgr = measured()
    apply_plan(mgr)
    data = said(mgr, "try", dry_run=True)
    assert "not now: plan p1 is under way" in data["lines"]
    assert data["next"] == "ceph wcache rollout show p1"
    error = refused(mgr, "try", errno.EBUSY, accept_cost=True)
    assert error.endswith("plan p1 is under way: begin this after it")
    mgr.settle()


def test_a_drive_of_a_removed_host_is_named_by_its_cache_domain():
    mgr = a_mgr()
    said(mgr, "try", accept_cost=True)
    mgr.step()
    del mgr.probes["h1"]
    mgr.now_s += 600.0
    mgr.step()
    ok(mgr.command("agent rm", hostname="h1", host_is_gone=True))
    mgr.settle()
    assert "not measured: h1 domain-sd" in ok(mgr.command("try"))


@pytest.mark.slow
def test_where_the_budget_was_spent_before_a_pair_it_says_so_of_each_drive(monkeypatch):
    mgr = a_mgr(experiment_seconds_max=5.0)
    for probe in mgr.probes.values():
        monkeypatch.setattr(probe, "latency_ns", dict.fromkeys(CacheMode, 20_000_000_000))
    said(mgr, "try", accept_cost=True)
    settled(mgr)
    answer = said(mgr, "try")
    assert answer["recommendations"] == []
    assert "osd.0 sda depth1: few pairs; budget of 5 s is spent" in answer["lines"]
    assert not any("nothing was decided" in line for line in answer["lines"])

"""`try` is one command: what it costs, how far it is, what came out, what to type next."""

import errno
from dataclasses import replace

import pytest
from module_world import WB, a_mgr, all_modes, fine, ok, said
from test_commands_do_what_they_say import refused
from wcache.ceph.traffic import CephTraffic
from wcache.core.record import Precondition


def loads(mgr):
    """The load at which each OSD is measured."""
    return {
        setup.osd_id: setup.load_point.value
        for run in mgr.engine.runs.values() for setup in run.spec.experiments
    }


def test_first_it_says_what_it_costs_and_begins_nothing():
    mgr = a_mgr()
    data = said(mgr, "try")
    assert data["state"] == "forecast"
    assert data["forecast"]["bytes_written"] > 0
    assert data["next"] == "ceph wcache try --accept-cost"
    assert mgr.engine.runs == {}
    assert said(mgr, "try", scope="class:hdd")["next"] == (
        "ceph wcache try class:hdd --accept-cost"
    )


def test_it_measures_tells_how_far_it_is_and_then_the_answer():
    mgr = a_mgr()
    data = said(mgr, "try", accept_cost=True)
    assert data["state"] == "measuring"
    seen = []
    while mgr.engine.active:
        mgr.step()
        seen.append(said(mgr, "try"))
    told = [item for item in seen if item["state"] == "measuring"]
    assert [item["percent"] for item in told] == sorted(item["percent"] for item in told)
    assert told[-1]["percent"] > told[0]["percent"]
    mgr.report_all()
    answer = said(mgr, "try")
    assert (answer["state"], answer["next"]) == ("answer", "ceph wcache plan")
    text = " ".join(answer["lines"])
    assert "turn the write cache off" in text
    assert "times as fast" in text
    assert ok(mgr.command("try")).splitlines()[-1] == "next: ceph wcache plan"
    assert ok(mgr.command("plan"))
    assert all_modes(mgr) == {WB}
    fine(mgr)


def test_a_second_consent_while_it_runs_begins_nothing_and_one_after_it_measures_anew():
    mgr = a_mgr()
    first = said(mgr, "try", accept_cost=True)["campaign_id"]
    assert said(mgr, "try", accept_cost=True)["campaign_id"] == first
    mgr.settle()
    assert said(mgr, "try", accept_cost=True)["campaign_id"] != first
    mgr.settle()


def test_clients_writes_are_taken_where_there_are_enough_of_them():
    mgr = a_mgr()
    mgr.traffic.rates = {0: 1000.0, 1: 0.5}
    data = said(mgr, "try")
    assert data["busy_osds"] == [0]
    said(mgr, "try", accept_cost=True)
    found = loads(mgr)
    assert found[0] == "osd_traffic"
    assert set(found.values()) == {"osd_traffic", "osd_bench_depth1"}
    mgr.settle()


def test_at_most_two_drives_of_a_drive_model_on_different_hosts():
    mgr = a_mgr()
    said(mgr, "try", accept_cost=True)
    assert sorted(run.spec.hostname for run in mgr.engine.runs.values()) == ["h1", "h2"]
    mgr.settle()


def test_a_cluster_that_is_not_well_is_said_before_and_refused():
    mgr = a_mgr()
    mgr.view.state = replace(mgr.view.state, missed=(Precondition.PGS_CLEAN,))
    assert "not now" in ok(mgr.command("try"))
    error = refused(mgr, "try", errno.EPERM, accept_cost=True)
    assert "active+clean" in error
    assert "--force" not in error


def test_a_new_mgr_knows_the_answer_still():
    mgr = a_mgr()
    said(mgr, "try", accept_cost=True)
    mgr.settle()
    mgr.report_all()
    before = said(mgr, "try")
    mgr.restart()
    mgr.report_all()
    assert said(mgr, "try")["lines"] == before["lines"]


@pytest.mark.parametrize("scope", ["rack:1", "osd.x", "a;b", "$(x)"])
def test_a_scope_that_is_none_is_refused(scope):
    refused(a_mgr(), "try", errno.EINVAL, scope=scope)


def test_what_a_shell_would_take_apart_is_quoted_in_the_next_command():
    mgr = a_mgr()
    mgr.view.state = replace(mgr.view.state, osds={
        osd_id: replace(osd, device_class="my class; reboot")
        for osd_id, osd in mgr.view.state.osds.items()
    })
    data = said(mgr, "try", scope="class:my class; reboot")
    assert data["next"] == "ceph wcache try 'class:my class; reboot' --accept-cost"


@pytest.mark.parametrize(
    ("points", "rate"),
    [([], 0.0), ([(1.0, 1, 1)], 0.0), ([(0.0, 1, 10), (5.0, 2, 60)], 10.0),
     ([(0.0, 1, 60), (5.0, 2, 10)], 0.0), ([(5.0, 1, 1), (5.0, 1, 9)], 0.0)],
)
def test_a_rate_comes_from_the_points_that_the_mgr_has(points, rate):
    series = {"bluestore.txc_commit_lat": points, "bluestore.commit_lat": []}
    assert CephTraffic(lambda _osd_id, name: series[name]).commits_per_s(0) == rate

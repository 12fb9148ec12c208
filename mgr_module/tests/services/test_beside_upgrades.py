"""While the orchestrator upgrades the cluster nothing is measured; what was not begun waits."""

import errno
from dataclasses import replace

import pytest
from module_world import WB, a_mgr, all_modes, fine, ok, refused, said, start
from wcache.core.record import Precondition

UPGRADE, CLEAN = Precondition.NO_UPGRADE, Precondition.PGS_CLEAN
WORDS = "an orchestrated upgrade is under way"


def miss(mgr, *items):
    mgr.view.state = replace(mgr.view.state, missed=items)


def runs(mgr, campaign_id):
    return said(mgr, "campaign show", campaign_id=campaign_id)["run_list"]


def until(mgr, condition, steps=2000):
    for _ in range(steps):
        if condition():
            return
        mgr.step(0.3)
    raise AssertionError("it never came")


def test_a_campaign_is_refused_meanwhile():
    mgr = a_mgr()
    miss(mgr, UPGRADE)
    assert WORDS in refused(mgr, "campaign start", errno.EPERM, loads="depth1", accept_cost=True)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{"loads": "depth1"}, {"observe": True}])
@pytest.mark.parametrize("age_s", [0.0, 60.0])
def test_what_is_measured_ends_and_the_rest_waits_for_the_end_of_the_upgrade(arguments, age_s):
    mgr = a_mgr(parallel_hosts_max=1)
    mgr.now_s += age_s  # before the mgr is 60 s old it does not know how the PGs are
    mgr.report_all()
    campaign_id = said(
        mgr, "campaign start", accept_cost=True, **arguments)["campaign_id"]
    mgr.step()
    assert [run["status"] for run in runs(mgr, campaign_id)].count("running") == 1
    miss(mgr, UPGRADE)
    mgr.step(6.0)
    until(mgr, lambda: not any(m.under_way for m in mgr.inside.runs.values()))
    ended = [run for run in runs(mgr, campaign_id) if run["status"] != "waiting"]
    waiting = [run for run in runs(mgr, campaign_id) if run["status"] == "waiting"]
    assert [run["reason"] for run in ended] == [f"stopped: preconditions no longer met: {WORDS}"]
    assert ended[0]["restored"] is True
    assert all_modes(mgr) == {WB}
    assert {run["reason"] for run in waiting} == {f"waiting: preconditions not met: {WORDS}"}
    assert len(waiting) == 2
    told = ok(mgr.command("history")).count("waiting: preconditions not met")
    assert told == len(waiting)
    mgr.restart()  # the upgrade deploys the mgr too
    mgr.steps(400, 0.3)
    assert ok(mgr.command("history")).count("waiting: preconditions not met") == told
    # right after it the PGs of the last OSD are not clean yet: nobody gives up for that
    miss(mgr, CLEAN)
    mgr.steps(20, 0.3)
    miss(mgr)
    mgr.settle()
    after = {run["run_id"]: run for run in runs(mgr, campaign_id)}
    assert {after[run["run_id"]]["status"] for run in waiting} == {"done"}
    assert {after[run["run_id"]]["reason"] for run in waiting} == {""}
    fine(mgr)


def test_a_run_that_waits_can_be_stopped():
    mgr = a_mgr(parallel_hosts_max=1)
    campaign_id = start(mgr)
    miss(mgr, UPGRADE)
    mgr.step(0.3)
    ok(mgr.command("campaign stop", campaign_id=campaign_id))
    mgr.settle()
    assert {run["status"] for run in runs(mgr, campaign_id)} == {"aborted"}
    fine(mgr)

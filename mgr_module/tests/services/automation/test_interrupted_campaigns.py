"""What `auto` does after a campaign of its own that did not come to its end."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WT, all_modes, ok, said
from test_auto import a_mgr, go_on
from wcache.core.record import Precondition


def _mgr():
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0),)), ("h2", (make.drive("sdb", 1),)),
        auto_quiet_s=0.0, canary_wait_s=0.0,
    )
    mgr.report_all()
    mgr.steps(70, 1.0)  # a new mgr trusts what it knows of the PGs after a minute
    ok(mgr.command("auto", mode="apply"))
    return mgr


def _until_a_second_campaign(mgr, within_s):
    began_s = mgr.now_s
    while len(said(mgr, "campaign ls")["campaigns"]) == 1 and mgr.now_s < began_s + within_s:
        mgr.step(10.0)
    return len(said(mgr, "campaign ls")["campaigns"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("struck", [["releasing", "waiting"], ["done", "running"]])
def test_a_campaign_of_which_recovery_kept_some_drives_is_begun_again_within_hours(struck):
    mgr = _mgr()
    while _statuses(mgr) != struck:
        mgr.step(0.1)
    mgr.view.state = replace(mgr.view.state, missed=(Precondition.CLUSTER_HEALTHY,))
    mgr.inside.watchdog.cluster_at_s = 0.0  # it looks now, and not in five seconds
    mgr.settle()
    assert _statuses(mgr) == ["done", "aborted"]
    assert said(mgr, "recommend")["recommendations"][0]["mode"] is None
    mgr.view.state = replace(mgr.view.state, missed=())
    assert _until_a_second_campaign(mgr, 2 * 3600.0)
    mgr.settle()
    mgr.step(10.0)
    mgr.settle()
    assert all_modes(mgr) == {WT}


@pytest.mark.slow
def test_a_campaign_that_lacks_a_silent_host_is_not_begun_again_each_hour():
    mgr = _mgr()
    mgr.probes["h2"].muted = True
    while not _statuses(mgr):
        mgr.step()
    mgr.step(120.0)
    mgr.settle()
    assert "aborted" in _statuses(mgr)
    assert not _until_a_second_campaign(mgr, 86400.0)


@pytest.mark.slow
def test_an_experiment_that_ended_on_a_transient_begins_anew_once_with_a_longer_settling():
    mgr = a_mgr()
    mgr.analysis.findings = [{"code": "WCACHE_CARRYOVER", "detail": "it creeps"}]
    ok(mgr.command("auto", mode="recommend"))
    for _ in range(4):
        go_on(mgr)
    first, *again = (item.options.settle_s for item in mgr.inside.campaigns.values())
    assert (first, {*again}) == (0.25, {2.0})
    scopes = [
        machine.spec.domain_id for machine in mgr.inside.runs.values()
        if machine.spec.campaign_id != "c1"
    ]
    assert len(scopes) == len(set(scopes))


def _statuses(mgr):
    found = said(mgr, "campaign ls")["campaigns"]
    if not found:
        return []
    runs = said(mgr, "campaign show", campaign_id="c1")["run_list"]
    return [run["status"] for run in runs]

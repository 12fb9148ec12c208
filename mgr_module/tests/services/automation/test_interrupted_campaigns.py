"""What `auto` does after a campaign of its own that did not come to its end."""

from __future__ import annotations

from dataclasses import replace

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WT, all_modes, ok, said
from wcache.core.record import Precondition


def test_a_campaign_of_which_recovery_kept_some_drives_is_begun_again_within_hours():
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0),)), ("h2", (make.drive("sdb", 1),)),
        auto_quiet_s=0.0, canary_wait_s=0.0,
    )
    mgr.report_all()
    ok(mgr.command("auto", mode="apply"))
    while "releasing" not in _statuses(mgr):
        mgr.step()
    mgr.view.state = replace(mgr.view.state, missed=(Precondition.NO_RECOVERY,))
    mgr.settle()
    assert _statuses(mgr) == ["done", "aborted"]
    assert said(mgr, "recommend")["recommendations"][0]["mode"] is None
    mgr.view.state = replace(mgr.view.state, missed=())
    began_s = mgr.now_s
    while len(said(mgr, "campaign ls")["campaigns"]) == 1:
        assert mgr.now_s < began_s + 2 * 3600.0
        mgr.step(10.0)
    mgr.settle()
    mgr.step(10.0)
    mgr.settle()
    assert all_modes(mgr) == {WT}


def _statuses(mgr):
    found = said(mgr, "campaign ls")["campaigns"]
    if not found:
        return []
    runs = said(mgr, "campaign show", campaign_id="c1")["run_list"]
    return [run["status"] for run in runs]

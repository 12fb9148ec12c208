"""`auto`: what is begun without an admin, on the whole module with fake ports."""

import errno
from dataclasses import replace

import pytest
from auto_world import expand
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.probe import FakeProbe
from module_world import (
    WB,
    WT,
    all_modes,
    apply_plan,
    codes,
    findings_of,
    fine,
    ok,
    said,
    settled,
    taken_over,
)
from module_world import a_mgr as three_drives
from wcache.core.change.preconditions import TOLD_AFTER_S
from wcache.core.errors import ConflictError
from wcache.core.model import DriveModel, Finding, FindingCode, Severity
from wcache.core.record import Precondition
from wcache.services.auto import REFUSED_WAIT_S

OTHER = DriveModel("ACME", "HD2", "1.0")


def a_mgr(**options):
    return three_drives(**{"auto_quiet_s": 0.0, "canary_wait_s": 0.0, **options})


def go_on(mgr, seconds=60.0):
    """Let the automation do what it wants, and look at all drives anew."""
    for _ in range(3):
        mgr.steps(int(seconds / 6), 6.0)
        mgr.settle()
        mgr.inside.hosts.reported_at_s.clear()
        mgr.report_all()


def standing(mode="apply", **options):
    """A cluster whose one drive model has a verdict, carried out by `auto apply`."""
    mgr = a_mgr(**options)
    ok(mgr.command("auto", mode=mode))
    go_on(mgr)
    return mgr


def changes(mgr):
    return [r for r in said(mgr, "history", limit=1000)["history"] if r["kind"] == "change"]


def campaigns(mgr):
    return said(mgr, "campaign ls")["campaigns"]


def test_off_is_the_default_and_begins_nothing():
    mgr = a_mgr()
    go_on(mgr)
    assert (campaigns(mgr), changes(mgr)) == ([], [])
    assert said(mgr, "auto status")["modes"] == {}


@pytest.mark.slow
def test_a_plan_that_waits_for_an_ill_drive_keeps_it_from_no_other():
    mgr = a_mgr()
    ok(mgr.command("auto", mode="apply"))
    while "p1" not in mgr.inside.rollouts:
        mgr.step(6.0)
    mgr.view.state = replace(mgr.view.state, ill={2: "has PGs that are degraded"})
    expand(mgr, "h3", make.drive("sdd", 3, drive_model=OTHER))
    while not mgr.inside.rollouts["p1"].rollout.missed:
        mgr.step(6.0)
    mgr.steps(90, 6.0)
    assert len(campaigns(mgr)) == 1  # it has not waited for long yet
    for _ in range(600):
        mgr.step(6.0)
        if mgr.now_s % 60.0 < 6.0:
            mgr.report_all()
        if "p2" in mgr.inside.rollouts and mgr.inside.rollouts["p2"].over:
            break
    assert [p.rollout.status.value for p in mgr.inside.rollouts.values()] == ["running", "done"]
    modes = {name: {d.mode for d in mgr.probes[name].drives.values()} for name in mgr.probes}
    assert (modes["h2"], modes["h3"]) == ({WB}, {WT})
    taken_over(mgr)
    assert said(mgr, "auto status")["under_way"] == "p1"
    mgr.view.state = replace(mgr.view.state, ill={})
    go_on(mgr)
    assert all_modes(mgr) == {WT}
    assert said(mgr, "auto status")["under_way"] == ""
    assert (len(campaigns(mgr)), len(mgr.inside.rollouts)) == (2, 2)


@pytest.mark.slow
def test_what_is_under_way_when_it_is_turned_off_is_named_with_the_command_that_ends_it():
    mgr = a_mgr()
    ok(mgr.command("auto", mode="apply"))
    mgr.step()
    turned = said(mgr, "auto", mode="off")
    assert turned["goes_on"] == "campaign c1: `ceph wcache campaign stop c1` ends it"
    ok(mgr.command("auto", mode="apply"))
    while not mgr.inside.rollouts:
        mgr.step(6.0)
    turned = said(mgr, "auto", mode="off")
    assert turned["goes_on"] == "plan p1: `ceph wcache rollout abort p1` ends it"
    assert "goes on: plan p1" in ok(mgr.command("auto", mode="off"))
    ok(mgr.command("rollout abort", plan_id="p1"))
    mgr.settle()
    assert "goes_on" not in said(mgr, "auto", mode="off")


@pytest.mark.slow
def test_a_new_osd_of_a_known_drive_model_is_confirmed_briefly_and_then_gets_the_standing_mode():
    mgr = standing()
    assert all_modes(mgr) == {WT}
    assert {row["who"] for row in changes(mgr)} == {"auto"}
    before = mgr.loads.measured
    expand(mgr, "h3", make.drive("sdd", 3))
    go_on(mgr)
    assert len(campaigns(mgr)) == 2
    last = said(mgr, "campaign show", campaign_id="c2")
    assert {run["hostname"] for run in last["run_list"]} == {"h3"}
    assert all_modes(mgr) == {WT}
    assert mgr.loads.measured - before < 60
    assert "a new drive of a drive model with a verdict" in ok(mgr.command("history", what="c2"))
    fine(mgr)


@pytest.mark.slow
def test_a_new_osd_of_an_unknown_drive_model_is_measured_whole_and_gets_its_own_verdict():
    mgr = standing()
    expand(mgr, "h3", make.drive("sdd", 3, drive_model=OTHER), make.drive("sde", 4))
    go_on(mgr, 120.0)
    models = {r["drive_model"]["model"]: r for r in said(mgr, "recommend")["recommendations"]}
    assert set(models) == {"HD1", "HD2"}
    assert all_modes(mgr) == {WT}
    assert len(campaigns(mgr)) == 3
    fine(mgr)


@pytest.mark.slow
def test_of_a_replaced_drive_nothing_of_the_old_one_carries_over():
    mgr = standing()
    new = make.drive("sdc", 2, drive_id="wwn-new", domain_id="domain-new")
    mgr.probes["h2"] = FakeProbe(mgr.send, "h2", (new,))
    state = mgr.view.state
    mgr.view.state = replace(
        state, osds={**state.osds, 2: make.osd(2, "h2", uuid="made-anew")}
    )
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()
    assert findings_of(mgr, "WCACHE_DRIFT") == []
    mgr.step(6.0)
    assert said(mgr, "auto status")["new_drives"] == 1
    go_on(mgr)
    assert {run["domain_id"] for run in said(mgr, "campaign show", campaign_id="c2")["run_list"]
            } == {"domain-new"}
    assert all_modes(mgr) == {WT}


@pytest.mark.slow
def test_quiet_time_begins_with_an_expansion_and_recovery_makes_it_no_longer():
    mgr = standing(auto_quiet_s=600.0)
    mgr.steps(120, 6.0)
    go_on(mgr)
    assert all_modes(mgr) == {WT}
    expand(mgr, "h3", make.drive("sdd", 3))
    mgr.view.state = replace(mgr.view.state, missed=(Precondition.NO_RECOVERY,))
    count = len(campaigns(mgr))
    mgr.step(6.0)
    assert "quiet for" in said(mgr, "auto status")["waiting"]
    mgr.steps(80, 6.0)
    assert len(campaigns(mgr)) == count
    mgr.steps(30, 6.0)
    assert len(campaigns(mgr)) == count + 1


def test_windows_that_make_no_sense_begin_nothing_and_are_told():
    mgr = a_mgr()
    ok(mgr.command("auto", mode="apply"))
    mgr.options = replace(mgr.options, auto_windows="at night")
    go_on(mgr)
    assert campaigns(mgr) == []
    assert "auto_windows" in said(mgr, "auto status")["waiting"]
    assert mgr.command("auto", mode="apply")[0] == -errno.EINVAL


def test_a_campaign_that_would_take_more_than_the_day_allows_is_not_begun():
    mgr = standing(auto_seconds_per_day=1.0)
    assert campaigns(mgr) == []
    assert "auto_seconds_per_day" in said(mgr, "auto status")["waiting"]


@pytest.mark.slow
def test_without_bytes_to_write_only_free_loads_are_measured():
    mgr = standing("recommend", auto_bytes_per_day=0)
    assert len(campaigns(mgr)) == 1
    assert said(mgr, "campaign show", campaign_id="c1")["bytes_written"] == 0


def drift(mgr):
    """Somebody turns a cache on again."""
    mgr.probes["h2"].switch("domain-sdc", WB)
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()


@pytest.mark.slow
def test_a_drive_that_drifts_is_set_right_once_and_then_contested_with_the_suspect_named():
    mgr = standing()
    drift(mgr)
    go_on(mgr)
    assert all_modes(mgr) == {WT}
    assert "WCACHE_CONTESTED" not in codes(mgr)
    rule = Finding(
        FindingCode.FOREIGN_RULE, Severity.WARNING, "tuned.conf",
        "/etc/tuned/osd/tuned.conf:7: sdparm --set=WCE /dev/sdc",
    )
    mgr.probes["h2"].findings = (rule,)
    drift(mgr)
    mgr.step(6.0)
    assert "suspect: " in findings_of(mgr, "WCACHE_CONTESTED")[0]["detail"]
    count = len(changes(mgr))
    go_on(mgr)
    assert len(changes(mgr)) == count
    assert all_modes(mgr) == {WT, WB}
    taken_over(mgr)
    mgr.step(6.0)
    assert "WCACHE_CONTESTED" in codes(mgr)
    ok(mgr.command("auto", mode="off"))
    apply_plan(mgr)
    settled(mgr)
    mgr.step(6.0)
    assert "WCACHE_CONTESTED" not in codes(mgr)
    fine(mgr)


@pytest.mark.slow
def test_drift_is_left_alone_where_only_measuring_is_allowed():
    mgr = standing()
    ok(mgr.command("auto", mode="recommend"))
    drift(mgr)
    count = len(changes(mgr))
    go_on(mgr)
    assert len(changes(mgr)) == count
    assert "WCACHE_DRIFT" in codes(mgr)


def test_a_drive_that_shingles_is_never_begun_with():
    shingled = make.drive("sda", 0, drive_model=DriveModel("ATA", "WDC WD40EFAX-68JH4N1", "8"))
    mgr = FakeMgr(("h1", (shingled,)), auto_quiet_s=0.0)
    mgr.report_all()
    ok(mgr.command("auto", mode="apply"))
    go_on(mgr)
    assert campaigns(mgr) == []
    assert "SMR" in " ".join(said(mgr, "auto status")["left_alone"])


@pytest.mark.slow
def test_a_plan_that_goes_back_is_not_tried_again_by_itself():
    mgr = a_mgr()
    ok(mgr.command("auto", mode="recommend"))
    go_on(mgr)
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 1_000_000, WT: 9_000_000}
    ok(mgr.command("auto", mode="apply"))
    go_on(mgr)
    assert all_modes(mgr) == {WB}
    plans = len(said(mgr, "plan ls")["plans"])
    go_on(mgr)
    assert len(said(mgr, "plan ls")["plans"]) == plans == 1
    assert "`auto` no longer applies it" in " ".join(said(mgr, "auto status")["left_alone"])
    (row,) = said(mgr, "recommend")["recommendations"]
    assert (row["went_back"]["plan_id"], row["went_back"]["why"]) == ("p1", row["held_by_auto"])
    assert "`auto` does not apply it before that" in ok(mgr.command("recommend"))


@pytest.mark.slow
@pytest.mark.parametrize("again", ["auto", "apply"])
def test_what_an_admin_took_back_is_not_applied_before_his_next_word(again):
    mgr = standing()
    assert all_modes(mgr) == {WT}
    ok(mgr.command("rollback", plan_id="p1"))
    go_on(mgr)
    for _ in range(2):
        assert [row["plan_id"] for row in said(mgr, "plan ls")["plans"]] == ["p1"]
        assert all_modes(mgr) == {WB}
        mgr.restart()
        mgr.report_all()
        go_on(mgr)
    held = "`auto` no longer applies it: an admin took it back in plan p1"
    assert held in " ".join(said(mgr, "auto status")["left_alone"])
    assert "took it back in plan p1" in said(mgr, "recommend")["recommendations"][0][
        "held_by_auto"]
    if again == "auto":
        assert "change 3 drives" in ok(mgr.command("auto", mode="apply", dry_run=True))
        ok(mgr.command("auto", mode="apply"))
    else:
        ok(mgr.command("plan", scope="host:h1"))
        ok(mgr.command("apply", plan_id="p2"))
    go_on(mgr)
    assert all_modes(mgr) == {WT}, "the rest of the drive model too"


@pytest.mark.slow
def test_what_a_refusal_advises_is_told_beside_when_it_is_asked_again(monkeypatch):
    def refuse(world, plan_id):
        raise ConflictError("trial t1 is under way", "wait for it")

    mgr = standing("recommend")
    monkeypatch.setattr(mgr.service.auto, "_require_allowed", refuse)
    ok(mgr.command("auto", mode="apply"))
    mgr.steps(20, 6.0)
    assert said(mgr, "auto status")["waiting"] == (
        "trial t1 is under way: wait for it; it is asked again every 5.0 min"
    )


def test_a_class_of_its_own_has_a_mode_of_its_own():
    mgr = a_mgr()
    assert mgr.command("auto", mode="apply", scope="class:nvme")[0] == -errno.ENOENT
    ok(mgr.command("auto", mode="apply", scope="class:hdd"))
    assert said(mgr, "auto status")["modes"] == {"hdd": "apply"}
    ok(mgr.command("auto", mode="off"))
    assert said(mgr, "auto status")["modes"] == {"*": "off"}
    mgr.restart()
    assert said(mgr, "auto status")["modes"] == {"*": "off"}


@pytest.mark.slow
def test_of_a_frozen_cluster_no_plan_is_made_and_no_change_of_the_day_is_spent():
    mgr = standing("recommend")
    assert (all_modes(mgr), changes(mgr)) == ({WB}, [])
    before = said(mgr, "auto status")["spent_today"]
    # what it took is charged, and not what it might have taken
    assert 0 < before["bytes_written"] == campaigns(mgr)[0]["bytes_written"]
    ok(mgr.command("freeze"))
    ok(mgr.command("auto", mode="apply"))
    go_on(mgr)
    assert said(mgr, "plan ls")["plans"] == []
    assert said(mgr, "auto status")["spent_today"] == before
    assert "frozen" in said(mgr, "auto status")["waiting"]
    assert all_modes(mgr) == {WB}
    ok(mgr.command("freeze", thaw=True))
    go_on(mgr, REFUSED_WAIT_S)
    assert all_modes(mgr) == {WT}


@pytest.mark.slow
def test_a_cluster_that_is_not_healthy_is_left_alone_and_after_an_hour_that_is_told():
    mgr = a_mgr()
    mgr.view.state = replace(mgr.view.state, missed=(Precondition.CLUSTER_HEALTHY,))
    ok(mgr.command("auto", mode="apply"))
    go_on(mgr)
    assert campaigns(mgr) == []
    assert "WCACHE_PLAN_WAITS" not in ok(mgr.command("status"))
    for _ in range(2):
        mgr.now_s += TOLD_AFTER_S
        go_on(mgr)
    (told,) = findings_of(mgr, "WCACHE_PLAN_WAITS")
    assert (told["severity"], told["subject"]) == ("warning", "auto")
    assert told["detail"] == said(mgr, "auto status")["waiting"]
    mgr.view.state = replace(mgr.view.state, missed=())
    go_on(mgr)
    assert campaigns(mgr)
    assert "WCACHE_PLAN_WAITS" not in ok(mgr.command("status"))


@pytest.mark.slow
def test_what_goes_on_elsewhere_and_ill_drives_keep_it_from_none_of_the_others():
    mgr = a_mgr()
    mgr.view.state = replace(
        mgr.view.state, missed=(Precondition.PGS_CLEAN, Precondition.NO_RECOVERY),
        ill={1: "has PGs that are degraded"},
    )
    ok(mgr.command("auto", mode="apply"))
    go_on(mgr)
    assert campaigns(mgr)
    assert any("osd.1 has PGs that are degraded" in one
               for one in said(mgr, "auto status")["left_alone"])
    measured = said(mgr, "campaign show", campaign_id="c1")["run_list"]
    assert "domain-sdb" not in {run["domain_id"] for run in measured}

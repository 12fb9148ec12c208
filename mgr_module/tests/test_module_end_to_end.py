"""The whole module on fake ports: every use case, every fault, and the mgr lost at any step."""

import errno
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.probe import FakeProbe
from wcache import commands
from wcache.core import codec
from wcache.core.model import CacheMode, Finding, FindingCode, Severity
from wcache.core.protocol import FailureOutcome, Notice, ReportOutcome, SetModeRequest
from wcache.core.record import Precondition
from wcache.core.rollout import ChangeStatus
from wcache.watchdog import STALL_S

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


def a_mgr(**options):
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0), make.drive("sdb", 1))), ("h2", (make.drive("sdc", 2),)),
        **options,
    )
    mgr.report_all()
    return mgr


def ok(answer):
    code, out, error = answer
    assert (code, error) == (0, "")
    return out


def said(mgr, prefix, **arguments):
    return json.loads(ok(mgr.command(prefix, format="json", **arguments)))


def start(mgr, loads="depth1", **arguments):
    return said(mgr, "campaign start", loads=loads, accept_cost=True, **arguments)["campaign_id"]


def all_modes(mgr):
    return {mode for probe in mgr.probes.values() for mode in probe.modes().values()}


def fine(mgr):
    """What must hold at every end: no lease, no mode of ours, no exception."""
    assert mgr.exceptions == []
    assert all(probe.leased == {} for probe in mgr.probes.values())
    assert mgr.engine.measuring.under_way == {}


def measured(**options):
    mgr = a_mgr(**options)
    start(mgr)
    mgr.settle()
    mgr.report_all()
    return mgr


def test_the_main_job_from_forecast_to_rollback():
    mgr = a_mgr()
    assert said(mgr, "campaign forecast", loads="depth1")["forecast"]["drives"] == 3
    code, out, error = mgr.command("campaign start", loads="depth1")
    assert (code, out) == (-errno.EPERM, "")
    assert "--accept-cost" in error
    campaign_id = start(mgr)
    mgr.settle()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["status"] == "done"
    assert {r["verdict"] for r in shown["results"]} == {"write through"}
    assert all_modes(mgr) == {WB}
    forecast = said(mgr, "campaign forecast", loads="depth1")["forecast"]
    assert 0 < shown["bytes_written"] <= forecast["bytes_written"]
    record = said(mgr, "campaign record", record_id=shown["results"][0]["record_id"])
    assert len(record["pairs"]) == shown["results"][0]["pairs"]
    (advice,) = said(mgr, "recommend")["recommendations"]
    assert advice["mode"] == "write through"
    assert advice["manual"]
    plan_id = said(mgr, "plan")["plan_id"]
    assert said(mgr, "apply", plan_id=plan_id)["changed"] is True
    mgr.settle()
    mgr.report_all()
    assert all_modes(mgr) == {WT}
    assert said(mgr, "apply", plan_id=plan_id)["changed"] is False
    assert said(mgr, "plan")["changes"] == []
    assert said(mgr, "status")["findings"] == []
    assert said(mgr, "rollback")["changed"] is True
    mgr.settle()
    assert all_modes(mgr) == {WB}
    assert mgr.command("rollback")[0] == -errno.ENOENT
    fine(mgr)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 60), max_size=4), st.lists(st.integers(0, 60), max_size=2))
def test_a_mgr_lost_at_any_step_resumes_and_repeats_no_pair(lost, crashes):
    mgr = a_mgr()
    campaign_id = start(mgr)
    for step in range(700):
        if not mgr.engine.active:
            break
        if step in lost:
            mgr.restart()
        if step in crashes:
            mgr.probes["h1"].crash()
        mgr.step()
    mgr.report_all()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["status"] == "done", shown
    assert all_modes(mgr) == {WB}
    for result in shown["results"]:
        record = said(mgr, "campaign record", record_id=result["record_id"])
        assert [p["index"] for p in record["pairs"]] == list(range(len(record["pairs"])))
    assert len(shown["results"]) == 3
    plan_id = said(mgr, "plan")["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    for step in range(300):
        if not mgr.engine.active:
            break
        if step in lost:
            mgr.restart()
        mgr.step(1.0)
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"
    assert all_modes(mgr) == {WT}
    mgr.restart()
    ok(mgr.command("rollback"))
    mgr.restart()
    mgr.settle()
    assert all_modes(mgr) == {WB}
    fine(mgr)


@pytest.mark.parametrize("how", ["stop", "freeze"])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7, 20])
def test_stop_and_freeze_restore_at_once_whatever_is_under_way(how, steps):
    mgr = a_mgr()
    campaign_id = start(mgr)
    for _ in range(steps):
        mgr.step()
    if how == "stop":
        assert said(mgr, "campaign stop", campaign_id=campaign_id)["changed"] is True
    else:
        assert said(mgr, "freeze") == {"frozen": True, "changed": True}
        assert said(mgr, "freeze")["changed"] is False
    mgr.settle(10)
    assert all_modes(mgr) == {WB}
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert {run["status"] for run in shown["run_list"]} == {"aborted"}
    assert all(run["reason"] for run in shown["run_list"])
    assert mgr.loads.waiting == {}
    fine(mgr)
    if how == "freeze":
        mgr.restart()
        assert said(mgr, "status")["frozen"] is True
        for command in ("campaign start", "rollback"):
            assert mgr.command(command, loads="timer")[0] == -errno.EPERM
        assert said(mgr, "freeze", thaw=True) == {"frozen": False, "changed": True}
    start(mgr, loads="timer")


def test_stopping_an_old_campaign_does_not_disturb_what_is_measured_now():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    assert mgr.loads.waiting
    assert said(mgr, "campaign stop", campaign_id="c1")["changed"] is False
    mgr.settle()
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"


def test_a_freeze_in_the_middle_of_a_rollout_takes_the_open_change_back_and_keeps_the_rest():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    while [c.status for c in mgr.engine.rollouts[plan_id].rollout.changes][:2] != [
        ChangeStatus.APPLIED, ChangeStatus.APPLYING,
    ]:
        mgr.step(1.0)
    mgr.step(0.1)
    ok(mgr.command("freeze"))
    mgr.settle(20)
    plan = said(mgr, "plan show", plan_id=plan_id)
    assert [c["status"] for c in plan["changes"]] == ["applied", "rolled back", "planned"]
    assert plan["status"] == "stopped"
    ok(mgr.command("freeze", thaw=True))
    ok(mgr.command("rollback"))
    mgr.settle()
    assert all_modes(mgr) == {WB}


def test_a_bench_cut_off_by_a_lost_lease_is_cancelled_before_the_next_one():
    mgr = a_mgr()
    start(mgr)
    while not mgr.loads.waiting:
        mgr.now_s += 0.3
        for probe in mgr.probes.values():
            probe.turn()
        mgr.engine.tick()
    (token,) = mgr.loads.waiting
    mgr.probes["h1"].crash()
    mgr.probes["h1"].turn()
    assert mgr.loads.cancelled == [token]
    mgr.settle()
    fine(mgr)


def test_a_lease_that_runs_out_at_the_probe_repeats_the_period_only():
    mgr = a_mgr()
    campaign_id = start(mgr)
    for _ in range(9):
        mgr.step()
    mgr.probes["h1"].lose_lease()
    mgr.settle()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["status"] == "done"
    assert sum(run["interrupted_periods"] for run in shown["run_list"]) == 1


def test_a_probe_silent_for_a_lease_and_half_a_minute_ends_the_run_and_is_reported():
    mgr = a_mgr()
    campaign_id = start(mgr)
    for _ in range(5):
        mgr.step()
    mgr.now_s += 95.0
    mgr.engine.tick()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["run_list"][0]["status"] == "aborted"
    assert shown["run_list"][0]["restored"] is False
    codes = {f["code"] for f in said(mgr, "status")["findings"]}
    assert "WCACHE_RESTORE_FAILED" in codes
    probe = mgr.probes["h1"]
    probe.lose_lease()
    assert probe.turn(0).lease is None
    probe.post("", None, notices=(Notice("n1", "restored", "domain-sda", True),))
    mgr.restart()
    assert said(mgr, "campaign show", campaign_id=campaign_id)["run_list"][0]["restored"] is True


def test_a_rollout_whose_probe_is_silent_for_ever_stops_with_the_reason():
    mgr = measured()
    plan_id = said(mgr, "plan")["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    mgr.loads.run()
    mgr.engine.tick()
    mgr.now_s += 95.0
    mgr.engine.tick()
    plan = said(mgr, "plan show", plan_id=plan_id)
    assert plan["status"] == "stopped"
    assert "not heard" in plan["reason"]
    assert plan["changes"][0]["status"] == "applying"
    assert "WCACHE_RESTORE_FAILED" in {f["code"] for f in said(mgr, "status")["findings"]}
    mgr.report_all()
    ok(mgr.command("rollback"))
    mgr.settle()
    assert all_modes(mgr) == {WB}


def test_what_never_answers_is_stopped_so_that_no_lease_is_held_for_ever():
    mgr = a_mgr()
    campaign_id = start(mgr)
    for _ in range(3):
        mgr.step()
    mgr.loads.run = lambda: None
    for _ in range(int(STALL_S / 30) + 6):
        mgr.step(30.0)
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert "nothing has happened for" in shown["run_list"][0]["reason"]
    assert mgr.probes["h1"].leased == {}


def test_a_rollback_of_a_plan_under_a_later_one_is_refused():
    mgr = measured()
    ok(mgr.command("apply", plan_id=said(mgr, "plan")["plan_id"]))
    mgr.settle()
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 1_000_000, WT: 9_000_000}
    mgr.report_all()
    ok(mgr.command("campaign start", loads="depth1", accept_cost=True, consent_turn_on=True))
    mgr.settle()
    mgr.report_all()
    assert said(mgr, "plan", consent_turn_on=True)["plan_id"] == "p2"
    ok(mgr.command("apply", plan_id="p2"))
    mgr.settle()
    assert all_modes(mgr) == {WB}
    code, _, error = mgr.command("rollback", plan_id="p1")
    assert (code, error.count("p2")) == (-errno.EBUSY, 2)
    ok(mgr.command("rollback"))
    mgr.settle()
    assert all_modes(mgr) == {WT}
    ok(mgr.command("rollback", plan_id="p1"))
    mgr.settle()
    assert all_modes(mgr) == {WB}


def test_a_release_that_fails_is_said_until_the_probe_says_otherwise():
    mgr = a_mgr()
    campaign_id = start(mgr, pairs=4)
    probe = mgr.probes["h1"]
    probe.fails = lambda task: (
        FailureOutcome("the drive is gone", "x" * 1000, restored=False)
        if task.request.KIND == "release" else None
    )
    mgr.settle()
    mgr.restart()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert "NOT CONFIRMED" in ok(mgr.command("campaign show", campaign_id=campaign_id))
    assert not shown["run_list"][0]["restored"]


# ---- what probes send


def test_two_probes_cannot_claim_one_host_and_the_second_is_named():
    mgr = a_mgr()
    rival = FakeProbe(mgr.send, "h1", (make.drive("sda", 0),), probe_id="rival")
    assert rival.turn() is None
    assert "probe-h1 speaks for h1" in rival.error
    (finding,) = said(mgr, "status")["findings"]
    assert finding["code"] == "WCACHE_AGENT_CONFLICT"
    assert "rival" in finding["detail"]


def test_a_probe_that_takes_over_a_host_is_not_given_the_lease_of_the_one_before():
    mgr = a_mgr(lease_ttl_s=600.0)
    campaign_id = start(mgr)
    for _ in range(5):
        mgr.step()
    mgr.now_s += 100.0
    rival = FakeProbe(mgr.send, "h1", (make.drive("sda", 0),), probe_id="rival")
    reply = rival.turn(0)
    assert reply.lease is None
    run = said(mgr, "campaign show", campaign_id=campaign_id)["run_list"][0]
    assert (run["status"], run["restored"]) == ("aborted", False)


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda text: text[: len(text) // 2], errno.EINVAL),
        (lambda text: text + " " * 1_000_001, errno.EINVAL),
        (lambda text: text.replace('"version":1', '"version":2,"new_field":3'), errno.EPROTO),
        (lambda text: text.replace('"h1"', '"h2"'), errno.EPERM),
        (lambda text: text.replace('"task_id"', '"tusk_id"'), errno.EINVAL),
        (lambda text: "[" * 100_000, errno.EINVAL),
        (lambda text: "", errno.EINVAL),
        (lambda text: "null", errno.EINVAL),
        (lambda text: text.replace("probe-h1", "probe\\nh1"), errno.EINVAL),
    ],
    ids=["truncated", "oversized", "version", "host", "field", "deep", "empty", "null", "newline"],
)
def test_a_post_that_is_not_right_is_refused_with_one_line_and_changes_nothing(change, number):
    mgr = a_mgr()
    start(mgr)
    for _ in range(4):
        mgr.step()
    probe = mgr.probes["h1"]
    probe.post("nothing", None)
    before = dict(mgr.store.kept)
    code, out, error = mgr.send("wcache agent post", "h1", change(probe.last_post))
    assert (code, out) == (-number, "")
    assert error
    assert "\n" not in error
    assert mgr.store.kept == before
    assert mgr.exceptions == []
    mgr.settle()
    fine(mgr)


def test_a_replayed_post_changes_nothing():
    mgr = a_mgr()
    start(mgr)
    posts = []
    for _ in range(6):
        mgr.step()
        posts.append(mgr.probes["h1"].last_post)
    before = dict(mgr.store.kept)
    for text in posts:
        assert mgr.send("wcache agent post", "h1", text)[0] == 0
    assert mgr.store.kept == before
    mgr.settle()
    fine(mgr)


def test_an_old_report_does_not_replace_a_newer_one():
    mgr = a_mgr()
    old = mgr.probes["h1"].last_post
    assert '"report"' in old
    mgr.probes["h1"].drives.pop("domain-sdb")
    mgr.now_s += 700.0
    mgr.report_all()
    assert said(mgr, "status")["drives"] == 2
    assert mgr.send("wcache agent post", "h1", old)[0] == 0
    assert said(mgr, "status")["drives"] == 2


def test_a_simulated_probe_is_refused_where_data_matters():
    mgr = a_mgr()
    probe = FakeProbe(mgr.send, "h9", (make.drive("sda", 9),), simulated=True)
    assert probe.turn() is None
    assert "throwaway_cluster" in probe.error


def test_a_simulated_cluster_does_the_main_job_with_no_osd_at_all():
    mgr = a_mgr(simulated=True)
    start(mgr, loads="depth1,timer")
    mgr.settle()
    mgr.report_all()
    assert mgr.loads.measured == 0
    ok(mgr.command("apply", plan_id=said(mgr, "plan")["plan_id"]))
    mgr.settle()
    assert all_modes(mgr) == {WT}


# ---- the store and the cluster


def test_a_store_that_stops_taking_values_ends_the_run_with_a_release_and_says_so():
    mgr = a_mgr()
    start(mgr)
    for _ in range(7):
        mgr.step()
    mgr.store.fails = lambda key: True
    mgr.settle(20)
    assert all_modes(mgr) == {WB}
    assert mgr.probes["h1"].leased == {}
    assert "WCACHE_STORE_FAILED" in {f["code"] for f in said(mgr, "status")["findings"]}
    assert mgr.command("freeze")[0] == -errno.EIO
    assert said(mgr, "status")["frozen"] is True
    mgr.store.fails = lambda key: False
    mgr.restart()
    mgr.settle()
    assert mgr.exceptions == []


def test_a_campaign_that_could_not_be_stored_whole_does_not_come_to_life_later():
    mgr = a_mgr()
    mgr.store.fails = lambda key: key.startswith("campaign/")
    assert mgr.command("campaign start", loads="timer")[0] == -errno.EIO
    mgr.store.fails = lambda key: False
    mgr.restart()
    assert not mgr.engine.active
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


@pytest.mark.parametrize("force", [False, True])
def test_a_sick_cluster_is_not_measured_unless_forced_and_then_stays_out_of_advice(force):
    mgr = a_mgr()
    mgr.now_s += 60.0
    mgr.view.state = make.cluster(
        mgr.view.state.osds.values(), missed=(Precondition.CLUSTER_HEALTHY,)
    )
    code, _, error = mgr.command("campaign start", loads="depth1", accept_cost=True, force=force)
    if not force:
        assert code == -errno.EPERM
        assert "cluster healthy" in error
        return
    mgr.settle()
    assert said(mgr, "campaign show", campaign_id="c1")["status"] == "done"
    assert said(mgr, "recommend")["recommendations"] == []


def test_a_cluster_that_gets_sick_while_it_is_measured_is_left_alone():
    mgr = a_mgr()
    mgr.now_s += 60.0  # a mgr this old has heard from every PG
    mgr.report_all()
    campaign_id = start(mgr)
    for _ in range(6):
        mgr.step()
    mgr.view.state = make.cluster(
        mgr.view.state.osds.values(), missed=(Precondition.PGS_CLEAN,)
    )
    mgr.settle()
    runs = said(mgr, "campaign show", campaign_id=campaign_id)["run_list"]
    assert {run["status"] for run in runs} == {"aborted"}
    assert all("PGs active+clean" in run["reason"] for run in runs)
    assert all_modes(mgr) == {WB}


def test_a_new_mgr_that_knows_no_pgs_yet_waits_instead_of_giving_up():
    mgr = a_mgr()
    campaign_id = start(mgr)
    for _ in range(6):
        mgr.step()
    healthy = mgr.view.state
    mgr.view.state = make.cluster(healthy.osds.values(), missed=(Precondition.PGS_CLEAN,))
    mgr.restart()
    for _ in range(10):
        mgr.step()
    assert said(mgr, "campaign show", campaign_id=campaign_id)["status"] == "running"
    mgr.view.state = healthy
    mgr.settle()
    assert said(mgr, "campaign show", campaign_id=campaign_id)["status"] == "done"


def test_a_scrub_somewhere_is_recorded_and_forbids_nothing():
    mgr = a_mgr()
    mgr.view.state = make.cluster(mgr.view.state.osds.values(), missed=(Precondition.NO_SCRUB,))
    campaign_id = start(mgr)
    mgr.settle()
    (result, *_) = said(mgr, "campaign show", campaign_id=campaign_id)["results"]
    assert result["verdict"] == "write through"
    record = said(mgr, "campaign record", record_id=result["record_id"])
    assert record["missed_preconditions"] == ["no scrub on the OSD"]


def test_a_missing_numpy_still_measures_and_is_analysed_after_a_restart():
    mgr = a_mgr()
    mgr.analysis.error = "numpy is missing"
    start(mgr)
    mgr.settle()
    results = said(mgr, "campaign show", campaign_id="c1")["results"]
    assert [(r["pairs"], r["analysed"]) for r in results] == [(8, False)] * 3
    assert "WCACHE_NO_ANALYSIS" in {f["code"] for f in said(mgr, "status")["findings"]}
    mgr.restart()
    results = said(mgr, "campaign show", campaign_id="c1")["results"]
    assert {r["verdict"] for r in results} == {"write through"}


def test_an_osd_that_stops_during_its_bench_ends_its_run_in_one_clear_line():
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.loads.error = "osd.0 went\ndown \x1b[31m" + "x" * 2000
    mgr.settle()
    mgr.restart()
    run = said(mgr, "campaign show", campaign_id=campaign_id)["run_list"][0]
    assert run["status"] == "aborted"
    assert run["reason"].startswith("osd.0 went down")
    assert all_modes(mgr) == {WB}


# ---- commands


def everything(mgr):
    """Each command with good arguments, in an order in which all of them work."""
    return [
        ("status", {}), ("drive ls", {}), ("drive ls", {"hostname": "h1"}), ("agent ls", {}),
        ("campaign forecast", {}), ("campaign ls", {}), ("campaign show", {"campaign_id": "c1"}),
        ("campaign record", {"record_id": "c1.0.0"}), ("recommend", {}),
        ("recommend", {"device_class": "hdd"}), ("plan", {}), ("plan show", {"plan_id": "p1"}),
        ("history", {"limit": 5}), ("apply", {"plan_id": "p1"}),
        ("campaign stop", {"campaign_id": "c1"}), ("rollback", {"plan_id": "p1"}),
        ("freeze", {}), ("freeze", {"thaw": True}), ("campaign start", {"loads": "timer"}),
        ("plan ls", {}), ("load ls", {}), ("mclock forecast", {}),
        ("mclock measure", {"accept_cost": True}),
        ("mclock stop", {}), ("mclock show", {}), ("mclock recommend", {}), ("mclock apply", {}),
        ("mclock rollback", {"change_id": "k1"}), ("agent rm", {"hostname": "h2"}),
    ]


@pytest.mark.parametrize("form", ["plain", "json", "json-pretty", "yaml"])
@pytest.mark.parametrize("state", ["empty", "used"])
def test_every_command_answers_in_every_format(form, state):
    mgr = measured() if state == "used" else FakeMgr()
    tried = set()
    for prefix, arguments in everything(mgr):
        code, out, error = mgr.command(prefix, format=form, **arguments)
        tried.add(f"wcache {prefix}")
        if code == 0:
            assert out
            if form == "yaml":  # JSON where PyYAML is missing
                assert out.startswith("{") or "\n" in out
            elif form != "plain" or prefix == "campaign record":
                assert isinstance(json.loads(out), dict)
        else:
            assert state == "empty"
            assert "\n" not in error
        mgr.settle()
    assert mgr.exceptions == []
    agent = {"wcache agent poll", "wcache agent post"}
    assert tried | agent == {command.prefix for command in commands.COMMANDS}


@pytest.mark.parametrize(
    ("prefix", "arguments", "number"),
    [
        ("nonsense", {}, errno.EINVAL),
        ("status", {"format": "xml"}, errno.EINVAL),
        ("status", {"format": ["json"]}, errno.EINVAL),
        ("drive ls", {"hostname": "nowhere"}, errno.ENOENT),
        ("drive ls", {"hostname": 3}, errno.EINVAL),
        ("agent poll", {"hostname": "a/b"}, errno.EINVAL),
        ("agent poll", {"hostname": "a#b"}, errno.EINVAL),
        ("agent poll", {"hostname": "../x"}, errno.EINVAL),
        ("agent poll", {}, errno.EINVAL),
        ("campaign show", {}, errno.EINVAL),
        ("campaign show", {"campaign_id": "c9"}, errno.ENOENT),
        ("campaign show", {"campaign_id": "a\nb"}, errno.EINVAL),
        ("campaign record", {"record_id": "../version"}, errno.ENOENT),
        ("campaign stop", {"campaign_id": "c9"}, errno.ENOENT),
        ("campaign start", {"scope": "rack:1"}, errno.EINVAL),
        ("campaign start", {"scope": "osd.x"}, errno.EINVAL),
        ("campaign start", {"scope": "osd.999"}, errno.ENOENT),
        ("campaign start", {"loads": "fio"}, errno.EINVAL),
        ("campaign start", {"loads": ","}, errno.EINVAL),
        ("campaign start", {"pairs": 3}, errno.EINVAL),
        ("campaign start", {"pairs": "many"}, errno.EINVAL),
        ("campaign start", {"pairs": True}, errno.EINVAL),
        ("campaign start", {"seed": -1}, errno.EINVAL),
        ("campaign start", {"force": "perhaps"}, errno.EINVAL),
        ("campaign start", {"drives_per_model": 10**30}, errno.EINVAL),
        ("plan", {"device_class": "tape"}, errno.ENOENT),
        ("plan show", {"plan_id": "p9"}, errno.ENOENT),
        ("apply", {"plan_id": "p9"}, errno.ENOENT),
        ("rollback", {"plan_id": "p9"}, errno.ENOENT),
        ("rollback", {}, errno.ENOENT),
        ("history", {"limit": 0}, errno.EINVAL),
    ],
)
def test_bad_arguments_give_one_clear_line(prefix, arguments, number):
    mgr = a_mgr()
    code, out, error = mgr.command(prefix, **arguments)
    assert (code, out) == (-number, ""), error
    assert error
    assert "\n" not in error
    assert mgr.exceptions == []


def test_words_for_true_and_false_mean_what_they_say():
    mgr = a_mgr()
    assert mgr.command("campaign start", loads="depth1", accept_cost="false")[0] == -errno.EPERM
    assert mgr.command("campaign start", loads="depth1", accept_cost="true")[0] == 0


def test_an_input_that_a_command_does_not_take_is_ignored():
    assert a_mgr().command("plan", inbuf="junk")[0] == 0


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([command.prefix[len("wcache "):] for command in commands.COMMANDS]),
    st.dictionaries(
        st.sampled_from(["hostname", "campaign_id", "record_id", "plan_id", "scope", "loads",
                         "pairs", "seed", "limit", "thaw", "format", "device_class", "persist"]),
        st.one_of(st.text(max_size=6), st.integers(), st.booleans(), st.none(),
                  st.floats(), st.lists(st.text(max_size=2), max_size=2)),
        max_size=4,
    ),
    st.text(max_size=20),
)
def test_no_arguments_whatever_let_an_exception_out(prefix, arguments, inbuf):
    mgr = FUZZED
    code, _, error = mgr.command(prefix, inbuf=inbuf, **arguments)
    assert mgr.exceptions == []
    assert (code == 0) is (error == "")
    assert "\n" not in error
    mgr.settle()


FUZZED = a_mgr()


def test_hostile_words_of_a_probe_break_no_table():
    mgr = a_mgr()
    probe = mgr.probes["h1"]
    drive = probe.drives["domain-sda"]
    shout = Finding(FindingCode.DRIFT, Severity.WARNING, "x" * 1000, "ü" * 1000)
    plain = codec.to_plain(probe.report())
    plain["drives"][0]["findings"] = [codec.to_plain(shout)]
    plain["drives"][0]["dev_name"] = "sd\nERROR everything is lost"
    mgr.now_s += 700.0
    task = probe.turn(0).task
    body = codec.to_plain(ReportOutcome(probe.report()))
    body["report"] = plain
    post = json.loads(probe.last_post)
    post.update(task_id=task.task_id, outcome=body)
    code, _, error = mgr.send("wcache agent post", "h1", json.dumps(post))
    assert code == -errno.EINVAL
    assert "cannot be printed" in error
    plain["drives"][0]["dev_name"] = drive.dev_name
    assert mgr.send("wcache agent post", "h1", json.dumps(post))[0] == 0
    assert "WARNING WCACHE_DRIFT" in ok(mgr.command("status"))
    lines = ok(mgr.command("drive ls")).splitlines()
    assert len(lines) == 4


def test_a_task_failure_that_says_much_is_shown_as_one_line():
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.probes["h1"].fails = lambda task: (
        FailureOutcome("no " * 300, "really " * 140) if isinstance(task.request, SetModeRequest)
        else None
    )
    mgr.settle()
    mgr.restart()
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert {run["status"] for run in shown["run_list"]} == {"aborted", "done"}
    assert mgr.engine.archive.unreadable == {}

"""Hosts that have not reported yet: which `auto` asks, and for how long it waits for them."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WT, all_modes, ok, said
from test_auto import a_mgr, go_on, standing
from wcache.core import codec
from wcache.core.protocol import PROTOCOL_VERSION, Hello
from wcache.engine.hosts import AWAITED_AGAIN_S, AWAITED_S
from wcache.services.auto import REFUSED_WAIT_S

STEP_S = 30.0


@pytest.fixture
def mgr():
    """Three hosts under `auto recommend`, of which h2's probe does nothing but call."""
    found = FakeMgr(*(
        (f"h{i}", (make.drive("sda", i),)) for i in range(3)
    ), auto_quiet_s=0.0)
    found.report_all()
    ok(found.command("auto", mode="recommend"))
    found.view.state = make.cluster([
        make.osd(i, f"h{i}", uuid=f"made anew {i}") for i in range(3)
    ])
    return found


def waits_for(mgr, seconds, instance=lambda now_s: "another"):
    """How long `auto` waits for h2, whose probe calls as another instance and answers nothing."""
    silent, waited_s = mgr.probes.pop("h2"), 0.0
    for _ in range(int(seconds / STEP_S)):
        hello = Hello(PROTOCOL_VERSION, silent.probe_id, instance(mgr.now_s))
        mgr.send("wcache agent poll", "h2", codec.dumps(hello))
        mgr.step(STEP_S)
        waited_s += STEP_S if mgr.engine.world().unreported(waited_for=True) else 0.0
    return waited_s


def test_auto_waits_for_a_report_for_a_bounded_time_and_then_goes_on_without_the_host(mgr):
    waited_s = waits_for(mgr, 2 * AWAITED_S)
    assert 0.5 * AWAITED_S < waited_s <= AWAITED_S + STEP_S
    assert said(mgr, "campaign ls")["campaigns"], "it measures on the others"


def test_whom_it_goes_on_without_is_in_its_status_and_in_the_history(mgr):
    waits_for(mgr, 2 * AWAITED_S)
    (left,) = [line for line in said(mgr, "auto status")["left_alone"] if "without" in line]
    assert "without h2: no report came for 10.0 min" in left
    assert "begun without h2" in ok(mgr.command("history", limit=99))
    assert {m.spec.hostname for m in mgr.inside.runs.values()} <= {"h0", "h1"}


def test_a_host_that_has_reported_is_waited_for_in_full_when_it_is_asked_anew(mgr):
    while mgr.engine.world().unreported(waited_for=True) or mgr.engine.is_active():
        mgr.step(STEP_S)
    mgr.now_s += AWAITED_S + STEP_S
    mgr.report_all()
    with mgr.engine.orders() as orders:
        orders.ask_anew("h2")  # as when an OSD comes there
    assert waits_for(mgr, AWAITED_S / 2) == AWAITED_S / 2
    assert mgr.engine.world().unreported(waited_for=False) == []


@pytest.mark.slow
def test_a_probe_that_starts_again_and_again_is_not_waited_for_again_and_again(mgr):
    hours = 2 * AWAITED_AGAIN_S
    waited_s = waits_for(mgr, hours, instance=lambda now_s: f"instance {now_s}")
    assert waited_s <= 0.35 * hours


@pytest.mark.slow
def test_a_probe_that_reports_and_starts_again_holds_nobody_up_for_ever(mgr):
    silent, waited_s, hours = mgr.probes.pop("h2"), 0.0, 2 * AWAITED_AGAIN_S
    for turn in range(int(hours / STEP_S)):
        if turn % 19 == 18:
            silent.turn(1)
            silent.starts += 1
        hello = Hello(PROTOCOL_VERSION, silent.probe_id, silent._instance)
        mgr.send("wcache agent poll", "h2", codec.dumps(hello))
        mgr.step(STEP_S)
        waited_s += STEP_S if mgr.engine.world().unreported(waited_for=True) else 0.0
    assert waited_s <= 0.35 * hours


def joins(mgr, osd_id, hostname):
    """An OSD comes up on a host that has a probe; nobody reports anything."""
    osds = {**mgr.view.state.osds, osd_id: make.osd(osd_id, hostname, uuid=f"u{osd_id}")}
    mgr.view.state = replace(mgr.view.state, osds=osds)


def test_a_host_where_an_osd_came_is_asked_for_a_report_at_once_and_once():
    mgr = a_mgr(auto_quiet_s=3600.0)
    ok(mgr.command("auto", mode="recommend"))
    drive = make.drive("sdd", 3)
    mgr.probes["h1"].drives[drive.domain_id] = drive
    joins(mgr, 3, "h1")
    joins(mgr, 4, "h2")  # whose probe never finds its drive
    mgr.steps(4, 5.0)
    found = {use.osd_id for d in mgr.inside.hosts.reports["h1"].drives for use in d.uses}
    assert 3 in found
    assert said(mgr, "auto status")["new_drives"] == 1
    reported = dict(mgr.inside.hosts.reported_at_s)
    assert set(reported) == {"h1", "h2"}
    mgr.steps(10, 5.0)
    assert mgr.inside.hosts.reported_at_s == reported


def test_drives_that_are_there_when_it_is_turned_on_are_not_new_whenever_they_report():
    mgr = a_mgr(auto_quiet_s=3600.0)
    del mgr.inside.hosts.reported_at_s["h2"]  # as after a run on it
    ok(mgr.command("auto", mode="recommend"))
    mgr.steps(4, 5.0)
    assert set(mgr.inside.hosts.reported_at_s) == {"h1", "h2"}
    assert said(mgr, "auto status")["new_drives"] == 0


@pytest.mark.slow
def test_a_plan_that_was_refused_is_no_plan_that_ended_badly():
    mgr = standing("recommend")
    mgr.probes["h1"].muted = True
    mgr.steps(20, 6.0)  # silent, and its report is still taken for what is there
    before = said(mgr, "auto status")["spent_today"]
    ok(mgr.command("auto", mode="apply"))
    mgr.steps(40, 30.0)
    assert said(mgr, "plan ls")["plans"] == []
    waiting = said(mgr, "auto status")["waiting"]
    assert "(probes_heard): it is asked again every 5.0 min" in waiting
    assert "p1" not in waiting, "another plan gets that number"
    assert said(mgr, "auto status")["left_alone"] == []
    assert said(mgr, "auto status")["spent_today"] == before
    assert not [row for row in said(mgr, "history")["history"] if row["what"] == "p1"]
    mgr.probes["h1"].muted = False
    mgr.restart()
    mgr.report_all()
    go_on(mgr, REFUSED_WAIT_S)
    assert all_modes(mgr) == {WT}

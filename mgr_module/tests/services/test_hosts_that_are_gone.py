"""A host is forgotten unheard by --host-is-gone alone: it lists what stays, ends what waits."""

import errno

import pytest
from module_world import (
    WB,
    a_mgr,
    all_modes,
    applied,
    apply_plan,
    measured,
    ok,
    refused,
    said,
    start,
    taken_over,
)
from test_dead_drives import errors
from wcache.core.fleet.agents import SILENT_S


def dies(mgr, hostname="h1"):
    return mgr.probes.pop(hostname)


@pytest.mark.parametrize("silent_s", [60.0, 85.0, 600.0])
def test_a_host_that_died_lately_is_not_removed_without_that_word(silent_s):
    mgr = a_mgr()
    ok(mgr.command("agent add", all=True, hosts_read=True))
    dies(mgr)
    mgr.now_s += silent_s
    assert f"has not called for {silent_s:.0f} s" in refused(
        mgr, "agent rm", errno.EAGAIN, hostname="h1"
    )
    assert "client.wcache.h1" in mgr.keys.held
    assert said(mgr, "agent rm", hostname="h1", host_is_gone=True)["stays"]


def test_a_probe_between_two_of_its_calls_counts_as_heard():
    mgr = a_mgr()
    mgr.now_s += 40.0
    ok(mgr.command("agent rm", hostname="h1"))


@pytest.mark.parametrize(("silent_s", "count"), [(SILENT_S - 1, 2), (SILENT_S, 1)])
def test_status_counts_a_probe_until_it_is_a_finding_that_it_does_not_respond(silent_s, count):
    mgr = a_mgr()
    dies(mgr)
    mgr.now_s = mgr.inside.hosts.agents.get("h1").seen_at_s + silent_s
    mgr.probes["h2"].turn()
    shown = said(mgr, "status")
    assert shown["agents"] == {"known": 2, "heard": count, "hosts_without": []}
    assert [item["subject"] for item in shown["findings"] if "SILENT" in item["code"]] == (
        ["h1"] * (2 - count))


def test_a_new_mgr_has_heard_no_probe_before_it_calls():
    mgr = a_mgr()
    dies(mgr)
    mgr.now_s += 600.0
    taken_over(mgr)
    assert "not since the mgr started" in ok(mgr.command("agent ls"))
    heard = {row["hostname"]: row["heard_s_ago"] for row in said(mgr, "agent ls")["agents"]}
    assert heard["h1"] is None
    assert heard["h2"] is not None
    assert said(mgr, "status")["agents"] == {"known": 2, "heard": 1, "hosts_without": []}
    error = refused(mgr, "agent rm", errno.EAGAIN, hostname="h1")
    assert "since the mgr started" in error
    assert "--host-is-gone" in error
    ok(mgr.command("agent rm", hostname="h2"))


@pytest.mark.parametrize("noticed", [False, True])
def test_removed_in_the_middle_of_a_measurement_the_drive_left_switched_is_listed(noticed):
    mgr = a_mgr()
    start(mgr, scope="osd.0")
    while not mgr.probes["h1"].leased:
        mgr.step()
    dies(mgr)
    mgr.now_s += 60.0
    if noticed:
        mgr.step()
    stays = said(mgr, "agent rm", hostname="h1", host_is_gone=True)["stays"]
    (line,) = [item for item in stays if item.startswith("sda may remain in write through, ")]
    assert "`ceph wcache drive accept h1 domain-sda --accept-cost`" in line
    mgr.now_s += 600.0
    mgr.step()
    assert errors(mgr) == ["h1 domain-sda"]
    ok(mgr.command("drive accept", hostname="h1", domain_id="domain-sda", accept_cost=True))
    assert errors(mgr) == []


def others_go_on(mgr):
    """The other host's drives can be changed by a plan of their own."""
    made = said(mgr, "plan", scope="host:h2")
    assert made["changes"]
    ok(mgr.command("apply", plan_id=made["plan_id"]))
    mgr.settle()
    assert said(mgr, "plan show", plan_id=made["plan_id"])["status"] == "done"


@pytest.mark.slow
def test_a_rollback_gives_up_a_removed_host_at_once_and_the_next_plan_goes_on():
    mgr = applied()
    dies(mgr)
    mgr.now_s += 600.0
    ok(mgr.command("agent rm", hostname="h1", host_is_gone=True))
    ok(mgr.command("rollback", plan_id="p1"))
    mgr.steps(20, 1.0)
    plan = said(mgr, "plan show", plan_id="p1")
    assert plan["status"] == "stopped"
    gone = [c for c in plan["changes"] if c["hostname"] == "h1"]
    assert gone
    assert all("given up: host h1 was removed" in c["detail"] for c in gone)
    assert all(c["status"] == "rolled back" for c in plan["changes"] if c["hostname"] == "h2")
    assert all_modes(mgr) == {WB}
    assert set(errors(mgr)) == {f"h1 {c['domain_id']}" for c in gone}
    for change in gone:
        drive = {"hostname": "h1", "domain_id": change["domain_id"]}
        ok(mgr.command("drive accept", accept_cost=True, **drive))
    assert errors(mgr) == []
    others_go_on(mgr)


@pytest.mark.slow
def test_a_rollback_under_way_says_what_it_waits_for_until_the_host_is_removed():
    mgr = applied()
    dies(mgr)
    ok(mgr.command("rollback", plan_id="p1"))
    mgr.steps(300, 1.0)
    assert said(mgr, "plan show", plan_id="p1")["status"] == "rolling back"
    for command in ("plan show", "rollout show"):
        (line,) = said(mgr, command, plan_id="p1")["waiting_for"]
        assert "the probe on h1" in line
        assert "`ceph wcache agent rm h1 --host-is-gone`" in line
        assert line in " ".join(ok(mgr.command(command, plan_id="p1")).split())
    stays = said(mgr, "agent rm", hostname="h1", host_is_gone=True)["stays"]
    assert [line for line in stays if "drive accept h1 domain-sda --accept-cost" in line]
    mgr.steps(5, 1.0)
    plan = said(mgr, "plan show", plan_id="p1")
    assert (plan["status"], plan["waiting_for"]) == ("stopped", [])
    others_go_on(mgr)


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
def test_an_apply_in_flight_ends_with_its_host(restarted):
    mgr = measured()
    apply_plan(mgr)
    for _ in range(200):
        change = mgr.inside.rollouts["p1"].current
        if change is not None and change.hostname == "h1" and change.status.value == "applying":
            break
        mgr.step()
    dies(mgr)
    mgr.steps(100, 1.0)
    assert said(mgr, "plan show", plan_id="p1")["status"] == "running"
    if restarted:
        mgr.restart()
    stays = said(mgr, "agent rm", hostname="h1", host_is_gone=True)["stays"]
    assert [line for line in stays if "may remain in write through" in line]
    mgr.steps(5, 1.0)
    plan = said(mgr, "plan show", plan_id="p1")
    assert plan["status"] == "stopped"
    assert "host h1 was removed" in plan["reason"]
    others_go_on(mgr)


@pytest.mark.slow
@pytest.mark.parametrize("paused", [False, True])
def test_a_plan_that_has_still_to_change_a_removed_host_stops(paused):
    mgr = measured()
    apply_plan(mgr)
    first = mgr.inside.rollouts["p1"].rollout.changes[0].hostname
    last = {"h1": "h2", "h2": "h1"}[first]
    if paused:
        ok(mgr.command("rollout pause", plan_id="p1"))
    dies(mgr, last)
    ok(mgr.command("agent rm", hostname=last, host_is_gone=True))
    mgr.steps(300, 1.0)
    plan = said(mgr, "plan show", plan_id="p1")
    assert plan["status"] in ("stopped", "rolled back")
    assert f"host {last} was removed" in plan["reason"]
    assert said(mgr, "status")["rollout"] == ""

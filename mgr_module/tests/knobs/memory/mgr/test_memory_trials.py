"""Trials of more memory that something comes between: leases, restarts, several of them."""

import errno
import json
from dataclasses import replace

import pytest
from memory_world import GIB, a_mgr, a_trial, begun, leased, raised, settled_caches, shown, watch
from module_world import change_osd, ok, refused, said, taken_over
from wcache.core.cluster import SlowOsd
from wcache.core.record import Precondition
from wcache.engine.run_queue import CLUSTER_GRACE_S
from wcache.knobs.memory.trial import TargetTrial


def three_hosts(**options):
    return a_mgr(hosts=3, ram_bytes=32 * GIB, **options)


def trying():
    """A trial whose larger target is in force."""
    return raised(begun(three_hosts()))


def is_sick(mgr, *why):
    missed = (Precondition.CLUSTER_HEALTHY,) if why else ()
    mgr.view.state = replace(mgr.view.state, missed=missed, sick=why)


def test_ceph_progress_shows_a_trial_with_its_time_left_and_one_that_is_stopped_has_failed():
    mgr = trying()
    ((event_id, (words, fraction)),) = mgr.views.under_way().items()
    trial = shown(mgr)
    assert event_id == f"wcache.{trial['trial_id']}"
    assert words.startswith(f"wcache memory trial {trial['trial_id']}, about 2.7 h")
    assert 0.0 < fraction < 0.5
    assert "measuring: memory trial t1; see `ceph wcache memory trial show`" in ok(
        mgr.command("status"))
    mgr.steps(60, 10.0)
    assert mgr.views.under_way()[event_id][1] > fraction
    ok(mgr.command("rollout abort", plan_id="t1"))
    mgr.step()
    assert mgr.views.under_way() == {}
    assert mgr.views.ended(event_id) == ("wcache trial t1: stopped", "stopped by an admin")


def test_a_lease_is_not_given_by_a_batch_that_is_under_way_when_the_trial_ends():
    mgr = three_hosts()
    later = []
    mgr.trial_osds.run = later.append  # as threads that come to their turn some time

    def stop(osd_id):
        mgr.osd_memory.meanwhile = lambda osd_id: None
        ok(mgr.command("rollout abort", plan_id="t1"))

    mgr.osd_memory.meanwhile = stop  # while the first OSD is asked
    begun(mgr)
    for _ in range(400):
        mgr.step(10.0)
        while later:
            later.pop(0)()
        if a_trial(mgr).over:
            break
    assert shown(mgr)["status"] == "stopped"
    given = [line for line in mgr.osd_memory.leases if not line.endswith("None")]
    assert given == [f"osd.0 {6 * GIB}"]
    assert leased(mgr) == {}


@pytest.mark.parametrize("stopped", [False, True])
def test_no_larger_target_is_leased_before_the_mons_have_the_trial(stopped):
    """A mgr that took over would not know whose targets it has to take back."""
    mgr = begun(three_hosts())
    mgr.store.slow = True
    while not a_trial(mgr).trial.periods:
        mgr.step(10.0)
    mgr.steps(3, 1.0)
    assert mgr.osd_memory.leases == []
    if stopped:  # the lease that waited for the store goes with its trial
        ok(mgr.command("rollout abort", plan_id="t1"))
    mgr.store.slow = False
    mgr.store.answer()
    mgr.steps(5, 1.0)
    assert bool(leased(mgr)) is not stopped
    assert (shown(mgr)["status"] == "stopped") is stopped


def test_what_is_taken_back_waits_for_no_mon():
    mgr = trying()
    mgr.store.slow = True
    ok(mgr.command("rollout abort", plan_id="t1"))
    mgr.step(1.0)
    assert leased(mgr) == {}


def freeze(mgr):
    ok(mgr.command("freeze"))


def break_its_code(mgr):
    def broken(readings, now_s):
        raise ZeroDivisionError("odd")

    a_trial(mgr)._read_back = broken


def restart_an_osd(mgr):
    """It has lost its lease by that, and must not be counted."""
    mgr.osd_memory.osds[0].leased = None


def break_the_answers(mgr):
    def broken(osd_id, up_from):
        raise RuntimeError("an answer of another kind")

    mgr.trial_osds.reader = type("Reader", (), {
        "read": staticmethod(broken), "lease": mgr.osd_memory.lease,
        "leased": mgr.osd_memory.leased,
    })


@pytest.mark.parametrize(("happens", "why"), [
    (freeze, "frozen by an admin"), (break_its_code, "ZeroDivisionError"),
    (restart_an_osd, "osd.0 has a target of"), (break_the_answers, "osd.0 gave no answer"),
])
def test_whatever_ends_a_trial_takes_its_leases_back_and_nothing_is_counted(happens, why):
    mgr = trying()
    happens(mgr)
    mgr.steps(4, 10.0)
    assert shown(mgr)["status"] == "stopped"
    assert why in shown(mgr)["reason"]
    assert leased(mgr) == {}
    assert said(mgr, "memory trial show")["results"] == []


@pytest.mark.slow
def test_a_trial_that_a_mgr_left_behind_is_put_back_and_told_once():
    mgr = trying()
    while len(a_trial(mgr).trial.periods) < 3:
        mgr.step(10.0)
    stored = json.loads(mgr.store.get("memory/trial"))
    assert stored["status"] == "running"
    mgr.restart()
    assert leased(mgr) == {}
    mgr.steps(2, 10.0)
    assert (shown(mgr)["status"], shown(mgr)["reason"]) == ("stopped", "the mgr was restarted")
    assert said(mgr, "memory trial show")["results"] == []


def test_an_osd_that_was_restarted_in_a_period_without_a_lease_ends_the_trial():
    mgr = begun(three_hosts())
    mgr.step(10.0)
    change_osd(mgr, 0, up_from=7)
    mgr.steps(3, 10.0)
    assert (shown(mgr)["status"], shown(mgr)["reason"]) == ("stopped", "osd.0 was restarted")


def test_an_osd_that_is_not_well_is_not_tried_and_one_that_falls_ill_ends_the_trial():
    mgr = three_hosts()
    mgr.view.state = replace(mgr.view.state, ill={0: "is near full"})
    begun(mgr)
    osd_ids = shown(mgr)["osd_ids"]
    assert osd_ids
    assert 0 not in osd_ids
    mgr.step(10.0)
    assert shown(mgr)["status"] == "running"
    mgr.view.state = replace(mgr.view.state, ill={osd_ids[-1]: "is near full"})
    mgr.steps(16, 10.0)
    assert shown(mgr)["status"] == "stopped"
    assert shown(mgr)["reason"] == f"osd.{osd_ids[-1]} is near full"
    assert leased(mgr) == {}


def test_pgs_that_move_elsewhere_keep_no_trial_and_what_is_of_the_whole_cluster_does():
    mgr = three_hosts()
    mgr.view.state = replace(
        mgr.view.state, missed=(Precondition.PGS_CLEAN, Precondition.NO_RECOVERY))
    begun(mgr)
    mgr.steps(3, 10.0)
    assert shown(mgr)["status"] == "running"
    is_sick(mgr, "flag pause is set")
    mgr.steps(16, 10.0)
    assert shown(mgr)["status"] == "stopped"
    assert "flag pause is set" in shown(mgr)["reason"]
    assert "flag pause is set" in mgr.command(
        "memory trial start", scope="class:hdd", accept_cost=True)[2]


def test_a_cluster_that_is_sick_for_a_while_is_waited_for_and_the_period_begins_anew():
    mgr = trying()
    while not a_trial(mgr)._first:
        mgr.step(10.0)
    done, given = len(a_trial(mgr).trial.periods), leased(mgr)
    is_sick(mgr, "1/3 mons are down")
    mgr.steps(10, 10.0)
    assert shown(mgr)["status"] == "running"
    assert "1/3 mons are down" in ok(mgr.command("memory trial show"))
    assert not a_trial(mgr)._first
    is_sick(mgr)
    began_s = mgr.now_s
    while not a_trial(mgr)._first:
        mgr.step(10.0)
    trial = a_trial(mgr).trial
    assert mgr.now_s - began_s >= trial.settle_s - 20.0
    assert (trial.reason, len(trial.periods), leased(mgr)) == ("", done, given)
    for _ in range(2):
        is_sick(mgr, "1/3 mons are down")
        mgr.step(10.0)
        is_sick(mgr)
        mgr.step(10.0)
    assert shown(mgr)["status"] == "running"
    is_sick(mgr, "1/3 mons are down")
    mgr.steps(3, 10.0)
    assert shown(mgr)["status"] == "stopped", "a fourth time"
    assert leased(mgr) == {}


def test_an_upgrade_ends_a_trial_at_once():
    mgr = trying()
    mgr.view.state = replace(mgr.view.state, missed=(Precondition.NO_UPGRADE,))
    mgr.steps(3, 10.0)
    assert shown(mgr)["status"] == "stopped"
    assert shown(mgr)["reason"].startswith("preconditions no longer met: ")
    assert leased(mgr) == {}


def test_what_a_mgr_that_has_just_started_says_of_health_does_not_hold_up_a_trial():
    mgr = three_hosts()
    begun(mgr)
    mgr.inside.watchdog.trusted_from_s = mgr.now_s + CLUSTER_GRACE_S
    is_sick(mgr, "PGs are unknown")
    mgr.steps(5, 10.0)
    assert (shown(mgr)["status"], shown(mgr)["reason"]) == ("running", "")
    mgr.steps(2, 10.0)
    assert shown(mgr)["reason"].startswith("waiting: ")


def test_osds_that_move_or_get_data_or_had_the_alert_are_tried_after_others():
    mgr = three_hosts(each=2)
    watch(mgr)

    def tried(osds):
        return said(
            mgr, "memory trial start", scope="class:hdd", osds=osds, dry_run=True,
        )["forecast"]["osds"]

    first = tried(6)
    assert tried(3) == first[:3]
    mgr.view.state = replace(
        mgr.view.state, missed=(Precondition.NO_RECOVERY,), busy=frozenset({first[0]}),
        gets_data=lambda osd_id: osd_id == first[1],
        slow_osds=(SlowOsd(first[2], 0.0, 86400.0),),
    )
    assert tried(3) == first[3:]
    assert {*tried(6)} == {*first}


def test_where_no_osd_is_well_the_refusal_says_why():
    mgr = three_hosts()
    watch(mgr)
    mgr.view.state = replace(mgr.view.state, ill=dict.fromkeys(range(6), "is near full"))
    error = mgr.command("memory trial start", scope="class:hdd", accept_cost=True)[2]
    assert "nothing can be tried: osd.0 is near full, osd.2 is near full" in error


def test_a_trial_of_one_osd_which_can_decide_nothing_is_refused_with_how_many_it_takes():
    mgr = a_mgr(hosts=2, ram_bytes=32 * GIB)
    watch(mgr)
    ask = {"scope": "class:hdd", "accept_cost": True}
    error = refused(mgr, "memory trial start", errno.EINVAL, osds=1, **ask)
    assert error == "--osds must be a whole number from 2 to 64"
    mgr.view.state = replace(mgr.view.state, ill={2: "is near full"})
    error = refused(mgr, "memory trial start", errno.EAGAIN, **ask)
    assert error == (
        "nothing can be tried: it takes 2 OSDs of class hdd with one target that can be tried, "
        "and there is osd.0 alone: see `ceph wcache memory status`"
    )


def test_where_no_memory_was_reported_one_command_shows_the_probes():
    mgr = three_hosts()
    for probe in mgr.probes.values():
        probe.memory = None
    taken_over(mgr)
    watch(mgr)
    see = "no probe has reported how much memory it has; see `ceph wcache agent ls`"
    error = mgr.command("memory trial start", scope="class:hdd", accept_cost=True)[2]
    assert error == f"nothing can be tried: {see}"
    assert see in said(mgr, "memory recommend")["groups"][0]["left_alone"]


def test_an_osd_that_stays_down_holds_up_its_own_lease_and_nothing_else():
    mgr = trying()
    mgr.osd_memory.osds[0].up = False
    change_osd(mgr, 0, up=False)
    mgr.steps(5, 10.0)
    assert (shown(mgr)["status"], shown(mgr)["owed"]) == ("ending", [0])
    assert not mgr.inside.reserved
    watch(mgr)
    error = refused(mgr, "memory trial start", scope="class:hdd", accept_cost=True)
    assert "has not taken back the targets of osd.0" in error
    mgr.restart()  # the next mgr knows it too
    mgr.osd_memory.osds[0].up = True  # it was cut off, and not restarted
    change_osd(mgr, 0, up=True)
    mgr.steps(5, 10.0)
    assert shown(mgr)["status"] == "stopped"
    assert leased(mgr) == {}


def test_a_target_that_an_admin_set_by_ceph_tell_is_named_and_neither_tried_nor_planned():
    mgr = a_mgr(hosts=1, ram_bytes=32 * GIB)
    mgr.osd_memory.osds[0].leased = 5 * GIB
    settled_caches(mgr)
    (group,) = said(mgr, "memory recommend")["groups"]
    assert "ceph tell osd.0 config unset osd_memory_target" in group["left_alone"][0]
    error = refused(mgr, "memory trial start", scope="class:hdd", accept_cost=True)
    assert "set by `ceph tell`" in error
    assert mgr.osd_memory.leases == []


@pytest.mark.parametrize("number", [TargetTrial.VERSION - 1, TargetTrial.VERSION + 1])
def test_the_targets_of_a_trial_that_cannot_be_read_are_named_with_how_they_go_back(number):
    mgr = trying()
    text = mgr.store.kept["memory/trial"]
    mgr.store.kept["memory/trial"] = json.dumps({**json.loads(text), "version": number})
    mgr.restart()
    settled_caches(mgr)
    assert f"version {number}" in said(mgr, "status")["unreadable"]["memory/trial"]
    told = " ".join(
        line for group in said(mgr, "memory recommend")["groups"] for line in group["left_alone"]
    )
    assert leased(mgr)
    for osd_id in leased(mgr):
        assert f"`ceph tell osd.{osd_id} config unset osd_memory_target`" in told
        shown_by = ok(mgr.command("memory status"))
        assert f"osd.{osd_id}" in shown_by
        assert "set by `ceph tell`" in shown_by
    error = refused(mgr, "memory trial start", scope="class:hdd", accept_cost=True)
    assert "set by `ceph tell`" in error


@pytest.mark.slow
@pytest.mark.parametrize("ended", ["by itself", "by a mgr that stops"])
def test_a_target_that_an_admin_sets_by_ceph_tell_meanwhile_stays(ended):
    mgr = trying()
    mine, *rest = leased(mgr)
    mgr.osd_memory.osds[mine].leased = 3 * GIB
    if ended == "by itself":
        mgr.steps(30, 10.0)
        assert shown(mgr)["status"] == "stopped"
        told = " ".join(row["text"] for row in said(mgr, "history")["history"])
        assert f"but that of osd.{mine}, which somebody else has set" in told
    else:
        mgr.memory.close()
    assert leased(mgr) == {mine: 3 * GIB}
    assert rest


def test_a_target_that_an_admin_sets_while_the_trial_steps_down_stays_and_ends_it():
    mgr = trying()
    while mgr.osd_memory.osds[0].leased == 6 * GIB:
        mgr.step(10.0)
    assert leased(mgr)[0] > 4 * GIB, "on its way down"
    mgr.osd_memory.osds[0].leased = 5 * GIB
    mgr.steps(10, 10.0)
    assert shown(mgr)["status"] == "stopped"
    assert shown(mgr)["reason"].startswith("osd.0 has a target of")
    assert leased(mgr) == {0: 5 * GIB}


def test_a_trial_goes_down_by_at_most_5_percent_a_minute():
    mgr = begun(three_hosts())
    asked = []
    mgr.osd_memory.meanwhile = lambda osd_id: asked.append((mgr.now_s, osd_id))
    osd = mgr.osd_memory.osds[0]
    while not a_trial(mgr).over:  # slowly only where it goes down
        mgr.step(60.0 if osd.leased in (None, 6 * GIB) else 10.0)
    ways = [at_s for at_s, osd_id in asked if osd_id == 0]
    held = osd.history
    down = [value or 4 * GIB for value in held[:-1]]  # the last one takes back what is not there
    assert down[0] == 6 * GIB
    assert down[-1] == 4 * GIB
    for before, after in zip(down, down[1:]):
        assert after >= 0.95 * before - 1
    # the first one is up, and the one after it ends two periods
    assert all(later - sooner >= 60.0 for sooner, later in zip(ways[1:-2], ways[2:-1]))


# ---- what empties the caches


def test_what_is_counted_after_caches_were_emptied_is_no_evidence_until_they_have_settled():
    mgr = a_mgr(hosts=1)
    watch(mgr)
    assert said(mgr, "memory status")["osds"][0]["onode_misses_per_s"]
    mgr.osd_memory.osds[0].misses = mgr.osd_memory.osds[0].accesses = 0.0  # it restarted
    for _ in range(4):
        watch(mgr, 100.0)
    row, other = said(mgr, "memory status")["osds"]
    assert row["onode_misses_per_s"] is None
    assert row["settling_s"] > 0
    assert other["onode_misses_per_s"] is not None
    for _ in range(2):
        watch(mgr, 400.0)
    assert said(mgr, "memory status")["osds"][0]["onode_misses_per_s"]


def test_beside_a_trial_that_has_every_osd_try_tells_what_it_would_cost_once_that_is_over():
    mgr = begun(three_hosts(classes=("hdd",)))
    assert {*shown(mgr)["osd_ids"]} == {0, 1, 2}
    told = said(mgr, "try", dry_run=True)
    assert told["occupied"] == "memory trial t1"
    assert told["forecast"]["drives"] > 0

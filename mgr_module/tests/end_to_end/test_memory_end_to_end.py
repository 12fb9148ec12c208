"""osd_memory_target from status to rollback, by the real engine on OSDs that are LRUs."""

import errno
import re
from dataclasses import replace

import pytest
from memory_world import (
    GIB,
    TARGET,
    a_mgr,
    a_trial,
    begun,
    leased,
    raised,
    settled_caches,
    shown,
    to_its_end,
    watch,
)
from module_world import apply_plan, codes, findings_of, ok, refused, said, taken_over, unconsented
from wcache.core.config_database import Config
from wcache.core.errors import NotReadyError
from wcache.core.hardware import CgroupLimit, HostMemory
from wcache.core.record import Precondition
from wcache.core.text import amount, duration
from wcache.knobs.memory.trial_result import TrialResult, TrialVerdict

RAM_BYTES = int(7.8 * GIB)


def targets(mgr):
    return {osd_id: mgr.osd_memory.target_of(osd_id) for osd_id in sorted(mgr.osd_memory.osds)}


def tried(mgr, **arguments):
    """A trial of the starved class, to its end."""
    answer = said(mgr, "memory trial start", scope="class:hdd", accept_cost=True, **arguments)
    to_its_end(mgr, 10.0)
    told = said(mgr, "memory trial show")
    assert told["trial"]["trial_id"] == answer["trial_id"]
    return told


def overcommitted(each=1):
    """Hosts of 7.8 GiB whose two OSDs have Ceph's default, 4 GiB each."""
    mgr = a_mgr(hosts=3, ram_bytes=RAM_BYTES, each=each, memory_floor=3 * GIB)
    watch(mgr)
    return mgr


def test_status_says_from_where_an_osd_has_its_target():
    mgr = a_mgr(hosts=1)
    mgr.config.kept[("osd/class:hdd", TARGET)] = str(3 * GIB)
    mgr.step()
    mgr.inside.config.read_soon()
    mgr.step()
    watch(mgr)
    shown = said(mgr, "memory status")
    assert shown["hosts"][0]["given_bytes"] == 7 * GIB
    hdd, ssd = shown["osds"]
    assert (hdd["source"], hdd["target_bytes"]) == ("class", 3 * GIB)
    assert (ssd["source"], ssd["target_bytes"]) == ("default", 4 * GIB)


def test_until_osds_were_watched_for_long_enough_it_says_for_how_long_they_are_at_most():
    mgr = a_mgr(hosts=1)
    mgr.memory.watch.read()
    mgr.step()
    (left_s,) = {row["known_in_s"] for row in said(mgr, "memory status")["osds"]}
    _, _, error = mgr.command("memory trial start", scope="class:hdd", accept_cost=True)
    assert f"with the target that it has, {duration(left_s)} more at most" in error


def test_a_plan_that_changes_nothing_says_why_each_target_stays():
    mgr = a_mgr(hosts=1)
    watch(mgr)
    (group,) = said(mgr, "memory recommend")["groups"]
    why = [item["words"] for item in group["classes"]]
    plan = said(mgr, "plan", knob="memory")
    assert plan["changes"] == []
    assert plan["left_alone"] == [f"h0: {words}" for words in why]
    assert "hdd: stays at 4.0 GiB" in ok(mgr.command("plan", knob="memory", scope="class:hdd"))
    assert "ssd: " not in ok(mgr.command("plan", knob="memory", scope="class:hdd"))


def test_a_plan_sets_classes_slowly_down_and_rolls_all_of_it_back():
    mgr = overcommitted()
    before = dict(mgr.config.kept)
    answer = said(mgr, "plan", knob="memory")
    assert {edit["who"] for c in answer["changes"] for edit in c["edits"]} == {
        "osd/class:hdd", "osd/class:ssd"}
    for change in answer["changes"]:
        for edit in change["edits"]:
            was = float(edit["prior"] or 4 * GIB)
            assert float(edit["value"]) >= 0.95 * was
    ok(mgr.command("apply", plan_id=answer["plan_id"]))
    to_its_end(mgr)
    assert said(mgr, "plan show", plan_id=answer["plan_id"])["status"] == "done"
    assert targets(mgr)[1] == 3 * GIB
    watch(mgr)
    assert "WCACHE_MEMORY_OVERCOMMIT" not in codes(mgr)
    ok(mgr.command("rollback"))
    to_its_end(mgr)
    assert mgr.config.kept == before
    assert set(targets(mgr).values()) == {4 * GIB}


def test_what_the_mons_set_after_the_time_out_is_rolled_back_with_the_rest():
    mgr = overcommitted()
    before, set_at_once, late = dict(mgr.config.kept), mgr.config.write, []

    def write(edit):
        set_at_once(edit)
        if edit not in late:
            late.append(edit)
            raise NotReadyError("the mons gave no answer to `config set` within 30 s")

    mgr.config.write = write
    answer = said(mgr, "plan", knob="memory")
    ok(mgr.command("apply", plan_id=answer["plan_id"]))
    to_its_end(mgr)
    told = said(mgr, "plan show", plan_id=answer["plan_id"])
    assert {item["status"] for item in told["changes"]} == {"applied"}
    ok(mgr.command("rollback"))
    to_its_end(mgr)
    assert len(late) == 2 * sum(len(item["edits"]) for item in told["changes"])
    assert mgr.config.kept == before


def test_where_a_value_does_not_go_back_nothing_of_its_memory_is_given_to_others():
    mgr = a_mgr(hosts=1, ram_bytes=10 * GIB, memory_floor=2 * GIB)
    mgr.memory.facts.results = (TrialResult(
        "t1", "hdd", mgr.now_s, 4 * GIB, 6 * GIB, (0,), 100.0, 0.5, 0.45, 0.55, TrialVerdict.GAIN,
    ),)
    settled_caches(mgr)
    apply_plan(mgr, knob="memory")
    to_its_end(mgr)
    assert targets(mgr) == {0: 6 * GIB, 1: 2 * GIB}
    given = dict(mgr.config.kept)
    mgr.config.fails = lambda who: who == "osd/class:hdd"
    ok(mgr.command("rollback"))
    to_its_end(mgr)
    assert mgr.config.kept == given
    told = said(mgr, "plan show", plan_id="p1")
    assert {item["status"] for item in told["changes"]} == {"rollback failed"}
    assert "changed by others" not in told["reason"]
    mgr.config.fails = lambda who: False
    ok(mgr.command("rollback", plan_id="p1"))
    to_its_end(mgr)
    assert mgr.config.kept == {}
    assert targets(mgr) == {0: 4 * GIB, 1: 4 * GIB}


@pytest.mark.slow
def test_nothing_goes_down_while_the_cluster_is_not_healthy():
    mgr = overcommitted()
    apply_plan(mgr, knob="memory")
    mgr.step(30.0)
    writes = len(mgr.config.writes)
    mgr.view.state = replace(mgr.view.state, missed=(Precondition.CLUSTER_HEALTHY,))
    mgr.steps(60, 30.0)
    assert len(mgr.config.writes) == writes


@pytest.mark.slow
def test_a_value_for_the_whole_host_is_journaled_replaced_by_class_and_put_back():
    mgr = overcommitted()
    mgr.config.kept[("osd/host:h1", TARGET)] = "4294967296.000000"
    mgr.inside.config.read_soon()
    watch(mgr)
    before = dict(mgr.config.kept)
    answer = said(mgr, "plan", knob="memory")
    first = answer["changes"][0]
    assert [(e["who"], e["value"]) for e in first["edits"]][-1] == ("osd/host:h1", None)
    assert first["edits"][-1]["prior"] == "4294967296.000000"
    ok(mgr.command("apply", plan_id=answer["plan_id"]))
    to_its_end(mgr)
    assert ("osd/host:h1", TARGET) not in mgr.config.kept
    found = Config(mgr.config.read()).of_osd(mgr.view.cluster().osds[2], TARGET)
    assert found.who == "osd/host:h1/class:hdd"
    ok(mgr.command("rollback"))
    to_its_end(mgr)
    assert mgr.config.kept == before


def test_a_target_that_an_admin_gave_to_one_osd_is_named_and_never_overwritten():
    mgr = overcommitted()
    mgr.config.kept[("osd.3", TARGET)] = "3100000000.000000"
    mgr.inside.config.read_soon()
    settled_caches(mgr)
    answer = said(mgr, "plan", knob="memory")
    assert any("osd.3 has a target of its own" in line for line in answer["left_alone"])
    for change in answer["changes"]:
        assert all(edit["who"] != "osd.3" for edit in change["edits"])
    if answer["plan_id"]:
        ok(mgr.command("apply", plan_id=answer["plan_id"]))
        to_its_end(mgr)
    assert targets(mgr)[3] == 3100000000


def test_environment_is_a_patch_to_print_and_nothing_to_set():
    mgr = overcommitted()
    for osd in mgr.osd_memory.osds.values():
        osd.env_bytes = 4 * GIB
    watch(mgr)
    shown = said(mgr, "memory recommend")["groups"]
    assert all("environment" in group["left_alone"][0] for group in shown)
    assert any("kubectl" in line and "osd-ssd" in line for line in shown[0]["instead"])
    assert said(mgr, "plan", knob="memory")["changes"] == []
    assert "WCACHE_MEMORY_NOT_TUNABLE" in codes(mgr)


# What keeps a target from being set, by its cure, and by how the plan names it.
KEPT = {
    "no tcmalloc": ("linked to it", "osd.3 cannot follow a target"),
    "environment": ("CephCluster", "environment"),
    "ceph.conf": ("remove it there", "osd.3 has its target from its ceph.conf"),
    "autotuner": ("--override", "autotuner"),
}


@pytest.mark.parametrize("why", KEPT)
def test_what_keeps_a_target_from_being_set_is_told_with_its_own_cure_alone(why):
    mgr = overcommitted()
    osd = mgr.osd_memory.osds[3]
    if why == "no tcmalloc":
        osd.tunable = False
    elif why == "environment":
        osd.env_bytes = 4 * GIB
    elif why == "ceph.conf":
        osd.file_bytes = 4 * GIB
    else:
        mgr.surroundings.backend = "cephadm"
        taken_over(mgr)
    watch(mgr)
    rows = findings_of(mgr, "WCACHE_MEMORY_NOT_TUNABLE")
    assert rows
    for row in rows:
        told = f"{row['detail']} {row['advice']}"
        assert [each for each, (cure, _) in KEPT.items() if cure in told] == [why]
    plan = said(mgr, "plan", knob="memory")
    assert any(KEPT[why][1] in line for line in plan["left_alone"]), plan["left_alone"]
    touched = {edit["who"] for change in plan["changes"] for edit in change["edits"]}
    assert not any("h1" in who or who == "osd.3" for who in touched)


def test_cephadms_autotuner_keeps_its_hosts_until_one_is_taken_over_and_gets_it_back():
    mgr = overcommitted()
    mgr.surroundings.backend = "cephadm"
    taken_over(mgr)
    watch(mgr)
    answer = said(mgr, "plan", knob="memory")
    assert answer["changes"] == []
    (said_of,) = {line.partition(": ")[2][:22] for line in answer["left_alone"]}
    assert said_of == "cephadm's autotuner se"
    instead = said(mgr, "memory recommend")["groups"][0]["instead"]
    assert any("autotune_memory_target_ratio" in line for line in instead)
    answer = said(mgr, "plan", knob="memory", override="autotuner:h2")
    assert answer["changes"][0]["manual"] == [
        "ceph orch host label add h2 _no_autotune_memory"]
    touched = {e["who"] for c in answer["changes"] for e in c["edits"]}
    assert touched == {"h2/cephadm", "osd/host:h2/class:hdd", "osd/host:h2/class:ssd"}
    before = dict(mgr.config.kept)
    ok(mgr.command("apply", plan_id=answer["plan_id"]))
    to_its_end(mgr)
    assert ("h2/cephadm", "_no_autotune_memory") in mgr.config.kept
    ok(mgr.command("rollback"))
    to_its_end(mgr)
    assert mgr.config.kept == before


@pytest.mark.slow
def test_a_trial_tells_what_more_would_gain_and_the_division_gives_it():
    mgr = a_mgr(hosts=4, ram_bytes=16 * GIB)
    watch(mgr)
    (group,) = said(mgr, "memory recommend")["groups"]
    assert not any(row["changed"] for row in group["classes"])  # nobody knows yet
    asked = {"scope": "class:hdd", "target_bytes": 7 * GIB}
    _, following = unconsented(mgr, "memory trial start", **asked)
    assert following == (
        f"ceph wcache memory trial start class:hdd --target-bytes={7 * GIB} --accept-cost"
    )
    forecast = said(mgr, "memory trial start", dry_run=True, **asked)
    assert forecast["trial_id"] == ""
    assert forecast["forecast"]["seconds"] > 3600
    shown = tried(mgr, target_bytes=7 * GIB, osds=4)
    (result,) = shown["results"]
    osd = mgr.osd_memory.osds[0]
    truth = osd.misses_per_s(7 * GIB) / osd.misses_per_s(4 * GIB)
    assert result["verdict"] == "gain"
    assert result["share_low"] - 0.02 <= truth <= result["share_high"] + 0.02
    assert set(targets(mgr).values()) == {4 * GIB}
    assert all(o.leased is None for o in mgr.osd_memory.osds.values())
    settled_caches(mgr)
    (group,) = said(mgr, "memory recommend")["groups"]
    by_class = {row["device_class"]: row for row in group["classes"]}
    assert by_class["hdd"]["target_bytes"] == 7 * GIB
    assert by_class["hdd"]["misses"] < by_class["hdd"]["misses_now"]


@pytest.mark.parametrize(("ram", "limit", "osds"), [
    (11 * GIB, None, 2), (16 * GIB, 6 * GIB, 2), (16 * GIB, None, 2), (40 * GIB, None, 2),
])
def test_the_target_that_a_refused_trial_names_is_taken(ram, limit, osds):
    mgr = a_mgr(hosts=2, ram_bytes=ram)
    if limit:
        for index, probe in enumerate(mgr.probes.values()):
            probe.memory = replace(probe.memory, limits=(CgroupLimit((2 * index,), limit),))
        mgr.inside.hosts.reported_at_s.clear()
        mgr.report_all()
    watch(mgr)
    ask = {"scope": "class:hdd", "osds": osds, "dry_run": True}
    error = refused(mgr, "memory trial start", errno.EINVAL, target_bytes=100 * GIB, **ask)
    advised = int(re.search(r"choose --target-bytes=(\d+) or less", error).group(1))
    assert f"and at most {amount(advised)}" in error
    said(mgr, "memory trial start", target_bytes=advised, **ask)
    assert mgr.command("memory trial start", target_bytes=advised + 1, **ask)[0] != 0


def test_where_no_larger_target_fits_no_smaller_one_is_advised():
    mgr = a_mgr(hosts=2, ram_bytes=9 * GIB)
    watch(mgr)
    error = refused(
        mgr, "memory trial start", errno.EBUSY, scope="class:hdd", target_bytes=6 * GIB
    )
    assert error == (
        "no target above 4.0 GiB can be tried: host h0 does not have the memory for it: "
        "see `ceph wcache memory recommend` for what the host has left"
    )


@pytest.mark.slow
def test_a_dry_run_of_a_memory_plan_says_the_minutes_that_it_waits_between_its_steps():
    mgr = overcommitted()
    plan = said(mgr, "plan", knob="memory")
    assert sum(change["wait_s"] for change in plan["changes"]) > 300.0
    would = said(mgr, "apply", plan_id=plan["plan_id"], dry_run=True)
    began_s = mgr.now_s
    ok(mgr.command("apply", plan_id=plan["plan_id"]))
    while mgr.engine.is_active():
        mgr.step(0.5)
    took_s = mgr.now_s - began_s
    assert would["seconds_least"] <= took_s * 1.05
    assert took_s <= would["seconds_most"]
    assert would["seconds_most"] < 1.5 * took_s


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, int(6.3 * GIB)])
def test_memory_that_grows_during_a_trial_ends_it(limit):
    mgr = a_mgr(hosts=3, ram_bytes=32 * GIB)
    if limit:
        for index, probe in enumerate(mgr.probes.values()):
            probe.memory = HostMemory(32 * GIB, 0, (CgroupLimit(limit, (2 * index,)),))
        taken_over(mgr)
    raised(begun(mgr, target_bytes=5 * GIB))
    # a PG log: past what its cgroup has left, or past what no OSD with this target should use
    mgr.osd_memory.osds[0].extra_bytes = int(1.3 * GIB) if limit else 3 * GIB
    mgr.steps(4, 10.0)
    assert shown(mgr)["status"] == "stopped"
    assert "past its limit" in shown(mgr)["reason"]
    assert leased(mgr) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 800, 3200, 5200])
@pytest.mark.parametrize("how", ["mgr lost", "mgr stops", "osd down"])
def test_whoever_takes_over_takes_every_lease_back(seconds, how):
    mgr = begun(a_mgr(hosts=3, ram_bytes=32 * GIB))
    mgr.steps(seconds // 10, 10.0)
    if how == "mgr stops":
        mgr.memory.close()
        assert leased(mgr) == {}
    if how == "osd down":
        mgr.osd_memory.osds[0].up = False
        mgr.steps(30, 10.0)
        mgr.osd_memory.osds[0].leased = None  # it starts anew
        mgr.osd_memory.osds[0].up = True
    mgr.restart()
    mgr.steps(5, 10.0)
    assert leased(mgr) == {}
    assert a_trial(mgr).over
    assert not mgr.inside.reserved
    if (how, seconds) == ("mgr lost", 800):
        assert shown(mgr)["reason"] == "the mgr was restarted"
        assert said(mgr, "memory trial show")["results"] == []

"""Memory is divided by machine; sections of the config database are named by CRUSH host."""

from dataclasses import replace

import pytest
from memory_world import GIB, TARGET, a_mgr, settled_caches, to_its_end, watch
from mgr_fakes import builders as make
from mgr_fakes.memory import LruOsd, uniform
from module_world import change_osd, ok, refused, said, until
from wcache.core.hardware import CgroupLimit, HostMemory
from wcache.knobs.memory.trial_result import TrialResult, TrialVerdict

RAM_BYTES = int(7.8 * GIB)


def placed(crush_host_of, **options):
    """Two machines whose OSDs stand in the CRUSH hosts that `crush_host_of` says."""
    mgr = a_mgr(ram_bytes=RAM_BYTES, memory_floor=GIB, **options)
    osds = mgr.view.state.osds.values()
    mgr.view.state = make.cluster([
        replace(
            osd, failure_domain=name,
            location=(("host", name), ("root", "default")) if name else (),
        )
        for osd in osds for name in [crush_host_of(osd)]
    ])
    mgr.step()
    watch(mgr)
    return mgr


def by_kind(osd):
    return f"{osd.device_class}-of-{osd.hostname}"


def in_none(osd):
    return "" if osd.device_class == "hdd" else osd.hostname


@pytest.mark.parametrize("crush_host_of", [by_kind, in_none], ids=["two", "none"])
def test_a_machines_memory_is_divided_once_whatever_crush_hosts_its_osds_stand_in(crush_host_of):
    plain = said(placed(lambda osd: osd.hostname), "memory status")["hosts"]
    assert said(placed(crush_host_of), "memory status")["hosts"] == plain
    assert [(row["host"], row["osds"]) for row in plain] == [("h0", 2), ("h1", 2)]


def test_targets_that_one_machine_cannot_bear_are_told_of_it_whatever_its_crush_hosts():
    mgr = placed(by_kind)
    mgr.config.kept["osd", TARGET] = str(6 * GIB)
    watch(mgr)
    found = [f for f in said(mgr, "status")["findings"] if f["code"] == "WCACHE_MEMORY_OVERCOMMIT"]
    assert "2 OSDs are given 12.0 GiB together" in str(found)


def sections_of_h0(mgr):
    """Of a plan where nothing is known of the other machine's memory, and what is left alone."""
    has_now(mgr, None, "h1")
    watch(mgr)
    plan = said(mgr, "plan", knob="memory")
    return sorted({
        edit["who"] for change in plan["changes"] for edit in change["edits"]
    }), plan["left_alone"]


def test_a_machine_gets_a_section_for_each_crush_host_that_its_osds_stand_in():
    mgr = placed(by_kind)
    named, left = sections_of_h0(mgr)
    assert named == ["osd/host:ssd-of-h0/class:ssd"], "its class hdd has what it should"
    assert not any("CRUSH" in line for line in left)


def test_a_crush_host_of_two_machines_gets_no_section_and_the_reason_names_both():
    mgr = placed(lambda osd: "shelf")
    named, left = sections_of_h0(mgr)
    assert named == []
    assert "the OSDs of machine h0 and of h1 are in one CRUSH host, shelf" in str(left)


def test_each_host_is_promised_what_its_own_load_makes_of_it():
    mgr = a_mgr(hosts=3, ram_bytes=int(7.8 * GIB), memory_floor=3 * GIB)
    mgr.osd_memory.osds[0] = LruOsd(uniform(1.5 * GIB, 10e6))  # h0 is less busy
    watch(mgr)
    plan_id = said(mgr, "plan", knob="memory")["plan_id"]
    promised = {
        p.host: p for p in mgr.memory.facts.promises
        if p.plan_id == plan_id and p.device_class == "hdd"
    }
    for index, (_host, promise) in enumerate(sorted(promised.items())):
        truth = mgr.osd_memory.osds[2 * index].misses_per_s(promise.target_bytes)
        assert promise.low <= truth <= promise.high
    assert promised["h0"].high < promised["h1"].low


def test_one_osd_that_is_down_does_not_turn_measurement_into_a_rule():
    mgr = a_mgr(hosts=3, ram_bytes=int(7.8 * GIB), memory_floor=3 * GIB)
    mgr.osd_memory.osds[4].up = False
    change_osd(mgr, 4, up=False)
    watch(mgr)
    bases = {
        row["basis"] for group in said(mgr, "memory recommend")["groups"]
        for row in group["classes"] if "h0" in group["hosts"]
    }
    assert bases == {"measured"}


def test_hosts_whose_targets_differ_now_do_not_share_a_way_down():
    mgr = a_mgr(hosts=2, ram_bytes=int(7.8 * GIB), memory_floor=2 * GIB)
    mgr.config.kept[("osd/host:h1/class:ssd", "osd_memory_target")] = str(2 * GIB)
    mgr.inside.config.read_soon()
    mgr.step()
    settled_caches(mgr)
    answer = said(mgr, "plan", knob="memory")
    for change in answer["changes"]:
        for edit in change["edits"]:
            if edit["who"] == "osd/host:h1/class:ssd":
                assert float(edit["value"]) <= 2 * GIB


def to_be_divided(ram_gib):
    """One machine with 4 GiB for each of two OSDs, of which class hdd gains from 6 GiB."""
    mgr = a_mgr(hosts=1, ram_bytes=ram_gib * GIB)
    mgr.memory.facts.results = (TrialResult(
        "t1", "hdd", mgr.now_s, 4 * GIB, 6 * GIB, (0,), 100.0, 0.5, 0.45, 0.55, TrialVerdict.GAIN,
    ),)
    settled_caches(mgr)
    return mgr


def an_osd_more(mgr):
    osd = replace(make.osd(2, "h0"), device_class="hdd", location=(("host", "h0"),))
    mgr.view.state = replace(mgr.view.state, osds={**mgr.view.state.osds, 2: osd})
    mgr.osd_memory.osds[2] = LruOsd(uniform(6 * GIB, 40e6))


def has_now(mgr, memory, host="h0"):
    """From now on its probe reports this memory."""
    mgr.probes[host].memory = memory
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()


def less_memory(mgr):
    has_now(mgr, HostMemory(mgr.probes["h0"].memory.total_bytes * 11 // 18))


def a_lower_limit(mgr, bytes_max=9 * GIB // 2):
    """Of the control group of the OSD that is to get more."""
    total_bytes = mgr.probes["h0"].memory.total_bytes
    has_now(mgr, HostMemory(total_bytes, 0, (CgroupLimit(bytes_max, (0,)),)))


def given(mgr):
    return sum(map(mgr.osd_memory.target_of, mgr.osd_memory.osds)) / GIB


@pytest.mark.parametrize(("happens", "why"), [
    (an_osd_more, "host h0 would give its OSDs 16.0 GiB, and has 14.4 GiB for them"),
    (less_memory, "host h0 would give its OSDs 10.0 GiB, and has 8.8 GiB for them"),
    (a_lower_limit, "osd.0 on h0 would get 6.0 GiB, and the limit of its control group, less "
                    "memory_headroom, is 3.6 GiB"),
])
def test_a_plan_of_more_than_its_host_has_by_now_is_not_begun(happens, why):
    mgr = to_be_divided(18)
    ok(mgr.command("plan", knob="memory"))
    happens(mgr)
    settled_caches(mgr)
    before = given(mgr)
    assert said(mgr, "apply", plan_id="p1", dry_run=True)["moved"] == [why]
    assert f"plan p1 no longer fits: {why}" in refused(mgr, "apply", plan_id="p1")
    to_its_end(mgr)
    assert given(mgr) == before


@pytest.mark.parametrize("happens", [an_osd_more, less_memory, a_lower_limit])
def test_a_plan_pauses_before_it_gives_what_its_host_no_longer_has(happens):
    mgr = to_be_divided(10)
    ok(mgr.command("plan", knob="memory"))
    ok(mgr.command("apply", plan_id="p1"))
    until(mgr, lambda: given(mgr) < 7)
    happens(mgr)
    to_its_end(mgr)
    plan = said(mgr, "plan show", plan_id="p1")
    assert plan["status"] == "paused"
    assert "the plan no longer fits: " in plan["reason"]
    assert mgr.osd_memory.target_of(0) == 4 * GIB
    assert "no longer fits" in refused(mgr, "rollout resume", plan_id="p1")


def test_an_osd_whose_own_limit_is_below_the_floor_is_named_and_does_not_get_the_floor():
    mgr = a_mgr(hosts=1, classes=("hdd",), each=2)
    mgr.config.kept["osd/class:hdd", TARGET] = str(5 * GIB // 4)
    mgr.inside.config.read_soon()
    a_lower_limit(mgr, 7 * GIB // 4)
    mgr.step()
    settled_caches(mgr)
    plan = said(mgr, "plan", knob="memory")
    assert plan["changes"] == []
    assert plan["left_alone"] == [
        "h0: the limit of the control group of osd.0, less memory_headroom, is under 2.0 GiB, the "
        "least target: raise the limit or lower memory_floor"
    ]


def test_a_target_that_the_limit_of_its_osd_does_not_bear_goes_down_though_the_host_has_room():
    mgr = a_mgr(hosts=1, classes=("hdd",), each=2, memory_floor=GIB)
    a_lower_limit(mgr, 3 * GIB)
    watch(mgr)
    ((row,),) = [group["classes"] for group in said(mgr, "memory recommend")["groups"]]
    assert row["target_bytes"] <= 0.8 * 3 * GIB


def run(mgr, plan_id, **asked):
    """A plan to its end."""
    assert said(mgr, "plan", knob="memory", **asked)["plan_id"] == plan_id
    ok(mgr.command("apply", plan_id=plan_id))
    to_its_end(mgr)
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"
    settled_caches(mgr)


def test_what_a_later_plan_has_given_to_others_is_not_taken_back_before_that_plan():
    mgr = to_be_divided(10)
    run(mgr, "p1", scope="class:ssd")
    run(mgr, "p2")
    assert given(mgr) == 8
    for dry_run in (True, False):
        assert refused(mgr, "rollback", plan_id="p1", dry_run=dry_run).endswith(
            "host h0 would give its OSDs 10.0 GiB, and has 8.0 GiB for them: roll back p2 first"
        )
    for plan_id in ("p2", "p1"):
        ok(mgr.command("rollback", plan_id=plan_id))
        to_its_end(mgr)
    assert mgr.config.kept == {}


def test_what_a_host_no_longer_has_is_not_taken_back():
    mgr = to_be_divided(10)
    run(mgr, "p1", scope="class:ssd")
    has_now(mgr, HostMemory(8 * GIB))
    assert "has 6.4 GiB for them: its OSDs, daemons, RAM or" in refused(
        mgr, "rollback", plan_id="p1"
    )


def by_hand(mgr, target_gib):
    """An admin sets the class that gets more."""
    mgr.config.kept["osd/class:hdd", TARGET] = str(int(target_gib * GIB))
    mgr.inside.config.read_soon()
    mgr.step()


def what_shrinks(mgr):
    until(mgr, lambda: given(mgr) < 6.2)


@pytest.mark.parametrize("is_made", [to_its_end, what_shrinks])
def test_what_an_admin_has_given_to_others_by_hand_is_not_taken_back_by_a_rollback(is_made):
    mgr = to_be_divided(10)
    ok(mgr.command("plan", knob="memory"))
    ok(mgr.command("apply", plan_id="p1"))
    is_made(mgr)
    by_hand(mgr, 6.25)
    to_its_end(mgr)
    assert refused(mgr, "rollback", plan_id="p1").endswith(
        "host h0 would give its OSDs 10.2 GiB, and has 8.0 GiB for them: its OSDs, daemons, RAM "
        "or targets set by others are not what they were: see `ceph wcache memory recommend`"
    )
    by_hand(mgr, 4)
    ok(mgr.command("rollback", plan_id="p1"))
    to_its_end(mgr)
    assert given(mgr) == 8


def test_a_class_gets_no_more_before_another_one_has_given_it_up():
    mgr = to_be_divided(10)
    plan = said(mgr, "plan", knob="memory", scope="class:hdd")
    assert plan["changes"] == []
    assert plan["left_alone"] == [
        "hdd gets no more: host h0 would give its OSDs 10.0 GiB, and has 8.0 GiB for them; shrink "
        "class ssd first, with `ceph wcache plan --knob=memory --scope=class:ssd`"
    ]
    run(mgr, "p1", scope="class:ssd")
    run(mgr, "p2", scope="class:hdd")
    assert given(mgr) == 8


def who_is_set(mgr, **asked):
    plan = said(mgr, "plan", knob="memory", **asked)
    return {edit["who"] for change in plan["changes"] for edit in change["edits"]}


@pytest.mark.parametrize("said_of_h2", [
    HostMemory(16 * GIB, GIB // 4),
    HostMemory(8 * GIB),
    HostMemory(16 * GIB, 0, (CgroupLimit(3 * GIB, (4,)),)),
], ids=["available", "total", "limit"])
def test_what_one_host_says_of_its_memory_takes_none_from_others(said_of_h2):
    mgr = a_mgr(hosts=3, classes=("hdd",), each=2, memory_floor=GIB)
    has_now(mgr, said_of_h2, "h2")
    watch(mgr)
    assert who_is_set(mgr) == {"osd/host:h2/class:hdd"}


def test_hosts_whose_memory_differs_by_little_have_one_section():
    gib = 9.0, 9.4, 8.7
    mgr = a_mgr(hosts=len(gib), classes=("hdd",), each=2, memory_floor=GIB)
    for number, size in enumerate(gib):
        limit = CgroupLimit(int(0.45 * size * GIB), (2 * number,))
        has_now(mgr, HostMemory(int(size * GIB), 0, (limit,)), f"h{number}")
    watch(mgr)
    assert who_is_set(mgr) == {"osd/class:hdd"}


@pytest.mark.parametrize("crush_host_of", [lambda osd: osd.hostname, by_kind])
def test_a_plan_of_one_machine_sets_all_of_it_and_nothing_of_others(crush_host_of):
    mgr = placed(crush_host_of)
    mgr.surroundings.backend = "cephadm"
    taken = {"override": "autotuner:h0"}
    everything = who_is_set(mgr, **taken)
    assert len(everything) > 1
    assert who_is_set(mgr, scope="host:h0", **taken) == everything
    mgr.surroundings.backend = "other"
    assert who_is_set(mgr) == {"osd/class:ssd"}
    assert who_is_set(mgr, scope="host:h0") == everything - {"h0/cephadm"}


def test_the_autotuner_goes_on_where_none_of_its_hosts_targets_can_be_set():
    mgr = placed(lambda osd: "both")
    mgr.surroundings.backend = "cephadm"
    mgr.probes["h1"].memory = None
    plan = said(mgr, "plan", knob="memory", scope="host:h0", override="autotuner:h0")
    assert plan["changes"] == []
    assert "are in one CRUSH host" in str(plan["left_alone"])


@pytest.mark.parametrize("scope", ["osd.1", "model:HD1"])
def test_a_scope_that_has_no_memory_of_its_own_is_told(scope):
    plan = said(placed(lambda osd: osd.hostname), "plan", knob="memory", scope=scope)
    assert plan["left_alone"] == ["memory: a plan of it is for hosts or device classes"]


def test_an_osd_that_was_read_with_another_target_than_the_mons_have_is_not_planned_by():
    mgr = to_be_divided(10)
    mgr.config.kept["osd/class:ssd", TARGET] = str(3 * GIB)
    mgr.inside.config.read_soon()
    mgr.step()
    plan = said(mgr, "plan", knob="memory")
    assert plan["changes"] == []
    assert "osd.1 was not watched for long enough with the target that" in str(plan["left_alone"])
    (known_in_s,) = {osd["known_in_s"] for osd in said(mgr, "memory status")["osds"][1:]}
    watch(mgr, known_in_s - 120.0)
    watch(mgr)
    assert who_is_set(mgr) == {"osd/class:hdd", "osd/class:ssd"}

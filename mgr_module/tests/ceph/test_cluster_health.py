"""A check keeps the OSDs that it is about; one that keeps all of them has a reason to."""

import json

import pytest
from wcache.ceph import cluster_health as seen
from wcache.ceph.cluster_health import HealthSeen, judged
from wcache.ceph.health import Reach

BACK, FRONT = "OSD_SLOW_PING_TIME_BACK", "OSD_SLOW_PING_TIME_FRONT"
ALERT = "BLUESTORE_SLOW_OP_ALERT"


def check(*lines, summary="", count=None, severity="HEALTH_WARN", muted=False):
    """A check as HealthMonitor::get_health_status tells it."""
    return {
        "severity": severity, "muted": muted,
        "summary": {"message": summary, "count": len(lines) if count is None else count},
        "detail": [{"message": line} for line in lines],
    }


def ping(way, source, target, more=""):
    """As 16, 18 and 20 have it (PGMap.cc)."""
    return (
        f"Slow OSD heartbeats on {way} from osd.{source} [default,h{source}]{more} to "
        f"osd.{target} [default,h{target}] 1234.567 msec possibly improving"
    )


def slow(count, who):
    text = f"{count} slow ops, oldest one blocked for 34 sec, {who}"
    return check(summary=text, count=1)


# What each of 16, 18 and 20 writes, and the OSDs in it.
SAID = [
    ("OSD_DOWN", check("osd.3 (root=default,host=h1) is down"), {3}),
    ("OSD_FULL", check("osd.12 is full", severity="HEALTH_ERR"), {12}),
    ("OSD_NEARFULL", check("osd.2 is near full", "osd.40 is near full"), {2, 40}),
    ("OSD_BACKFILLFULL", check("osd.2 is backfill full"), {2}),
    ("OSD_FLAGS", check("osd.7 has flags noout,noup", "host h1 has flags noout",
                        "device class 'hdd' has flags noin"), {7}),
    ("OSD_TOO_MANY_REPAIRS", check("osd.5 had 11 reads repaired"), {5}),
    ("BLUESTORE_SPURIOUS_READ_ERRORS", check(
        "     osd.6  reads with retries: 3", " osd.8  reads with retries: 1"), {6, 8}),
    ("OSD_UNREACHABLE", check(
        "osd.1's public address is not in '10.0.0.0/8' subnet", severity="HEALTH_ERR"), {1}),
    (BACK, check(ping("back", 0, 1), ping("back", 3, 1, " (down)")), {0, 1, 3}),
    (FRONT, check(ping("front", 10, 11)), {10, 11}),
    ("SLOW_OPS", slow(1, "osd.4 has slow ops"), {4}),
    ("SLOW_OPS", slow(7, "daemons [osd.1,mon.a,osd.22,mds.x.y] have slow ops."), {1, 22}),
    ("SLOW_OPS", slow(1, "mon.a has slow ops"), set()),
]


@pytest.mark.parametrize(("name", "said", "osds"), SAID)
def test_the_osds_that_a_check_names_are_ill_and_nobody_else_is(name, said, osds):
    found = judged({name: said})
    assert found.forbids == ()
    assert found.osds == {osd_id: (name,) for osd_id in osds}
    assert found.recorded == (() if osds else (name,))


@pytest.mark.parametrize("name", [ALERT, "DB_DEVICE_STALLED_READ_ALERT"])
def test_an_alert_forbids_nothing_and_is_not_seen_while_muted(name):
    line = "     osd.2 observed slow operation indications in BlueStore"
    assert judged({name: check(line)}) == HealthSeen(alerted=frozenset({2}))
    assert judged({name: check(line, muted=True)}) == HealthSeen()
    cut = judged({name: check(line, count=9)})
    assert (cut.alerted, cut.forbids, cut.recorded) == ({2}, (), (name,))


CUT_OFF = [
    ("SLOW_OPS", slow(30, "daemons [osd.1,osd.2]... have slow ops."), {1, 2}),
    ("SLOW_OPS", slow(3, "daemons [osd.1,osd.two] have slow ops."), {1}),
    (BACK, check(ping("back", 0, 1), "Truncated long network list.  Use ceph daemon mgr.# "
                 "dump_osd_network for more information", count=400), {0, 1}),
    ("OSD_NEARFULL", check("osd.2 is near full", count=5), {2}),
    ("OSD_FULL", check(count=0, severity="HEALTH_ERR"), set()),
    ("HOST_IN_MAINTENANCE", check("who is it"), set()),
]


@pytest.mark.parametrize(("name", "said", "osds"), CUT_OFF)
def test_what_does_not_name_all_keeps_all_until_it_is_muted(name, said, osds):
    found = judged({name: said})
    assert found.forbids == (name,)
    assert set(found.osds) == osds
    assert "does not name all" in seen.reason(name)
    muted = judged({name: {**said, "muted": True}})
    assert (muted.forbids, set(muted.osds), muted.recorded) == ((), osds, ())


def test_a_mute_cures_no_osd_but_lifts_what_is_only_words():
    near = check("osd.2 is near full", muted=True)
    assert judged({"OSD_NEARFULL": near}).osds == {2: ("OSD_NEARFULL",)}
    address = check(
        "osd.1's public address is not in 'x' subnet", severity="HEALTH_ERR", muted=True
    )
    assert judged({"OSD_UNREACHABLE": address}) == HealthSeen()


@pytest.mark.parametrize("name", ["MON_DISK_CRIT", "NEVER_HEARD_OF", "POOL_FULL", "MDS_DAMAGE"])
def test_an_error_that_is_not_of_single_osds_keeps_all_until_it_is_muted(name):
    assert judged({name: check("x", severity="HEALTH_ERR")}).forbids == (name,)
    assert judged({name: check("x", severity="HEALTH_ERR", muted=True)}) == HealthSeen()
    assert judged({name: check("x", severity="WORSE")}).forbids == (name,)
    assert judged({name: check("x")}) == HealthSeen(recorded=(name,))
    assert judged({name: check("x", muted=True)}) == HealthSeen()
    assert judged({name: check("x", severity="HEALTH_OK")}) == HealthSeen()
    assert seen.reason(name).startswith(f"{name}: ")


def test_a_known_warning_that_became_an_error_keeps_all():
    assert judged({"OBJECT_MISPLACED": check("x")}).recorded == ("OBJECT_MISPLACED",)
    assert judged({"OBJECT_MISPLACED": check(severity="HEALTH_ERR")}).forbids


@pytest.mark.parametrize("name", ["AUTH_INSECURE_SERVICE_KEY_TYPE", "WCACHE_UNSAFE"])
def test_keys_and_our_own_findings_keep_nobody(name):
    assert judged({name: check("osd.1 is bad", severity="HEALTH_ERR")}) == HealthSeen()


@pytest.mark.parametrize("name", [
    "OBJECT_UNFOUND", "DEGRADED_STRETCH_MODE", "RECOVERING_STRETCH_MODE", "UPGRADE_EXCEPTION",
    "UPGRADE_KEY_ROTATION",
])
@pytest.mark.parametrize("muted", [True, False])
def test_a_state_of_the_whole_cluster_keeps_all_muted_or_not(name, muted):
    assert judged({name: check("x", muted=muted)}).forbids == (name,)


@pytest.mark.parametrize(("mons", "in_quorum", "at_risk"), [
    (1, 1, False), (2, 2, False), (3, 3, False), (3, 2, True), (4, 3, True), (5, 4, False),
    (5, 3, True), (7, 5, False), (7, 4, True),
])
def test_a_missing_mon_keeps_all_where_one_more_would_end_the_quorum(mons, in_quorum, at_risk):
    text = f"{mons - in_quorum}/{mons} mons down, quorum a,b,c"
    down = check("mon.z (rank 2) addr v1:1.2.3.4:0/0 is down (out of quorum)", summary=text)
    found = judged({"MON_DOWN": down})
    assert (found.forbids, found.recorded) == (
        (("MON_DOWN",), ()) if at_risk else ((), ("MON_DOWN",))
    )
    assert bool(judged({"MON_DOWN": {**down, "muted": True}}).forbids) is at_risk
    assert judged({"MON_DOWN": check(summary="mons are down")}).forbids == ("MON_DOWN",)


def test_hosts_in_maintenance_are_named():
    said = check("h1 is in maintenance", "h2.example is in maintenance", count=1,
                 summary="2 hosts are in maintenance mode")
    found = judged({"HOST_IN_MAINTENANCE": said})
    assert (found.hosts, found.osds, found.forbids) == ({"h1", "h2.example"}, {}, ())
    muted = judged({"HOST_IN_MAINTENANCE": {**said, "muted": True}})
    assert muted.hosts == found.hosts


def test_what_the_states_of_pgs_say_better_is_left_to_them():
    said = check("pg 1.2 is active+clean+inconsistent, acting [0,1,2]", severity="HEALTH_ERR")
    found = judged({"PG_DAMAGED": said, "OSD_SCRUB_ERRORS": check(severity="HEALTH_ERR", count=3)})
    assert found == HealthSeen(recorded=("OSD_SCRUB_ERRORS", "PG_DAMAGED"))


@pytest.mark.parametrize(("lines", "forbids"), [
    (("Module 'devicehealth' has failed: disk I/O error",), False),
    (("Module 'devicehealth' has failed: x", "Module 'cephadm' has failed: y"), True),
    (("Module 'rook' has failed: x",), True), (("Module 'orchestrator' has failed: x",), True),
    (("words of another release",), True), ((), True),
])
def test_a_module_that_failed_keeps_all_only_where_it_may_tell_of_work_on_hosts(lines, forbids):
    found = judged({"MGR_MODULE_ERROR": check(*lines, severity="HEALTH_ERR")})
    assert bool(found.forbids) is forbids
    assert found.recorded == (() if forbids else ("MGR_MODULE_ERROR",))


@pytest.mark.parametrize(("state", "scope"), [
    ("active+clean", Reach.NOTHING), ("active+clean+scrubbing+deep", Reach.RECORDED),
    ("active+remapped+backfill_wait", Reach.RECORDED), ("active+remapped", Reach.RECORDED),
    ("active+remapped+backfilling", Reach.BUSY), ("active+undersized+degraded", Reach.OSDS),
    ("active+undersized+degraded+remapped+backfilling", Reach.OSDS),
    ("active+recovering+degraded", Reach.OSDS), ("active+recovery_wait", Reach.OSDS),
    ("active+clean+inconsistent", Reach.OSDS), ("active+clean+snaptrim_error", Reach.OSDS),
    ("peering", Reach.OSDS), ("clean", Reach.OSDS), ("clean+premerge+peered", Reach.OSDS),
    ("active+clean+laggy", Reach.OSDS), ("active+never_heard_of", Reach.OSDS), ("", Reach.OSDS),
    ("stale+active+clean", Reach.CLUSTER), ("down", Reach.CLUSTER), ("unknown", Reach.CLUSTER),
    ("remapped+incomplete", Reach.CLUSTER), ("active+recovery_unfound+degraded", Reach.CLUSTER),
    ("active+backfill_unfound+undersized", Reach.CLUSTER),
])
def test_a_pg_keeps_whom_its_worst_state_keeps(state, scope):
    assert seen.pg_scope(state) is scope
    assert bool(seen.pgs_forbid({state: 1, "active+clean": 5})) is (scope is Reach.CLUSTER)
    assert seen.pgs_forbid({state: 0}) == ()


@pytest.mark.parametrize("flag", [
    "full", "pauserd", "pausewr", "noup", "nodown", "norecover", "nobackfill", "noout",
])
def test_flags_keep_all_osds(flag):
    osd_map = {"flags": f"sortbitwise,noscrub,recovery_deletes,{flag},pglog_hardlimit"}
    assert seen.flags_forbid(osd_map) == (flag,)


def test_other_flags_forbid_nothing_and_the_map_knows_a_degraded_stretch_mode():
    assert seen.flags_forbid({"flags": "sortbitwise,nearfull,newly_made"}) == ()
    assert seen.flags_forbid({}) == ()
    whole = {"stretch_mode_enabled": True, "degraded_stretch_mode": 0,
             "recovering_stretch_mode": 0}
    assert seen.flags_forbid({"stretch_mode": whole}) == ()
    for word in ("degraded", "recovering"):
        broken = {**whole, f"{word}_stretch_mode": 1}
        assert seen.flags_forbid({"stretch_mode": broken}) == ("degraded stretch mode",)


def test_flags_of_hosts_classes_and_osds_are_those_of_work():
    found = seen.in_work({
        "osds": [{"osd": 0, "state": ["exists", "up"]}, {"osd": 1, "state": ["exists", "noout"]},
                 {"osd": 2}],
        "crush_node_flags": {"h1": ["noout"], "h2": ["noin"], "h3": "noout"},
        "device_class_flags": {"hdd": ["nodown"]},
    })
    assert found == (frozenset({1}), frozenset({"h1"}), frozenset({"hdd"}))


HOSTILE = [
    None, 7, "osd.1", [], {}, {"detail": "osd.1"}, {"detail": [None, 7, "osd.1 is down", {}]},
    {"detail": [{"message": ["osd.1"]}], "summary": "x", "muted": "no", "severity": 3},
    {"summary": {"message": None, "count": "many"}, "severity": "HEALTH_WARN"},
    check("osd.x is full", "osd.-1 is full", "osd.1.2 is full", "osd. 1", "osd.1234567890 full"),
    check("osd." + "9" * 10_000, summary="osd.1 " * 10_000),
    slow(1, "daemons [" + "osd.1," * 10_000 + "] have slow ops."),
    check(ping("back", 1, 2).replace("default", "] to osd.7 [")),
]


@pytest.mark.parametrize("said", HOSTILE)
@pytest.mark.parametrize("name", [
    "OSD_FULL", BACK, "SLOW_OPS", "HOST_IN_MAINTENANCE", "MON_DOWN", "NEVER_HEARD_OF",
])
def test_words_that_nobody_should_write_name_nobody_and_open_nothing(name, said):
    found = judged({name: said})
    assert found.osds == {}
    known_warning = name == "NEVER_HEARD_OF" and isinstance(said, dict) and (
        said.get("severity") == "HEALTH_WARN"
    )
    assert found.forbids == (() if known_warning else (name,))


@pytest.mark.parametrize("checks", [None, [], "x", 3])
def test_no_checks_at_all_are_not_taken_for_health(checks):
    assert judged(checks).forbids


def test_names_are_few_and_on_one_line():
    error = check(severity="HEALTH_ERR")
    found = judged({f"X{n:04}": error for n in range(5000)})
    assert len(found.forbids) == seen.NAMES_MAX + 1
    assert found.forbids[-1].endswith(" more")
    (name,) = judged({"A\n\x1b[2J" + "B" * 1000: error}).forbids
    assert name.isprintable()
    assert len(name) <= seen.NAME_CHARS_MAX
    many = check(*(f"osd.{n} is near full" for n in range(seen.LINES_MAX + 1)))
    assert judged({"OSD_NEARFULL": many}).forbids == ("OSD_NEARFULL",)


def test_a_name_that_only_looks_like_a_known_one_is_not_it():
    assert judged({"WCACHE\u200b_X": check(severity="HEALTH_ERR")}).forbids


def test_what_is_said_of_an_osd_is_told_of_each_check():
    said = {"OSD_NEARFULL": check("osd.1 is near full"), "SLOW_OPS": slow(1, "osd.1 has slow ops")}
    found = judged(json.loads(json.dumps(said)))
    assert found.osds == {1: ("OSD_NEARFULL", "SLOW_OPS")}

"""What the mgr's maps say of an OSD is where CRUSH has it, whatever the map holds beside."""

import json

import pytest
from wcache.ceph.view import CephView
from wcache.core.cluster import SlowOsd
from wcache.core.record import Precondition


class Maps:
    """A mgr with one OSD in a rack, and one that no bucket holds."""

    version = "ceph version 18.2.4 (e7ad534) reef (stable)"

    def __init__(self, buckets, rules=(), pools=(), checks=()):
        self.maps = {
            "osd_map": {
                "fsid": "f",
                "osds": [
                    {"osd": i, "uuid": f"u{i}", "up": 1, "in": 1, "state": ["exists", "up"]}
                    for i in (0, 1)
                ],
                "pools": [
                    {"pool": i, "crush_rule": rule, "pool_name": f"p{i}", "size": 3, "min_size": 2}
                    for i, rule in enumerate(pools)
                ],
            },
            "osd_metadata": {"0": {"hostname": "h0.example"}},
            "osd_map_crush": {
                "devices": [{"id": 0, "class": "hdd"}], "buckets": buckets, "rules": rules,
            },
            "health": {"json": json.dumps({"checks": dict(checks)})},
            "pg_summary": {"all": {}, "by_osd": {}},
        }

    def get(self, data_name):
        return self.maps[data_name]


def bucket(number, name, kind, *items):
    return {"id": number, "name": name, "type_name": kind, "items": [{"id": i} for i in items]}


def osds(*buckets):
    return CephView(Maps(buckets), bench_empties_caches=False).cluster().osds


def test_the_location_names_the_buckets_from_the_innermost_on_and_no_shadow_trees():
    found = osds(
        bucket(-1, "default", "root", -3), bucket(-2, "h0", "host", 0),
        bucket(-3, "r1", "rack", -2), bucket(-4, "h0~hdd", "host", 0),
        bucket(-5, "default~hdd", "root", -4),
    )
    assert found[0].location == (("host", "h0"), ("rack", "r1"), ("root", "default"))
    assert found[0].failure_domain == "h0"
    assert found[1].location == ()
    assert [osd.uuid for osd in found.values()] == ["u0", "u1"]


def test_a_map_in_which_buckets_hold_each_other_ends():
    found = osds(bucket(-1, "a", "rack", -2), bucket(-2, "b", "host", -1, 0))
    assert found[0].location[0] == ("host", "b")


def rule(number, *steps):
    """A rule as CrushWrapper::dump_rule tells it, of (op, type) steps."""
    chosen = [{"op": op, "num": 0, "type": kind} for op, kind in steps]
    take = {"op": "take", "item": -1, "item_name": "default"}
    return {"rule_id": number, "steps": [take, *chosen, {"op": "emit"}]}


def seen(**maps):
    return CephView(Maps((), **maps), bench_empties_caches=False).cluster()


def test_failure_domains_are_what_the_rules_of_pools_spread_over():
    rules = (
        rule(0, ("chooseleaf_firstn", "host")),
        rule(1, ("choose_indep", "rack"), ("chooseleaf_indep", "chassis")),
        rule(2, ("choose_firstn", "osd")), rule(3, ("chooseleaf_firstn", "datacenter")),
    )
    assert seen(rules=rules).failure_types == frozenset()
    assert seen(rules=rules, pools=(0,)).failure_types == {"host"}
    assert seen(rules=rules, pools=(0, 1, 1)).failure_types == {"host", "rack", "chassis"}
    assert seen(rules=rules, pools=(0, 2)).failure_types == {"host", "osd"}
    within = rule(5, ("choose_indep", "host"), ("choose_indep", "osd"))
    assert seen(rules=(within,), pools=(5,)).failure_types == {"host"}
    odd = {"rule_id": 4, "steps": [{"opcode": 77}, {"op": "set_choose_tries", "num": 100}]}
    assert seen(rules=(odd,), pools=(4,)).failure_types == frozenset()


def test_a_cluster_in_error_is_not_healthy_unless_the_error_is_ours_or_muted():
    def missed(name, severity="HEALTH_ERR", **more):
        check = {"severity": severity, **more}
        return list(seen(checks=[(name, check)]).missed)

    assert missed("POOL_FULL") == [Precondition.CLUSTER_HEALTHY]
    assert missed("POOL_FULL", muted=True) == []
    assert missed("WCACHE_UNSAFE") == []
    assert missed("AUTH_INSECURE_SERVICE_KEY_TYPE") == [], "it is raised by an upgrade to 20.2.4"
    assert missed("POOL_NO_REDUNDANCY", "HEALTH_WARN") == []
    assert missed("OSD_DOWN") == missed("PG_DAMAGED") == [], "the map and the PGs say of whom"
    assert missed("A_CHECK_OF_TOMORROW", "HEALTH_WARN") == []
    assert missed("A_CHECK_OF_TOMORROW") == [Precondition.CLUSTER_HEALTHY]
    found = seen(checks=[("A_CHECK_OF_TOMORROW", {"severity": "HEALTH_WARN"})])
    assert found.checks == ("A_CHECK_OF_TOMORROW",)


def living(states=(), by_osd=(), flags="", **maps):
    """A cluster with PGs in these states, in all and by OSD."""
    there = Maps((bucket(-2, "h0", "host", 0, 1),), **maps)
    there.maps["pg_summary"] = {
        "all": dict(states), "by_osd": {key: dict(each) for key, each in dict(by_osd).items()},
    }
    there.maps["osd_map"]["flags"] = flags
    return there


def look(there):
    return CephView(there, bench_empties_caches=False).cluster()


@pytest.mark.parametrize("state", [
    "active+undersized+degraded", "active+recovering", "active+recovery_wait+degraded",
    "peering", "active+clean+inconsistent", "remapped+peering", "active+clean+laggy",
    "active+recovery_toofull+degraded", "activating", "active+undersized+remapped+backfilling",
])
def test_an_osd_of_whose_pgs_a_copy_is_missing_is_ill_and_nobody_else(state):
    found = look(living({state: 1}, {"0": {state: 1}, "1": {"active+clean": 9}}))
    assert set(found.illness((0, 1))) == {0}
    assert found.blocking == ()


def test_a_host_in_maintenance_is_known_by_the_name_that_its_osds_have():
    check = {"severity": "HEALTH_WARN", "summary": {"message": "", "count": 1},
             "detail": [{"message": "h0.example is in maintenance"}]}
    found = look(living(checks=[("HOST_IN_MAINTENANCE", check)]))
    assert set(found.illness((0, 1))) == {0}


STALE = ({"stale+active+clean": 1}, {"0": {"stale+active+clean": 1}, "1": {"active+clean": 9}})
WELL = ({"active+clean": 9}, {"1": {"active+clean": 9}})


def looks(*seen):
    """What one mgr has found at each (time, PGs in all, PGs by OSD)."""
    there, now_s, found = living(), [0.0], []
    view = CephView(there, bench_empties_caches=False, clock=lambda: now_s[0])
    for now_s[0], states, by_osd in seen:
        there.maps["pg_summary"] = {"all": states, "by_osd": by_osd}
        found.append(view.cluster())
    return found


def test_pgs_that_no_osd_tells_of_for_seconds_keep_their_own_osds_and_after_a_minute_all():
    """The mgr has them so where their primary goes down, until the next one tells."""
    well, at_once, later, still, again, new = looks(
        (0.0, *WELL), (10.0, *STALE), (59.0, *STALE), (60.0, *STALE), (70.0, *WELL),
        (80.0, {"unknown": 4, "active+clean": 9}, {}),
    )
    assert well.illness((0, 1)) == {}
    assert set(at_once.illness((0, 1))) == set(later.illness((0, 1))) == {0}
    assert [each.sick for each in (well, at_once, later, again, new)] == [()] * 5
    assert at_once.missed == (Precondition.PGS_CLEAN,)
    assert still.sick == ("PGs are stale",)
    assert still.blocking == (Precondition.CLUSTER_HEALTHY,)


def test_pgs_that_are_out_of_reach_keep_all_at_once_where_no_look_had_them_well():
    empty = ({}, {})
    for first in (looks((0.0, *STALE)), looks((0.0, *empty), (1.0, *STALE)),
                  looks((500.0, *WELL), (400.0, *STALE)), looks((0.0, *WELL), (100.0, *STALE)),
                  looks((0.0, *WELL), (5.0, {"down": 1}, {}))):
        assert first[-1].blocking == (Precondition.CLUSTER_HEALTHY,)


def test_one_look_serves_all_for_a_second_however_many_osds_are_asked_about():
    there, now_s, asked = living(*WELL), [10.0], []
    get = there.get
    there.get = lambda name: asked.append(name) or get(name)
    view = CephView(there, bench_empties_caches=False, clock=lambda: now_s[0])
    assert all(view.is_up(osd_id) for osd_id in (0, 1) * 500)
    assert asked.count("osd_map") == 1
    there.maps["osd_map"]["osds"][0]["up"] = 0
    assert view.is_up(0)
    for now_s[0] in (11.0, 5.0):  # later, and after the clock was set back
        asked.clear()
        assert not view.is_up(0)
        assert view.cluster() is view.cluster()
        assert asked.count("osd_map") == 1


@pytest.mark.parametrize(("held", "gets"), [(9, False), (10, True), (8, False), (None, False)])
def test_an_osd_that_holds_more_pgs_than_are_its_own_may_get_data(held, gets):
    """The target of a backfill holds a PG of whose acting set it is not."""
    state, asked = "active+remapped+backfilling", []

    def series(osd_id, name):
        asked.append((osd_id, name))
        return [] if held is None else [[1.0, 99], [6.0, held]]

    there = living({state: 1, "active+clean": 9}, {
        "0": {state: 1}, "1": {"active+clean": 7, "active+clean+scrubbing": 2}})
    found = CephView(there, bench_empties_caches=False, series=series).cluster()
    assert asked == [], "nobody is asked at each look"
    assert found.moving((0, 1)) == ({0, 1} if gets else {0})
    assert asked == [(0, "osd.numpg"), (1, "osd.numpg")]
    assert found.busy == {0}, "whether data has come is told by counters later"
    new = living({state: 1}, {"0": {state: 1}})
    expanded = CephView(new, bench_empties_caches=False, series=series).cluster()
    assert (1 in expanded.moving((1,))) is bool(held)


@pytest.mark.parametrize(("acting", "to", "gets"), [
    ([0, 5], 1, {1}), ([1, 5], 1, set()), (None, 1, set()), ([2147483647, 5], 1, {1}),
])
def test_an_osd_to_which_an_upmap_moves_a_pg_that_is_not_there_yet_gets_data(acting, to, gets):
    there = living({"active+remapped+backfill_wait": 1})
    there.maps["osd_map"]["pg_temp"] = [{"pgid": "2.7", "osds": acting}] if acting else []
    there.maps["osd_map"]["pg_upmap_items"] = [
        {"pgid": "2.7", "mappings": [{"from": 0, "to": to}, {"from": 4, "to": 5}]},
        {"pgid": "2.8", "mappings": [{"from": 1, "to": 0}]},  # it is there since long
    ]
    assert look(there).moving((0, 1)) == gets


def test_where_no_pg_moves_no_osd_is_asked_how_many_it_holds():
    asked = []
    there = living({"active+clean": 9}, {"0": {"active+clean": 9}})
    view = CephView(
        there, bench_empties_caches=False,
        series=lambda osd_id, name: asked.append(osd_id) or [[1.0, 99]],
    )
    assert view.cluster().moving((0, 1)) == set()
    assert asked == []


@pytest.mark.parametrize("state", [
    "active+remapped+backfill_wait", "active+remapped+backfilling", "active+clean+remapped",
    "active+clean+scrubbing+deep", "active+clean+snaptrim", "active+remapped",
])
def test_a_pg_that_is_only_misplaced_makes_nobody_ill(state):
    found = look(living({state: 5}, {"0": {state: 5, "peering": 0}, "2147483647": {state: 1}}))
    assert found.illness((0, 1)) == {}
    assert found.blocking == ()
    assert (0 in found.busy) is ("backfilling" in state)
    assert (Precondition.NOT_BUSY in found.beside((0,))) is ("backfilling" in state)
    assert Precondition.NOT_BUSY not in found.beside((1,))


@pytest.mark.parametrize(("seen", "missed"), [
    ({"states": {"down": 1}}, [Precondition.CLUSTER_HEALTHY]), ({"states": {"down": 0}}, []),
    ({"flags": "sortbitwise,noout"}, [Precondition.NO_MAINTENANCE]),
    ({"flags": "sortbitwise,pausewr"}, [Precondition.CLUSTER_HEALTHY]),
    ({"flags": "sortbitwise,noscrub,nodeep-scrub,nearfull"}, []),
])
def test_data_that_nobody_can_reach_and_flags_of_the_whole_cluster_forbid_everything(seen, missed):
    assert list(look(living(**seen)).blocking) == missed


def test_pools_that_write_only_with_all_copies_are_named():
    there = living(pools=(0, 0, 0))
    for at, min_size in ((1, 3), (2, 5)):
        there.maps["osd_map"]["pools"][at]["min_size"] = min_size
    assert look(there).strict_pools == ("p1", "p2")


def test_what_the_map_says_of_one_osd_makes_that_one_ill():
    for word in ("noout", "nearfull", "backfillfull", "full"):
        there = living()
        there.maps["osd_map"]["osds"][1]["state"] = ["exists", "up", word]
        assert set(look(there).illness((0, 1))) == {1}, word
    for where, name in (("crush_node_flags", "h0"), ("device_class_flags", "hdd")):
        there = living()
        there.maps["osd_map"][where] = {name: ["noout"]}
        assert 0 in look(there).illness((0, 1))
    there = living()
    there.maps["osd_map"]["osds"][0]["up"] = 0
    assert look(there).illness((0, 1)) == {0: "is not up and in"}
    assert look(living()).illness((7,)) == {7: "is not up and in"}


def test_slow_operations_make_those_ill_that_have_them_and_all_where_some_are_not_named():
    def slow(words):
        text = f"5 slow ops, oldest one blocked for 31 sec, {words}"
        check = {"severity": "HEALTH_WARN", "summary": {"message": text, "count": 1}}
        return look(living(checks=[("SLOW_OPS", check)]))

    assert set(slow("osd.1 has slow ops").illness((0, 1))) == {1}
    some = slow("daemons [osd.0,mon.a] have slow ops.")
    assert set(some.illness((0, 1))) == {0}
    assert some.illness((0, 1), (Precondition.NO_SLOW_OPS,)) == {}
    assert Precondition.NO_SLOW_OPS in some.beside((0,))
    assert some.beside((1,)) == ()
    assert set(slow("daemons [osd.5,osd.6]... have slow ops.").illness((0, 1))) == {0, 1}


def test_a_class_by_an_osds_own_word_begins_no_other_term_of_a_scope():
    maps = Maps(())
    maps.maps["osd_map_crush"]["devices"] = []
    maps.maps["osd_metadata"] = {"0": {"default_device_class": "hdd,osd.3"}}
    assert CephView(maps, bench_empties_caches=False).cluster().osds[0].device_class == "hdd?osd.3"


@pytest.mark.parametrize("under_way", [True, False])
def test_an_orchestrated_upgrade_forbids_measuring(under_way):
    view = CephView(Maps(()), bench_empties_caches=False, upgrade=lambda: under_way)
    assert (Precondition.NO_UPGRADE in view.cluster().blocking) is under_way


def test_an_erasure_coded_pool_is_known_by_its_type():
    maps = Maps(())
    view = CephView(maps, bench_empties_caches=False)
    assert not view.erasure_coded()
    maps.maps["osd_map"]["pools"] = [{"pool": 1, "type": 1}, {"pool": 2, "type": 3}]
    assert view.erasure_coded()


class SlowMaps(Maps):
    """With slow operations in BlueStore, as PGMap::get_health_checks tells of them."""

    def __init__(self, *osd_ids, kept="600", muted=False):
        super().__init__(())
        self.kept = kept
        self.says(*osd_ids, muted=muted)

    def says(self, *osd_ids, muted=False):
        words = "observed slow operation indications in BlueStore"
        detail = [{"message": f"     osd.{osd_id} {words}"} for osd_id in osd_ids]
        check = {"severity": "HEALTH_WARN", "muted": muted, "detail": detail}
        checks = {"BLUESTORE_SLOW_OP_ALERT": check} if osd_ids else {}
        self.maps["health"] = {"json": json.dumps({"checks": checks})}

    def get_foreign_ceph_option(self, entity, key):
        assert entity.startswith("osd.")
        assert key == "bluestore_slow_ops_warn_lifetime"
        if self.kept is None:
            raise KeyError(key)
        return self.kept


def test_slow_bluestore_is_recorded_of_its_osds_and_forbids_nothing():
    now_s = [1000.0]
    maps = SlowMaps(3)
    view = CephView(maps, bench_empties_caches=False, clock=lambda: now_s[0])
    found = view.cluster()
    assert found.slow_osds == (SlowOsd(3, 1000.0, 600.0),)
    assert found.beside((3, 4)) == (Precondition.NO_SLOW_BLUESTORE,)
    assert found.beside((4,)) == found.missed == ()
    now_s[0] = 1500.0
    maps.says(3, 5)
    assert view.cluster().slow_osds == (SlowOsd(3, 1000.0, 600.0), SlowOsd(5, 1500.0, 600.0))
    maps.says(5)
    now_s[0] += 1.0
    assert [one.osd_id for one in view.cluster().slow_osds] == [5]
    maps.says()
    now_s[0] += 1.0
    assert view.cluster().slow_osds == ()
    maps.says(5)
    now_s[0] = 2000.0
    assert view.cluster().slow_osds[0].since_s == 1500.0 + 500.0


def test_a_muted_alert_is_none_and_an_unknown_option_has_cephs_default():
    muted = CephView(SlowMaps(3, muted=True), bench_empties_caches=False).cluster()
    assert muted.slow_osds == ()
    view = CephView(SlowMaps(3, kept=None), bench_empties_caches=False, clock=lambda: 1.0)
    assert view.cluster().slow_osds == (SlowOsd(3, 1.0, 86400.0),)

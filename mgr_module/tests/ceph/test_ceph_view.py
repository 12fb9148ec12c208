"""What the mgr's maps say of an OSD is where CRUSH has it, whatever the map holds beside."""

import json

import pytest
from wcache.ceph.view import CephView
from wcache.core.cluster import SlowOsd
from wcache.core.record import Precondition


class Maps:
    """The `Mgr` port with one OSD in a rack, and one that no bucket holds."""

    version = "ceph version 18.2.4 (e7ad534) reef (stable)"

    def __init__(self, buckets, rules=(), pools=(), checks=()):
        self.maps = {
            "osd_map": {
                "fsid": "f",
                "osds": [{"osd": i, "uuid": f"u{i}", "up": 1, "in": 1} for i in (0, 1)],
                "pools": [{"pool": i, "crush_rule": rule} for i, rule in enumerate(pools)],
            },
            "osd_metadata": {"0": {"hostname": "h0.example"}},
            "osd_map_crush": {
                "devices": [{"id": 0, "class": "hdd"}], "buckets": buckets, "rules": rules,
            },
            "health": {"json": json.dumps({"checks": dict(checks)})},
            "pg_summary": {"all": {}},
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


def test_a_map_in_which_buckets_hold_each_other_ends():
    found = osds(bucket(-1, "a", "rack", -2), bucket(-2, "b", "host", -1, 0))
    assert found[0].location[0] == ("host", "b")


def test_an_osd_has_the_uuid_of_the_osd_map():
    assert [osd.uuid for osd in osds().values()] == ["u0", "u1"]


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

    assert missed("PG_DAMAGED") == [Precondition.CLUSTER_HEALTHY]
    assert missed("PG_DAMAGED", muted=True) == []
    assert missed("WCACHE_UNSAFE") == []
    assert missed("AUTH_INSECURE_SERVICE_KEY_TYPE") == [], "it is raised by an upgrade to 20.2.4"
    assert missed("POOL_NO_REDUNDANCY", "HEALTH_WARN") == []
    assert missed("OSD_DOWN", "HEALTH_WARN") == [Precondition.CLUSTER_HEALTHY]


def test_slow_operations_are_a_precondition_of_their_own():
    found = seen(checks=[("SLOW_OPS", {"severity": "HEALTH_WARN"})])
    assert found.missed == (Precondition.NO_SLOW_OPS,)
    assert found.blocking == found.missed
    both = seen(checks=[("SLOW_OPS", {}), ("OSD_DOWN", {})]).missed
    assert set(both) == {Precondition.NO_SLOW_OPS, Precondition.CLUSTER_HEALTHY}


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


def test_slow_bluestore_keeps_a_wave_from_starting_and_forbids_no_measuring():
    now_s = [1000.0]
    maps = SlowMaps(3)
    view = CephView(maps, bench_empties_caches=False, clock=lambda: now_s[0])
    found = view.cluster()
    assert found.slow_osds == (SlowOsd(3, 1000.0, 600.0),)
    assert found.unfit == (Precondition.NO_SLOW_BLUESTORE,)
    assert found.missed == ()
    now_s[0] = 1500.0
    maps.says(3, 5)
    assert view.cluster().slow_osds == (SlowOsd(3, 1000.0, 600.0), SlowOsd(5, 1500.0, 600.0))
    maps.says(5)
    assert [one.osd_id for one in view.cluster().slow_osds] == [5]
    maps.says()
    assert view.cluster().unfit == ()
    maps.says(5)
    now_s[0] = 2000.0
    assert view.cluster().slow_osds[0].since_s == 1500.0 + 500.0


def test_a_muted_alert_keeps_nothing_waiting_and_an_unknown_option_has_cephs_default():
    muted = CephView(SlowMaps(3, muted=True), bench_empties_caches=False).cluster()
    assert (muted.slow_osds, muted.unfit) == ((), ())
    view = CephView(SlowMaps(3, kept=None), bench_empties_caches=False, clock=lambda: 1.0)
    assert view.cluster().slow_osds == (SlowOsd(3, 1.0, 86400.0),)

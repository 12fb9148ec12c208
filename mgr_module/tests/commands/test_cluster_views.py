"""What `status` says of ill, busy and slow OSDs, and `try` of a cluster that is not healthy."""

import errno
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import measured, ok, refused, said, unwrapped
from wcache.core.cluster import SlowOsd
from wcache.core.record import Precondition

DAY_S = 86400.0
SICK = ("MON_DOWN: no quorum remains if one more goes", "flag nobackfill is set")


def a_fleet(*per_host):
    """Hosts with so many OSDs each, that commit in 4 ms."""
    first, hosts = 0, []
    for number, count in enumerate(per_host):
        drives = tuple(make.drive(f"sd{n}", n) for n in range(first, first + count))
        hosts.append((f"h{number}", drives))
        first += count
    mgr = FakeMgr(*hosts)
    mgr.report_all()
    mgr.traffic.latencies_ms = {osd_id: 4.0 for osd_id in range(first)}
    return mgr


def seen(mgr, **what):
    mgr.view.state = replace(mgr.view.state, **what)
    return unwrapped(ok(mgr.command("status", format="plain"))), said(mgr, "status")["cluster"]


def slow(mgr, *osd_ids, ago_s=3600.0):
    return tuple(SlowOsd(osd_id, mgr.now_s - ago_s, DAY_S) for osd_id in osd_ids)


def test_a_cluster_that_is_well_takes_no_line():
    mgr = a_fleet(3, 3)
    plain, data = seen(mgr)
    assert "OSDs:" not in plain
    assert "cluster:" not in plain
    assert data["ill"] == {"osds": 0, "reasons": []}
    assert (data["osds"], data["busy"], data["blocking"]) == (6, 0, [])
    assert "OSDs:" not in ok(mgr.command("", format="plain"))


def test_ill_and_busy_osds_are_counted_by_reason():
    mgr = a_fleet(6)
    osds = {**mgr.view.state.osds, 5: replace(mgr.view.state.osds[5], up=False)}
    why = "has PGs that are active+undersized+degraded"
    plain, data = seen(
        mgr, osds=osds, ill={1: why, 2: why, 5: why, 2147483647: why}, busy=frozenset((3, 99)),
        slow_op_osds=frozenset((4,)),
    )
    assert (
        "ill OSDs: 4 of 6 are left alone: 2 have PGs that are active+undersized+degraded, "
        "1 has slow operations (SLOW_OPS), 1 is not up and in"
    ) in plain
    assert "busy OSDs: 1 of 6 move data" in plain
    assert data["ill"]["osds"] == 4
    assert data["busy"] == 1
    short = ok(mgr.command("", format="plain"))
    assert "OSDs: 4 of 6 are left alone; 1 of 6 move data: `ceph wcache status`" in short


def test_who_moves_data_may_be_unknown():
    plain, data = seen(a_fleet(3), busy=None)
    assert data["busy"] is None
    assert "busy OSDs: not known" in plain


def test_an_alert_is_told_with_what_its_like_do_now():
    mgr = a_fleet(4, 4)
    mgr.traffic.latencies_ms[3] = 12.14
    plain, data = seen(mgr, slow_osds=slow(mgr, 3))
    assert "slow OSDs: osd.3 had slow operations in BlueStore (BLUESTORE_SLOW_OP_ALERT" in plain
    assert "seen since 1970-01-12 12:46:" in plain
    assert "Ceph forgets that by 1970-01-13 12:46:" in plain
    assert "(bluestore_slow_ops_warn_lifetime, 24.0 h)" in plain
    assert "takes 12.1 ms now, those of its like 4.0 ms (median of 7)" in plain
    (one,) = data["slow_bluestore"]["shown"]
    assert (one["commit_ms"], one["like_commit_ms"], one["like_osds"]) == (12.14, 4.0, 7)
    assert one["forgotten_by_s"] == pytest.approx(one["seen_since_s"] + DAY_S)
    assert "have it" not in plain, "one of eight is no matter of the model"


def test_an_alert_that_stays_longer_than_ceph_keeps_it_was_raised_again():
    mgr = a_fleet(4)
    plain, data = seen(mgr, slow_osds=slow(mgr, 3, ago_s=DAY_S + 60.0))
    assert "Ceph forgets that later, since it was slow again" in plain
    assert data["slow_bluestore"]["shown"][0]["forgotten_by_s"] is None


def test_nothing_is_compared_with_too_few_or_with_what_is_ill_or_slow_itself():
    mgr = a_fleet(6)
    why = "is near full"
    plain, data = seen(mgr, slow_osds=slow(mgr, 0, 1), ill={2: why, 3: why})
    assert [one["like_osds"] for one in data["slow_bluestore"]["shown"]] == [2, 2]
    assert "too few like it commit to compare" in plain
    del mgr.traffic.latencies_ms[0]
    assert "osd.0" in seen(mgr)[0]
    assert "; it commits nothing now" in seen(mgr)[0]


def test_few_are_shown_and_a_model_of_which_most_have_it_is_to_be_measured():
    mgr = a_fleet(6, 6)
    plain, data = seen(mgr, slow_osds=slow(mgr, *range(7)))
    assert [one["osd_id"] for one in data["slow_bluestore"]["shown"]] == [0, 1, 2]
    assert "and 4 more: see `ceph health detail`" in plain
    assert data["slow_bluestore"]["osd_ids"] == [*range(7)]
    assert (
        "7 of 12 OSDs on ACME HD1 1.0 have it: dear flushes raise it; `ceph wcache try class:hdd` "
        "measures the cache mode"
    ) in plain
    assert "have it" not in seen(mgr, slow_osds=slow(mgr, *range(6)))[0]


@pytest.mark.slow
def test_a_model_that_was_measured_is_explained():
    mgr = measured()
    plain, _ = seen(mgr, slow_osds=slow(mgr, *mgr.view.state.osds))
    assert "`ceph wcache explain model:'ACME HD1 1.0'` says what was measured" in plain


def test_simulated_drives_are_like_no_real_osd():
    mgr = FakeMgr(("h0", tuple(make.drive(f"sd{n}", n) for n in range(4))), simulated=True)
    mgr.report_all()
    data = seen(mgr, slow_osds=slow(mgr, 1))[1]["slow_bluestore"]
    assert data["shown"][0]["drive_model"] == ""
    assert data["drive_models"] == []


def test_a_cluster_that_is_not_healthy_is_told_by_what_is_wrong():
    mgr = a_fleet(3)
    plain, _ = seen(mgr, missed=(Precondition.CLUSTER_HEALTHY,), sick=SICK)
    told = f"the cluster is not healthy: {', '.join(SICK)}"
    assert f"cluster: nothing is measured or changed: {told}" in plain
    assert told in unwrapped(ok(mgr.command("", format="plain")))
    data = said(mgr, "try", dry_run=True)
    assert data["sick"] == [*SICK]
    assert data["next"] == "ceph wcache status  # says what of the cluster is waited for"
    assert any(told in line for line in data["lines"])
    assert "not now" in ok(mgr.command("try", dry_run=True))
    for prefix in ("try", "campaign start"):
        error = refused(mgr, prefix, errno.EPERM, accept_cost=True)
        assert told in error
        assert prefix != "try" or "--override" not in error


def test_osds_of_another_class_are_no_like():
    mgr = a_fleet(2, 2, 2)
    osds = {osd_id: replace(osd, device_class="ssd" if osd_id in (2, 3) else "hdd")
            for osd_id, osd in mgr.view.state.osds.items()}
    _, data = seen(mgr, osds=osds, slow_osds=slow(mgr, 5))
    assert data["slow_bluestore"]["shown"][0]["like_osds"] == 3
    assert data["slow_bluestore"]["drive_models"][0]["of"] == 4


def test_an_osd_that_is_gone_from_the_map_is_like_nothing():
    mgr = a_fleet(4)
    _, data = seen(mgr, slow_osds=slow(mgr, 77))
    assert data["slow_bluestore"]["shown"][0]["drive_model"] == ""

"""What differs for simulated drives."""

from dataclasses import replace

from mgr_fakes import builders as make
from wcache.core.cluster import ClusterState
from wcache.core.host_report import DriveKind
from wcache.engine.world import World

CLUSTER = ClusterState("f", "18", {0: make.osd(0, "h1"), 3: make.osd(3, "h2", up=False)})
REAL = make.report("h1", make.drive("sda", 0))
MADE_UP = replace(make.report("h2", make.drive("sdb", 3)), simulated=True)


def world(*reports):
    return World(0.0, lambda: CLUSTER, reports={report.hostname: report for report in reports})


def test_an_osd_of_a_simulated_host_is_never_one_of_the_clusters_with_its_id():
    assert CLUSTER.osd_of(REAL, 0) is CLUSTER.osds[0]
    assert CLUSTER.osd_of(MADE_UP, 0) is None


def test_only_osds_that_the_cluster_knows_can_be_down_or_ill():
    assert CLUSTER.not_up(REAL, {0}) == ""
    assert CLUSTER.not_up(REAL, {0, 3, 7}) == "osd.3 is not up"
    assert CLUSTER.not_up(MADE_UP, {3}) == ""
    assert CLUSTER.illness_of(REAL, {0, 3}) == "osd.3 is not up and in"
    assert CLUSTER.illness_of(MADE_UP, {3}) == ""


def test_a_world_holds_the_reports_of_real_hosts_apart():
    both = world(MADE_UP, REAL)
    assert both.real_reports == both.believed_real == (REAL,)
    assert set(both.believed_reports) == {REAL, MADE_UP}
    assert both.told_by == {0: "h1"}
    assert not world(MADE_UP).real_reports


def test_real_and_simulated_drives_of_one_model_are_two_kinds():
    kind, made_up = (DriveKind("hdd", "m", simulated) for simulated in (False, True))
    assert kind.in_any_class != made_up.in_any_class
    assert (kind.home, made_up.home) == (kind, DriveKind("", "m", True))

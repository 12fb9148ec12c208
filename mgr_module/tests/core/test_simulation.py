"""What differs for simulated drives."""

from mgr_fakes import builders as make
from wcache.core.cluster import ClusterState
from wcache.core.host_report import HostReport
from wcache.core.simulation import DriveKind, all_simulated, not_up, osd_of, real

REAL = HostReport("h1", "p", "i", "1")
MADE_UP = HostReport("h2", "p", "i", "1", simulated=True)
CLUSTER = ClusterState("f", "18", {0: make.osd(0, "h1")})


def test_an_osd_of_a_simulated_host_is_never_one_of_the_clusters_with_its_id():
    assert osd_of(REAL, 0, CLUSTER) is CLUSTER.osds[0]
    assert osd_of(MADE_UP, 0, CLUSTER) is None


def test_only_osds_that_the_cluster_knows_can_be_down():
    assert not_up(REAL, {0}, CLUSTER) == ""
    assert not_up(REAL, {0, 3, 7}, CLUSTER) == "osd.3 is not up"
    assert not_up(MADE_UP, {3}, CLUSTER) == ""


def test_one_real_drive_is_enough_for_the_clusters_state_to_count():
    assert real([MADE_UP, REAL]) == [REAL]
    assert all_simulated([MADE_UP])
    assert not all_simulated([MADE_UP, REAL])


def test_real_and_simulated_drives_of_one_model_are_two_kinds():
    kind, made_up = (DriveKind("hdd", "m", simulated) for simulated in (False, True))
    assert kind.in_any_class != made_up.in_any_class
    assert (kind.home, made_up.home) == (kind, DriveKind("", "m", True))

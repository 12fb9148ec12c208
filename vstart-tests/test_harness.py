"""What the cluster harness promises to every other test."""

from __future__ import annotations

import pytest
from harness import ClusterAccess

pytestmark = pytest.mark.cluster


def test_three_osds_are_up_and_the_cluster_is_healthy(steady: ClusterAccess) -> None:
    assert steady.osds_up() == {0, 1, 2}
    assert steady.ceph("health").stdout.strip() == "HEALTH_OK"


def test_the_release_is_the_one_asked_for(steady: ClusterAccess, release: int) -> None:
    versions = steady.ceph_json("versions")["overall"]
    assert [each.split()[2].split(".")[0] for each in versions] == [str(release)]


def test_each_layout_shows_in_the_osds_metadata(steady: ClusterAccess) -> None:
    dedicated = {
        osd_id: (metadata["bluefs_dedicated_db"], metadata["bluefs_dedicated_wal"])
        for osd_id in (0, 1, 2)
        for metadata in [steady.ceph_json("osd", "metadata", str(osd_id))]
    }
    assert dedicated == {0: ("0", "0"), 1: ("1", "1"), 2: ("1", "0")}


def test_every_role_has_a_loop_device_of_its_own(steady: ClusterAccess) -> None:
    devices = [steady.osd_devices(osd_id) for osd_id in (0, 1, 2)]
    assert [sorted(each) for each in devices] == [
        ["block"],
        ["block", "db", "wal"],
        ["block", "db"],
    ]
    names = [name for each in devices for name in each.values()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("/dev/loop") for name in names)


def test_device_classes_are_those_of_the_layout(steady: ClusterAccess) -> None:
    nodes = steady.ceph_json("osd", "tree")["nodes"]
    assert {each["id"]: each["device_class"] for each in nodes if each["type"] == "osd"} == {
        0: "hdd",
        1: "hdd",
        2: "ssd",
    }

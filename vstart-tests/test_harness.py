"""What the cluster harness promises to every other test."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from harness import Cluster, ClusterAccess, CommandError, HarnessError
from harness.processes import is_alive, wait_until

# what all other tests here stand on: each of them would fail
pytestmark = [pytest.mark.cluster, pytest.mark.long]

TINY_MODULE = """
import mgr_module

if hasattr(mgr_module, "CLICommandBase"):
    Registry = mgr_module.CLICommandBase.make_registry_subtype("TinyCLICommand")
else:
    Registry = mgr_module.CLICommand


class Module(mgr_module.MgrModule):
    CLICommand = Registry

    @Registry("tiny ask", perm="r")
    def ask(self):
        '''Answer'''
        return 0, "forty-two", ""
"""


def test_three_osds_are_up_and_the_cluster_is_healthy(own_cluster: Cluster) -> None:
    assert own_cluster.osds_up() == {0, 1, 2}
    assert own_cluster.ceph("health").stdout.strip() == "HEALTH_OK"


def test_the_release_is_the_one_asked_for(own_cluster: Cluster) -> None:
    versions = own_cluster.ceph_json("versions")["overall"]
    assert [each.split()[2].split(".")[0] for each in versions] == [str(own_cluster.release)]


def test_each_layout_shows_in_the_osds_metadata(own_cluster: Cluster) -> None:
    dedicated = {
        osd_id: (metadata["bluefs_dedicated_db"], metadata["bluefs_dedicated_wal"])
        for osd_id in (0, 1, 2)
        for metadata in [own_cluster.ceph_json("osd", "metadata", str(osd_id))]
    }
    assert dedicated == {0: ("0", "0"), 1: ("1", "1"), 2: ("1", "0")}


@pytest.mark.one_release
def test_every_role_has_a_loop_device_of_its_own(own_cluster: Cluster) -> None:
    devices = [own_cluster.osd_devices(osd_id) for osd_id in (0, 1, 2)]
    roles = [sorted(each) for each in devices]
    assert roles == [["block"], ["block", "db", "wal"], ["block", "db"]]
    names = [name for each in devices for name in each.values()]
    assert len(set(names)) == len(names)
    assert all(name.startswith("/dev/loop") for name in names)


@pytest.mark.one_release
def test_device_classes_are_those_of_the_layout(own_cluster: Cluster) -> None:
    nodes = own_cluster.ceph_json("osd", "tree")["nodes"]
    classes = {each["id"]: each["device_class"] for each in nodes if each["type"] == "osd"}
    assert classes == {0: "hdd", 1: "hdd", 2: "ssd"}


@pytest.mark.one_release
def test_osds_of_class_hdd_believe_that_their_drive_spins(own_cluster: Cluster) -> None:
    spinning = [own_cluster.command("osd metadata", id=osd_id)["rotational"] for osd_id in range(3)]
    assert spinning == ["1", "1", "0"]


@pytest.mark.one_release
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_an_osd_comes_back(steady: ClusterAccess, kill: bool) -> None:
    pid = steady.osd_pid(0)
    steady.stop_osd(0, kill=kill)
    assert not is_alive(pid)
    assert 0 not in steady.osds_up()
    steady.start_osd(0)
    assert steady.osd_pid(0) != pid


@pytest.mark.one_release
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_another_mgr_instance_is_active_after_a_restart(steady: ClusterAccess, kill: bool) -> None:
    gid, pid = steady.active_gid(), steady.mgr_pid()
    steady.restart_mgr(kill=kill)
    assert steady.active_gid() not in (0, gid)
    assert not is_alive(pid)


@pytest.mark.one_release
def test_another_mgr_instance_is_active_after_a_failover(steady: ClusterAccess) -> None:
    gid = steady.active_gid()
    steady.fail_mgr()
    assert steady.active_gid() not in (0, gid)


@pytest.mark.one_release
def test_a_module_of_ours_can_be_added_and_enabled(steady: ClusterAccess) -> None:
    module = steady.folder / "tiny"
    module.mkdir()
    (module / "__init__.py").write_text("from .module import Module\n")
    (module / "module.py").write_text(TINY_MODULE)
    steady.install_module(module)
    steady.enable_module("tiny")
    try:
        assert steady.ceph("tiny", "ask").stdout.strip() == "forty-two"
    finally:
        steady.remove_module("tiny")


def test_a_key_has_the_caps_it_was_made_with_and_no_others(steady: ClusterAccess) -> None:
    keyring = steady.auth_key("client.harness", mon="allow r", mgr='allow command "tiny ask"')
    as_client = ("--name", "client.harness", "--keyring", str(keyring))
    try:
        assert steady.ceph(*as_client, "health").rc == 0
        with pytest.raises(CommandError) as refused:
            steady.ceph(*as_client, "osd", "set", "noout")
        assert refused.value.rc == 13
        keyring.chmod(0o644)
        assert steady.auth_key("client.harness") == keyring
        assert keyring.stat().st_mode & 0o777 == 0o600
    finally:
        steady.ceph("auth", "rm", "client.harness")


@pytest.mark.one_release
def test_a_program_inside_can_be_killed_by_its_pid(steady: ClusterAccess) -> None:
    process = steady.popen_inside(["sleep", "600"])
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.one_release
def test_a_program_that_takes_too_long_is_ended(steady: ClusterAccess) -> None:
    with pytest.raises(CommandError, match="no end in 1 s"):
        steady.run_inside(["sleep", "600"], timeout_s=1)


def test_folders_are_seen_inside_under_the_same_path(own_cluster: Cluster) -> None:
    for path in (own_cluster.conf, own_cluster.project / "pyproject.toml"):
        assert own_cluster.run_inside(["cat", str(path)]).stdout == path.read_text()


def test_the_analysis_child_finds_numpy_and_scipy(steady: ClusterAccess) -> None:
    steady.run_inside([steady.python_inside, "-c", "import numpy, scipy.stats, rados, jinja2"])


@pytest.mark.one_release
def test_a_wait_that_is_in_vain_says_what_is_wrong(own_cluster: Cluster) -> None:
    own_cluster.ceph("osd", "set", "noout")
    try:
        assert wait_until(lambda: "OSDMAP_FLAGS" in own_cluster.health_checks(), 60)
        with pytest.raises(HarnessError, match="OSDMAP_FLAGS"):
            own_cluster.wait_healthy(0.5)
        own_cluster.wait_healthy(60, ignoring=["OSDMAP_"])
    finally:
        own_cluster.ceph("osd", "unset", "noout")


EXISTING = """
import json, sys
from harness.existing import ExistingCluster

cluster = ExistingCluster.from_environment()
pid, gid = cluster.osd_pid(1), cluster.active_gid()
cluster.stop_osd(1)
down = sorted(cluster.osds_up())
cluster.start_osd(1)
cluster.restart_mgr(kill=True)
told = {
    "down": down,
    "devices": sorted(cluster.osd_devices(1)),
    "pid_changed": cluster.osd_pid(1) != pid,
    "mgr_changed": cluster.active_gid() != gid,
    "health": cluster.ceph("health").stdout.strip(),
    "folder": str(cluster.folder),
}
cluster.stop_osd(0)
cluster.stop()
print(json.dumps(told))
"""


@pytest.mark.one_release
def test_a_cluster_of_somebody_else_is_used_by_its_conf_and_module_folder(
    own_cluster: Cluster,
) -> None:
    own_cluster.wait_healthy()
    done = own_cluster.run_inside(
        [own_cluster.python_inside, "-c", EXISTING],
        env={
            "PYTHONPATH": str(own_cluster.project / "vstart-tests"),
            "WCACHE_CEPH_CONF": str(own_cluster.conf),
            "WCACHE_MODULE_PATH": str(own_cluster.module_folder),
        },
        timeout_s=120,
    )
    told = json.loads(done.stdout)
    assert not Path(told.pop("folder")).exists()
    assert told == {
        "down": [0, 2],
        "devices": ["block", "db", "wal"],
        "pid_changed": True,
        "mgr_changed": True,
        "health": told["health"],
    }
    # What was stopped and not started again is started at the end.
    own_cluster.wait_osd_up(0)

"""Real OSDs in the guest, on volumes as ceph-volume makes them, with their DBs on another drive."""

from pathlib import Path

import pytest
from drive_lab import network
from drive_lab.disk import kernel_view
from drive_lab.forked_probe import ProbeForks
from drive_lab.lab import Lab
from drive_lab.machine import MachineSpec
from drive_lab.osds import HOME, GuestOsds, Stack
from harness import ClusterPlan, start_cluster
from lab_bench import Bench
from probe_bench import BACK, THROUGH, ProbeOf
from wcache.core.model import Role
from wcache.core.protocol import ReleaseRequest

pytestmark = [pytest.mark.lab, pytest.mark.long]

HERE = Path(__file__).resolve().parent
DRIVES = ["disk-0", "disk-1", "flash"]
SIZE_1 = {"osd pool default size": "1", "mon allow pool size one": "true"}


class Ceph:
    def __init__(self, lab, cluster, osds):
        self.lab, self.cluster, self.osds = lab, cluster, osds


STACKS = [
    pytest.param(Stack.LVM, id="lvm", marks=pytest.mark.long),  # the other one has it below
    pytest.param(Stack.LVM_CRYPT, id="lvm-crypt"),
]


@pytest.fixture(scope="module", params=STACKS)
def ceph(request, private_network, release):
    machine = MachineSpec(tap=network.TAP)
    with Lab(HERE / "osd_drives.toml", release=release, machine=machine) as lab:
        plan = ClusterPlan(
            release=release, osds=(), remote_osds=2, address=network.HOST, own_modules=[],
            conf=SIZE_1,
        )
        with start_cluster(plan) as cluster:
            osds = GuestOsds(lab, cluster, address=network.GUEST, stack=request.param)
            osds.create()
            osds.wait_up()
            cluster.ceph("osd", "pool", "create", "data", "8")
            cluster.wait_healthy(60)
            yield Ceph(lab, cluster, osds)


def put(ceph, name, text):
    ceph.cluster.run_inside(["rados", "-p", "data", "put", name, "-"], input_text=text)


def get(ceph, name):
    return ceph.cluster.run_inside(["rados", "-p", "data", "get", name, "-"]).stdout


def test_an_osd_tells_the_cluster_the_drives_the_lab_gave_it(ceph):
    for osd_id in (0, 1):
        metadata = ceph.cluster.command("osd metadata", id=osd_id)
        serials = {d.split("=")[0]: d.split("=")[1] for d in metadata["device_ids"].split(",")}
        disk = ceph.lab.drive(f"disk-{osd_id}").disk().name
        flash = ceph.lab.drive("flash").disk().name
        assert set(serials) == {disk, flash}
        assert metadata["bluefs_dedicated_db"] == "1"
        assert metadata["default_device_class"] == "hdd"


def test_every_layer_between_an_osd_and_its_drive_flushes(ceph):
    for osd_id in (0, 1):
        for role in (Role.BLOCK, Role.DB):
            path = ceph.osds.path(osd_id, role)
            assert path.startswith("/dev/dm-")
            assert kernel_view(ceph.lab.guest, path[len("/dev/") :]) == "write back"


def test_a_small_write_is_stable_on_the_db_drive_when_it_is_acknowledged(ceph):
    flash = ceph.lab.drive("flash")
    before = flash.counters()
    put(ceph, "small", "x" * 100)
    assert flash.counters().since(before).flush > 0


@pytest.mark.parametrize("state", ["on", "pinned and off", "off and on again while running"])
def test_acknowledged_objects_survive_a_power_cut(ceph, state):
    lab = ceph.lab
    if state != "on":
        for name in ("disk-0", "disk-1"):
            disk = lab.drive(name).disk()
            assert disk.set_cache_type("temporary write back") == 0
            for verb in ["clear"] if state == "pinned and off" else ["clear", "set"]:
                lab.guest.sh(f"sdparm --quiet --{verb}=WCE {disk.generic}").checked()
        flash = lab.drive("flash").disk().controller
        for value in [0] if state == "pinned and off" else [0, 1]:
            lab.guest.sh(f"nvme set-feature {flash} --feature-id=6 --value={value}").checked()
    names = [f"object-{len(state)}-{number}" for number in range(12)]
    for name in names:
        put(ceph, name, name * 300)

    lab.reboot()
    for osd_id in ceph.osds.ids:
        ceph.osds.start(osd_id)
    ceph.osds.wait_up()

    assert [get(ceph, name) for name in names] == [name * 300 for name in names]


def restart_from_below(ceph, osd_id):
    """Stop an OSD, take the volumes of its own drive down, and activate it anew."""
    disk = ceph.lab.drive(f"disk-{osd_id}").disk()
    ceph.osds.stop(osd_id)
    ceph.cluster.wait_osd_up(osd_id, up=False)
    ceph.lab.guest.sh(
        f"for crypt in $(lsblk -nrpo NAME,TYPE {disk.path} | awk '$2 == \"crypt\" {{print $1}}')\n"
        "do cryptsetup close $crypt; done\n"
        f"vgchange -qq -an $(pvs --noheadings -o vg_name {disk.path})"
    ).checked()
    ceph.osds.start(osd_id)
    ceph.osds.wait_up()


def test_an_osd_restarted_under_a_lease_loses_nothing(ceph):
    """Its volumes are made anew while the drive is off and pinned, then the cache comes on."""
    lab = ceph.lab
    forks = ProbeForks(lab)
    forks.start()
    probe = ProbeOf(Bench(lab), forks, "disk-0")
    probe.data = str(HOME)
    probe.prepare()
    disk = lab.drive("disk-0").disk()
    assert probe.set_mode(THROUGH)["kind"] == "state"
    restart_from_below(ceph, 0)
    assert set(disk.layers().values()) == {"write back"}
    put(ceph, "while-off", "a" * 3000)
    probe.behind_our_back(BACK)
    put(ceph, "on-behind-our-back", "b" * 3000)
    assert probe.ask_mode(THROUGH)["kind"] == "state"
    assert probe.ask(ReleaseRequest(probe.domain_id))["kind"] == "state"
    assert probe.mode() is BACK
    put(ceph, "given-back", "c" * 3000)
    assert probe.ask_mode(THROUGH)["kind"] == "state"
    put(ceph, "held-again", "d" * 3000)

    lab.reboot()
    forks.start()
    for osd_id in ceph.osds.ids:
        ceph.osds.start(osd_id)
    ceph.osds.wait_up()
    for name, letter in (
        ("while-off", "a"), ("on-behind-our-back", "b"), ("given-back", "c"), ("held-again", "d"),
    ):
        assert get(ceph, name) == letter * 3000
    code, said = probe.restore_all()
    assert (code, probe.journal()) == (0, []), said
    assert probe.mode() is BACK
    forks.stop()


def test_a_killed_osd_comes_back(ceph):
    ceph.osds.stop(0, kill=True)
    ceph.cluster.wait_osd_up(0, up=False)
    ceph.osds.start(0)
    ceph.osds.wait_up()
    assert ceph.cluster.osds_up() == {0, 1}

"""Each finding of how a host is set up: from its sysfs tree to the line that an admin reads.

The trees are as the kernel has them, and what OSDs tell is what real ones told a mgr, with the
one value changed that is about.
"""

import json
from pathlib import Path

import mgr_fakes
import pytest
from mgr_fakes import builders as make
from model_drives import ModelScsi
from wcache.ceph.view import CephView
from wcache.core.config_database import Config, Entry
from wcache.core.fleet.set_up import of_report
from wcache.core.model import FindingCode, LoadPoint, Verdict
from wcache.core.verdict.result import ArmSummary, Result
from wcache_probe.linux.transports.classify import Switches

ANSWERS = Path(mgr_fakes.__file__).with_name("answers")
RELEASES = (16, 18, 20)
DISCARD = (Entry("osd", "bdev_enable_discard", "true"),)


class Mgr:
    """What a real mgr has of its OSDs."""

    def __init__(self, release, meta, device_class):
        said = json.loads((ANSWERS / f"{release}.json").read_text())
        self.said = {key[len("get "):]: value for key, value in said.items()}
        self.version = f"ceph version {release}.2.0"
        for row in self.said["osd_metadata"].values():
            row.update(meta)
        for row in self.said["osd_map_crush"]["devices"]:
            row["class"] = device_class

    def get(self, name):
        return self.said[name]


class Disks(ModelScsi):
    """Each disk has a name of its own."""

    def command(self, device, cdb, **more):
        self.naa = bytes.fromhex("5000c5000000") + device.name[-2:].encode()
        return super().command(device, cdb, **more)


def disk(host, name, number, rotational=1, at=0):
    """A SAS disk on an HBA of its own."""
    host.scsi_disk(
        name, number, hctl=f"{at}:0:0:0", driver="mpt3sas", rotational=rotational,
        path=f"host{at}/port-{at}:0/end_device-{at}:0",
    )


def lv(host, name, number, below):
    host.device(name, number, below=[below], dm_uuid=f"LVM-{name}")


def plain(host, rotational=1):
    disk(host, "sda", "8:0", rotational)
    lv(host, "dm-0", "252:0", "sda")
    host.osd(0, block="dm-0")


def flash(host):
    plain(host, rotational=0)


def two_osds(host):
    plain(host)
    lv(host, "dm-1", "252:1", "sda")
    host.osd(1, block="dm-1")


def db_on_a_disk(host):
    disk(host, "sda", "8:0")
    disk(host, "sdb", "8:16", at=1)
    lv(host, "dm-0", "252:0", "sda")
    lv(host, "dm-1", "252:1", "sdb")
    host.osd(0, block="dm-0", db="dm-1")


def flash_on_bcache(host):
    disk(host, "sda", "8:0", rotational=0)
    disk(host, "sdb", "8:16", rotational=0, at=1)
    host.write("sys/class/block/sdb/bcache/written", "1.0G\n")
    mode = "writethrough [writeback] writearound none\n"
    host.write("sys/class/block/sda/bcache/cache_mode", mode)  # only the backing side has it
    host.device("bcache0", "251:0", below=["sda", "sdb"], marker="bcache")
    host.write("sys/class/block/bcache0/bcache/cache_mode", mode)
    host.osd(0, block="bcache0")


def off_the_sector(host):
    disk(host, "sda", "8:0")
    host.device("sda1", "8:1", parent="sda", bus="pci0/host0/port-0:0/end_device-0:0/target0:0:0/"
                "0:0:0:0")
    host.write("sys/class/block/sda1/alignment_offset", "3584\n")
    host.osd(0, block="sda1")


def huge_pages(host):
    plain(host)
    host.write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
    host.running(7, host.root / "osd/osd.0", ["dm-0"])
    host.write("proc/7/status", "Name:\tceph-osd\nUid:\t0\t0\t0\t0\nTHP_enabled:\t1\n")


def saves_power(host):
    plain(host)
    for name, text in (("scaling_governor", "powersave"), ("scaling_driver", "acpi-cpufreq")):
        host.write(f"sys/devices/system/cpu/cpufreq/policy0/{name}", f"{text}\n")


def lines(fake_host, release, *, meta, device_class, config=(), commit_us=None):
    """What is told of the host, and of nothing but how it is set up."""
    host = fake_host.drive_host(
        find_foreign_rules=tuple, switches=Switches(scsi=Disks(), kernel_release="6.1.0"),
    )
    drives = host.look()
    mgr = Mgr(release, {"bluestore_min_alloc_size": "4096", **meta}, device_class)
    osds = CephView(mgr, bench_empties_caches=False).cluster().osds
    results = [
        Result(
            "r1", "c1", "h1", 0, device_class, one.domain_id, one.drive_id, one.drive_model,
            LoadPoint.OSD_BENCH_DEPTH1, Verdict.NO_DIFFERENCE, 8, 9.0, 0, "decided",
            a=ArmSummary(8, p50_us=commit_us),
            b=ArmSummary(8, p50_us=commit_us),
        )
        for one in drives
    ]
    found = [
        *of_report(make.report("h1", *drives), osds, results, Config(config)),
        *(item for one in drives for item in one.findings), *host.host_findings(),
    ]
    return [item.detail for item in found if item.code is FindingCode.SETUP]


@pytest.mark.parametrize(
    ("tree", "changes", "words"),
    [
        (plain, {}, ""),
        (flash, {"device_class": "ssd"}, ""),
        (two_osds, {}, "several OSDs share the drive"),
        (db_on_a_disk, {}, "the DB or WAL of OSDs is on a rotational drive"),
        (plain, {"device_class": "ssd"}, "takes the drive for a rotating one"),
        (flash, {}, "takes the drive for flash, and its OSD is in class hdd"),
        (flash, {"meta": {"bluestore_bdev_support_discard": "0"},
                 "device_class": "ssd", "commit_us": 12_000.0}, "one commit takes 12.00 ms"),
        (plain, {"meta": {"bluestore_min_alloc_size": "65536"}}, "65536 bytes"),
        (flash_on_bcache, {"device_class": "ssd"}, "an OSD of flash is on bcache"),
        (off_the_sector, {}, "partition sda1 does not begin on a physical sector"),
        (huge_pages, {}, "osd.0 may use transparent huge pages"),
        (saves_power, {}, "the governor powersave"),
        (flash, {"device_class": "ssd", "meta": {"bluestore_bdev_support_discard": "1"},
                 "config": DISCARD}, "waits for each discard"),
        (flash, {"device_class": "ssd", "meta": {"bluestore_bdev_support_discard": "0"},
                 "config": DISCARD}, "takes no discards"),
    ],
)
def test_it_is_told_of_the_tree_that_has_it_and_of_no_other(fake_host, tree, changes, words):
    tree(fake_host)
    for release in RELEASES:
        found = lines(fake_host, release, **{"meta": {}, "device_class": "hdd", **changes})
        assert len(found) == bool(words), (release, found)
        assert all(words in line for line in found), (release, found)

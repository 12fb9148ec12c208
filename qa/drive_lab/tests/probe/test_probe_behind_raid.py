"""Disks behind the kernel's own megaraid_sas: those that are passed on (JBOD), and volumes.

QEMU's adapter takes no command without data (megasas_map_sgl() of QEMU 5.2 and later), so a
flush of a disk that the driver hands on fails, loudly.  A flush of a volume does not reach it:
the driver answers that one itself (megaraid_sas_base.c, megasas_queue_command()).
"""

import json

import pytest
from drive_lab.lab import Lab
from drive_lab.machine import MachineSpec
from lab_bench import Bench

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = """
schema = 1
[[drive]]
name = "disk"
model = "Lab disk"
transport = "sas"
rotational = true
size_bytes = 268435456
latency = { fua_write = { median_us = 300 }, dirty_flush = { median_us = 500 } }
"""
ADAPTERS = pytest.mark.parametrize("adapter", ["megasas", "megasas-gen2"])
TIMEOUT_S = 600.0


class Behind:
    """A guest whose disk is behind an adapter."""

    def __init__(self, lab):
        self.bench = Bench(lab)
        self.disk = self.bench.disk("disk")
        self.bench.sh(
            "mkdir -p /var/lib/lab/osd.0; cd /var/lib/lab/osd.0; echo 0 > whoami; "
            f"echo 11111111-2222-3333-4444-555555555555 > ceph_fsid; ln -s {self.disk.path} block"
        ).checked()

    def probe(self, words):
        """What a command of the probe ends with and says."""
        return self.bench.sh(
            f"PYTHONPATH=/wcache/osd_probe:/wcache/mgr_module python3 -m wcache_probe {words} 2>&1",
            timeout_s=TIMEOUT_S,
        )

    def look(self):
        """The disk, as `look` has it."""
        shown = self.probe("look --osd-data '/var/lib/lab/osd.*' --format json").stdout
        (drive,) = json.loads(shown)["drives"]
        return drive


@pytest.fixture
def behind(release, tmp_path):
    """Starts guests, which go with the test."""
    drives = tmp_path / "drives.toml"
    drives.write_text(DRIVES)
    made = []

    def start(adapter):
        lab = Lab(drives, release=release, machine=MachineSpec(sas_adapter=adapter))
        made.append(lab.__enter__())
        return Behind(lab)

    yield start
    for lab in made:
        lab.close()


@ADAPTERS
def test_a_disk_that_is_passed_on_is_a_drive_whose_refused_flush_ends_a_change(behind, adapter):
    guest = behind(f"{adapter},use_jbod=on")
    seen = guest.look()
    assert (seen["transport"], seen["host_driver"]) == ("sas-behind-raid", "megaraid_sas")
    assert [finding["code"] for finding in seen["findings"]] == [
        "WCACHE_FLUSH_UNPROVEN", "WCACHE_NOT_PREPARED",
    ]
    assert seen["state"]["page"]["changeable"] is True
    assert seen["state"]["device_cache"] == "write back"
    if adapter != "megasas":
        return  # what follows is the same for both, and slow
    # journal and pin, and then the adapter will not flush: nothing is toggled, all is back
    path = guest.disk.path
    guest.bench.sh("rm -r /var/lib/lab/osd.0").checked()
    prepared = guest.probe(f"prepare --scratch {path} --image-elsewhere")
    assert prepared.returncode == 0, prepared
    ended = guest.probe(f"matrix --scratch {path} --pairs 4")
    assert ended.returncode != 0
    assert "refuses SCSI command 35h" in ended.stdout, ended
    assert guest.bench.lab.drive("disk").qmp_writeback()
    assert guest.bench.sh("ls /var/lib/wcache/journal").stdout.strip() == ""


@ADAPTERS
def test_a_volume_is_refused_and_its_flushes_do_not_arrive_though_it_is_pinned(behind, adapter):
    guest = behind(f"{adapter},use_jbod=off")
    seen = guest.look()
    assert (seen["transport"], seen["host_driver"]) == ("raid", "megaraid_sas")
    assert "a volume" in seen["toggle_refusal"]
    assert [finding["code"] for finding in seen["findings"]] == ["WCACHE_RAID_POLICY"]
    assert guest.disk.set_cache_type("temporary write back") == 0
    true = guest.bench.true_state("disk")
    assert (true.cached, true.flushed, true.unsafe) == (True, False, True)

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
PATHS = {"PYTHONPATH": "/wcache/osd_probe:/wcache/mgr_module"}
# A lease, with the probe's own steps, journal and switch.
LEASE = """
import sys, time
from wcache_probe.switching import toggle
from wcache.core.errors import WcacheError
from wcache.core.model import CacheMode
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.switcher import Switcher

class Prepared:
    journal_lost = ""
    def refusal(self, wwid):
        return ""

host = LinuxDriveHost(boot_pins=Prepared)
switcher = Switcher(host, StateFolder("/var/lib/raid-state", "/run/raid-run").journal)
drive = host.drive_of(by_name(HostFiles(), sys.argv[1]))
try:
    switcher.run(drive.domain_id, toggle.lease_set(
        (drive,), None, lease_id="l", mode=CacheMode.WRITE_THROUGH, now_s=time.time(),
        throwaway=False, consent_turn_on=False,
    ))
except WcacheError as error:
    print(error.message)
print(switcher.read_journal())
"""


class Behind:
    """A guest whose disk is behind an adapter."""

    def __init__(self, lab):
        self.bench = Bench(lab)
        self.disk = self.bench.disk("disk")
        self.bench.sh(
            "mkdir -p /var/lib/lab/osd.0; cd /var/lib/lab/osd.0; echo 0 > whoami; "
            f"echo 11111111-2222-3333-4444-555555555555 > ceph_fsid; ln -s {self.disk.path} block"
        ).checked()

    def python(self, words, stdin=""):
        """What Python prints in the guest."""
        return self.bench.lab.guest.run(
            ["python3", *words], env=PATHS, stdin=stdin, timeout_s=TIMEOUT_S
        ).stdout

    def look(self):
        """The disk, as `look` has it."""
        words = ["-m", "wcache_probe", "look", "--osd-data", "/var/lib/lab/osd.*"]
        (drive,) = json.loads(self.python([*words, "--format", "json"]))["drives"]
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
    # journal and pin, and then the adapter will not flush: nothing is toggled, all is back
    said, journal = guest.python(["-", guest.disk.name], LEASE).splitlines()
    assert "refuses SCSI command 35h" in said
    assert said.endswith("; the prior state is back")
    assert journal == "({}, {})"
    assert guest.bench.lab.drive("disk").qmp_writeback()
    assert guest.disk.kernel_view() == "write back"


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

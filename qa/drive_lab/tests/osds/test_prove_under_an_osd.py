"""`wcache-probe prove --in-place` on the drive of an OSD that clients write to.

The disk is QEMU's on AHCI, and the translation libata's own: ATA PASS-THROUGH and MODE SELECT
both reach it.  No adapter that translates is to be had here, so the class of the drive is named
by the test; all else is the program as it is.
"""

import time

import pytest
from drive_lab import campaign
from drive_lab.agent import HANG_S
from drive_lab.probe import BOOTED_SINCE, OSD_DATA, PACKAGES, STATE_DIR
from drive_lab.stage import Stage
from drive_lab.witness import look

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = """
schema = 1
[osd]
client_depth = 1
[[drive]]
name = "disk"
model = "Lab SATA behind"
transport = "sata"
rotational = true
size_bytes = 6442450944
latency = { write = { median_us = 150 }, fua_write = { median_us = 500 }, \
dirty_flush = { median_us = 15000 }, clean_flush = { median_us = 200 } }
"""
PROGRAM = """
import sys
from wcache_probe.linux.transports import classify

known = classify.Switches.of

def named(self, device):
    found = known(self, device)
    return self._sata_hba if found is self._sata else found

classify.Switches.of = named
from wcache_probe.main import main
sys.exit(main(sys.argv[1:]))
"""


class UnderAnOsd(Stage):
    """One OSD on such a disk."""

    @property
    def fitted(self):
        return self.up.lab.drive("disk")

    def probe(self, verb, *words):
        """The probe's program, which takes the disk for one behind an adapter."""
        return self.up.lab.guest.run(
            ["python3", "-", verb, "--osd-data", OSD_DATA, "--state-dir", STATE_DIR, *words],
            env={"PYTHONPATH": PACKAGES}, stdin=PROGRAM, timeout_s=4 * HANG_S,
        )

    def seen(self):
        """What drive, QEMU and kernel say of the cache."""
        one = look(self.fitted, None)
        return one.by_drive_on, one.by_qmp_on, list(one.by_kernel.values())

    def resets(self):
        """How often libata has reset the drive's link (drivers/ata/libata-core.c, -eh.c)."""
        return self.up.lab.guest.sh("dmesg | grep -c 'resetting link' || :").checked()

    def started(self):
        """The map since which the OSD is up, and how often it has committed."""
        (osd,) = self.cluster.command("osd dump")["osds"]
        shown = self.cluster.command("perf dump", target=0)
        return osd["up"], osd["up_from"], shown["bluestore"]["kv_sync_lat"]["avgcount"]


@pytest.fixture
def stage(release, tmp_path):
    drives = tmp_path / "drives.toml"
    drives.write_text(DRIVES)
    job = campaign.LabJob(drive_file=drives, release=release)
    with campaign.running(job, campaign.Stages()) as up:
        made = UnderAnOsd(up, time.monotonic())
        (device_class,) = up.clients.device_classes
        up.clients.make_pool(device_class)
        up.clients.start(device_class)
        yield made
        up.clients.stop()


def test_it_is_proven_beside_clients_without_a_reset_and_never_turned_on(stage):
    path = stage.fitted.disk().path
    stage.wait("clients", lambda: stage.started()[2] > 100)
    before = stage.probe("prove", "--in-place", "--consent", path)
    assert before.returncode == 2
    assert "boot rule" in before.stderr
    stage.probe("prepare", "--image-elsewhere").checked()
    unseen = stage.probe("prove", "--in-place", "--consent", path)
    assert unseen.returncode == 2
    assert "boots once, then measures" in unseen.stderr
    stage.up.lab.guest.run([*BOOTED_SINCE, STATE_DIR]).checked()
    up, since, commits = stage.started()
    resets, as_found = stage.resets(), stage.seen()
    assert (up, as_found) == (1, (True, True, ["write back"]))

    proven = stage.probe("prove", "--in-place", "--consent", path)
    assert proven.returncode == 0, proven.stdout + proven.stderr
    assert "proven: ahci with ATA " in proven.stdout
    assert "no flush was timed" in proven.stdout
    assert (stage.seen(), stage.resets()) == (as_found, resets)
    assert stage.up.lab.guest.sh(f"ls {STATE_DIR}/journal").checked() == ""
    stage.wait("more commits", lambda: stage.started()[2] > commits + 20)
    assert stage.started()[:2] == (up, since), "the same OSD goes on"
    looked = stage.probe("look").checked()
    assert "sata-behind-hba" in looked
    assert "WCACHE_FLUSH_UNPROVEN" in looked

    stage.up.lab.guest.sh(f"hdparm -q -W0 {path}").checked()
    off = stage.probe("prove", "--in-place", "--consent", path)
    assert off.returncode == 2
    assert "is not turned on under an OSD" in off.stderr
    assert stage.seen()[:2] == (False, False)

"""A drive that saves its mode page, under the kernel's sd driver and under wcache's own steps.

QEMU's drives save nothing: this one is a program of the lab's, through target_core_user.
"""

import pytest
from drive_lab.probe import PACKAGES
from drive_lab.saving import SavingDrive
from wcache.core.fleet.foreign_rules import Reload
from wcache.deployment.scripts import reloading

pytestmark = [pytest.mark.lab, pytest.mark.long]

# `apply --persist` and its way back, with the probe's own steps, journal and switch.  Its host
# adapter is none that wcache toggles drives of, so the switch is named here.
STEPS = """
import sys, time
from wcache_probe.switching import toggle
from wcache.core.model import CacheMode, Transport
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.scsi import ScsiSwitch
from wcache_probe.linux.transports.sg_io import SgIo
from wcache_probe.switcher import Switcher

class Named(Switches):
    scsi = ScsiSwitch(SgIo(), set(), Transport.SCSI)
    def of(self, device):
        return self.scsi

class Prepared:
    journal_lost = ""
    def refusal(self, wwid):
        return ""

host = LinuxDriveHost(switches=Named(), boot_pins=Prepared)
state = StateFolder("/var/lib/saving-state", "/run/saving-run")
switcher = Switcher(host, state.journal)
drive = host.drive_of(by_name(HostFiles(), sys.argv[2]))
if sys.argv[1] == "apply":
    done = switcher.run(drive.domain_id, toggle.apply(
        (drive,), action_id="a1", expected=CacheMode.WRITE_BACK, mode=CacheMode.WRITE_THROUGH,
        now_s=time.time(), throwaway=False, consent_turn_on=False, persist=True,
    ))
else:
    (entry,) = switcher.read_journal()[0].values()
    done = switcher.restore(entry)
print(done.before[0].page, done.after[0].page)
"""


@pytest.fixture
def saving(lab):
    """The drive, with its saved mode at write back and its power on."""
    drive = SavingDrive(lab)
    drive.power_on()
    yield drive
    drive.remove()


def steps(bench, word, disk, packages=PACKAGES):
    """Carry them out in the guest; what they print."""
    return bench.lab.guest.run(
        ["python3", "-", word, disk.name], stdin=STEPS, env={"PYTHONPATH": packages},
    ).checked()


def cycle(saving):
    """Pull the plug, put it back."""
    saving.power_off()
    return saving.power_on()


def test_what_cache_type_saves_is_what_the_kernel_finds_after_a_power_cycle(bench, saving):
    disk = saving.disk()
    assert disk.kernel_view() == "write back"
    assert disk.set_cache_type("write through") == 0
    assert saving.kept()["wce"] is False
    disk = cycle(saving)
    assert disk.kernel_view() == "write through"
    assert not disk.device_cache_on()


def test_a_mode_that_is_persisted_outlives_the_power_and_so_does_its_way_back(bench, saving):
    disk = saving.disk()
    shown = steps(bench, "apply", disk)
    assert "by_rule=True" not in shown
    assert saving.kept()["wce"] is False
    bench.write_and_sync(disk.path, "kept")
    disk = cycle(saving)
    assert not disk.device_cache_on()
    assert bench.on_the_medium(disk.path) == "kept"
    steps(bench, "back", disk)
    assert saving.kept()["wce"] is True
    assert disk.device_cache_on()
    disk = cycle(saving)
    assert disk.device_cache_on()
    assert disk.kernel_view() == "write back"


@pytest.mark.parametrize("upgraded", [True, False])
def test_a_mode_that_a_probe_of_another_version_persisted_goes_back(
    bench, saving, older_packages, upgraded
):
    versions = (older_packages, PACKAGES)
    wrote, reads = versions if upgraded else versions[::-1]
    steps(bench, "apply", saving.disk(), wrote)
    disk = cycle(saving)
    assert not disk.device_cache_on()
    steps(bench, "back", disk, reads)
    assert saving.kept()["wce"] is True
    disk = cycle(saving)
    assert disk.device_cache_on()
    assert disk.kernel_view() == "write back"


@pytest.mark.parametrize("pinned", [True, False])
def test_a_reset_turns_the_saved_cache_on_and_only_the_pin_has_it_flushed(bench, saving, pinned):
    disk = saving.disk()
    bench.write_and_sync(disk.path, "before")
    if pinned:
        assert disk.set_cache_type("temporary write back") == 0
    bench.sh(f"sdparm --quiet --clear=WCE {disk.generic}").checked()
    assert not disk.device_cache_on()
    if not pinned:
        disk.rescan()
        assert disk.kernel_view() == "write through"
    bench.sh(f"sg_reset --device {disk.generic}").checked()
    assert disk.device_cache_on()
    bench.write_and_sync(disk.path, "after")
    disk = cycle(saving)
    assert bench.on_the_medium(disk.path) == ("after" if pinned else "before")


def test_where_mode_sense_fails_the_kernel_sees_no_cache_unless_it_is_pinned(bench, saving):
    disk = saving.disk()
    saving.keep(wce=True, fails_mode_sense=True)
    disk.rescan()
    assert disk.kernel_view() == "write through"
    saving.keep(wce=True)
    disk.rescan()
    assert disk.kernel_view() == "write back"
    assert disk.set_cache_type("temporary write back") == 0
    saving.keep(wce=True, fails_mode_sense=True)
    disk.rescan()
    assert disk.kernel_view() == "write back"


# ---- one that Ceph's documented rule has turned off, below an LV

FSID = "11111111-2222-3333-4444-555555555555"
OSD = "/var/lib/ceph/osd/ceph-0"
VOLUME = "/dev/saved/osd"
RULE = "/etc/udev/rules.d/59-wcache-pin.rules"
COMMITS = 20
# The program takes the adapter for one whose drives it toggles, and the image for one of an
# admin's: the guest's is not of its own making.
PROBE = f"""#!/usr/bin/python3
import sys
sys.path[:0] = ["/wcache/osd_probe", "/wcache/mgr_module"]
from wcache_probe.linux.transports import classify
classify.VIRTUAL_HOSTS += ("tcm_loopback",)
from wcache_probe.main import main
words = sys.argv[1:]
words += ["--state-dir", "/var/lib/saved", "--run-dir", "/run/saved"] * (words[0] != "look")
words += ["--osd-data", "{OSD}"] * (words[0] != "unprepare")
words += ["--image-elsewhere"] * (words[0] == "prepare")
sys.exit(main(words))
"""
STANDS_FOR = {
    "ceph": 'case "$*" in "osd dump") echo "osd.0 up   in  weight 1" ;; esac',
    "ssh": 'if [ "$1" = -n ]; then shift; exec </dev/null; fi; shift; exec sh -c "$*"',
    "systemctl": ":",
}


class SavedOff:
    """The drive in a host without a cluster; its OSD is a folder."""

    def __init__(self, bench, saving):
        self.bench, self.saving = bench, saving
        disk = saving.disk()
        assert disk.set_cache_type("write through") == 0
        assert saving.kept()["wce"] is False
        self.sh(f"vgcreate -qq -y saved {disk.path} && lvcreate -qq -y -l 100%FREE -n osd saved")
        self.sh(
            f"mkdir -p {OSD} /var/lib/stands-for; cd {OSD}; echo 0 >whoami; "
            f"echo {FSID} >ceph_fsid; echo osd-fsid >fsid; ln -sfn {VOLUME} block"
        )
        self.install("wcache-probe", PROBE)
        for name, body in STANDS_FOR.items():
            self.install(name, f"#!/bin/sh\n{body}\n")

    def sh(self, text):
        return self.bench.sh(text).checked()

    def install(self, name, text):
        path = f"/var/lib/stands-for/{name}"
        self.bench.lab.guest.run(["tee", path], stdin=text).checked()
        self.sh(f"chmod 755 {path}")

    def probe(self, words):
        return self.sh(f"/var/lib/stands-for/wcache-probe {words} 2>&1")

    def flushes_per_commit(self):
        """Of so many acknowledged writes to the OSD's volume."""
        before = self.saving.flushes()
        self.sh(
            f"for number in $(seq {COMMITS}); do dd if=/dev/zero of={VOLUME} bs=4096 count=1 "
            "seek=$number oflag=direct conv=notrunc,fdatasync status=none; done"
        )
        return (self.saving.flushes() - before) / COMMITS

    def volume_flushes(self):
        view = f"cat /sys/block/$(basename $(readlink -f {VOLUME}))/queue/write_cache"
        return self.sh(view).strip() == "write back"

    def appears(self, found):
        """Once the disk is there with its power on: what LVM does, after udev's rules."""
        self.bench.settle()
        self.sh("vgchange -qq -ay saved")
        return found

    def power_cycle(self):
        self.sh("vgchange -qq -an saved")
        return self.appears(cycle(self.saving))

    def reboot(self):
        self.sh("vgchange -qq -an saved; sync")
        self.bench.lab.reboot()
        return self.appears(self.saving.power_on_after_a_boot())

    def restart_probe(self):
        """It pins what its journal names before it looks for a mgr; here is none."""
        self.sh(
            "/var/lib/stands-for/wcache-probe run --hostname h1 >/run/said 2>&1 & pid=$!; "
            "until grep -q 'no configuration of Ceph' /run/said; do kill -0 $pid; sleep 1; done; "
            "kill $pid; wait $pid || :"
        )

    def reload(self, disk):
        """The plan of `drive reload`, run as an admin does."""
        text = reloading([Reload("h1", 0, ("dm-0",), to_name=(disk.name,))], FSID)
        return self.bench.lab.guest.run(
            ["sh"], stdin=f"PATH=/var/lib/stands-for:$PATH; export PATH\n{text}"
        ).checked()


@pytest.fixture
def saved_off(bench, saving):
    yield SavedOff(bench, saving)
    bench.sh(f"vgchange -qq -an saved; rm -rf {RULE} /var/lib/saved {OSD} /var/lib/stands-for")


def test_a_drive_that_is_saved_off_goes_on_without_flushes(saved_off):
    host = saved_off
    assert not host.volume_flushes()
    counted = {"before": host.flushes_per_commit()}
    name = host.saving.disk().name
    assert f"`wcache-probe prepare --drive={name}`" in host.probe("look")
    counted["installed"] = host.flushes_per_commit()
    said = host.probe("prepare")
    assert f"left as it is: {name}: " in said
    assert "nothing to prepare" in said
    counted["agent add"] = host.flushes_per_commit()
    host.reboot()
    counted["a reboot"] = host.flushes_per_commit()
    host.restart_probe()
    counted["the probe restarted"] = host.flushes_per_commit()
    assert counted == dict.fromkeys(counted, 0.0)
    assert not host.volume_flushes()


def test_a_drive_that_is_saved_off_flushes_from_drive_reload_until_it_is_unprepared(saved_off):
    """`drive reload` names it, and loads anew what stands on it."""
    host = saved_off
    assert host.flushes_per_commit() == 0.0
    said = host.reload(host.saving.disk())
    assert "osd.0: loaded anew" in said
    assert "flushed all the same" in said
    assert host.volume_flushes()
    assert host.flushes_per_commit() == 1.0
    host.power_cycle()
    assert host.volume_flushes(), "the boot rule came before LVM"
    assert host.flushes_per_commit() == 1.0

    name = host.saving.disk().name
    assert "acknowledged writes are lost" in host.probe(f"unprepare --drive={name}")
    host.power_cycle()
    assert not host.volume_flushes()
    assert host.flushes_per_commit() == 0.0

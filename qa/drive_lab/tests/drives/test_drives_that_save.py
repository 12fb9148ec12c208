"""A drive that saves its mode page, under the kernel's sd driver and under wcache's own steps.

QEMU's drives save nothing: this one is a program of the lab's, through target_core_user.
"""

import pytest
from drive_lab.saving import SavingDrive

pytestmark = [pytest.mark.lab, pytest.mark.long]

# `apply --persist` and its way back, with the probe's own steps, journal and switch.  Its host
# adapter is none that wcache toggles drives of, so the switch is named here.
STEPS = """
import sys, time
from wcache.core.drive import toggle
from wcache.core.model import CacheMode, Transport
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.block.host_files import HostFiles
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.pin import Pins
from wcache_probe.linux.transports.scsi import ScsiSwitch
from wcache_probe.linux.transports.sg_io import SgIo
from wcache_probe.switcher import Switcher

class Named(Switches):
    scsi = ScsiSwitch(SgIo(), Pins(), Transport.SCSI)
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


def steps(bench, word, disk):
    """Carry them out in the guest; what they print."""
    return bench.lab.guest.run(
        ["python3", "-", word, disk.name], stdin=STEPS, timeout_s=600.0,
        env={"PYTHONPATH": "/wcache/osd_probe:/wcache/mgr_module"},
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
    bench.sh(f"sg_reset --device {disk.generic}", timeout_s=120).checked()
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

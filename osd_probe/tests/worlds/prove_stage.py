"""A drive behind a translation, and `wcache-probe prove` at work on it."""

from contextlib import contextmanager, nullcontext

from translations import BEHIND
from wcache.core.drive.safety import may_toggle
from wcache.core.model import CacheMode, Transport
from wcache_probe import prove as command
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.prove import FlushTimes, Prover
from wcache_probe.switcher import Switcher

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
HONEST = {BACK: FlushTimes(60.0, 9000.0, 40.0), THROUGH: FlushTimes(8000.0, 50.0, 40.0)}


def refusal(host):
    (drive,) = host.look()
    assert drive.transport is Transport.SATA_HBA
    return may_toggle([drive], drive.mode.other, throwaway=False, consent_turn_on=True) or ""


class NotPrepared:
    journal_lost = ""

    def refusal(self, wwid):
        return "it is not in the boot rule"


class FakeScratch:
    """Scratch space of which only what the trial needs is there."""

    harm = "overwrites /dev/sda"

    def __init__(self, drive):
        self.drive = drive
        self.claimed = False

    @contextmanager
    def held(self):
        yield

    def claim(self):
        self.claimed = True


class Stage:
    """A host, a state folder, and the command between them."""

    def __init__(self, fake_host, tmp_path, translation, osd=False):
        self.translation = translation
        fake_host.scsi_disk("sda", "8:0", rotational=1, **BEHIND)
        self.host = LinuxDriveHost(
            files=fake_host.files, boot_pins=lambda: self.boot_pins(),
            osd_data_globs=[fake_host.osd_glob],
            switches=Switches(scsi=translation.port()),
        )
        self.boot_pins = fake_host.boot_pins
        self.state = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"))
        (fake_host.root / "sys/class/block/sda/device/rescan").write_text("")
        if osd:
            fake_host.osd(1, block="sda")
        self.drive = self.host.drive_of(by_name(fake_host.files, "sda"))

    def run(self, trial, lock=nullcontext):
        switcher = Switcher(self.host, self.state.journal, lock=lock)
        return command.run(
            self.host, switcher, FakeScratch(self.drive), self.drive.mode, trial
        )

    def trial(self, device, switch, _scratch, mode):
        times = HONEST

        def measure():
            assert self.journal(), "journalled before anything is touched"
            return times[BACK if self.translation.drive.enabled else THROUGH]

        return Prover(device, switch, measure, self.translation.rescan).run(mode)

    def journal(self):
        return Switcher(self.host, self.state.journal).read_journal()[0]

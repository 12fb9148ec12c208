"""The drive that was recognised is the one that is switched, and one without a name never is."""

import contextlib
import os
import shutil

import pytest
from model_drives import ModelAta, ModelNvme, ModelScsi
from wcache.core.errors import NotFoundError, RefusedError, WcacheError
from wcache.core.model import CacheMode, DriveModel, DriveReport, DriveState, Transport
from wcache_probe.linux.block.sysfs import by_name, hold
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.loop import LoopSwitch
from wcache_probe.linux.transports.nvme import NvmeController, NvmeSwitch, open_controller
from wcache_probe.linux.transports.sg_io import ScsiError, ScsiReply, SgIo

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
SLOTS = {
    "scsi": {"path": "host0", "driver": "virtio_scsi"},
    "sata": {"path": "ata1/host0", "driver": "ahci", "vendor": "ATA"},
}


class Slot:
    """A slot whose disk is pulled at command `at`; another takes its name and its number."""

    def __init__(self, fake_host, ours, stranger, at):
        self.fake, self.stranger, self.at = fake_host, stranger, at
        self.commands = 0
        self.place = os.path.realpath(fake_host.root / "sys/class/block/sda")
        self.behind = {self.inode(): ours}

    def inode(self):
        return os.stat(self.fake.root / "dev/sda").st_ino

    def submit(self, fd, name, cdb, data_in, data_out, timeout_ms):
        self.commands += 1
        if self.commands == self.at:
            self.swap()
        model = self.behind[os.fstat(fd).st_ino]
        try:
            return 0, model.command(None, cdb, data_in=data_in, data_out=data_out)
        except ScsiError as error:
            return 2, ScsiReply(b"", error.sense)

    def swap(self):
        root = self.fake.root
        os.rename(root / "dev/sda", root / "dev/pulled")
        (root / "dev/sda").write_text("")
        self.behind[self.inode()] = self.stranger
        pulled = root / "sys/pulled"
        os.rename(self.place, pulled)
        shutil.copytree(pulled, self.place, symlinks=True)
        (pulled / "dev").unlink()  # an open folder of a device that has gone is empty


def drives(kind):
    ours, stranger = (ModelScsi(), ModelScsi()) if kind == "scsi" else (ModelAta(), ModelAta())
    if kind == "scsi":
        stranger.naa = bytes.fromhex("5000c50000000099")
    else:
        stranger.serial = "STRANGER"
    return ours, stranger


def switched(model):
    """Whether a drive was told to change its cache."""
    return any(word in (0x55, (0xEF, 0x82), (0xEF, 0x02)) for word in model.log)


@pytest.mark.parametrize("mode", list(CacheMode))
@pytest.mark.parametrize("kind", ["scsi", "sata"])
def test_a_stranger_in_the_same_slot_is_never_switched_whenever_it_comes(
    fake_host, tmp_path, kind, mode
):
    for at in range(1, 40):
        fake = type(fake_host)(tmp_path / str(at))
        fake.scsi_disk("sda", "8:0", **SLOTS[kind])
        ours, stranger = drives(kind)
        slot = Slot(fake, ours, stranger, at)
        switches = Switches(scsi=SgIo(slot.submit))
        host = LinuxDriveHost(files=fake.files, osd_data_globs=[], switches=switches)
        switch = switches.of(by_name(fake.files, "sda"))
        slot.at = 0
        known = switch.identify(by_name(fake.files, "sda"))
        drive = DriveReport(
            known.drive_id, known.domain_id, "sda", DriveModel("V", "M", "F"),
            Transport.SCSI, DriveState("unknown", "unknown"),
        )
        host.pin(drive)
        slot.at, slot.commands = at, 0
        with contextlib.suppress(WcacheError):
            host.set_cache(drive, mode)
        assert not switched(stranger), f"the stranger that came at command {at} was switched"
        if slot.commands < at:
            return
    raise AssertionError("a change of a cache takes fewer commands than that")


def test_nothing_is_read_of_or_written_to_a_disk_that_has_gone(fake_host):
    fake_host.scsi_disk("sda", "8:0")
    with hold(by_name(fake_host.files, "sda")) as device:
        slot = Slot(fake_host, None, None, 0)
        slot.swap()
        fake_host.set_view("sda", "write through")
        assert device.kernel_view.value == "write back", "that of the old disk"
        os.close(device.open())


def test_a_disk_that_goes_while_it_is_opened_is_not_held(fake_host):
    fake_host.scsi_disk("sda", "8:0")
    device = by_name(fake_host.files, "sda")
    os.unlink(os.path.join(device.folder, "dev"))
    with pytest.raises(NotFoundError, match="no longer the disk"), hold(device):
        pass


def test_the_controller_of_a_held_namespace_is_opened_once(fake_host):
    fake_host.nvme("nvme0", "nvme0n1", "259:0")
    with hold(by_name(fake_host.files, "nvme0n1")) as device:
        calls = []

        def opener():
            calls.append(1)
            return os.open("/dev/null", os.O_RDONLY)

        os.close(device.held.descriptor("nvme0", opener))
        controller = NvmeController("nvme0", "/nowhere", device.held)
        os.close(open_controller(fake_host.files, controller))
        assert calls == [1]


@pytest.mark.parametrize("serial", [b"", b"   ", b"00000000"])
def test_a_scsi_disk_with_neither_wwn_nor_serial_is_shown_and_never_touched(fake_host, serial):
    model = ModelScsi()
    model.naa, model.serial = b"", serial
    fake_host.scsi_disk("sda", "8:0")
    fake_host.osd(1, block="sda")
    host = fake_host.drive_host(switches=Switches(scsi=model))
    (drive,) = host.look()
    assert drive.mode is BACK
    assert "neither a WWN nor a serial" in drive.toggle_refusal
    for change in (host.pin, lambda d: host.set_cache(d, THROUGH),
                   lambda d: host.save_cache(d, THROUGH, None)):
        with pytest.raises(RefusedError, match="neither"):
            change(drive)
    assert not switched(model)


@pytest.mark.parametrize("transport", ["tcp", "rdma", "fc", "loop", ""])
def test_an_nvme_controller_over_a_fabric_is_shown_and_never_switched(fake_host, transport):
    fake_host.nvme("nvme0", "nvme0n1", "259:0", transport=transport)
    fake_host.osd(1, block="nvme0n1")
    model = ModelNvme()
    host = fake_host.drive_host(switches=Switches(nvme=model))
    device = by_name(fake_host.files, "nvme0n1")
    with pytest.raises(RefusedError, match="not pcie"):
        NvmeSwitch(model).set_cache(device, THROUGH)
    (drive,) = host.look()
    assert "not pcie" in drive.toggle_refusal
    assert model.on


def test_a_loop_device_without_a_file_behind_it_is_nobody(fake_host):
    fake_host.loop("loop0", "7:0")
    assert LoopSwitch().identify(by_name(fake_host.files, "loop0")).refusal

"""Twelve SCSI disks in one host, of which some are never to be asked for anything."""

from model_drives import ModelScsi
from sim_drives import MemoryJournal
from wcache.core.model import CacheMode
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.switcher import Switcher
from wcache_probe.switching import toggle


class Shelf:
    """The disks, and a journal; to ask those in `hang` for anything fails a test."""

    def __init__(self, fake_host, count=12):
        self.fake = fake_host
        self.models, self.hang = {}, set()
        for number in range(count):
            model = ModelScsi()
            model.naa = bytes.fromhex(f"5000c500000001{number:02x}")
            model.serial = f"SERIAL{number:02}".encode()
            name = f"sd{chr(ord('a') + number)}"
            fake_host.scsi_disk(name, f"8:{16 * number}", hctl=f"0:0:{number}:0")
            self.models[name] = model
            self.sysfs(name)
            fake_host.osd(number, block=name)
        self.host = fake_host.drive_host(switches=Switches(scsi=self))
        self.journal = MemoryJournal()

    def sysfs(self, name, wwid=True, serial=True):
        """What the kernel keeps of a disk since its scan."""
        folder = f"sys/class/block/{name}/device"
        model = self.models[name]
        self.fake.write(f"{folder}/wwid", f"naa.{model.naa.hex()}\n" if wwid else "")
        page = b"\x00\x80\x00\x08" + model.serial if serial else b""
        (self.fake.root / folder / "vpd_pg80").write_bytes(page)

    def command(self, device, cdb, **more):
        assert device.name not in self.hang, f"{device.name} hangs, and was asked"
        return self.models[device.name].command(device, cdb, **more)

    def switcher(self):
        return Switcher(self.host, self.journal)

    def lease(self, name, mode=CacheMode.WRITE_THROUGH):
        (drive,) = [d for d in self.host.look() if d.dev_name == name]
        self.switcher().run(
            drive.domain_id,
            toggle.lease_set(
                (drive,), None, lease_id="L", mode=mode, now_s=0.0, throwaway=False,
                consent_turn_on=True,
            ),
        )
        return drive

    def is_on(self, name):
        model = self.models[name]
        return model.current == model.page(True)

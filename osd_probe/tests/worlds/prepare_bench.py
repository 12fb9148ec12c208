"""Hosts of model disks to prepare, and tools that build their images."""

import os
import subprocess

from model_drives import ModelScsi
from wcache.core.drive.journal import EntryKind, JournalEntry, prior_of
from wcache_probe.commands.prepare import keep_lines
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.persistence.boot_rule import FILE_NAME
from wcache_probe.linux.persistence.initramfs import Tool
from wcache_probe.linux.persistence.preparation import Preparation
from wcache_probe.linux.persistence.prepare import Preparer, choose
from wcache_probe.linux.transports.classify import Switches

WWID = "naa.5000c50000000001"
BLANKS = "t10.ATA     QEMU HARDDISK                           QM00001"
WHERE = f"udev/rules.d/{FILE_NAME}"


# ---- which drives


class Bank:
    """Model drives that differ, by the name of their disk."""

    def __init__(self):
        self.drives = {}

    def command(self, device, cdb, **more):
        if device.name not in self.drives:
            model = self.drives[device.name] = ModelScsi()
            model.naa = bytes.fromhex(f"5000c500000000{ord(device.name[2]):02x}")
        return self.drives[device.name].command(device, cdb, **more)


def host_of(fake_host, *, wwids=(WWID, "naa.5000c50000000002"), osds=("sda",), bank=None):
    """Disks with these names, the first of them under OSDs; not prepared."""
    for number, wwid in enumerate(wwids):
        name, hctl = f"sd{chr(97 + number)}", f"0:0:{number}:0"
        fake_host.scsi_disk(name, f"8:{16 * number}", hctl=hctl)
        fake_host.write(f"sys/devices/pci0/host0/target0:0:{number}/{hctl}/wwid", f"{wwid} \n")
    for number, name in enumerate(osds):
        fake_host.osd(number, block=name)
    return LinuxDriveHost(
        files=fake_host.files, osd_data_globs=[fake_host.osd_glob],
        switches=Switches(scsi=bank or Bank()), find_foreign_rules=tuple,
        boot_pins=preparation(fake_host).look,
    )


def preparation(fake_host):
    root = str(fake_host.root)
    return Preparation(root, os.path.join(root, "state"), fake_host.files)


def chosen(host, *entries, journalled=()):
    return choose(host.look(), journalled, entries, host.disks())


def entry_of(drives):
    return JournalEntry(2, EntryKind.ACTION, "a1", "d", prior_of(drives), 0.0)


# ---- what the probe makes of it


def prepare(fake_host, host, *, tool=None, run_tool=None):
    """Run it as the command does; what it said, and its exit code."""
    said = []
    made = Preparer(
        preparation(fake_host), said.append, find_tool=lambda: tool,
        run_tool=run_tool or (lambda tool: None), reload_udev=lambda: "",
    )
    made.check_rule()
    made.check_images(image_elsewhere=False)
    kept = keep_lines(made.preparation, host, chosen(host))
    return made.see_to_images(made.write_rule(kept)), "\n".join(said)


# ---- images


def cpio(root, names):
    """An archive of these files of a folder, by cpio itself."""
    done = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"], input="\n".join(names).encode(), cwd=root,
        stdout=subprocess.PIPE, check=True,
    )
    return done.stdout


class Builder:
    """What makes images as initramfs-tools does: microcode, then the root, compressed."""

    def __init__(self, fake_host, *names, compress=("gzip", "-c"), takes=True):
        self.root, self.names, self.compress = fake_host.root, names, compress
        self.takes, self.runs = takes, 0
        fake_host.write("image/kernel/microcode", "x" * 1001)
        fake_host.write("image/bin/sh", "y" * 100_001)
        for name in names:
            self.build(name)

    def __call__(self, tool):
        self.runs += 1
        rule = self.root / f"etc/{WHERE}"
        if self.takes and rule.exists():
            target = self.root / f"image/lib/{WHERE}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(rule.read_text())
        elif not rule.exists():
            (self.root / f"image/lib/{WHERE}").unlink(missing_ok=True)
        for name in self.names:
            self.build(name)

    def build(self, name):
        image = self.root / "image"
        files = [str(p.relative_to(image)) for p in sorted(image.rglob("*")) if p.is_file()]
        rest = cpio(image, [name for name in files if not name.startswith("kernel")])
        done = subprocess.run(
            self.compress, input=rest, stdout=subprocess.PIPE, check=True
        )
        path = self.root / "boot" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(cpio(image, ["kernel/microcode"]) + bytes(512) + done.stdout)


TOOL = Tool("a tool", ("a",), ("a", "b"), "etc/dracut.conf.d/59-wcache-pin.conf", "x\n")

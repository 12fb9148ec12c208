"""Hosts of model disks to prepare, and tools that build their images."""

import os
import subprocess

from model_drives import ModelScsi
from wcache.core.drive.journal import EntryKind, JournalEntry, prior_of
from wcache.core.model import CacheMode
from wcache_probe.arguments import parse
from wcache_probe.commands.prepare import keep_lines
from wcache_probe.linux.persistence.images import Tool
from wcache_probe.linux.persistence.preparation import Preparation
from wcache_probe.linux.persistence.prepare import Preparer, choose
from wcache_probe.linux.persistence.udev_rule import FILE_NAME, NOTE_FILE, note_of
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
    """Disks with these names, the first of them under OSDs; not prepared.

    Its kernel was booted without an image, and holds none.
    """
    if not (fake_host.root / "sys/kernel/boot_params").exists():
        given(fake_host, 0)
        config = 'CONFIG_BLK_DEV_INITRD=y\nCONFIG_INITRAMFS_SOURCE=""\n'
        made_with(fake_host, config)
        booted(fake_host, "first")
    for number, wwid in enumerate(wwids):
        name, hctl = f"sd{chr(97 + number)}", f"0:0:{number}:0"
        fake_host.scsi_disk(name, f"8:{16 * number}", hctl=hctl)
        fake_host.write(f"sys/devices/pci0/host0/target0:0:{number}/{hctl}/wwid", f"{wwid} \n")
    for number, name in enumerate(osds):
        fake_host.osd(number, block=name)
    return fake_host.drive_host(
        switches=Switches(scsi=bank or Bank()), find_foreign_rules=tuple,
        boot_pins=preparation(fake_host).look,
    )


def made_with(fake_host, config):
    """A kernel that was made with these options."""
    fake_host.write("proc/sys/kernel/osrelease", "6.1.0\n")
    fake_host.write("boot/config-6.1.0", config)


def given(fake_host, size, *, loader=7):
    """A kernel that says that it was given so many bytes of initramfs, by GRUB if by no other."""
    data = bytearray(0x260)
    data[0x210] = loader << 4
    data[0x21C:0x220] = (size % 2**32).to_bytes(4, "little")
    data[0xC4:0xC8] = (size >> 32).to_bytes(4, "little")
    path = fake_host.root / "sys/kernel/boot_params/data"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def booted(fake_host, boot_id, *, size=None, noted=None):
    """The next boot: by an image of so many bytes, which had this rule, if any."""
    fake_host.write("proc/sys/kernel/random/boot_id", f"{boot_id}\n")
    note = f"E:{note_of(noted)}\n" if noted else ""
    fake_host.write(f"run/{NOTE_FILE}", f"I:123\n{note}")
    if size is not None:
        given(fake_host, size)


def mounted(fake_host, point, kind):
    """The one file system that is mounted."""
    fake_host.write(
        "proc/self/mountinfo", f"29 1 0:9 / {fake_host.root}{point} rw - {kind} none rw\n"
    )


def preparation(fake_host):
    root = str(fake_host.root)
    return Preparation(root, os.path.join(root, "state"), fake_host.files)


def preparer_of(fake_host, say=lambda line: None, **more):
    """What prepares a host, with no tool that makes images and no udev, where none is given."""
    given = {"find_tool": lambda: None, "reload_udev": lambda: "", **more}
    return Preparer(preparation(fake_host), say, **given)


def options_of(fake_host, verb, *words, state="state"):
    """A command line with the folders of the host, which are there."""
    folder, run = str(fake_host.root / state), str(fake_host.root / "run")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    os.chmod(folder, 0o700)
    return parse([verb, *words, "--state-dir", folder, "--run-dir", run])


def turned_off(host, number=0):
    """Pin one of the drives under OSDs and turn its cache off; returns it."""
    drive = host.look()[number]
    host.pin(drive)
    host.set_cache(drive, CacheMode.WRITE_THROUGH)
    return drive


def chosen(host, *entries, journalled=()):
    return choose(host.look(), journalled, entries, host.disks())


def entry_of(drives):
    return JournalEntry(2, EntryKind.ACTION, "a1", "d", prior_of(drives), 0.0)


# ---- what the probe makes of it


def prepare(fake_host, host, *, tool=None, run_tool=None, image_elsewhere=False):
    """Run it as the command does; what it said, and its exit code."""
    said = []
    made = preparer_of(
        fake_host, said.append, find_tool=lambda: tool, run_tool=run_tool or (lambda tool: None)
    )
    made.check_rule()
    made.check_images(image_elsewhere=image_elsewhere)
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

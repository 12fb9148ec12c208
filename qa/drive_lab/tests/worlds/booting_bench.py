"""Hosts that boot by themselves: an OSD's volume on each drive, and what a warm reboot leaves.

The drive keeps its power over the reboot and stays off.  The new kernel's volumes are there
before anything of ours runs; then the drive's cache comes on through its sg node, which is
what a LUN reset does to a drive that has not saved its mode.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from drive_lab.disk import kernel_view
from drive_lab.forked_probe import ProbeForks
from drive_lab.images.booting_root import Initramfs, image_in
from drive_lab.lab import Lab
from drive_lab.machine import MachineSpec
from lab_bench import Bench
from probe_bench import ALL_OSDS, BACK, FSID, THROUGH, ProbeOf
from wcache_probe.linux.persistence.udev_rule import FILE_NAME, boot_rule

DRIVE = """
[[drive]]
name = "{name}"
model = "Lab {transport}"
transport = "{transport}"
rotational = true
size_bytes = 134217728
latency = {{ fua_write = {{ median_us = 300 }}, dirty_flush = {{ median_us = 500 }} }}
"""
KEY = "/etc/osd.key"
COMMAND = "/usr/bin/wcache-probe"
PACKAGES = "/wcache/osd_probe:/wcache/mgr_module"
IMAGE_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class OsdDrive:
    """A drive, what its OSD stands on, and whether the boot rule names it when it matters."""

    transport: str
    encrypted: bool
    ruled: bool

    @property
    def name(self):
        stack, rule = "crypt" if self.encrypted else "lvm", "ruled" if self.ruled else "bare"
        return f"{self.transport}-{stack}-{rule}"

    @property
    def group(self):
        return f"ceph_{self.name.replace('-', '_')}"

    @property
    def volume(self):
        return f"/dev/{self.group}/osd"

    @property
    def crypt_name(self):
        return f"crypt_{self.group}"

    @property
    def device(self):
        """What the OSD opens."""
        return f"/dev/mapper/{self.crypt_name}" if self.encrypted else self.volume


class BootingHost:
    """A host with these drives; a context manager."""

    def __init__(self, initramfs, drives, kernel_options=()):
        self.initramfs = initramfs
        self.drives = tuple(drives)
        self._file = tempfile.NamedTemporaryFile("w", suffix=".toml")  # noqa: SIM115
        self._file.write("schema = 1\n")
        for drive in self.drives:
            self._file.write(DRIVE.format(name=drive.name, transport=drive.transport))
        self._file.flush()
        machine = MachineSpec(initramfs=initramfs, kernel_options=tuple(kernel_options))
        self.lab = Lab(Path(self._file.name), machine=machine)
        self.bench = Bench(self.lab)
        self.forks = ProbeForks(self.lab)
        self.probes = {}

    def __enter__(self):
        self.lab.__enter__()
        try:
            self._install()
        except BaseException:
            self.lab.close()
            raise
        return self

    def __exit__(self, *error):
        self.lab.close()
        self._file.close()

    def sh(self, script):
        return self.lab.guest.sh(script).checked()

    # as it is installed

    def _install(self):
        script = f'#!/bin/sh\nPYTHONPATH={PACKAGES} exec python3 -B -m wcache_probe "$@"\n'
        self.lab.guest.run(["tee", COMMAND], stdin=script).checked()
        self.sh(f"modprobe sg; chmod 755 {COMMAND}; head -c 64 /dev/urandom | base64 -w0 > {KEY}")
        if self.initramfs is Initramfs.DRACUT:
            # a host has one of the two
            self.sh("rm /usr/sbin/update-initramfs /usr/sbin/mkinitramfs")
        self.forks.start()
        for number, drive in enumerate(self.drives):
            self._make_volume(drive)
            probe = self.probes[drive] = ProbeOf(self.bench, self.forks, drive.name)
            folder = f"{probe.data}/osd.{number}"
            self.sh(
                f"mkdir -p {folder}; echo {number} > {folder}/whoami; "
                f"echo {FSID} > {folder}/ceph_fsid; ln -sfn {drive.device} {folder}/block"
            )

    def _make_volume(self, drive):
        path = self.bench.disk(drive.name).path
        self.sh(
            f"vgcreate -qq -y {drive.group} {path}; "
            f"lvcreate -qq -y -l 100%FREE -n osd {drive.group}"
        )
        if drive.encrypted:
            # opened with the root mounted, as ceph-volume does
            self.sh(
                "cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 "
                f"--pbkdf-force-iterations 1000 --key-file {KEY} {drive.volume}; "
                f"cryptsetup open --key-file {KEY} {drive.volume} {drive.crypt_name}; "
                f"echo {drive.crypt_name} {drive.volume} {KEY} luks >> /etc/crypttab"
            )

    # the boot rule

    def prepare(self, *, make_image, boot=False):
        """`wcache-probe prepare`; without `make_image` its rule is in the image before.

        Making the image takes the guest a minute.  With `boot` the host has booted the image that
        has the rule: else that one is of another size than the kernel was given.
        """
        if not make_image:
            self._put_rule_into_image(self.drives)
        if boot:
            self.sh("sync")  # the folders of the OSDs are young, and a reset asks nobody
            self.lab.reset()
            self._booted()
            self.forks.start()
        built = image_in(self.lab.boot_folder).stat().st_mtime_ns
        first, *others = self.probes.values()
        done = self.forks.fork(["prepare", *first.folders, "--osd-data", ALL_OSDS])
        assert done.wait(IMAGE_TIMEOUT_S) == 0, done.output()
        # each drive has a probe of its own here, and it is one host
        for probe in others:
            folder = probe.folders[1]
            self.sh(f"mkdir -m 700 -p {folder}; cp {first.folders[1]}/prepared.json {folder}/")
        made = image_in(self.lab.boot_folder).stat().st_mtime_ns
        assert (made != built) is make_image, done.output()

    def forget_rule(self, drives):
        """Take the lines of these drives out of rule and image by hand."""
        left = [drive for drive in self.drives if drive not in drives]
        text = self._put_rule_into_image(left)
        self.lab.guest.run(["tee", f"/etc/udev/rules.d/{FILE_NAME}"], stdin=text).checked()

    def _put_rule_into_image(self, drives):
        wwids = (
            self.sh(f"cat /sys/block/{self.bench.disk(drive.name).name}/device/wwid").strip()
            for drive in drives
        )
        text = boot_rule(tuple(wwids))
        self.lab.put_into_image({f"{self.initramfs.rules_folder}/{FILE_NAME}": text})
        return text

    def seen_of_the_boot(self):
        """Which image the probe sees this kernel was given, and whether that left the note."""
        script = (
            "from wcache_probe.linux.persistence.images import find_images; "
            "from wcache_probe.linux.persistence.preparation import Preparation; "
            "from wcache_probe.linux.persistence.udev_rule import note_of; "
            "host = Preparation('/', '/var/lib/wcache'); "
            "noted = host.note() == note_of(host.rule_text()) != ''; "
            "print(host.booted(find_images('/')).by.name, noted)"
        )
        return self.sh(f'PYTHONPATH={PACKAGES} python3 -B -c "{script}"').split()

    # off, and a new kernel

    def put_off(self, drive, manner):
        """Have the probe put a drive off, and die."""
        probe = self.probes[drive]
        if manner == "lease":
            done = probe.set_mode(THROUGH)
        else:
            done = probe.apply(manner, BACK, THROUGH, persist=manner == "persist")
        assert done["kind"] == "state", done
        assert probe.mode() is THROUGH
        probe.end()

    def reboot_warm(self):
        """A new kernel, under which the drives kept their power."""
        self.sh("sync")
        if self.initramfs is Initramfs.DRACUT:
            # else it goes on as soon as it has the root, and whether LVM was earlier is luck
            named = tuple(f"rd.lvm.lv={drive.group}/osd" for drive in self.drives)
            self.lab.machine = replace(self.lab.machine, kernel_options=named)
        self.lab.reset()
        self._booted()
        assert {self.probes[drive].mode() for drive in self.drives} == {THROUGH}

    def _booted(self):
        """The volumes come up in their own time, and the boot rule is for what is there."""
        self.sh("modprobe sg")
        for drive in self.drives:
            self.sh(f"until [ -e {drive.device} ]; do sleep 0.2; done")

    def views(self, drive):
        """The kernel's view of the disk, the volume and dm-crypt."""
        paths = [self.bench.disk(drive.name).path, drive.volume]
        paths += [drive.device] if drive.encrypted else []
        names = self.sh(f"for p in {' '.join(paths)}; do basename $(readlink -f $p); done")
        return [kernel_view(self.lab.guest, name) for name in names.split()]

    def loaded_before_the_root(self, drive):
        """Whether the volume was there before systemd of the root file system began."""
        made, root = self.sh(
            f"udevadm info --query=property --property=USEC_INITIALIZED --value {drive.volume}; "
            "systemctl show --value --property=UserspaceTimestampMonotonic"
        ).split()
        return int(made) < int(root)

    def off_unseen(self, drive):
        """As after the boot: off, with the tables that this kernel loaded."""
        self.probes[drive].behind_our_back(THROUGH)

    def lost_when_the_cache_comes_on(self, drive, word):
        """The cache comes on unseen, a write is acknowledged, the power goes: what is lost."""
        self.probes[drive].behind_our_back(BACK)
        self.bench.write_and_sync(drive.device, word)
        before = self.lab.drive(drive.name).counters()
        lost = self.lab.drive(drive.name).power_cut()
        kept = self.bench.on_the_medium(drive.device) == word
        assert (lost == 0) is kept, before
        return lost

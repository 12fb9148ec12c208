"""The volume of each drive, as an OSD has it: the disk, an LV on it, or dm-crypt on that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..disk import Disk
from ..lab import Lab
from ..osds import Stack
from .blocks import BASE_BYTES, BLOCK_BYTES, REGION_BYTES

SECTOR_BYTES = 512
KEY = "/root/powercuts.key"
FORMAT = (
    "cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "
    f"--key-file {KEY}"
)


@dataclass
class Volume:
    """What a drive's writer writes to; the names are the guest's."""

    lab: Lab
    name: str  # of the drive
    stack: Stack = Stack.RAW
    start_bytes: int = 0  # of the volume on the drive
    whole: bool = True

    @property
    def group(self) -> str:
        return f"vg-{self.name}"

    def path(self, disk: Disk) -> str:
        """The device that an OSD opens."""
        if self.stack is Stack.RAW:
            return disk.path
        if self.stack is Stack.LVM:
            return f"/dev/{self.group}/osd"
        return f"/dev/mapper/crypt-{self.name}"

    def become(self, stack: Stack, disk: Disk) -> None:
        """Make another one in its place, all of it on the medium."""
        if stack is self.stack and self.whole:
            return
        self.whole = False  # should what follows fail, it is all made anew
        # what is not there needs no removal
        self.lab.guest.sh(
            f"udevadm settle --timeout=20\n"
            f"cryptsetup close crypt-{self.name} 2>/dev/null || :\n"
            f"vgremove -qq -f {self.group} 2>/dev/null || :\n"
            f"wipefs -qaf {disk.path}\n{_sync(disk.path)}"
        ).checked()
        self.stack, self.start_bytes = stack, 0
        if stack is not Stack.RAW:
            self._make(disk)
        self.whole = True

    def _make(self, disk: Disk) -> None:
        lv = f"/dev/{self.group}/osd"
        script = (
            f"vgcreate -qq -y {self.group} {disk.path}\n"
            f"lvcreate -qq -y -Wn -l 100%FREE -n osd {self.group}\n"
        )
        if self.stack is Stack.LVM_CRYPT:
            script += (
                f"[ -e {KEY} ] || head -c 64 /dev/urandom > {KEY}\n"
                f"{FORMAT} {lv}\n{self.open_script()}"
            )
        script += f"{_sync(lv)}dmsetup table {lv}"
        table = self.lab.guest.sh(script, timeout_s=180).checked().splitlines()[-1].split()
        # start, length, "linear", device, offset: kernel, admin-guide/device-mapper/linear.rst
        assert table[2] == "linear", table
        self.start_bytes = int(table[4]) * SECTOR_BYTES

    def open_script(self) -> str:
        """Shell that activates it where that has not been done."""
        if self.stack is Stack.RAW:
            return ""
        lv, crypt = f"/dev/{self.group}/osd", f"crypt-{self.name}"
        script = f"[ -e {lv} ] || vgchange -qq -ay {self.group}\n"
        if self.stack is Stack.LVM_CRYPT:
            unlock = f"cryptsetup open --key-file {KEY} {lv} {crypt}"
            # on a busy machine the first one runs out of time: the kernel tests its ciphers
            script += f"[ -e /dev/mapper/{crypt} ] || {unlock} 2>/dev/null || {unlock}\n"
        return script

    def close_script(self) -> str:
        """Shell that takes it down; nobody may have it open."""
        if self.stack is Stack.RAW:
            return ""
        script = ""
        if self.stack is Stack.LVM_CRYPT:
            script = f"cryptsetup close crypt-{self.name}\n"
        return script + f"vgchange -qq -an {self.group}\n"

    def read(self, disk: Disk) -> bytes:
        """The region as it is on the medium: from the backing file, or through dm-crypt."""
        if self.stack is not Stack.LVM_CRYPT:
            with self.lab.drive(self.name).backing.open("rb") as backing:
                backing.seek(self.start_bytes + BASE_BYTES)
                return backing.read(REGION_BYTES)
        copy = Path("region")
        # O_DIRECT, or the page cache would tell what was written and not what is there
        self.lab.guest.sh(
            f"dd if={self.path(disk)} of=/share/{copy} bs={REGION_BYTES} count=1 "
            f"skip={BASE_BYTES // REGION_BYTES} iflag=direct status=none"
        ).checked()
        return (self.lab.share / copy).read_bytes()


def _sync(path: str) -> str:
    """Shell that has the drive flush: nobody has synced what LVM's tools wrote last."""
    return f"dd if={path} of={path} bs={BLOCK_BYTES} count=1 conv=notrunc,fdatasync status=none\n"

"""The volume of each drive, as an OSD has it: the disk, an LV on it, or dm-crypt on that."""

from __future__ import annotations

from dataclasses import dataclass

from ..disk import Disk
from ..lab import Lab
from ..osds import Stack
from .blocks import BASE_BYTES, BLOCK_BYTES, REGION_BYTES
from .hand import Hand

SECTOR_BYTES = 512
# a run goes on beside all else that a machine does, at a low priority
PATIENCE_S = 900.0
SETTLE = "udevadm settle --timeout=300\n"
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
    stack: Stack
    start_bytes: int = -1  # of the volume on the drive; less than 0 until it is made

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

    def ensure(self, disk: Disk) -> None:
        """Make it where that was not done, all of it on the medium."""
        if self.start_bytes < 0:
            self.start_bytes = 0 if self.stack is Stack.RAW else self._make(disk)

    def _make(self, disk: Disk) -> int:
        lv = f"/dev/{self.group}/osd"
        script = (
            # should an attempt before this one have failed
            f"[ ! -e {lv} ] || vgremove -qq -f {self.group}\n"
            f"vgcreate -qq -y {self.group} {disk.path}\n"
            f"lvcreate -qq -y -Wn -l 100%FREE -n osd {self.group}\n"
        )
        if self.stack is Stack.LVM_CRYPT:
            # on the medium: after a cut of the machine it is needed again
            script += (
                f"[ -s {KEY} ] || {{ head -c 64 /dev/urandom > {KEY}; sync {KEY}; }}\n"
                f"{FORMAT} {lv}\n{self.open_script()}"
            )
        script += f"{_sync(lv)}sync /etc/lvm\ndmsetup table {lv}"
        table = self.lab.guest.sh(script, timeout_s=PATIENCE_S).checked().splitlines()[-1].split()
        # start, length, "linear", device, offset: kernel, admin-guide/device-mapper/linear.rst
        assert table[2] == "linear", table
        return int(table[4]) * SECTOR_BYTES

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

    def read(self, disk: Disk, hand: Hand) -> bytes:
        """The region as it is on the medium: from the backing file, or through dm-crypt."""
        if self.stack is not Stack.LVM_CRYPT:
            with self.lab.drive(self.name).backing.open("rb") as backing:
                backing.seek(self.start_bytes + BASE_BYTES)
                return backing.read(REGION_BYTES)
        hand.ask("read", device=self.path(disk), to="/share/region")
        return (self.lab.share / "region").read_bytes()


def _sync(path: str) -> str:
    """Shell that has the drive flush: nobody has synced what LVM's tools wrote last."""
    return f"dd if={path} of={path} bs={BLOCK_BYTES} count=1 conv=notrunc,fdatasync status=none\n"

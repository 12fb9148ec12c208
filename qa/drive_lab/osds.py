"""OSDs in the guest: on raw drives, on LVs as ceph-volume makes them, encrypted, or on a bcache.

A drive that serves one OSD in one role is used whole; one that many share is always cut into
LVs.  What caches a block drive is the drive of the file that no OSD is given.  The cluster that
they join runs on the host (`vstart-tests/harness`).
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Mapping, Protocol, Sequence

from wcache.core.model import Role
from wcache_sim.placement import PlacedDrive, osd_roles

from .agent import GuestProcess
from .bcache import Bcache
from .disk import Disk
from .lab import Lab
from .processes import LabError

HOME = Path("/var/lib/wcache-lab")  # in the guest; on its root, so it is there after a reboot
KEY = HOME / "luks.key"
# They end what hangs: a busy machine may take minutes for each of these.
CREATE_TIMEOUT_S = 900.0
START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 300.0
SIDE_BY_SIDE = 3
# Shell that goes on in another root, mounted where that has not been done since the boot.
ENTER_ROOT = """
root=/run/root-of{device}
if ! mountpoint -q "$root"; then
    mkdir -p "$root"
    mount -t ext4 {device} "$root"
    mkdir -p "$root{home}" "$root/etc/ceph"
    for folder in /dev /proc /sys {home} /etc/ceph; do
        mount --rbind "$folder" "$root$folder"
    done
fi
exec chroot "$root" """


class Stack(str, Enum):
    """What lies between an OSD and its drive."""

    RAW = "raw"
    LVM = "lvm"
    LVM_CRYPT = "lvm-crypt"
    BCACHE = "bcache"


class HostSide(Protocol):
    """What the OSDs need of the cluster on the host."""

    folder: Path

    def conf_elsewhere(self, folder: Path, address: str) -> str:
        """Its ceph.conf for daemons in the guest."""

    def command(self, prefix: str, **args: Any) -> Any:
        """Run a mon command and return its JSON."""


@dataclass(frozen=True)
class Volume:
    """One role of one OSD, and where it is."""

    osd_id: int
    role: Role
    drive: PlacedDrive
    share: int  # how many volumes are on that drive

    @property
    def link(self) -> str:
        """The name BlueStore looks for in the OSD's folder."""
        return "block" if self.role is Role.BLOCK else f"block.{self.role.value}"


@dataclass(frozen=True)
class LogicalVolume:
    """An LV of an OSD, and the name of the dm-crypt device on it or nothing."""

    group: str
    path: str
    crypt_name: str

    @property
    def device(self) -> str:
        """What the OSD opens."""
        return f"/dev/mapper/{self.crypt_name}" if self.crypt_name else self.path

    def open_script(self) -> str:
        """Shell that activates and opens it where that has not been done."""
        script = f"[ -e {self.path} ] || vgchange -qq -ay {self.group}\n"
        if self.crypt_name:
            script += (
                f"[ -e {self.device} ] || "
                f"cryptsetup open --key-file {KEY} {self.path} {self.crypt_name}\n"
            )
        return script


class GuestOsds:
    """All OSDs that the drives of a lab make, numbered as `placement.place` does."""

    def __init__(
        self, lab: Lab, cluster: HostSide, *, address: str, stack: Stack = Stack.RAW
    ) -> None:
        self._lab = lab
        self._cluster = cluster
        self._address = address
        self._stack = stack
        self._placed = tuple(fitted.placed for fitted in lab.drives)
        self._roles = osd_roles(self._placed)
        self._lvs: dict[tuple[int, Role], LogicalVolume] = {}
        self._bcache = self._bcache_of_all() if stack is Stack.BCACHE else None
        self._root_device = ""

    @property
    def ids(self) -> Sequence[int]:
        return sorted(self._roles)

    @property
    def bcache(self) -> Bcache:
        """What the one OSD is on; raises LabError where it is on something else."""
        if self._bcache is None:
            raise LabError(f"these OSDs are on {self._stack.value}")
        return self._bcache

    def volumes(self, osd_id: int) -> list[Volume]:
        """The roles of an OSD, block first."""
        by_role: Mapping[Role, PlacedDrive] = self._roles[osd_id]
        return [
            Volume(osd_id, role, by_role[role], len(by_role[role].uses))
            for role in (Role.BLOCK, Role.DB, Role.WAL)
            if role in by_role
        ]

    def create(self) -> None:
        """Make the stores and start all, some side by side: the guest has two processors."""
        guest = self._lab.guest
        conf = self._lab.share / "ceph.conf"
        conf.write_text(self._cluster.conf_elsewhere(HOME, self._address))
        guest.sh(f"mkdir -p {HOME}/log {HOME}/crash /etc/ceph; cp /share/ceph.conf /etc/ceph/")
        uuids = {
            int(osd["osd"]): str(osd["uuid"]) for osd in self._cluster.command("osd dump")["osds"]
        }
        under_way: list[GuestProcess] = []
        for osd_id in self.ids:
            self._prepare(osd_id, uuids[osd_id])
            if len(under_way) == SIDE_BY_SIDE:
                under_way.pop(0).wait(CREATE_TIMEOUT_S).checked()
            script = (
                # without the UUID that `osd new` gave, it never comes up and says nothing
                f"ceph-osd --mkfs --no-mon-config -i {osd_id} --osd-uuid {uuids[osd_id]}\n"
                f"exec ceph-osd -i {osd_id}"
            )
            under_way.append(guest.spawn(["/bin/sh", "-euc", script]))
        for process in under_way:
            process.wait(CREATE_TIMEOUT_S).checked()
        # or a power cut would take the keyrings, which nobody has synced
        guest.run(["sync"]).checked()

    def start(self, osd_id: int) -> None:
        """Open an OSD's volumes and start it; does not wait for what the cluster makes of it."""
        for volume in self.volumes(osd_id):
            lv = self._lvs.get((osd_id, volume.role))
            if lv is not None:
                self._lab.guest.sh(lv.open_script()).checked()
            if self._bcache is not None:
                self._bcache.open()
            device = self._device(volume, lv)
            link = HOME / f"osd.{osd_id}" / volume.link
            self._lab.guest.sh(f"ln -sfn {device} {link}").checked()
        daemon = f"ceph-osd -i {osd_id}"
        if self._root_device:
            daemon = ENTER_ROOT.format(device=self._root_device, home=HOME) + daemon
        self._lab.guest.sh(daemon, timeout_s=START_TIMEOUT_S).checked()

    def start_from(self, device: str) -> None:
        """From now on OSDs are started by the programs of the root on a device of the guest."""
        self._root_device = device

    def stop(self, osd_id: int, *, kill: bool = False) -> None:
        """Stop an OSD's daemon and wait for its end."""
        signal = "KILL" if kill else "TERM"
        script = f"""
            pid=$(cat {HOME}/osd.{osd_id}.pid)
            kill -{signal} $pid
            while [ -e /proc/$pid ]; do sleep 0.1; done
        """
        self._lab.guest.sh(script, timeout_s=STOP_TIMEOUT_S).checked()

    def wait_up(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the cluster calls all of them up."""
        deadline = time.monotonic() + timeout_s
        while True:
            osds = self._cluster.command("osd dump")["osds"]
            down = [osd["osd"] for osd in osds if not osd["up"] and osd["osd"] in self.ids]
            if not down:
                return
            if time.monotonic() > deadline:
                log = self._lab.guest.sh(f"tail -n 5 {HOME}/log/osd.{down[0]}.log").stdout
                raise LabError(f"osd.{down[0]} is not up after {timeout_s:g} s:\n{log}")
            time.sleep(0.2)

    def path(self, osd_id: int, role: Role = Role.BLOCK) -> str:
        """The block device in the guest that an OSD has opened for a role."""
        link = "block" if role is Role.BLOCK else f"block.{role.value}"
        return self._lab.guest.run(
            ["readlink", "-f", f"{HOME}/osd.{osd_id}/{link}"]
        ).checked().strip()

    def _device(self, volume: Volume, lv: LogicalVolume | None) -> str:
        """What an OSD opens; a disk's name may be another one since the guest's last boot."""
        above = lv or self._bcache
        return above.device if above else self._lab.drive(volume.drive.name).disk().path

    # making the stores' places

    def _bcache_of_all(self) -> Bcache:
        caches = [drive.name for drive in self._placed if not drive.uses]
        backing = [drive.name for drive in self._placed if drive.uses]
        if len(caches) != 1 or len(backing) != 1:
            raise LabError("a bcache takes one block drive, and one that no OSD is given")
        return Bcache(self._lab, backing[0], caches[0])

    def _prepare(self, osd_id: int, osd_uuid: str) -> None:
        folder = HOME / f"osd.{osd_id}"
        keyring = self._lab.share / f"osd.{osd_id}.keyring"
        keyring.write_text((self._cluster.folder / f"osd.{osd_id}" / "keyring").read_text())
        block = self._roles[osd_id][Role.BLOCK]
        self._lab.guest.sh(
            f"mkdir -p {folder}; mv /share/osd.{osd_id}.keyring {folder}/keyring; "
            # the OSD would tell hdd from ssd by itself, but not nvme (as ceph-volume does)
            f"echo {block.device_class} > {folder}/crush_device_class"
        ).checked()
        for volume in self.volumes(osd_id):
            lv = None
            if self._bcache is not None:
                self._bcache.make()
            elif self._stack is not Stack.RAW or volume.share > 1:
                disk = self._lab.drive(volume.drive.name).disk()
                lv = self._lvs[osd_id, volume.role] = self._make_lv(volume, disk, osd_uuid)
            device = self._device(volume, lv)
            self._lab.guest.sh(f"ln -sfn {device} {folder}/{volume.link}").checked()

    def _make_lv(self, volume: Volume, disk: Disk, osd_uuid: str) -> LogicalVolume:
        """Make an LV as ceph-volume does: names, tags and, if asked for, dm-crypt on top."""
        guest = self._lab.guest
        # ceph-volume uses random names; these are found again by the drive's serial
        group = f"ceph-{uuid.uuid5(uuid.NAMESPACE_OID, volume.drive.serial)}"
        name = f"osd-{volume.role.value}-{osd_uuid}"
        number = [use[0] for use in volume.drive.uses].index(volume.osd_id) + 1
        guest.sh(f"vgs {group} >/dev/null 2>&1 || vgcreate -qq -y {group} {disk.path}").checked()
        # equal shares: of what is left, the last one takes all
        extents = f"{100 // (volume.share - number + 1)}%FREE"
        guest.sh(f"lvcreate -qq -y -Wn -l {extents} -n {name} {group}").checked()
        shown = guest.run(["lvs", "--noheadings", "-o", "lv_uuid", f"{group}/{name}"])
        lv_uuid = shown.checked().strip()
        encrypted = self._stack is Stack.LVM_CRYPT
        lv = LogicalVolume(group, f"/dev/{group}/{name}", lv_uuid if encrypted else "")
        tags = {
            "ceph.type": volume.role.value,
            "ceph.osd_id": str(volume.osd_id),
            "ceph.osd_fsid": osd_uuid,
            "ceph.cluster_name": "ceph",
            f"ceph.{volume.role.value}_device": lv.path,
            f"ceph.{volume.role.value}_uuid": lv_uuid,
            "ceph.encrypted": "1" if encrypted else "0",
        }
        words = [word for key, value in tags.items() for word in ("--addtag", f"{key}={value}")]
        guest.run(["lvchange", "-qq", *words, f"{group}/{name}"]).checked()
        if encrypted:
            guest.sh(
                f"[ -e {KEY} ] || head -c 64 /dev/urandom | base64 -w0 > {KEY}\n"
                # the key is random already: stretching it would take this guest minutes
                "cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 "
                f"--pbkdf-force-iterations 1000 --key-file {KEY} {lv.path}\n" + lv.open_script(),
            ).checked()
        return lv

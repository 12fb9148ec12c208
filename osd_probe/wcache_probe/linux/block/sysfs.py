"""Block devices as sysfs describes them, by themselves or in the stack they are part of.

Device mapper copies the kernel view when its table is loaded, so a drive's state is
the state of every layer above it: downwards finds the drives of a role, upwards finds
every layer of a drive, also those that no OSD uses.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Callable, Dict, Iterator, List, Optional, Tuple

from wcache.core.errors import NotFoundError
from wcache.core.hardware import FlushCounters
from wcache.core.model import KernelView, Layer, LayerKind

from ...safe_files import failure
from .host_files import HostFiles, entries, printable, read_device_number, read_number, read_text


@dataclass
class Held:
    """The open nodes of one coming of a disk: its own, and that of its controller.

    `there` says whether the disk is still the one whose sysfs folder is held open.
    """

    name: str
    there: Callable[[], bool]
    _open: Dict[str, int] = field(default_factory=dict)

    def descriptor(self, key: str, opener: Callable[[], int]) -> int:
        """A duplicate of the descriptor `key`, opened at the first call; the caller closes it.

        Raises NotFoundError where the disk went away while its node was opened: the name
        may have led to another one.
        """
        if key not in self._open:
            fd = opener()
            if not self.there():
                os.close(fd)
                raise NotFoundError(
                    f"{self.name} is no longer the disk it was",
                    "look again: drives were added or removed",
                )
            self._open[key] = fd
        return os.dup(self._open[key])

    def close(self) -> None:
        """Close all of them."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()


SECTOR_BYTES = 512  # sysfs counts in these whatever the drive's own sectors are

_NVME_HEAD = re.compile(r"nvme([0-9]+)n([0-9]+)")
_DM_KINDS = (
    ("LVM-", LayerKind.LVM),
    ("CRYPT-", LayerKind.CRYPT),
    ("mpath-", LayerKind.MULTIPATH),
)


@dataclass(frozen=True)
class BlockDevice:
    """A block device: its kernel name ("sda1"), its number ("8:1") and its sysfs folder.

    One that is `held` is one coming of a disk: see `hold`.
    """

    files: HostFiles
    name: str
    number: str
    folder: str
    held: Optional[Held] = field(default=None, compare=False)

    @property
    def is_partition(self) -> bool:
        """Whether it is a part of another device (which owns the queue)."""
        return os.path.exists(os.path.join(self.folder, "partition"))

    @property
    def disk_folder(self) -> str:
        """The sysfs folder that has the queue: its own, or that of the partitioned device."""
        return os.path.dirname(self.folder) if self.is_partition else self.folder

    @property
    def kind(self) -> LayerKind:
        """What kind of layer it is, UNKNOWN where nothing says so."""
        if self.is_partition:
            return LayerKind.PARTITION
        if os.path.isdir(os.path.join(self.folder, "dm")):
            uuid = read_text(os.path.join(self.folder, "dm", "uuid")) or ""
            # kpartx makes "part1-mpath-...": a linear target over the multipath device
            return next((k for prefix, k in _DM_KINDS if uuid.startswith(prefix)), LayerKind.DM)
        if os.path.isdir(os.path.join(self.folder, "md")):
            return LayerKind.MD
        # its members have a folder of that name too (drivers/md/bcache/super.c)
        if self.name.startswith("bcache"):
            return LayerKind.BCACHE
        if self.name.startswith("loop"):
            return LayerKind.LOOP
        if os.path.isdir(os.path.join(self.folder, "device")):
            return LayerKind.DISK
        return LayerKind.UNKNOWN

    @property
    def dm_name(self) -> str:
        """What device mapper calls it; empty where it is none of its devices."""
        return read_text(os.path.join(self.folder, "dm", "name")) or ""

    @property
    def kernel_view(self) -> KernelView:
        """Whether the kernel sends flushes to it, UNKNOWN where the file says neither."""
        text = read_text(os.path.join(self.disk_folder, "queue", "write_cache"))
        try:
            return KernelView(text)
        except ValueError:
            return KernelView.UNKNOWN

    @property
    def fua(self) -> Optional[bool]:
        """Whether the kernel sends writes with FUA; None where it does not say."""
        value = read_number(os.path.join(self.disk_folder, "queue", "fua"))
        return None if value is None else value == 1

    @property
    def rotational(self) -> Optional[bool]:
        """Whether the kernel takes it for a rotating drive."""
        value = read_number(os.path.join(self.disk_folder, "queue", "rotational"))
        return None if value is None else value == 1

    @property
    def size_bytes(self) -> int:
        """Its size; 0 where it is not known."""
        sectors = read_number(os.path.join(self.folder, "size"))
        return max(0, sectors or 0) * SECTOR_BYTES

    @property
    def wwid(self) -> str:
        """The name by which a udev rule can match the drive; empty where it has none."""
        for place in ("wwid", os.path.join("device", "wwid")):
            text = read_text(os.path.join(self.folder, place))
            if text:
                return text
        return ""

    def counters(self, at_ns: int) -> Optional[FlushCounters]:
        """Writes and flushes so far; None on kernels that do not count them.

        Fields 5, 16 and 17 of `stat` (Documentation/block/stat.rst), since kernel 5.5.
        A flush with no data is counted as a write of no sectors too.  They are the sum over
        all paths: flushes are counted at the disk that carries them out (block/blk-flush.c,
        blk_account_io_flush), which of an NVMe namespace with native multipath are hidden ones.
        """
        sums = [0, 0, 0]
        folders = self.hidden_paths()
        for folder in (self.folder,) if folders is None else folders:
            fields = (read_text(os.path.join(folder, "stat")) or "").split()
            if len(fields) < 17 or not all(field.isdigit() for field in fields[:17]):
                return None
            sums = [total + int(fields[at]) for total, at in zip(sums, (4, 15, 16))]
        paths = 1 if folders is None else len(folders)
        return FlushCounters(at_ns, sums[0], sums[1], sums[2], paths) if paths else None

    def hidden_paths(self) -> Optional[Tuple[str, ...]]:
        """The folders of the hidden disks below a namespace with native multipath, or None.

        Its parent is the subsystem, which links to its controllers; `nvmeXcYnZ` in the folder
        of a controller is its path to `nvmeXnZ` (drivers/nvme/host/core.c, nvme_alloc_ns).  Y is
        its instance, and its cntlid on kernels whose nvme_set_disk_name() still took that.
        """
        head = _NVME_HEAD.fullmatch(self.name)
        parent = os.path.realpath(os.path.join(self.folder, "device"))
        if head is None or not os.path.basename(parent).startswith("nvme-subsys"):
            return None
        path = re.compile("nvme{}c[0-9]+n{}".format(*head.groups()))
        return tuple(
            os.path.join(parent, controller, name) for controller in self.controllers()
            for name in entries(os.path.join(parent, controller)) if path.fullmatch(name)
        )

    def controllers(self) -> Tuple[str, ...]:
        """The controllers that the subsystem of an NVMe namespace links to."""
        found = entries(os.path.join(self.folder, "device"))
        return tuple(name for name in found if re.fullmatch("nvme[0-9]+", name))

    def below(self) -> Tuple[BlockDevice, ...]:
        """The devices it stands on: the partitioned disk, or its slaves."""
        if self.is_partition:
            parent = device_at(self.files, os.path.dirname(self.folder))
            return (parent,) if parent else ()
        return self._linked("slaves")

    def above(self) -> Tuple[BlockDevice, ...]:
        """The devices that stand on it: its partitions, and its holders."""
        found: List[BlockDevice] = []
        if not self.is_partition:
            for name in entries(self.folder):
                child = os.path.join(self.folder, name)
                if os.path.exists(os.path.join(child, "partition")):
                    device = device_at(self.files, child)
                    found += [device] if device else []
        return tuple(found) + self._linked("holders")

    def _linked(self, folder: str) -> Tuple[BlockDevice, ...]:
        links = os.path.join(self.folder, folder)
        found = (device_at(self.files, os.path.join(links, name)) for name in entries(links))
        return tuple(device for device in found if device)

    def open(self) -> int:
        """A read-only descriptor that was proven to be this device; the caller closes it."""
        if self.held is not None:
            return self.held.descriptor(self.number, self._open)
        return self._open()

    def _open(self) -> int:
        return self.files.open_device(self.name, self.number)


@contextmanager
def hold(device: BlockDevice) -> Iterator[BlockDevice]:
    """The same disk, opened once: what is found out about it is true of what is done to it.

    Every command goes down one descriptor, and every attribute is reached through the
    open sysfs folder; neither survives the disk, whatever takes its name or its number.
    That both are of one disk is sure, since the folder is still there, with this number,
    after the node was opened.  Raises NotFoundError where the disk has gone.
    """
    with failure(f"{device.name} has gone", kind=NotFoundError):
        folder = os.open(device.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    anchored = f"/proc/self/fd/{folder}"

    def there() -> bool:
        return read_device_number(os.path.join(anchored, "dev")) == device.number

    held = Held(device.name, there)
    try:
        kept = replace(device, folder=anchored, held=held)
        os.close(kept.open())
        yield kept
    finally:
        held.close()
        os.close(folder)


def device_at(files: HostFiles, folder: str) -> Optional[BlockDevice]:
    """The block device of a sysfs folder (links are followed); None where it is none."""
    real = os.path.realpath(folder)
    number = read_device_number(os.path.join(real, "dev"))
    # sysfs writes the slash of names such as cciss/c0d0 as an exclamation mark
    name = os.path.basename(real).replace("!", "/")
    return BlockDevice(files, name, number, real) if number else None


def by_number(files: HostFiles, number: str) -> Optional[BlockDevice]:
    """The block device with a number; None where there is none."""
    return device_at(files, os.path.join(files.sys, "dev", "block", number))


def by_path(files: HostFiles, path: str) -> BlockDevice:
    """The block device that a path leads to; raises NotFoundError."""
    number = files.number_of_path(path)
    device = by_number(files, number) if number else None
    if device is None:
        raise NotFoundError(
            f"{printable(path)} is no block device",
            "give a drive, a partition, a volume or an array; `lsblk` shows them",
        )
    return device


def by_name(files: HostFiles, name: str) -> BlockDevice:
    """The block device with a kernel name, partitions too; raises NotFoundError."""
    safe = name.replace("/", "!")
    device = None
    if safe not in ("", ".", ".."):
        device = device_at(files, os.path.join(files.sys, "class", "block", safe))
    if device is None:
        raise NotFoundError(f"there is no block device {name!r} any more")
    return device


def all_disks(files: HostFiles) -> Tuple[BlockDevice, ...]:
    """Every device of /sys/block: disks and what is stacked on them, no partitions."""
    folder = os.path.join(files.sys, "block")
    found = (device_at(files, os.path.join(folder, name)) for name in entries(folder))
    return tuple(device for device in found if device)


DEPTH_MAX = 16
DEVICES_MAX = 1024


@dataclass(frozen=True)
class Path:
    """One way from a device down to a drive: `devices` start at the top, end at the drive."""

    devices: Tuple[BlockDevice, ...]

    @property
    def drive(self) -> BlockDevice:
        """The device at the bottom."""
        return self.devices[-1]

    @property
    def layers(self) -> Tuple[Layer, ...]:
        """Every device of the path with what the kernel believes of it, top first."""
        return tuple(layer_of(device) for device in self.devices)


def layer_of(device: BlockDevice) -> Layer:
    """A device as a layer, read now."""
    return Layer(device.name, device.kind, device.kernel_view, device.fua)


def paths_down(top: BlockDevice) -> Tuple[Path, ...]:
    """Every way from a device to the drives below it (several below md or multipath)."""
    return tuple(Path(devices) for devices in _down((top,)))


def _down(so_far: Tuple[BlockDevice, ...]) -> Iterator[Tuple[BlockDevice, ...]]:
    below = so_far[-1].below()
    if not below or len(so_far) >= DEPTH_MAX:
        yield so_far
        return
    for device in below:
        if device not in so_far:
            yield from _down((*so_far, device))


def standing_on(drive: BlockDevice) -> Tuple[BlockDevice, ...]:
    """Every device above a drive, nearest first, without the drive itself."""
    found: Dict[str, BlockDevice] = {}
    queue: List[BlockDevice] = [drive]
    while queue and len(found) < DEVICES_MAX:
        for device in queue.pop(0).above():
            if device.number not in found and device.number != drive.number:
                found[device.number] = device
                queue.append(device)
    return tuple(found.values())


def queues_on(drive: BlockDevice) -> Tuple[Layer, ...]:
    """The layers of a drive that have a queue of their own beside its own (partitions share one).

    Those above it, and the hidden paths of an NVMe namespace: its head hands a bio down to one
    (drivers/nvme/host/multipath.c, nvme_ns_head_submit_bio()), and what hands it on drops its
    flush where the view of that path is write through (block/blk-core.c, submit_bio_noacct()).
    Each can be written by itself (block/blk-sysfs.c, queue_wc_store()).  Where controllers are
    there and none of their paths is found, the view of one is unknown.
    """
    folders = drive.hidden_paths()
    paths = (
        replace(drive, name=os.path.basename(folder), number="", folder=folder, held=None)
        for folder in folders or ()
    )
    unseen = folders == () and drive.controllers()
    name = "c*n".join(drive.name.rsplit("n", 1))
    return (
        *(Layer(path.name, LayerKind.DISK, path.kernel_view, path.fua) for path in paths),
        *((Layer(name, LayerKind.DISK, KernelView.UNKNOWN),) if unseen else ()),
        *(layer_of(device) for device in standing_on(drive) if not device.is_partition),
    )


def is_followed(path: Path) -> bool:
    """Whether every layer of a path is of a kind whose flushes are understood.

    The bottom must be a disk or a loop device: a stack that ends in a device mapper
    target without slaves, or in a kind without a name here, is not a path to a drive.
    """
    middle_known = all(
        device.kind is not LayerKind.UNKNOWN for device in path.devices[:-1]
    )
    return middle_known and path.drive.kind in (LayerKind.DISK, LayerKind.LOOP)

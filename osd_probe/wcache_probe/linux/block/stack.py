"""The path from an OSD's device down to its drives, and everything that stands on a drive.

Device mapper copies the kernel view when its table is loaded, so a drive's state is
the state of every layer above it: downwards finds the drives of a role, upwards finds
every layer of a drive, also those that no OSD uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterator, List, Tuple

from wcache.core.model import Layer, LayerKind

from .sysfs import BlockDevice

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
    """The layers above a drive that have a queue of their own (partitions share one)."""
    return tuple(
        layer_of(device) for device in standing_on(drive) if not device.is_partition
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

"""Which transport a drive is: drive protocol x host driver, as sysfs tells them."""

from __future__ import annotations

from dataclasses import dataclass, field

from wcache.core.model import LayerKind

from ..block.sysfs import BlockDevice
from .base import ReadOnlySwitch, Switch
from .loop import LoopSwitch


@dataclass(frozen=True)
class Switches:
    """One switch of each transport, shared by all drives of the host."""

    loop: Switch = field(default_factory=LoopSwitch)
    unknown: Switch = field(default_factory=ReadOnlySwitch)

    def of(self, device: BlockDevice) -> Switch:
        """The switch of a drive; the read-only one where nothing fits."""
        if device.kind is LayerKind.LOOP:
            return self.loop
        return self.unknown

"""`wcache-probe run` where loop devices tell a drive model: they have none of their own.

`python3 -m rollouts.named_loops MODELS run ...`: MODELS is a JSON file of models by the inode of
the backing file.  It is read at each look, so it can grow with the cluster.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Optional

from wcache.core.model import DriveModel
from wcache_probe.linux.block.sysfs import BlockDevice
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.transports.base import DriveIdentity
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.loop import LoopSwitch
from wcache_probe.main import Drives, linux_host, main


class NamedLoops(LoopSwitch):
    """Transport `loop` with drive models."""

    def __init__(self, models: Path) -> None:
        self._models = models

    def identify(self, device: BlockDevice) -> DriveIdentity:
        """As a loop device, of the model that the file has for it."""
        found = super().identify(device)
        models = json.loads(self._models.read_text(encoding="utf-8"))
        name = models.get(found.drive_id.rpartition(":")[2])
        return replace(found, drive_model=DriveModel("ACME", name, "1.0")) if name else found


def _main() -> int:
    loops = NamedLoops(Path(sys.argv[1]))

    def make_host(options: argparse.Namespace, fsid: Optional[str]) -> LinuxDriveHost:
        return linux_host(options, fsid, Switches(loop=loops))

    return main(sys.argv[2:], drives=Drives(make_host))


if __name__ == "__main__":
    sys.exit(_main())

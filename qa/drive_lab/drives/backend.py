"""What an nbdkit process is told of its drive, and the drive it makes of that."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from wcache_sim.drive_schema import load_drive_file
from wcache_sim.physics import SimulatedDrive

from .counters import CounterFile
from .medium import Medium
from .modelled_drive import ModelledDrive

# what a drive of today has, give or take; full, it destages the oldest blocks
CACHE_BYTES = 64 << 20


@dataclass(frozen=True)
class BackendSpec:
    """Plain data, because it crosses into another process as JSON."""

    drive_file: str
    model_name: str
    index: int
    seed: int
    backing: str
    counters: str
    outlives_parent: bool = False

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(path: Path) -> BackendSpec:
        return BackendSpec(**json.loads(path.read_text()))


def open_drive(spec: BackendSpec) -> ModelledDrive:
    """Open backing file and counters of a drive, and give it the physics of its model."""
    model = load_drive_file(spec.drive_file).drive(spec.model_name)
    return ModelledDrive(
        medium=Medium(Path(spec.backing), model.size_bytes, CACHE_BYTES),
        physics=SimulatedDrive(model, spec.seed, spec.index, as_backend=True),
        publish=CounterFile(Path(spec.counters)).publish,
        flush_lies=model.cache.ignores_flushes,
        protected=model.cache.power_loss_protection,
    )

"""The module's options about memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from .knob import TARGET_BYTES_MIN


@dataclass(frozen=True)
class MemoryOptions:
    """Each field says what it is for, and its lowest and highest value."""

    memory_floor: int = field(default=2 * 1024**3, metadata={"option": (
        "Least bytes of osd_memory_target that an OSD gets.", TARGET_BYTES_MIN, 2**45)})
    memory_ceiling: int = field(default=16 * 1024**3, metadata={"option": (
        "Most bytes of osd_memory_target that an OSD gets.", TARGET_BYTES_MIN, 2**45)})
    memory_budget: int = field(default=0, metadata={"option": (
        "Bytes that the OSDs of a host may have together; 0: all that the host can give.",
        0, 2**50)})
    memory_headroom: float = field(default=0.2, metadata={"option": (
        "Share of a host's memory that is given to nobody.", 0.05, 0.9)})
    memory_step_s: float = field(default=60.0, metadata={"option": (
        "Seconds between two steps of 5% by which osd_memory_target goes down.", 1.0, 3600.0)})

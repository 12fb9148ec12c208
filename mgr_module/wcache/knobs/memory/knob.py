"""osd_memory_target as a knob."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.model import FindingCode
from ..knob import Knob

TARGET = "osd_memory_target"
AUTOTUNE = "osd_memory_target_autotune"
ADVICE = (
    (
        FindingCode.MEMORY_OVERCOMMIT,
        "host{s} {gives its|give their} OSDs more memory than {it has|they have}",
        "see `ceph wcache memory status`; `ceph wcache memory recommend` says who can do with "
        "less, and `ceph wcache plan --knob=memory` sets it",
    ),
    (
        FindingCode.MEMORY_OVER_TARGET,
        "OSD{s} {uses|use} more memory than the target",
        "a lower target shrinks only caches: `ceph tell osd.N dump_mempools` shows the rest "
        "(osd_pglog: see osd_max_pg_log_entries and the PGs of the OSD; osdmap: clean PGs let old "
        "maps go); memory that tcmalloc holds: `ceph tell osd.N heap release`",
    ),
    (
        FindingCode.MEMORY_NOT_TUNABLE,
        "host{s} {has|have} OSDs whose osd_memory_target cannot be set while they run",
        "nothing is wrong if that is how you want it; else do what the line of the host says",
    ),
    (
        FindingCode.MEMORY_STALE,
        "host{s} {has|have} memory targets that no longer fit, or did not bring the expected gain",
        "divide anew: `ceph wcache memory recommend` and `ceph wcache plan --knob=memory`; or go "
        "back with `ceph wcache rollback` and the plan that is named",
    ),
)

# Ceph's own minimum of the option (src/common/options/global.yaml.in) and its default.
TARGET_BYTES_MIN = 896 * 2**20
TARGET_BYTES_DEFAULT = 4 * 2**30
# Shares are handed out in such steps (osd_memory_cache_resize..., PriorityCache's chunks).
STEP_BYTES = 64 * 2**20
# A step down of more can stall an OSD on the eviction of onodes (tracker 65792).
STEP_SHARE = 0.05


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

    @property
    def least_target_bytes(self) -> int:
        """The floor, never under Ceph's own minimum."""
        return max(TARGET_BYTES_MIN, self.memory_floor)


MEMORY = Knob("memory", (TARGET, AUTOTUNE), ADVICE)

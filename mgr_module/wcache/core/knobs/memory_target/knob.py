"""osd_memory_target as a knob."""

from __future__ import annotations

from ...model import FindingCode
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
MEMORY = Knob("memory", "how much memory an OSD may use", (TARGET, AUTOTUNE), ADVICE)

# Ceph's own minimum of the option (src/common/options/global.yaml.in) and its default.
TARGET_BYTES_MIN = 896 * 2**20
TARGET_BYTES_DEFAULT = 4 * 2**30
# Shares are handed out in such steps (osd_memory_cache_resize..., PriorityCache's chunks).
STEP_BYTES = 64 * 2**20
# A step down of more can stall an OSD on the eviction of onodes (tracker 65792).
STEP_SHARE = 0.05

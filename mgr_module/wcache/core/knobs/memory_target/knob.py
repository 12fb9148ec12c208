"""osd_memory_target as a knob."""

from __future__ import annotations

from ..knob import Knob

TARGET = "osd_memory_target"
AUTOTUNE = "osd_memory_target_autotune"
MEMORY = Knob("memory", "how much memory an OSD may use", (TARGET, AUTOTUNE))

# Ceph's own minimum of the option (src/common/options/global.yaml.in) and its default.
TARGET_BYTES_MIN = 896 * 2**20
TARGET_BYTES_DEFAULT = 4 * 2**30
# Shares are handed out in such steps (osd_memory_cache_resize..., PriorityCache's chunks).
STEP_BYTES = 64 * 2**20

"""mClock's capacity as a knob."""

from __future__ import annotations

from ...model import FindingCode
from ..knob import Knob
from .config import NAMES

ADVICE = (
    (
        FindingCode.MCLOCK_STALE,
        "value{s} of osd_mclock_max_capacity_iops_* {does|do} not fit the cache mode the drives "
        "are in",
        "measure again and set it: `ceph wcache mclock measure`, `recommend` and `apply`",
    ),
)
MCLOCK = Knob("mclock", "the capacity that mClock shares out", NAMES, ADVICE)

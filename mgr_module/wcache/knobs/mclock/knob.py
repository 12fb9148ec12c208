"""mClock's capacity as a knob."""

from __future__ import annotations

from ...core.model import FindingCode
from ..knob import Knob
from .config import NAMES

ADVICE = (
    (
        FindingCode.MCLOCK_STALE,
        "value{s} of osd_mclock_max_capacity_iops_* {does|do} not fit the cache mode the drives "
        "are in",
        "measure again and set it: `ceph wcache campaign start --loads=capacity`, then `ceph "
        "wcache plan --knob=mclock`",
    ),
)
# Capacities are measured anew after a change of the cache mode, so they have a plan of their own.
MCLOCK = Knob(
    "mclock", "the capacity that mClock shares out", NAMES, ADVICE, together=False,
)

"""All knobs there are: a new one is a folder beside this file with its lines here.

A `Knob` of a folder says what the knob is, and has what of it runs in a mgr.  Everybody else
loops over what stands here, and names no knob.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Tuple

from ..core.fleet import findings
from ..core.model import Finding, FindingCode
from .cache_mode.plan import CACHE_MODE
from .knob import Knob
from .mclock.capacity import MCLOCK
from .memory.reading import MEMORY, MemoryOptions
from .options.osds import OPTIONS_KNOB

KNOBS: Tuple[Knob, ...] = (
    CACHE_MODE,
    MCLOCK,
    MEMORY,
    OPTIONS_KNOB,
)
DEFAULT = KNOBS[0]
# Those that `plan --knob=all` puts into one plan, one after the other.
TOGETHER = tuple(knob for knob in KNOBS if knob.together)
ALL = "all"

# What is wrong, for `ceph health`, and what to do, for each code of the core and of the knobs.
ADVICE: Dict[FindingCode, Tuple[str, str]] = {
    **findings.ADVICE,
    **{code: (summary, todo) for knob in KNOBS for code, summary, todo in knob.advice},
}


def advice_on(item: Finding) -> str:
    """Say what to do about a finding."""
    return findings.advice_on(item, ADVICE)


@dataclass(frozen=True)
class KnobOptions(MemoryOptions):
    """The module's options that are about one knob, each a base of its own."""

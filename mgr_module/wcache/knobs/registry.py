"""All knobs there are: a new one is a folder beside this file, and its line in `KNOBS`.

`knob.py` of a folder says what the knob is, as a value `KNOB`; `mgr/room.py` what of it runs in
a mgr (`rooms.py`).  Everybody else loops over what stands here, and names no knob.
"""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Dict, Tuple

from ..core.fleet import findings
from ..core.model import Finding, FindingCode
from .knob import Knob


def _knob(folder: str) -> Knob:
    found: Knob = import_module(f"{__package__}.{folder}.knob").KNOB
    return found


KNOBS: Tuple[Knob, ...] = (
    _knob("cache_mode"),
    _knob("mclock"),
    _knob("memory"),
    _knob("options"),
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


if TYPE_CHECKING:
    @dataclass(frozen=True)
    class KnobOptions:
        """The module's options that are about one knob; its folder has them."""
else:
    KnobOptions = make_dataclass(
        "KnobOptions", (), frozen=True,
        bases=tuple(knob.module_options for knob in KNOBS if knob.module_options is not None),
    )

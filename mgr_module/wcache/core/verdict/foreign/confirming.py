"""An experiment that need only confirm: fewer drives, fewer pairs, the loads that decided.

What is confirmed is a verdict of another cluster, or of this one where a drive is new.  The
statistics are those of any experiment: its own pairs decide, and the prior adds nothing to
them.  A prior only chooses what is measured first, and how much of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, FrozenSet, List, Mapping, Sequence, Tuple

from ...experiment.design import design_of
from ...experiment.run_state import RunSpec
from ...model import LoadPoint
from ..recommend import Recommendation
from .document import ForeignVerdict

# At 12 pairs the 99% interval is 1.4 sd of a pair difference to either side: a clear case.
PAIRS = 12
DRIVES_PER_MODEL = 2  # a verdict on drives of several hosts needs the word of two

Key = Tuple[str, str]
"""Device class and drive model."""

Priors = Mapping[Key, FrozenSet[LoadPoint]]
"""What there is to confirm: the loads at which it was decided."""


def priors(
    own: Sequence[Recommendation], foreign: Sequence[ForeignVerdict]
) -> Dict[Key, FrozenSet[LoadPoint]]:
    """Every verdict that can be confirmed; one of this cluster goes before a foreign one."""
    found: Dict[Key, FrozenSet[LoadPoint]] = {}
    for verdict in sorted(foreign, key=lambda item: item.measured_at_s):
        if verdict.verdict.decided:
            found[verdict.key] = frozenset(
                load.load_point for load in verdict.loads if load.verdict is verdict.verdict
            )
    for item in own:
        if item.verdict.decided:
            found[(item.device_class, str(item.drive_model))] = frozenset(
                load.load_point for load in item.loads if load.verdict is item.verdict
            )
    return {key: loads for key, loads in found.items() if loads}


def shortened(runs: Sequence[RunSpec], known: Priors) -> Tuple[RunSpec, ...]:
    """The runs, those of a drive model that has a prior cut to what confirms it."""
    taken: Dict[Key, int] = {}
    kept: List[RunSpec] = []
    for run in runs:
        first = run.experiments[0]
        key = (first.device_class, str(first.drive_model))
        loads = known.get(key)
        if loads is None or design_of(first).crosses:
            kept.append(run)
            continue
        taken[key] = taken.get(key, 0) + 1
        if taken[key] > DRIVES_PER_MODEL:
            continue
        experiments = tuple(
            replace(setup, pairs_max=min(setup.pairs_max, PAIRS))
            for setup in run.experiments if setup.load_point in loads
        )
        # what was decided elsewhere cannot be measured on this drive: then all of it
        kept.append(replace(run, experiments=experiments) if experiments else run)
    return tuple(kept)

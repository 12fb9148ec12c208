"""The cheapest measurement that can answer: what `try` picks out of a campaign's runs.

The clients' own traffic costs nothing and is the true load, so it is taken where there is
enough of it; one write at a time is taken elsewhere.  Never both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import FrozenSet, Sequence, Tuple

from ..model import LoadPoint
from ..simulation import measured_by_probe
from .campaign import CampaignOptions
from .run_state import RunSpec

LOADS = "traffic,depth1"
# Two, since the reports of one host are one host's word; and no more, since it is a try.
DRIVES_PER_MODEL = 2
# Drive seconds of an experiment: a clear case takes a fraction of that.
SECONDS_MAX = 60.0
# A period has to have the commits that count as a measurement with something to spare.
SPARE = 2.0


@dataclass(frozen=True)
class TrySample:
    """Which OSDs have traffic enough to be measured by."""

    busy_osds: FrozenSet[int]


def enough_traffic(commits_per_s: float, period_s: float, commits_min: int) -> bool:
    """Whether an OSD commits so often that its own traffic can be measured."""
    return commits_per_s * period_s >= SPARE * commits_min


def cheapest(
    runs: Sequence[RunSpec], options: CampaignOptions, sample: TrySample
) -> Tuple[Tuple[RunSpec, ...], CampaignOptions]:
    """Of each run the experiments at its OSD's cheapest load; runs without one are left out.

    Simulated OSDs have no clients that a mgr would know of.
    """
    kept = []
    for run in runs:
        experiments = tuple(
            setup for setup in run.experiments
            if setup.load_point is (
                LoadPoint.OSD_TRAFFIC
                if setup.osd_id in sample.busy_osds and not measured_by_probe(run)
                else LoadPoint.OSD_BENCH_DEPTH1
            )
        )
        if experiments:
            seconds_max = min(run.seconds_max, SECONDS_MAX)
            kept.append(replace(run, experiments=experiments, seconds_max=seconds_max))
    loads = tuple(
        load for load in options.loads
        if any(setup.load_point is load for run in kept for setup in run.experiments)
    )
    return tuple(kept), replace(
        options, loads=loads, seconds_max=min(options.seconds_max, SECONDS_MAX)
    )

"""The cheapest measurement that can answer: what `try` picks out of a campaign's runs.

The clients' own traffic costs nothing and is the true load, so it is taken where there is
enough of it; one write at a time is taken elsewhere.  Never both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import FrozenSet, Iterable, Mapping, Sequence, Tuple

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
    """How often OSDs commit, in a second, and how often is enough to be measured by."""

    commits_per_s: Mapping[int, float]
    enough_per_s: float

    def is_busy(self, osd_ids: Iterable[int]) -> bool:
        """Whether these OSDs of one cache domain commit so often between them."""
        return sum(self.commits_per_s.get(one, 0.0) for one in osd_ids) >= self.enough_per_s

    @property
    def busy_osds(self) -> FrozenSet[int]:
        """The OSDs that do so each by itself."""
        return frozenset(one for one in self.commits_per_s if self.is_busy([one]))


def enough_traffic_per_s(period_s: float, commits_min: int) -> float:
    """How often OSDs must commit, in a second, so that their own traffic can be measured."""
    return SPARE * commits_min / period_s


def cheapest(
    runs: Sequence[RunSpec], options: CampaignOptions, sample: TrySample
) -> Tuple[Tuple[RunSpec, ...], CampaignOptions]:
    """Of each run the experiments at its OSDs' cheapest load; runs without one are left out.

    Simulated OSDs have no clients that a mgr would know of.
    """
    kept = []
    for run in runs:
        experiments = tuple(
            setup for setup in run.experiments
            if setup.load_point is (
                LoadPoint.OSD_TRAFFIC
                if sample.is_busy((setup.osd_id, *run.beside)) and not measured_by_probe(run)
                else LoadPoint.OSD_BENCH_DEPTH1
            )
        )
        if experiments:
            seconds_max = min(run.seconds_max, SECONDS_MAX)
            kept.append(
                replace(run, experiments=experiments, seconds_max=seconds_max, trial=True)
            )
    loads = tuple(
        load for load in options.loads
        if any(setup.load_point is load for run in kept for setup in run.experiments)
    )
    return tuple(kept), replace(
        options, loads=loads, seconds_max=min(options.seconds_max, SECONDS_MAX)
    )

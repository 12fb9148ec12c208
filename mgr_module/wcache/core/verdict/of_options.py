"""What experiments with two values of an option say of a device class and drive model together.

Drives are pooled as those are whose cache modes are compared, each option and its two values by
itself: from three like drives on by the child's pool, below that by what they agree on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..model import LoadPoint, Verdict
from ..options.trial import OptionTrial
from .pooling import Pool, pooled
from .recommend import PoolKey, drive_verdict, groups
from .repeated import Standing
from .result import Result


@dataclass(frozen=True)
class OptionVerdict:
    """What is known of two values of an option on one kind of drive, at one load."""

    trial: OptionTrial
    device_class: str
    drive_model: str
    load_point: LoadPoint
    simulated: bool
    verdict: Verdict
    why: str
    drives: int
    ratio_low: Optional[float]
    ratio_high: Optional[float]
    interval: str
    record_ids: Tuple[str, ...]

    @property
    def words(self) -> str:
        """The verdict in the option's own words."""
        return self.trial.better(self.verdict)


OptionPools = Mapping[OptionTrial, Mapping[PoolKey, Pool]]


def by_trial(results: Iterable[Result]) -> Dict[OptionTrial, List[Result]]:
    """Results about options, by option and its two values."""
    found: Dict[OptionTrial, List[Result]] = defaultdict(list)
    for one in results:
        if one.option is not None:
            found[one.option].append(one)
    return dict(found)


def option_verdicts(results: Iterable[Result], pools: OptionPools) -> List[OptionVerdict]:
    """One for each option, its two values, device class, drive model and load.

    What several experiments of one drive say, and which do not count, is as for cache modes.
    """
    found = [
        _of_kind(trial, key, drives, pools.get(trial, {}).get(key))
        for trial, mine in by_trial(results).items() for key, drives in groups(mine).items()
    ]
    return sorted(found, key=lambda item: (
        str(item.trial), item.device_class, item.drive_model, item.load_point.value
    ))


def _of_kind(
    trial: OptionTrial, key: PoolKey, drives: Sequence[Standing], pool: Optional[Pool]
) -> OptionVerdict:
    first, (_, load_point) = drives[0], key
    said = pooled(load_point, [drive_verdict(one) for one in drives], pool)
    undecided = [one.why for one in drives if not one.verdict.decided]
    why = [said.interval]
    if not said.verdict.decided:
        by_pool = [pool.why] if said.pooled and pool is not None else []
        why = [*by_pool, *undecided[:1], *said.notes]
    return OptionVerdict(
        trial, first.device_class, str(first.drive_model), load_point, first.simulated,
        said.verdict, trial.words(next((line for line in why if line), "")), said.drives,
        said.ratio_low, said.ratio_high, said.interval,
        tuple(record_id for one in drives for record_id in one.record_ids),
    )

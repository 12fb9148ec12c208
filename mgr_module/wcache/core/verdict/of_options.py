"""What experiments with two values of an option say of a device class and drive model together.

Drives are pooled as those are whose cache modes are compared, each option and its two values by
itself: from three like drives on by the child's pool, below that by what they agree on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..model import LoadPoint, Verdict
from ..options.trial import OptionTrial
from ..shell import command
from ..simulation import DriveKind
from .hosts_by_model import HostsByModel, missing_word
from .pooling import LoadVerdict, Pool, pooled
from .recommend import PoolKey, drive_verdict, groups, saying
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
        return self.trial.arms.said(self.verdict)


OptionPools = Mapping[OptionTrial, Mapping[PoolKey, Pool]]


def by_trial(results: Iterable[Result]) -> Dict[OptionTrial, List[Result]]:
    """Results about options, by option and its two values."""
    found: Dict[OptionTrial, List[Result]] = defaultdict(list)
    for one in results:
        if one.option is not None:
            found[one.option].append(one)
    return dict(found)


def option_verdicts(
    results: Iterable[Result], pools: OptionPools, at_home: HostsByModel
) -> List[OptionVerdict]:
    """One for each option, its two values, device class, drive model and load.

    What several experiments of one drive say, and which do not count, is as for cache modes; and
    so is whose word is needed, by `at_home`.
    """
    found = [
        _of_kind(trial, key, drives, pools.get(trial, {}).get(key), at_home)
        for trial, mine in by_trial(results).items() for key, drives in groups(mine).items()
    ]
    return sorted(found, key=lambda item: (
        str(item.trial), item.device_class, item.drive_model, item.load_point.value
    ))


def _of_kind(
    trial: OptionTrial, key: PoolKey, drives: Sequence[Standing], pool: Optional[Pool],
    at_home: HostsByModel,
) -> OptionVerdict:
    first, (_, load_point) = drives[0], key
    said = pooled(load_point, [drive_verdict(one) for one in drives], pool, trial.arms)
    undecided = [one.why for one in drives if not one.verdict.decided]
    why = [said.interval]
    if not said.verdict.decided:
        by_pool = [pool.why] if said.pooled and pool is not None else []
        why = [*by_pool, *undecided[:1], *said.notes]
    found = OptionVerdict(
        trial, first.device_class, str(first.drive_model), load_point, first.simulated,
        said.verdict, next((line for line in why if line), ""), said.drives,
        said.ratio_low, said.ratio_high, said.interval,
        tuple(record_id for one in drives for record_id in one.record_ids),
    )
    return _unless_one_host(found, said, drives, at_home)


def _unless_one_host(
    found: OptionVerdict, said: LoadVerdict, drives: Sequence[Standing], at_home: HostsByModel
) -> OptionVerdict:
    """Withheld where the drive model is on two hosts or more, and one alone has decided."""
    if not found.verdict.decided:
        return found
    kind = DriveKind(found.device_class, found.drive_model, found.simulated)
    trial = f"{found.trial.name}={found.trial.a},{found.trial.b}"
    missing = missing_word(
        saying(drives, found.verdict, [said]), {one.hostname for one in drives},
        at_home.get(kind.home, frozenset()), have="this drive model",
        measure=lambda host: command("ceph wcache ab {} --scope=host:{}", trial, host),
        more=", which is undecided, for longer",
    )
    return found if missing is None else replace(
        found, verdict=Verdict.INSUFFICIENT,
        why="; ".join(line for line in (found.why, missing.why) if line),
    )

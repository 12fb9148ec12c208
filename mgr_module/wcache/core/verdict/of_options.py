"""What experiments with two values of an option say of a device class and drive model together.

A verdict needs every drive that was measured to be decided, and alike: nothing is pooled, so the
interval reaches from the lowest end of any drive's to the highest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Dict, Iterable, List, Optional, Tuple

from ..model import LoadPoint, Verdict
from ..options.trial import OptionTrial
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
    record_ids: Tuple[str, ...]

    @property
    def words(self) -> str:
        """The verdict in the option's own words."""
        return self.trial.better(self.verdict)


Key = Tuple[OptionTrial, str, str, LoadPoint, bool]


def option_verdicts(results: Iterable[Result]) -> List[OptionVerdict]:
    """One for each option, its two values, device class, drive model and load.

    Of several experiments of one drive the last counts; forced ones do not.
    """
    kinds: Dict[Key, Dict[str, Result]] = defaultdict(dict)
    for one in sorted(results, key=lambda item: (item.ended_at_s, item.record_id)):
        if one.option is not None and not one.forced and one.analysed:
            key = (
                one.option, one.device_class, str(one.drive_model), one.load_point, one.simulated
            )
            kinds[key][one.drive_name] = one
    found = [_of_kind(key, list(drives.values())) for key, drives in kinds.items()]
    return sorted(found, key=lambda item: (
        str(item.trial), item.device_class, item.drive_model, item.load_point.value
    ))


def _of_kind(key: Key, drives: List[Result]) -> OptionVerdict:
    said = {one.verdict for one in drives}
    lows = [one.ratio_low for one in drives if one.ratio_low is not None]
    highs = [one.ratio_high for one in drives if one.ratio_high is not None]
    undecided = [one for one in drives if not one.verdict.decided]
    if len(said) == 1 and not undecided:
        (verdict,), why = said, f"each of {len(drives)} drives says so"
    elif {Verdict.WRITE_BACK, Verdict.WRITE_THROUGH} <= said:
        verdict, why = Verdict.CONFLICTING, "drives of this model say opposite things"
    elif undecided:
        verdict = Verdict.INSUFFICIENT
        why = f"{len(undecided)} of {len(drives)} drives are undecided: {undecided[0].why}"
    else:
        verdict = Verdict.INSUFFICIENT
        why = f"on some of {len(drives)} drives it makes no difference, on others it does"
    return OptionVerdict(
        *key, verdict, key[0].words(why), len(drives), min(lows, default=None),
        max(highs, default=None), tuple(one.record_id for one in drives),
    )

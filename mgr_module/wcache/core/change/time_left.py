"""How long a rollout may still take: from the shortest to the longest, and how far it is.

The gate's own lengths bound it.  Where steps are over, what they took stands for the rest.
Time spent waiting for preconditions or for an admin is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Iterable, Tuple

from ..text import roughly
from .change import GOING_BACK, UNFINISHED, ChangeStatus
from .rollout import DOUBTS_MAX
from .rollout_state import Rollout, RolloutStatus
from .stepping import Step

# What a change takes besides its judgement: its look, its toggle, its read back.
CHANGE_LEAST_S, CHANGE_S = 1.0, 5.0
# A step takes so many times the least, where none is over that tells; else at most so many times
# the longest.
USUAL, LONGER = 1.5, 1.2


@dataclass(frozen=True)
class TimeLeft:
    """Seconds from `least_s` to `most_s`, and the fraction of the time that is over.

    What is expected goes by the steps that are over; until then it is half more than the least.
    """

    least_s: float
    most_s: float
    fraction: float
    expected_s: float


def between(least_s: float, most_s: float) -> str:
    """The two in words, once where they are the same."""
    low, high = roughly(max(1.0, least_s)), roughly(max(1.0, most_s))
    return low if low == high else f"{low} to {high}"


def time_left(rollout: Rollout, steps: Iterable[Step], now_s: float) -> TimeLeft:
    """Of a rollout that runs or is paused; one that goes back takes seconds for each change.

    `steps` are those that its machine has still to make: see `steps_left`.
    """
    if rollout.status is RolloutStatus.ROLLING_BACK:
        back = [c for c in rollout.changes if c.status in GOING_BACK]
        seconds = CHANGE_S * len(back)
        share = len(back) / max(1, len(back) + sum(
            c.status is ChangeStatus.ROLLED_BACK for c in rollout.changes))
        return TimeLeft(seconds, seconds, 1.0 - share, seconds)
    least = most = expected = 0.0
    for step in steps:
        low, high, usual = _step_s(rollout, step)
        least, most, expected = least + low, most + high, expected + usual
    if rollout.afterwards:  # each is only made to last
        made = len(rollout.all_in(ChangeStatus.MADE))
        least, most, expected = made * CHANGE_LEAST_S, made * CHANGE_S, made * CHANGE_S
    spent = now_s - rollout.step_at_s if rollout.step.indices and rollout.step_at_s else 0.0
    least, most, expected = (max(1.0, each - spent) for each in (least, most, expected))
    if not any(item.status in UNFINISHED for item in rollout.changes):
        least = most = expected = 0.0
    gone = max(0.0, now_s - rollout.began_at_s) if rollout.began_at_s else 0.0
    whole = gone + expected
    return TimeLeft(least, most, min(0.99, gone / whole) if whole > 0 else 1.0, expected)


def _step_s(rollout: Rollout, step: Step) -> Tuple[float, float, float]:
    """The least, the most, and what is expected."""
    canary, size = step.indices[0] == rollout.canary_index, len(step.indices)
    change = rollout.changes[step.indices[0]]
    waits = size * change.wait_s
    if not step.by_load:
        # it is read back and no more, and then nothing else is done for a while
        least, most = size * CHANGE_LEAST_S + waits, size * CHANGE_S + waits
        if change.measured:
            settled_s = max(rollout.canary_wait_s if canary else 0.0, rollout.settle_s)
            # what looks worse is measured again before it counts
            again = DOUBTS_MAX * (rollout.settle_s + rollout.period_s)
            least += size * settled_s
            most += size * (settled_s + 2.0 * rollout.period_s + again)
        return least, most, min(USUAL * least, most)
    low, high = rollout.gate.range_s(canary)
    waits += rollout.settle_s
    least, most = low + size * CHANGE_LEAST_S + waits, high + size * CHANGE_S + waits
    expected = min(USUAL * least, most)
    judged_s = rollout.judged_s[1:]  # the canary's is longer
    if judged_s and not canary:
        expected = min(max(least, fmean(judged_s)), most)
        most = min(most, max(least, LONGER * max(judged_s) + size * CHANGE_S + waits))
    if not change.measured:
        # without clients' load it is only read back
        least = size * CHANGE_LEAST_S + waits - rollout.settle_s
    return least, most, expected

"""How long a rollout may still take: from the shortest to the longest, and how far it is.

The gate's own lengths bound it.  Where steps are over, what they took stands for the rest.
Time spent waiting for preconditions or for an admin is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Tuple

from ..simulation import has_clients
from ..text import roughly
from .change_status import GOING_BACK, UNFINISHED, ChangeStatus
from .gate.gate_state import GateSettings
from .rollout import DOUBTS_MAX
from .rollout_state import Change, Rollout, RolloutStatus

# What a change takes besides its judgement: its look, its toggle, its read back.
CHANGE_LEAST_S, CHANGE_S = 1.0, 5.0
# A step takes so many times the least, where none is over that tells.
USUAL = 1.5


@dataclass(frozen=True)
class TimeLeft:
    """Seconds from `least_s` to `most_s`, and the fraction of the time that is over.

    What is expected goes by the steps that are over; until then it is half more than the least.
    """

    least_s: float
    most_s: float
    fraction: float
    expected_s: float = 0.0

    @property
    def words(self) -> str:
        """For people."""
        text = between(self.least_s, self.most_s)
        return f"{text} left" if " to " in text else f"about {text} left"


def between(least_s: float, most_s: float) -> str:
    """The two in words, once where they are the same."""
    low, high = roughly(max(1.0, least_s)), roughly(max(1.0, most_s))
    return low if low == high else f"{low} to {high}"


def time_left(rollout: Rollout, now_s: float) -> TimeLeft:
    """Of a rollout that runs or is paused; one that goes back takes seconds for each change."""
    if rollout.status is RolloutStatus.ROLLING_BACK:
        back = [c for c in rollout.changes if c.status in GOING_BACK]
        seconds = CHANGE_S * len(back)
        share = len(back) / max(1, len(back) + sum(
            c.status is ChangeStatus.ROLLED_BACK for c in rollout.changes))
        return TimeLeft(seconds, seconds, 1.0 - share, seconds)
    least = most = expected = 0.0
    for first, size in _steps(rollout):
        low, high = _step_s(rollout, rollout.changes[first], first, size)
        least, most = least + low, most + high
        told = bool(first and rollout.judged_s[1:])
        expected += (low + high) / 2.0 if told else min(high, USUAL * low)
    spent = now_s - rollout.step_at_s if rollout.step.indices and rollout.step_at_s else 0.0
    least, most, expected = (max(1.0, each - spent) for each in (least, most, expected))
    if not any(item.status in UNFINISHED for item in rollout.changes):
        least = most = expected = 0.0
    gone = max(0.0, now_s - rollout.began_at_s) if rollout.began_at_s else 0.0
    whole = gone + expected
    return TimeLeft(least, most, min(0.99, gone / whole) if whole > 0 else 1.0, expected)


def _steps(rollout: Rollout) -> Tuple[Tuple[int, int], ...]:
    """(first change, how many) of each step that is not over, if all goes well."""
    found = []
    at, changes = 0, rollout.changes
    waves = [number for number, wave in enumerate(rollout.waves) for _ in range(wave.size)]
    waves += range(len(rollout.waves), len(rollout.waves) + len(changes) - len(waves))
    proven = {item.kind: rollout.proven(item.kind) for item in rollout.evidence}
    while at < len(changes):
        if changes[at].status not in UNFINISHED:
            at += 1
            continue
        end, touched, kinds = at + 1, {changes[at].touches}, {changes[at].pooled_as}
        while end < len(changes) and waves[end] == waves[at]:
            item = changes[end]
            least = min(proven.get(kind, 0) for kind in {*kinds, item.pooled_as})
            full = len(touched) >= max(rollout.parallel_max, least)
            if full and not _one_value(rollout, at, end):
                break
            touched.add(item.touches)
            kinds.add(item.pooled_as)
            end += 1
        for kind in kinds:
            proven[kind] = proven.get(kind, 0) + len(touched)
        found.append((at, end - at))
        at = end
    return tuple(found)


def _one_value(rollout: Rollout, first: int, index: int) -> bool:
    """Whether clients' load judges two changes together: they are steps of one value."""
    one, item = rollout.changes[first], rollout.changes[index]
    by_load = rollout.gate is not None and rollout.gate.by_load
    return by_load and bool(item.judging_osds) and one.touches == item.touches


def _step_s(rollout: Rollout, change: Change, first: int, size: int) -> Tuple[float, float]:
    gate = rollout.gate or GateSettings(by_load=False)
    if not gate.by_load or not change.judging_osds or not has_clients(change) or rollout.trial:
        if change.measure(rollout) is None:
            # it is read back and no more, and then nothing else is done for a while
            wait_s = change.pause_s(rollout)
            return size * (CHANGE_LEAST_S + wait_s), size * (CHANGE_S + wait_s)
        waits = max(rollout.canary_wait_s, rollout.settle_s) if first == 0 else rollout.settle_s
        # what looks worse is measured again before it counts
        again = DOUBTS_MAX * (rollout.settle_s + rollout.period_s)
        most = CHANGE_S + 2.0 * rollout.period_s + again
        return size * (CHANGE_LEAST_S + waits), size * (most + waits)
    low, high = gate.range_s(first == 0)
    if rollout.judged_s[1:] and first:
        usual = fmean(rollout.judged_s[1:])  # the canary's is longer
        low, high = min(max(low, 0.8 * usual), high), min(high, max(low, 1.2 * usual))
    waits = size * change.pause_s(rollout)
    more = size * CHANGE_S + rollout.settle_s + waits
    if change.measure(rollout) is None:
        # without clients' load it is only read back
        return size * CHANGE_LEAST_S + waits, high + more
    return low + more, high + more

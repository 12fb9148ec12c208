"""From plans to lines of the history: what each change came to, also long after its line is gone.

A line is made when a change reaches an end.  A plan that something still stands on is kept
as long as it stands (`core/fleet/retention.py`), so what is applied has a line whatever the bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ..codec import one_line
from ..history import OSDS_MAX, About, HistoryEntry
from ..text import before_after
from .change import TOUCHED, Change, ChangeStatus
from .rollout_state import Rollout

ENDS = (
    ChangeStatus.APPLIED, ChangeStatus.UNCHANGED, ChangeStatus.FAILED, ChangeStatus.ROLLED_BACK,
    ChangeStatus.ROLLBACK_FAILED, ChangeStatus.ACCEPTED, ChangeStatus.REFUSED,
)
_BACK = (ChangeStatus.ROLLED_BACK,)
TEXT_MAX = 300

OsdsOf = Mapping[Tuple[str, str], Tuple[int, ...]]
"""The OSDs on a cache domain, by host and domain."""


def statuses(rollout: Rollout) -> Tuple[ChangeStatus, ...]:
    """Where each change stands: what `ended` compares."""
    return tuple(change.status for change in rollout.changes)


def ended(before: Sequence[ChangeStatus], rollout: Rollout) -> List[int]:
    """The changes that have come to an end since, by their place in the plan."""
    return [
        index for index, change in enumerate(rollout.changes)
        if change.status in ENDS
        and (index >= len(before) or before[index] is not change.status)
    ]


def stamped(rollout: Rollout, indices: Iterable[int], at_s: float) -> Rollout:
    """The plan, with the time at which these changes came to their end."""
    wanted = set(indices)
    changes = tuple(
        replace(change, at_s=at_s) if index in wanted else change
        for index, change in enumerate(rollout.changes)
    )
    return replace(rollout, changes=changes)


def about(change: Change, osd_ids: Tuple[int, ...] = ()) -> About:
    """What a change was: from what to what, why, and what came of it."""
    before, after = change.setting.sides
    if change.status in _BACK:
        before, after = after, before
    shown = osd_ids or ((change.osd_id,) if change.domain_id else ())
    return About(
        change.hostname, tuple(shown[:OSDS_MAX]), change.domain_id, change.dev_names, before, after,
        one_line(change.why, TEXT_MAX), one_line(_outcome(change), TEXT_MAX),
    )


def line(
    rollout: Rollout, change: Change, at_s: float, osd_ids: Tuple[int, ...] = ()
) -> HistoryEntry:
    """The line of a change that has ended."""
    told = about(change, osd_ids)
    moved = change.setting.moved(change.status in _BACK)
    text = f"{change.name}: {moved}, {told.outcome}"
    return HistoryEntry(at_s, rollout.by, rollout.plan_id, one_line(text, 900), told)


def standing(
    rollouts: Iterable[Rollout], lines: Iterable[HistoryEntry], osds: Optional[OsdsOf] = None
) -> List[HistoryEntry]:
    """Lines of what is still applied and has none in the log any more."""
    told: Set[Tuple[str, str, str]] = {
        (entry.what, entry.about.hostname, entry.about.drive)
        for entry in lines if entry.about is not None and entry.about.outcome
    }
    found = []
    for rollout in rollouts:
        for change in rollout.changes:
            drive = change.domain_id
            key = (rollout.plan_id, change.hostname, drive)
            if change.status in ENDS and change.status in TOUCHED and key not in told:
                ids = (osds or {}).get((change.hostname, drive), ())
                at_s = change.at_s or rollout.created_at_s
                found.append(line(rollout, change, at_s, ids))
    return found


def _outcome(change: Change) -> str:
    said = change.status.value
    if change.before_us is not None and change.after_us is not None:
        latency = before_after(change.before_us, change.after_us)
        if latency not in change.detail:  # it went back for that
            said += f"; latency {latency}"
            if change.status in _BACK:
                said += " while it was in place"
    return f"{said}: {change.detail}" if change.detail else said

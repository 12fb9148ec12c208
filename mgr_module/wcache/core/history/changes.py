"""From plans to lines of the history: what each change came to, also long after its line is gone.

A line is made when a change reaches an end.  A plan that something still stands on is kept
as long as it stands (`core/fleet/retention.py`), so what is applied has a line whatever the bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from ..change.cache_mode_change import CacheModeChange
from ..change.change_status import TOUCHED, ChangeStatus
from ..change.rollout_state import Change, Rollout
from ..codec import one_line
from ..text import before_after, setting
from .entry import OSDS_MAX, About, HistoryEntry

ENDS = (
    ChangeStatus.APPLIED, ChangeStatus.UNCHANGED, ChangeStatus.FAILED, ChangeStatus.ROLLED_BACK,
    ChangeStatus.ROLLBACK_FAILED, ChangeStatus.ACCEPTED,
)
_BACK = (ChangeStatus.ROLLED_BACK,)
TEXT_MAX = 300
EDITS_TOLD = 4

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
    before, after = _sides(change)
    if change.status in _BACK:
        before, after = after, before
    drive = change.domain_id if isinstance(change, CacheModeChange) else ""
    names = change.dev_names if isinstance(change, CacheModeChange) else ()
    shown = osd_ids or ((change.osd_id,) if drive else ())
    return About(
        change.hostname, tuple(shown[:OSDS_MAX]), drive, names, before, after,
        one_line(change.why, TEXT_MAX), one_line(_outcome(change), TEXT_MAX),
    )


def line(
    rollout: Rollout, change: Change, at_s: float, osd_ids: Tuple[int, ...] = ()
) -> HistoryEntry:
    """The line of a change that has ended."""
    told = about(change, osd_ids)
    text = f"{change.name}: {_moved(change, told)}, {told.outcome}"
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
            drive = change.domain_id if isinstance(change, CacheModeChange) else ""
            key = (rollout.plan_id, change.hostname, drive)
            if change.status in ENDS and change.status in TOUCHED and key not in told:
                ids = (osds or {}).get((change.hostname, drive), ())
                at_s = change.at_s or rollout.created_at_s
                found.append(line(rollout, change, at_s, ids))
    return found


def _sides(change: Change) -> Tuple[str, str]:
    if isinstance(change, CacheModeChange):
        return change.expected.value, change.mode.value
    edits = change.edits[:EDITS_TOLD]
    before = "; ".join(f"{e.who} {e.name} {e.prior or 'not set'}" for e in edits)
    after = "; ".join(f"{e.who} {e.name} {e.value or 'not set'}" for e in edits)
    return one_line(before, TEXT_MAX), one_line(after, TEXT_MAX)


def _moved(change: Change, told: About) -> str:
    """From what to what, with each setting named once."""
    if isinstance(change, CacheModeChange):
        return f"{told.before} to {told.after}"
    values = [(e.who, e.name, e.prior, e.value) for e in change.edits[:EDITS_TOLD]]
    if change.status in _BACK:
        values = [(who, name, value, prior) for who, name, prior, value in values]
    said = [
        f"{who} {name}: {setting(name, old)} -> {setting(name, new)}"
        for who, name, old, new in values
    ]
    more = len(change.edits) - EDITS_TOLD
    return "; ".join(said) + (f" and {more} more" if more > 0 else "")


def _outcome(change: Change) -> str:
    said = change.status.value
    if change.before_us is not None and change.after_us is not None:
        said += f"; latency {before_after(change.before_us, change.after_us)}"
        if change.status in _BACK:
            said += " while it was in place"
    return f"{said}: {change.detail}" if change.detail else said

"""What plans came to: a line of history for each change, a mark for each model that went back.

A line is made when a change reaches an end, and told again where it is gone from the log.  A plan
that something still stands on is kept as long as it stands (`core/fleet/retention.py`), so what is
applied has a line whatever the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..codec import one_line
from ..history import NOTHING, OSDS_MAX, About, HistoryEntry, Kind
from ..host_report import DriveKind
from ..model import CacheMode, LoadPoint
from ..text import before_after
from ..verdict.result import Result
from .change import TOUCHED, Change, ChangeStatus
from .rollout_state import Rollout

ENDS = (
    ChangeStatus.APPLIED, ChangeStatus.UNCHANGED, ChangeStatus.FAILED, ChangeStatus.ROLLED_BACK,
    ChangeStatus.ROLLBACK_FAILED, ChangeStatus.ACCEPTED, ChangeStatus.REFUSED,
)
TEXT_MAX = 300

OsdsOf = Mapping[Tuple[str, str], Tuple[int, ...]]
"""The OSDs on a cache domain, by host and domain."""


def ended(known: Mapping[str, ChangeStatus], rollout: Rollout) -> List[int]:
    """The changes that have come to an end since, by their place in the plan."""
    return [
        index for index, change in enumerate(rollout.changes)
        if change.status in ENDS and known.get(change.action_id) is not change.status
    ]


def line(
    rollout: Rollout, change: Change, at_s: float, osd_ids: Tuple[int, ...] = ()
) -> HistoryEntry:
    """The line of a change that has ended: from what to what, why, and what came of it."""
    back = change.status is ChangeStatus.ROLLED_BACK
    sides = change.setting.sides[::-1] if back else change.setting.sides
    shown = osd_ids or ((change.osd_id,) if change.domain_id else ())
    outcome = one_line(_outcome(change, judged=bool(rollout.evidence)), TEXT_MAX)
    about = About(
        change.hostname, tuple(shown[:OSDS_MAX]), change.domain_id, change.domain.dev_names,
        *sides, one_line(change.detail if back else change.why, TEXT_MAX), outcome,
    )
    text = f"{change.name}: {change.setting.moved(back)}, {outcome}"
    return HistoryEntry(at_s, rollout.by, rollout.plan_id, one_line(text, 900), about)


def standing(
    rollouts: Iterable[Rollout], lines: Iterable[HistoryEntry], osds: Optional[OsdsOf] = None
) -> List[HistoryEntry]:
    """Lines of what is still applied and has none in the log any more."""
    told: Set[Tuple[str, ...]] = {
        (entry.what, about.hostname, about.drive) if about.drive else
        (entry.what, about.before, about.after)
        for entry, about in ((entry, entry.about or NOTHING) for entry in lines)
        if entry.kind is Kind.CHANGE
    }
    found = []
    for rollout in rollouts:
        for change in rollout.changes:
            drive = change.hostname, change.domain_id
            key = drive if change.domain_id else change.setting.sides
            if (
                change.status in ENDS and change.status in TOUCHED
                and (rollout.plan_id, *key) not in told
            ):
                ids = (osds or {}).get(drive, ())
                at_s = change.at_s or rollout.created_at_s
                found.append(line(rollout, change, at_s, ids))
    return found


@dataclass(frozen=True)
class FoundWorse:
    """Which plan found that a drive model is worse off in a mode, and how."""

    plan_id: str
    mode: CacheMode
    why: str
    at_s: float


def marked(rollouts: Iterable[Rollout], results: Iterable[Result]) -> Dict[DriveKind, FoundWorse]:
    """The newest mark of each kind of drive.

    It stands until the kind is measured by clients' own traffic, or until a later plan has
    changed a drive of that kind to that mode and it stayed: benches do not answer it.
    """
    found: Dict[DriveKind, FoundWorse] = {}
    stayed: Dict[Tuple[DriveKind, CacheMode], float] = {}
    for rollout in rollouts:
        indices = rollout.worse.indices
        worse = {item.action_id for i, item in enumerate(rollout.changes) if i in indices}
        for change, mode in rollout.mode_changes:
            if change.drive_model is None:
                continue
            kind = change.kind
            if change.action_id in worse:
                mark = FoundWorse(rollout.plan_id, mode, rollout.worse.why, rollout.worse.at_s)
                if kind not in found or found[kind].at_s < mark.at_s:
                    found[kind] = mark
            elif change.status is ChangeStatus.APPLIED and not indices:
                key = (kind, mode)
                stayed[key] = max(stayed.get(key, 0.0), rollout.ended_at_s)
    measured: Dict[DriveKind, float] = {}
    for result in results:
        if result.load_point is LoadPoint.OSD_TRAFFIC and result.analysed and result.pairs:
            kind = result.kind
            measured[kind] = max(measured.get(kind, 0.0), result.ended_at_s)
    return {
        kind: mark for kind, mark in found.items()
        if max(measured.get(kind, 0.0), stayed.get((kind, mark.mode), 0.0)) <= mark.at_s
    }


def _outcome(change: Change, *, judged: bool) -> str:
    said = change.status.value + (change.detail and f": {change.detail}")
    if change.before_us is not None and change.after_us is not None:
        latency = before_after(change.before_us, change.after_us)
        if latency not in change.detail:  # it went back for that
            said += f"; latency {latency}"
            if change.status is ChangeStatus.ROLLED_BACK:
                said += " while it was in place"
    elif change.status is ChangeStatus.APPLIED and not (change.measured or judged):
        said += "; only read back"
    return said

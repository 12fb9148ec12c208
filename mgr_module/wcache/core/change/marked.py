"""Drive models that went back: better by what was measured, and worse when it was applied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable, Tuple

from ..drive_kind import DriveKind
from ..model import CacheMode, LoadPoint
from ..verdict.result import Result
from .change import ChangeStatus
from .rollout_state import Rollout


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
        for change, setting in rollout.mode_changes:
            if change.drive_model is None:
                continue
            kind = change.kind
            if change.action_id in worse:
                mark = FoundWorse(
                    rollout.plan_id, setting.after, rollout.worse.why, rollout.worse.at_s
                )
                if kind not in found or found[kind].at_s < mark.at_s:
                    found[kind] = mark
            elif change.status is ChangeStatus.APPLIED and not indices:
                key = (kind, setting.after)
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

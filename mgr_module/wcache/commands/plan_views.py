"""What only looks at advice and plans: `recommend`, `plan ls` and `plan show`."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from ..core import codec
from ..core.change.cache_mode_change import CacheModeChange
from ..core.change.change_status import ChangeStatus
from ..core.change.gate.marked import marked
from ..core.change.rollout_state import Change
from ..core.drive.manual import by_hand
from ..core.errors import NotFoundError
from ..core.fleet.claims import believed
from ..core.hardware.wear import since
from ..core.knobs.cache_mode.consequences import noop_flushes, of_write_through
from ..core.model import CacheMode, DriveReport
from ..core.output_format import FORMAT_VERSION
from ..core.simulation import DriveKind, in_cluster, real
from ..core.verdict.explaining import settling
from ..core.verdict.homes import differing
from ..core.verdict.recommend import Recommendation
from ..core.verdict.result import Result
from ..engine.engine import Engine
from ..services.guards import require_class
from ..services.mclock.facts import MclockFacts
from ..services.plans import plain_changes
from .automation.evidence import foreign

Held = Callable[[], Mapping[Tuple[str, str], str]]
"""By device class and drive model: why `auto` does not apply its mode by itself any more."""


class PlanViews:
    """Recommendations and plans over the engine."""

    def __init__(
        self, engine: Engine, mclock: MclockFacts, held: Held,
        summary: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._engine = engine
        self._summary = summary
        self._mclock = mclock
        self._held = held

    def recommendations(self, device_class: Optional[str] = None) -> Dict[str, Any]:
        """`recommend`: one per device class and drive model, with evidence and commands."""
        engine = self._engine
        with engine.lock:
            require_class(engine, device_class)
            rows, cluster = [], engine.view.cluster()
            reports = believed(engine.hosts.reports.values(), cluster)
            marks, held = marked(
                (m.rollout for m in engine.rollouts.values()), engine.analyses.results.values()
            ), self._held()
            for item in engine.recommendations():
                if device_class not in (None, "", item.device_class):
                    continue
                plain = codec.to_plain(item)
                plain["manual"], plain["manual_on"], plain["consequences"] = [], "", []
                measured = self._measured_drive(item.record_ids)
                if measured is not None and item.mode is not None:
                    plain["manual_on"], drive = measured
                    plain["manual"] = list(by_hand(drive, item.mode))
                    plain["consequences"] = list(self._consequences(item, drive))
                plain["noop_flushes"] = list(noop_flushes(self._results_of(item)))
                plain["stale_keys"] = self._stale_keys(item)
                plain["settled_by"] = [] if item.verdict.decided else [
                    {"what": words, "command": command}
                    for words, command in settling(item, self._results_of(item))
                ]
                kind = DriveKind.of(item)
                plain["to_change"] = 0 if item.mode is None else differing(
                    reports, cluster, kind, item.mode, throwaway=engine.options().throwaway_cluster,
                )
                mark = marks.get(kind)
                counts = mark is not None and mark.mode is item.mode
                plain["went_back"] = codec.to_plain(mark) if counts else None
                plain["held_by_auto"] = held.get((item.device_class, str(item.drive_model)), "")
                rows.append(plain)
            under_way = next((p for p, m in engine.rollouts.items() if not m.over), "")
            others = foreign(engine, device_class)
        return {
            "format_version": FORMAT_VERSION, "recommendations": rows, "foreign": others,
            "rollout": under_way, "summary": self._summary(),
        }

    def _results_of(self, item: Recommendation) -> List[Result]:
        results = self._engine.analyses.results
        return [results[key] for key in item.record_ids if key in results]

    def _consequences(self, item: Recommendation, drive: DriveReport) -> Tuple[str, ...]:
        if item.mode is not CacheMode.WRITE_THROUGH:
            return ()
        results = self._engine.analyses.results
        found = [results[key].pin_price_us for key in item.record_ids if key in results]
        return of_write_through(drive, [us for us in found if us is not None])

    def _stale_keys(self, item: Recommendation) -> List[str]:
        """mClock's values that the recommended mode makes stale, or has made so."""
        if item.mode is None or not in_cluster(item):
            return []
        drives = [
            drive for report in real(self._engine.hosts.reports.values())
            for drive in report.drives if drive.drive_model == item.drive_model
        ]
        return self._mclock.stale_keys(
            {u.osd_id for d in drives if d.mode is item.mode.other for u in d.uses},
            {u.osd_id for d in drives if d.mode is item.mode for u in d.uses},
        )

    def _measured_drive(self, record_ids: Iterable[str]) -> Optional[Tuple[str, DriveReport]]:
        """(hostname, drive) of the first record whose drive is still there."""
        for record_id in record_ids:
            result = self._engine.analyses.results[record_id]
            report = self._engine.hosts.reports.get(result.hostname)
            for drive in report.drives if report else ():
                if drive.drive_id == result.drive_id:
                    return result.hostname, drive
        return None

    def _written_since(self, change: Change) -> List[str]:
        """What the drives of a change wrote since, by SMART; empty where they do not tell."""
        if not isinstance(change, CacheModeChange):
            return []
        report = self._engine.hosts.reports.get(change.hostname)
        drives = {d.drive_id: d for d in report.drives} if report else {}
        lines = []
        for before in change.wear:
            drive = drives.get(before.drive_id)
            if drive is not None and drive.wear is not None:
                said = since(before.wear, drive.wear)
                lines += [f"{drive.dev_name}: {said}"] if said else []
        return lines

    def ls(self) -> Dict[str, Any]:
        """`plan ls`: all plans, newest last."""
        with self._engine.lock:
            rows = [
                {
                    "plan_id": plan_id, "status": machine.rollout.status.value,
                    "created_at_s": machine.rollout.created_at_s,
                    "changes": len(machine.rollout.changes),
                    "applied": sum(
                        c.status is ChangeStatus.APPLIED for c in machine.rollout.changes
                    ),
                    "reason": machine.rollout.reason,
                }
                for plan_id, machine in sorted(
                    self._engine.rollouts.items(), key=lambda item: (len(item[0]), item[0])
                )
            ]
        return {"format_version": FORMAT_VERSION, "plans": rows}

    def show(self, plan_id: str) -> Dict[str, Any]:
        """A plan and how far it has come."""
        machine = self._engine.rollouts.get(plan_id)
        if machine is None:
            raise NotFoundError(f"there is no plan {plan_id[:40]!r}")
        plain: Dict[str, Any] = codec.to_plain(machine.rollout)
        for inside in ("step", "step_at_s", "judged_s", "pausing"):
            del plain[inside]  # `rollout show` tells of them
        plain["changes"] = plain_changes(machine.rollout.changes)
        for row, change in zip(plain["changes"], machine.rollout.changes):
            row["ratio"] = change.ratio
            row["written_since"] = self._written_since(change)
        plain["waiting_for"] = list(machine.waits_for)
        plain["stale_keys"] = self._mclock.stale_keys_of(machine.rollout.drive_changes)
        return {"format_version": FORMAT_VERSION, **plain}

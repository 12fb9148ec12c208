"""What only looks at advice and plans: `recommend`, `plan ls` and `plan show`."""

from __future__ import annotations

from dataclasses import replace
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from ..core import codec
from ..core.change import staleness
from ..core.change.change_status import ChangeStatus
from ..core.change.rollout_state import Change
from ..core.drive.manual import by_hand
from ..core.errors import NotFoundError
from ..core.hardware.wear import since
from ..core.host_report import lost_models
from ..core.model import CacheMode, DriveReport
from ..core.scope import Scope, parse_scope
from ..core.simulation import DriveKind, in_cluster, real
from ..core.verdict.consequences import noop_flushes, of_write_through
from ..core.verdict.explaining import budgets, settling
from ..core.verdict.hosts_by_model import differing
from ..core.verdict.recommend import Recommendation
from ..core.verdict.result import Result
from ..engine.world import World
from ..services.evidence import foreign
from ..services.guards import require_scope
from ..services.plans.planner import Planner
from ..services.plans.planners import stale_keys, stale_keys_of
from ..services.plans.plans import plain_changes

Held = Callable[[], Mapping[Tuple[str, str], str]]
"""By device class and drive model: why `auto` does not apply its mode by itself any more."""


class Recommended:
    """What is recommended, with evidence and commands."""

    def __init__(
        self, knobs: Collection[Planner], held: Held,
        summary: Callable[[World], Mapping[str, Any]],
    ) -> None:
        self._summary = summary
        self._knobs = knobs
        self._held = held

    def answer(self, world: World, scope: Optional[str] = None) -> Dict[str, Any]:
        """`recommend`: one per device class and drive model, with evidence and commands."""
        wanted = parse_scope(scope)
        require_scope(world, wanted)
        return {
            "recommendations": self.rows(world, wanted),
            "foreign": foreign(world, wanted), "rollout": world.open_plan,
            "summary": self._summary(world),
        }

    def rows(self, world: World, scope: Scope) -> List[Dict[str, Any]]:
        """The recommendations as plain data."""
        rows, held = [], self._held()
        for item in recommended_in(world, scope):
            results = [world.results[key] for key in item.record_ids if key in world.results]
            plain = codec.to_plain(item)
            plain["manual"], plain["manual_on"], plain["consequences"] = [], "", []
            measured = _measured_drive(world, results)
            if measured is not None and item.mode is not None:
                plain["manual_on"], drive = measured
                plain["manual"] = list(by_hand(
                    drive, item.mode,
                    lost_models(world.reports.values(), simulated=item.simulated),
                ))
                plain["consequences"] = list(_consequences(item, drive, results))
            plain["noop_flushes"] = list(noop_flushes(results))
            plain["stale_keys"] = self._stale_keys(world, item)
            plain["settled_by"] = [] if item.verdict.decided else [
                {"what": words, "command": command}
                for words, command in settling(item, results, budgets(world.options))
            ]
            kind = DriveKind.of(item)
            plain["to_change"] = 0 if item.mode is None else differing(
                world.believed_reports, world.cluster, kind, item.mode,
                throwaway=world.options.throwaway_cluster,
            )
            mark = world.marks.get(kind)
            counts = mark is not None and mark.mode is item.mode
            plain["went_back"] = codec.to_plain(mark) if counts else None
            plain["held_by_auto"] = held.get((item.device_class, str(item.drive_model)), "")
            rows.append(plain)
        return rows

    def _stale_keys(self, world: World, item: Recommendation) -> List[str]:
        """Values of other knobs that the recommended mode makes stale, or has made so."""
        if item.mode is None or not in_cluster(item):
            return []
        drives = [
            drive for report in real(world.reports.values())
            for drive in report.drives if drive.drive_model == item.drive_model
        ]
        return stale_keys(
            self._knobs, world,
            {u.osd_id for d in drives if d.mode is item.mode.other for u in d.uses},
            {u.osd_id for d in drives if d.mode is item.mode for u in d.uses},
        )

def plans(world: World) -> Dict[str, Any]:
    """`plan ls`: all plans, newest last."""
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
            world.rollouts.items(), key=lambda item: (len(item[0]), item[0])
        )
    ]
    return {"plans": rows}


def plan(world: World, knobs: Collection[Planner], plan_id: str) -> Dict[str, Any]:
    """`plan show`: a plan and how far it has come."""
    machine = world.rollouts.get(plan_id)
    if machine is None:
        raise NotFoundError(f"there is no plan {plan_id[:40]!r}")
    plain: Dict[str, Any] = codec.to_plain(machine.rollout)
    for inside in ("step", "step_at_s", "judged_s", "pausing"):
        del plain[inside]  # `rollout show` tells of them
    plain["changes"] = plain_changes(machine.rollout.changes, machine.rollout.to_last)
    planned = [c for c in machine.rollout.changes if c.status is ChangeStatus.PLANNED]
    moved = staleness.moved_by_id(machine.rollout, world.reports, world.cluster, planned)
    plain["moved"] = [
        f"{c.name}: {moved[c.action_id]}" for c in planned if c.action_id in moved
    ]
    for row, change in zip(plain["changes"], machine.rollout.changes):
        if change.action_id in moved:
            row["manual"] = []  # what is not done by a plan is not done by hand either
        row["ratio"] = change.ratio
        row["written_since"] = _written_since(world, change)
    plain["waiting_for"] = list(machine.waits_for)
    plain["stale_keys"] = stale_keys_of(knobs, world, machine.rollout.mode_changes)
    return plain


def recommended_in(world: World, scope: Scope) -> List[Recommendation]:
    """The recommendations on drives in a scope: by what was measured, and what is reported."""
    where = replace(scope, device_class="", drive_model="")
    found = [
        item for item in world.recommendations
        if scope.has_class(item.device_class) and scope.has_model(item.drive_model)
    ]
    if where == Scope():
        return found
    kinds = {
        (drive.drive_model, osd.device_class if osd is not None else None)
        for report in world.reports.values() for drive in report.drives
        if scope.has_host(report.hostname) for use in drive.uses if scope.has_osd(use.osd_id)
        for osd in [world.cluster.osds.get(use.osd_id)]
    }

    def is_measured(item: Recommendation) -> bool:
        results = (world.results[key] for key in item.record_ids if key in world.results)
        return any(scope.has_host(r.hostname) and scope.has_osd(r.osd_id) for r in results)

    return [
        item for item in found if is_measured(item)
        or not kinds.isdisjoint({(item.drive_model, item.device_class), (item.drive_model, None)})
    ]


def _consequences(
    item: Recommendation, drive: DriveReport, results: Sequence[Result]
) -> Tuple[str, ...]:
    if item.mode is not CacheMode.WRITE_THROUGH:
        return ()
    found = [result.pin_price_us for result in results]
    return of_write_through(drive, [us for us in found if us is not None])


def _measured_drive(
    world: World, results: Iterable[Result]
) -> Optional[Tuple[str, DriveReport]]:
    """(hostname, drive) of the first result whose drive is still there."""
    for result in results:
        report = world.reports.get(result.hostname)
        for drive in report.drives if report else ():
            if drive.drive_id == result.drive_id:
                return result.hostname, drive
    return None


def _written_since(world: World, change: Change) -> List[str]:
    """What the drives of a change wrote since, by SMART; empty where they do not tell."""
    report = world.reports.get(change.hostname)
    drives = {d.drive_id: d for d in report.drives} if report else {}
    lines = []
    for before in change.wear:
        drive = drives.get(before.drive_id)
        if drive is not None and drive.wear is not None:
            said = since(before.wear, drive.wear)
            lines += [f"{drive.dev_name}: {said}"] if said else []
    return lines

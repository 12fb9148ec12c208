"""What follows from the planners of all knobs: several in one plan, and what goes stale."""

from __future__ import annotations

from dataclasses import replace
from typing import AbstractSet, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set

from ...core.change.change import Change, ChangeStatus
from ...core.change.drive_setting import DriveSetting
from ...core.change.rollout_state import Rollout, RolloutStatus
from ...core.errors import NotReadyError
from ...core.scope import Scope
from ...engine.world import World
from ...knobs.knob import CHANGES_MAX, Asked, Wanted
from ...knobs.registry import ALL, TOGETHER
from .planner import Planner


def with_all(found: Mapping[str, Planner]) -> Dict[str, Planner]:
    """The planner of each knob, by the knob's name, and that of several in one plan."""
    return {**found, ALL: _Together({knob.name: found[knob.name] for knob in TOGETHER})}


def in_place_by(world: World, knob: str, scope: Scope) -> str:
    """The newest plan of a knob that still stands in a scope; '' where none does."""
    found = [
        plan_id for plan_id, machine in world.rollouts.items()
        if machine.rollout.status is RolloutStatus.DONE and any(
            change.status is ChangeStatus.APPLIED and change.is_within(scope)
            and knob == change.knob and _is_there(world, change)
            for change in machine.rollout.changes
        )
    ]
    return max(found, key=lambda plan_id: (len(plan_id), plan_id), default="")


def _is_there(world: World, change: Change) -> bool:
    """Whether drives have what a change gave them, as they were reported; a reboot may take it."""
    report = world.reports.get(change.hostname)
    setting = change.setting
    if not isinstance(setting, DriveSetting) or report is None:
        return True
    return not any(
        setting.unlike(drive) for drive in report.drives if drive.domain_id == change.domain_id
    )


class _Together(Planner):
    """Several knobs in one plan: all changes of one before the first of the next.

    So no step changes two things, and what a step did is known before the next knob is touched.
    """

    def __init__(self, knobs: Mapping[str, Planner]) -> None:
        self._knobs = knobs

    def plan(self, asked: Asked, world: World) -> Wanted:
        """See Planner; a knob of which nothing is known is left alone where another has some."""
        changes: List[Change] = []
        left: List[str] = []
        unready: List[NotReadyError] = []
        remembers: List[Callable[[Sequence[Change]], None]] = []
        in_place: Optional[int] = None  # one knob of them goes drive by drive
        for name, planner in self._knobs.items():
            try:
                wanted = planner.plan(replace(asked, first=len(changes)), world)
            except NotReadyError as error:
                unready.append(error)
                left.append(f"{name}: {error.line()}")
                continue
            changes += wanted.changes
            left += wanted.left_alone
            remembers.append(wanted.remember)
            if wanted.drives_in_place is not None:
                in_place = wanted.drives_in_place
        if len(unready) == len(self._knobs):
            raise unready[0]
        if len(changes) > CHANGES_MAX:
            return Wanted((), (*left, f"both knobs take {len(changes)} steps, {CHANGES_MAX} are "
                                      "the most of one plan: narrow it with --scope, or "
                                      "plan one knob after the other"))

        def remember(kept: Sequence[Change]) -> None:
            for each in remembers:
                each(kept)

        return Wanted(tuple(changes), tuple(left), remember, in_place)


def stale_keys(
    knobs: Iterable[Planner], world: World, changing: AbstractSet[int],
    changed: AbstractSet[int] = frozenset(),
) -> List[str]:
    """Stored values, of whatever knob, that a change of cache modes makes stale."""
    return [key for knob in knobs for key in knob.stale_keys(world, changing, changed)]


def stale_keys_of(knobs: Iterable[Planner], world: World, rollout: Rollout) -> List[str]:
    """The same for the OSDs on the cache domains of a plan."""
    changing: Set[int] = set()
    changed: Set[int] = set()
    for change, _ in rollout.mode_changes:
        if not change.real or change.only_lasts:
            continue  # one that is only made to last changes no latency
        report = world.reports.get(change.hostname)
        ids = {
            use.osd_id for drive in (report.drives if report else ())
            if drive.domain_id == change.domain_id for use in drive.uses
        }
        open_ = change.status in (ChangeStatus.PLANNED, ChangeStatus.APPLYING)
        (changing if open_ else changed).update(ids)
    return stale_keys(knobs, world, changing, changed)

"""The planners of all knobs, with what follows from their changes."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
)

from ...ceph.command import Mgr
from ...ceph.surroundings import CephSurroundings
from ...core import codec
from ...core.automation.deciding import Wish
from ...core.change.change import Change, ChangeStatus
from ...core.change.rollout_state import Rollout, RolloutStatus
from ...core.cluster import ClusterView
from ...core.errors import NotFoundError, NotReadyError
from ...core.experiment.campaign import CampaignOptions
from ...core.experiment.run_state import RunSpec
from ...core.host_report import DriveKind
from ...core.model import CacheMode, Finding, LoadPoint
from ...core.scope import Scope
from ...core.text import NOTHING, CommandLine, chained, command, many, ticked
from ...core.verdict.explaining import expected
from ...core.verdict.option_choice import Ground
from ...engine.engine import Engine
from ...engine.storing.archive import Archive
from ...engine.world import World
from ...knobs.knob import CHANGES_MAX, Asked, Wanted
from ...knobs.registry import ALL, KNOBS, TOGETHER
from .plan_guards import OwnTrial


@dataclass(frozen=True)
class Parts:
    """What a knob's planner may be made of.

    `ceph` is the mgr's own interface to Ceph, for adapters; `emptied_at_s` tells when benches of
    ours have last emptied an OSD's caches, where they do.
    """

    ceph: Mgr
    engine: Engine
    archive: Archive
    view: ClusterView
    surroundings: CephSurroundings
    log: logging.Logger
    emptied_at_s: Optional[Callable[[int], float]] = None

    def is_up(self, osd_id: int) -> bool:
        osd = self.view.cluster().osds.get(osd_id)
        return osd is not None and osd.up


class OwnRuns(NamedTuple):
    """Runs that only one knob makes, and what was left out; `cost` is who waits meanwhile."""

    runs: Tuple[RunSpec, ...]
    skipped: Tuple[str, ...]
    options: CampaignOptions
    cost: str

    @property
    def real(self) -> bool:
        """Whether a drive that is not simulated is among them."""
        return any(run.real for run in self.runs)


class Planner(Protocol):
    """Plans the changes of one knob from what is known now, and finds what is wrong with them.

    Only `tick` changes anything, and only what is the knob's own.  What is behind the knob's own
    commands are methods of it as well.
    """

    # What only campaigns of its own measure, by `own_runs`.
    own_loads: Tuple[LoadPoint, ...] = ()

    def plan(self, asked: Asked, world: World) -> Wanted:
        """The changes that make the recommendations true.

        Raises NotReadyError where nothing is known to plan by.
        """

    def instead(self, asked: Asked, world: World) -> Optional[CommandLine]:
        """What follows where a plan changes nothing: nothing by None, by NOTHING as elsewhere."""
        return NOTHING

    def trial_of(self, rollout: Rollout, world: World) -> Optional[OwnTrial]:
        """How a plan that begins with a change of this knob is tried, where not by that change.

        None: the change is made, measured and taken back.  Raises where it cannot be tried.
        """
        return None

    def objection(self, rollout: Rollout, back: bool, world: World) -> str:
        """Why what is left of a plan must not be made, or its way `back` not be gone; else "".

        Asked before a plan begins, before each step and before a rollback, of those that are in
        the engine's `objections`.
        """
        return ""

    def findings(self, world: World) -> Sequence[Finding]:
        """What is wrong now with what the knob is about; quick, since each `status` asks."""
        return ()

    def tick(self, world: World) -> None:
        """Do what is due of the knob; called by the serve loop."""
        return

    def load(self) -> None:
        """Take up what was stored, before the first tick; may raise, and is called again then."""
        return

    def start(self) -> None:
        """Begin what works in threads of its own."""
        return

    def close(self) -> None:
        """End that: the mgr stops."""
        return

    def wishes(self) -> Sequence[Wish]:
        """Hosts that `auto` may plan anew, since they are others than they were planned for."""
        return ()

    def pauses_s(self, emptied: Iterable[int]) -> Mapping[int, float]:
        """By OSD, how long its advice pauses once benches have emptied its caches."""
        return {}

    def own_runs(
        self, world: World, campaign_id: str, arguments: Mapping[str, Any]
    ) -> OwnRuns:
        """The runs of a campaign of one of `own_loads`, which toggle nothing."""
        raise NotFoundError(f"nothing measures {arguments.get('loads')}")

    def stale_keys(
        self, world: World, changing: AbstractSet[int], changed: AbstractSet[int]
    ) -> List[str]:
        """Stored values that a change of cache modes makes stale, or has made so.

        `changing` are OSDs whose drives are still to be changed, `changed` others.
        """
        return []


def make_all(parts: Parts) -> Dict[str, Planner]:
    """Make the planner of each knob, by the knob's name."""
    return {knob.name: knob.room.make(parts) for knob in KNOBS}


def with_all(found: Mapping[str, Planner]) -> Dict[str, Planner]:
    """The planner of each knob, by the knob's name, and that of several in one plan."""
    return {**found, ALL: _Together({knob.name: found[knob.name] for knob in TOGETHER})}


def in_place_by(world: World, knob: str, scope: Scope) -> str:
    """The newest plan of a knob that still stands in a scope; '' where none does."""
    found = [
        plan_id for plan_id, machine in world.rollouts.items()
        if machine.rollout.status is RolloutStatus.DONE and any(
            change.status is ChangeStatus.APPLIED and change.is_within(scope)
            and knob == change.setting.knob
            # a reboot may have taken it
            and not any(map(change.setting.unlike, world.drives_of(change)))
            for change in machine.rollout.changes
        )
    ]
    return max(found, key=lambda plan_id: (len(plan_id), plan_id), default="")


class _Together(Planner):
    """Several knobs in one plan: all changes of one before the first of the next.

    So no step changes two things, and what a step did is known before the next knob is touched.
    """

    def __init__(self, knobs: Mapping[str, Planner]) -> None:
        self._knobs = knobs

    def plan(self, asked: Asked, world: World) -> Wanted:
        """Return the changes of all knobs; leave out one that is not ready if others are."""
        changes: List[Change] = []
        left: List[str] = []
        doubts: List[str] = []
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
            doubts += wanted.doubts
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

        return Wanted(tuple(changes), tuple(left), remember, in_place, tuple(doubts))


def stale_keys_of(knobs: Iterable[Planner], world: World, rollout: Rollout) -> List[str]:
    """Stored values, of whatever knob, that a plan makes stale, or has made so."""
    changing: Set[int] = set()
    changed: Set[int] = set()
    for change, _ in rollout.mode_changes:
        if not change.real or change.setting.only_lasts:
            continue  # one that is only made to last changes no latency
        ids = {use.osd_id for drive in world.drives_of(change) for use in drive.uses}
        open_ = change.status in (ChangeStatus.PLANNED, ChangeStatus.APPLYING)
        (changing if open_ else changed).update(ids)
    return [key for knob in knobs for key in knob.stale_keys(world, changing, changed)]


def laid_out_otherwise(world: World, changes: Iterable[Change]) -> List[str]:
    """Say of which changes the verdict was proven only on OSDs whose DB or WAL lies elsewhere.

    Or the other way round.  A disk takes other writes where these are on other drives, so such
    experiments are not pooled; but a verdict is of a device class and drive model.
    """
    known: Dict[Tuple[object, ...], Set[str]] = {}
    found: Dict[Tuple[str, str, CommandLine], List[int]] = {}
    for change in filter(lambda each: each.real, changes):
        ground, mode = next(iter(change.grounds), None), change.setting.mode_wanted
        key = (change.kind, mode, ground and (ground.option, ground.value))
        if key not in known:
            known[key] = _proven_on(world, change, ground)
        told = known[key]
        osds = [world.cluster.osds[n] for n in change.treated if n in world.cluster.osds]
        unlike = next((osd for osd in osds if told and osd.apart not in told), None)
        if unlike is not None:
            measure = command("ceph wcache campaign start") if ground is None else command(
                "ceph wcache ab {}={},{}", ground.option, ground.now, ground.value
            )
            words = f"{change.device_class} {change.drive_model}: proven only on OSDs with "
            words += " or ".join(map(_elsewhere, sorted(told)))
            found.setdefault((words, unlike.apart, measure), []).append(unlike.osd_id)
    return [
        f"{words}, and {many(len(ids), 'change')} of OSDs with {_elsewhere(apart)}; to measure "
        f"these first: {ticked(chained((measure, command('--scope=osd.{}', min(ids))), ' '))}"
        for (words, apart, measure), ids in found.items()
    ]


def _elsewhere(apart: str) -> str:
    return f"{apart.upper()} elsewhere" if apart else "all on one drive"


def _proven_on(world: World, change: Change, ground: Optional[Ground]) -> Set[str]:
    """What OSDs have on other drives than their block, of those that its verdict is of."""
    if ground is None and change.setting.mode_wanted is None:
        return set()
    items: Iterable[Any] = world.recommendations if ground is None else (
        one for one in world.option_verdicts
        if one.trial.name == ground.option and one.verdict.decided
    )
    results = [
        (item.verdict, world.all_results[key]) for item in items if item.kind == change.kind
        for key in item.record_ids if key in world.all_results
    ]
    # where none says the same by itself a pool does, and no pool has drives laid out otherwise
    proof = [pair for pair in results if pair[0] is pair[1].verdict] or results
    return {one.pool_term.apart for _, one in proof if one.pool_term is not None}


# What a drive keeps of a change that is planned to last, and is not made yet.
PLANNED_TO_LAST = "planned"
Expectations = Mapping[DriveKind, Optional[Tuple[float, float]]]


def expectations(world: World) -> Expectations:
    """Latency in us with the cache on and off, as verdicts have it."""
    return {item.kind: expected(item, world.results) for item in world.recommendations}


def plain_changes(
    changes: Iterable[Change], to_last: bool, told: Expectations
) -> List[Dict[str, Any]]:
    """Each with its commands by hand, and what is expected; `to_last`: that is planned."""
    rows = []
    for change in changes:
        plain = codec.to_plain(change)
        mode = change.setting.mode_wanted
        if mode is not None:
            ends = told.get(change.kind) if change.status is ChangeStatus.PLANNED else None
            on_us, off_us = ends or (None, None)
            modes = {CacheMode.WRITE_BACK: on_us, CacheMode.WRITE_THROUGH: off_us}
            plain["expected_before_us"] = modes[mode.other]
            plain["expected_after_us"] = modes[mode]
        setting = plain.pop("setting")
        plain.update(setting.pop("domain", {}), **setting)
        before, after = plain.get("before"), plain.get("after")
        plain.update(
            expected=before, mode=after, value=after, manual=list(change.setting.manual),
            kept=PLANNED_TO_LAST if to_last and change.can_last
            else after if change.lasts else None,
        )
        rows.append({name: plain[name] for name in change.setting.SHOWN.split()})
    return rows

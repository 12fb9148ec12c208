"""The look at the cluster before a wave: what does not hold, who may stop, who can compare.

What the mgr knows itself is looked up at once.  What the mons must be asked for is asked
elsewhere, and the answer is posted.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import (
    Callable,
    FrozenSet,
    Iterator,
    List,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
)

from ...core import events
from ...core.automation.state import outside
from ...core.change import preconditions
from ...core.change.change import Change, ChangeStatus, Verdicts
from ...core.change.gate.blocks import CONTROLS_MIN
from ...core.change.gate.evidence import controls_for
from ...core.change.gating import BEFORE_OLD_S
from ...core.change.rollout import RolloutMachine
from ...core.change.rollout_state import RolloutStatus
from ...core.cluster import ClusterState
from ...core.fleet.claims import believed
from ...core.history import AUTO
from ...core.jobs import Touched
from ...core.record import Precondition
from ..hosts import leased_by
from ..under_way import (
    Shared,
    at_once,
    begun_jobs,
    in_common,
    open_jobs,
    touched_by,
    touched_by_run,
)

Groups = Tuple[Tuple[int, ...], ...]
Said = Callable[[], Verdicts]


class Stops(Protocol):
    """Port: what the mons say about stopping OSDs."""

    def ask(self, groups: Groups, done: Callable[[int, bool], None]) -> None:
        """Ask in the background; `done(together, upgrade)` once, from any thread.

        `together`: how many of the first groups may stop at the same time, 0 where not even
        one may.  `upgrade`: whether the orchestrator upgrades the cluster.
        """


@dataclass
class Looking:
    """Answers what rollouts ask before a wave; guarded by the engine's lock.

    `verdicts` are asked for under it, `verdicts_later` by whoever does not hold it.
    """

    _shared: Shared
    _stops: Stops
    _verdicts: Said
    _verdicts_later: Said

    def missed_now(
        self, machine: RolloutMachine, cluster: ClusterState, verdicts: Said
    ) -> Tuple[Precondition, ...]:
        """What does not hold, by what the mgr knows itself."""
        machine = machine.looking_ahead(cluster)
        fallen, _ = self._fallen(machine, machine.coming, verdicts)
        return (*self._missed(machine, cluster, self._in_the_way(machine, cluster)), *fallen)

    def _missed(
        self, machine: RolloutMachine, cluster: ClusterState, in_the_way: str
    ) -> Tuple[Precondition, ...]:
        """The same but for the verdict, which takes a large cluster a tenth of a second."""
        missed: List[Precondition] = [*cluster.blocking]
        if _ill(machine, cluster):
            missed.append(Precondition.OSDS_WELL)
        if self._moved(machine, cluster):
            missed.append(Precondition.PLAN_STANDS)
        if not self._is_settled(machine):
            missed.append(Precondition.JOURNAL_SETTLED)
        if self._shared.frozen:
            missed.append(Precondition.NOT_FROZEN)
        if not self._heard(machine):
            missed.append(Precondition.PROBES_HEARD)
        if in_the_way:
            missed.append(Precondition.NO_OTHER_PLAN)
        windows = self._shared.options().auto_windows
        if machine.rollout.by == AUTO and outside(windows, self._shared.clock()):
            missed.append(Precondition.IN_WINDOW)
        return tuple(missed)

    def _others(self, machine: RolloutMachine) -> List[RolloutMachine]:
        """The other plans that are not over."""
        mine, plans = machine.rollout.plan_id, self._shared.rollouts
        return [plans[name] for name in open_jobs(plans) if name != mine]

    def _in_the_way(self, machine: RolloutMachine, cluster: ClusterState) -> str:
        """What it has in common with what goes on and goes first; "" for nothing."""
        theirs = [*self._before(machine, cluster)]
        if not theirs:
            return ""
        mine = touched_by(machine.rollout, cluster)
        if machine.rollout.status is RolloutStatus.PLANNED:
            theirs = [each.own for each in theirs]  # it may begin, and wait for controls
        return next(filter(None, (in_common(mine, each) for each in theirs)), "")

    def _before(self, machine: RolloutMachine, cluster: ClusterState) -> Iterator[Touched]:
        for run_id in begun_jobs(self._shared.runs):
            yield touched_by_run(self._shared.runs[run_id].spec)
        for each in self._shared.reserved:
            yield each.touched
        for other in self._others(machine):
            if _goes_first(other, machine):
                yield touched_by(other.rollout, cluster)

    def as_of_now(self, owner: str, seen: events.ClusterSeen) -> events.ClusterSeen:
        """The answer to a look when it is taken: the mons took their time, and others went on.

        What the mons were not asked about together is not touched at once, and what others change
        or measure, or may take back, is no control.
        """
        machine = self._shared.rollouts.get(owner)
        if machine is None:
            return seen
        ahead = copy(machine)
        ahead.take_later(machine.rollout.later if seen.later is None else seen.later)
        if _toggles(ahead.current) and not self._at_once(machine) <= seen.beside:
            seen = replace(seen, missed=(*seen.missed, Precondition.OK_TO_STOP))
        if not seen.controls:
            return seen
        taken = self._taken(machine, self._shared.view.cluster())
        left = tuple(osd_id for osd_id in seen.controls if osd_id not in taken)
        return replace(seen, controls=left if len(left) >= CONTROLS_MIN else ())

    def _at_once(self, machine: RolloutMachine) -> FrozenSet[int]:
        return at_once(self._shared.runs, self._shared.rollouts, but=machine.rollout.plan_id)

    def _taken(self, machine: RolloutMachine, cluster: ClusterState) -> Set[int]:
        """OSDs that other plans may change or take back, or that runs or trials measure.

        So are those of a plan that went on beside this one and has just ended: what this one
        measured before may be of a time before they were changed.
        """
        found = {
            osd_id for run_id in open_jobs(self._shared.runs)
            for osd_id in self._shared.runs[run_id].spec.osd_ids
        }
        for each in self._shared.reserved:
            found |= each.touched.osds
        since_s = max(machine.rollout.began_at_s, self._shared.clock() - BEFORE_OLD_S)
        for name, other in self._shared.rollouts.items():
            mine = name == machine.rollout.plan_id
            if not mine and (not other.over or other.rollout.ended_at_s > since_s):
                found |= touched_by(other.rollout, cluster).osds
        return found

    def see(
        self, machine: RolloutMachine, look: events.LookAtCluster,
        done: Callable[[events.ClusterSeen], None],
    ) -> None:
        """Look for a step of its groups: `done` is called once, now or from another thread."""
        cluster = self._shared.view.cluster()
        machine = machine.looking_ahead(cluster)
        coming, later = machine.coming, machine.rollout.later
        groups = look.groups if machine.rollout.step.last else machine.groups_next
        common = self._in_the_way(machine, cluster)
        missed = self._missed(machine, cluster, common)
        shared = (f"in common: {common}",) if common else ()
        detail = "; ".join((*cluster.sick, *_ill(machine, cluster), *shared))
        moved = self._moved(machine, cluster)
        if not groups:
            fallen, why = self._fallen(machine, coming, self._verdicts)
            seen = (*missed, *fallen)
            done(events.ClusterSeen(
                look.token, seen, detail=detail, moved=moved or why, later=later
            ))
            return
        # benches are compared with the same OSD's own, before the change
        by_load = machine.rollout.gate.by_load and machine.wants_controls
        controls = self._controls(machine, groups, cluster) if by_load else ()
        beside = self._at_once(machine)
        several = tuple(tuple(sorted(beside.union(group))) for group in groups)
        asked = several if _may_stop_several(machine.current, several) else ()
        # one OSD by itself is not stopped by a toggle, and its PGs are clean
        least = 1 if len(several[0]) < 2 else 0

        def answered(stoppable: int, upgrade: bool) -> None:
            together = max(least, stoppable) if asked else len(groups)
            more = [Precondition.OK_TO_STOP] if together < 1 else []
            if upgrade and Precondition.NO_UPGRADE not in missed:
                more.append(Precondition.NO_UPGRADE)
            # here, where nobody waits for the engine's lock
            fallen, why = self._fallen(machine, coming, self._verdicts_later)
            seen, said = (*missed, *more, *fallen), moved or why
            done(events.ClusterSeen(
                look.token, seen, together, controls, detail, said, later, beside
            ))

        self._stops.ask(asked, answered)

    def _controls(
        self, machine: RolloutMachine, groups: Groups, cluster: ClusterState
    ) -> Tuple[int, ...]:
        treated = {osd_id for group in groups for osd_id in group}
        touched: Set[int] = {
            osd_id for change in machine.rollout.changes
            if change.status is not ChangeStatus.PLANNED or change is machine.current
            for osd_id in change.setting.concerned_osds(cluster)
        }
        touched |= self._taken(machine, cluster) | machine.unseen_osds
        turns = {
            osd_id: turn for turn, change in enumerate(machine.rollout.changes)
            for osd_id in change.treated
        }
        reports = [
            one for one in believed(self._shared.hosts.reports.values(), cluster) if one.real
        ]
        return controls_for(treated, touched, reports, cluster, turns)

    def _is_settled(self, machine: RolloutMachine) -> bool:
        """Whether no lease may still hold the drive that a rollout changes next."""
        change = machine.current
        if change is None or not change.domain_id:
            return True
        hosts = self._shared.hosts
        report = hosts.reports.get(change.hostname)
        known = change.hostname in hosts.journal_known
        return known and report is not None and not leased_by(report, change.domain_id)

    def _moved(self, machine: RolloutMachine, cluster: ClusterState) -> str:
        """Why what comes next would not be planned like this any more; "" where it would.

        A change on a host that has not reported to this mgr is not asked about: its stored
        report may be of a time in a lease.  JOURNAL_SETTLED waits for its next one.
        """
        hosts = self._shared.hosts
        coming = [
            one for one in machine.coming
            if one.status is not ChangeStatus.PLANNED or one.hostname in hosts.journal_known
        ]
        found = preconditions.moved(machine.rollout, hosts.reports, cluster, coming)
        return next(iter(found.values()), "")

    def _fallen(
        self, machine: RolloutMachine, coming: Sequence[Change], verdicts: Said
    ) -> Tuple[Tuple[Precondition, ...], str]:
        """VERDICT_STANDS where what comes next is no longer what verdicts speak for.

        PLAN_STANDS where a knob is against what is left, and why.  Where nobody can say, the
        verdict does not stand.
        """
        if not coming:
            return (), ""
        moved, against = [], ""
        try:
            said = verdicts()
            moved = preconditions.verdicts_moved(coming, said)
            against = said.objection(machine.rollout)
        except Exception as error:
            # in another thread it would be lost, and the rollout would wait for ever
            self._shared.log.exception("the verdicts could not be asked for")
            moved.append(repr(error))
        fallen = (Precondition.VERDICT_STANDS,) if moved else ()
        return (*fallen, *((Precondition.PLAN_STANDS,) if against else ())), against

    def _heard(self, machine: RolloutMachine) -> bool:
        """Whether the probe that makes the change is heard, and most of the others."""
        change, now_s = machine.current, self._shared.clock()
        heard = {
            agent.hostname for agent in self._shared.hosts.agents.all() if not agent.silent(now_s)
        }
        known = len(self._shared.hosts.agents.all())
        needed = change.hostname if change is not None else ""
        return (not needed or needed in heard) and 2 * len(heard) >= known


def _goes_first(one: RolloutMachine, other: RolloutMachine) -> bool:
    """Of two plans that must not go on together: the one in a step, else the one begun first."""
    if one.rollout.step.indices or one.rollout.status is RolloutStatus.ROLLING_BACK:
        return True
    first, second = ((each.rollout.began_at_s, each.rollout.plan_id) for each in (one, other))
    return other.rollout.status is RolloutStatus.PLANNED or first < second


def _ill(machine: RolloutMachine, cluster: ClusterState) -> Tuple[str, ...]:
    """Which OSDs keep the next changes from being made, and why, in words."""
    if machine.waits_to_judge:
        return tuple(filter(None, (machine.illness_of_step(cluster),)))
    found = (preconditions.illness_of(change, cluster) for change in machine.coming)
    return tuple(filter(None, found))


def _may_stop_several(change: Optional[Change], groups: Groups) -> bool:
    """Whether a step has several OSDs wait for drives at once.

    A toggle stops no OSD: it waits for a flush.  A drive that hangs in it stops its OSDs: one,
    which every cluster bears whose PGs are clean, or all those that share it, or the step.  A
    value in the config database and a mode that only is to last touch no drive's switch.
    """
    return _toggles(change) and (len(groups) > 1 or len(groups[0]) > 1)


def _toggles(change: Optional[Change]) -> bool:
    return change is not None and bool(change.domain_id) and not change.setting.only_lasts

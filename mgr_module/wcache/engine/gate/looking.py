"""The look at the cluster before a wave: what does not hold, who may stop, who can compare.

What the mgr knows itself is looked up at once.  What the mons must be asked for is asked
elsewhere, and the answer is posted.
"""

from __future__ import annotations

import logging
from typing import Callable, Dict, List, Optional, Protocol, Sequence, Set, Tuple

from ...core import events
from ...core.change import preconditions as holding
from ...core.change import staleness
from ...core.change.change import Verdicts
from ...core.change.change_status import ChangeStatus
from ...core.change.gate.controls import controls_for
from ...core.change.rollout import RolloutMachine
from ...core.change.rollout_state import Change
from ...core.cluster import ClusterState, ClusterView
from ...core.experiment.run import RunMachine
from ...core.fleet.claims import believed
from ...core.history.entry import AUTO
from ...core.record import Precondition
from ..hosts import Hosts
from ..under_way import begun_runs, open_plans

Groups = Tuple[Tuple[int, ...], ...]
Said = Callable[[], Verdicts]


class Stops(Protocol):
    """Port: what the mons say about stopping OSDs."""

    def ask(self, groups: Groups, done: Callable[[int, bool], None]) -> None:
        """Ask in the background; `done(together, upgrade)` once, from any thread.

        `together`: how many of the first groups may stop at the same time, 0 where not even
        one may.  `upgrade`: whether the orchestrator upgrades the cluster.
        """


class Looking:
    """Answers what rollouts ask before a wave; guarded by the engine's lock.

    `verdicts` are asked for under it, `verdicts_later` by whoever does not hold it.
    """

    def __init__(
        self, *, stops: Stops, view: ClusterView, hosts: Hosts, clock: Callable[[], float],
        post_event: Callable[[str, events.Event], None], reserved: Callable[[], bool],
        outside_windows: Callable[[], bool], runs: Dict[str, RunMachine],
        rollouts: Dict[str, RolloutMachine], frozen: Callable[[], bool],
        verdicts: Said, verdicts_later: Said, log: logging.Logger,
    ) -> None:
        self._stops = stops
        self._view = view
        self._hosts = hosts
        self._clock = clock
        self._post_event = post_event
        self._reserved = reserved
        self._outside_windows = outside_windows
        self._runs = runs
        self._rollouts = rollouts
        self._frozen = frozen
        self._verdicts = verdicts
        self._verdicts_later = verdicts_later
        self._log = log

    def missed_now(
        self, machine: RolloutMachine, cluster: ClusterState, verdicts: Said
    ) -> Tuple[Precondition, ...]:
        """What does not hold, by what the mgr knows itself."""
        machine = machine.looking_ahead(cluster)
        fallen = self._fallen(machine.coming, verdicts)
        return (*self._missed(machine, cluster), *fallen)

    def _missed(
        self, machine: RolloutMachine, cluster: ClusterState
    ) -> Tuple[Precondition, ...]:
        """The same but for the verdict, which takes a large cluster a tenth of a second."""
        missed: List[Precondition] = [*cluster.blocking]
        if _ill(machine, cluster):
            missed.append(Precondition.OSDS_WELL)
        if self._moved(machine, cluster):
            missed.append(Precondition.PLAN_STANDS)
        if not self._is_settled(machine):
            missed.append(Precondition.JOURNAL_SETTLED)
        if self._frozen():
            missed.append(Precondition.NOT_FROZEN)
        if machine.rollout.gate is None:
            return tuple(missed)
        if not self._heard(machine):
            missed.append(Precondition.PROBES_HEARD)
        others = {*open_plans(self._rollouts)} - {machine.rollout.plan_id}
        if others or begun_runs(self._runs) or self._reserved():
            missed.append(Precondition.NO_OTHER_PLAN)
        if machine.rollout.by == AUTO and self._outside_windows():
            missed.append(Precondition.IN_WINDOW)
        return tuple(missed)

    def look(self, owner: str, machine: RolloutMachine, groups: Groups) -> None:
        """Post a ClusterSeen, at once or when the mons have answered."""
        self.see(machine, groups, lambda seen: self._post_event(owner, seen))

    def see(
        self, machine: RolloutMachine, groups: Groups,
        done: Callable[[events.ClusterSeen], None],
    ) -> None:
        """The same for anybody: `done` is called once, at once or from another thread."""
        cluster = self._view.cluster()
        machine = machine.looking_ahead(cluster)
        coming, later = machine.coming, machine.rollout.later
        if not machine.rollout.step.last:
            groups = machine.groups_next
        missed = self._missed(machine, cluster)
        detail = "; ".join((*cluster.sick, *_ill(machine, cluster)))
        moved = self._moved(machine, cluster)
        if not groups:
            fallen = self._fallen(coming, self._verdicts)
            seen = (*missed, *fallen)
            done(events.ClusterSeen(seen, detail=detail, moved=moved, later=later))
            return
        gate = machine.rollout.gate
        # benches are compared with the same OSD's own, before the change
        by_load = gate is not None and gate.by_load and machine.wants_controls
        controls = self._controls(machine, groups, cluster) if by_load else ()
        asked = groups if _may_stop_several(machine.current, groups) else ()
        # one OSD by itself is not stopped by a toggle, and its PGs are clean
        least = 1 if len(groups[0]) < 2 else 0

        def answered(stoppable: int, upgrade: bool) -> None:
            together = max(least, stoppable) if asked else len(groups)
            more = [Precondition.OK_TO_STOP] if together < 1 else []
            if upgrade and Precondition.NO_UPGRADE not in missed:
                more.append(Precondition.NO_UPGRADE)
            # here, where nobody waits for the engine's lock
            more += self._fallen(coming, self._verdicts_later)
            seen = (*missed, *more)
            done(events.ClusterSeen(seen, together, controls, detail, moved, later))

        self._stops.ask(asked, answered)

    def _controls(
        self, machine: RolloutMachine, groups: Groups, cluster: ClusterState
    ) -> Tuple[int, ...]:
        treated = {osd_id for group in groups for osd_id in group}
        touched: Set[int] = {
            osd_id for change in machine.rollout.changes
            if change.status is not ChangeStatus.PLANNED or change is machine.current
            for osd_id in change.concerned_osds(cluster)
        }
        turns = {
            osd_id: turn for turn, change in enumerate(machine.rollout.changes)
            for osd_id in change.treated
        }
        reports = believed(self._hosts.reports.values(), cluster)
        return controls_for(treated, touched, reports, cluster, turns)

    def _is_settled(self, machine: RolloutMachine) -> bool:
        """Whether no lease may still hold the drive that a rollout changes next."""
        change = machine.current
        if change is None or not change.domain_id:
            return True
        return self._hosts.holds_no_lease(change.hostname, change.domain_id)

    def _moved(self, machine: RolloutMachine, cluster: ClusterState) -> str:
        """Why what comes next would not be planned like this any more; "" where it would."""
        coming = machine.coming
        if not coming:
            return ""
        found = staleness.moved(machine.rollout, self._hosts.reports, cluster, coming)
        return found[0] if found else ""

    def _fallen(self, coming: Sequence[Change], verdicts: Said) -> Tuple[Precondition, ...]:
        """VERDICT_STANDS where what comes next is no longer what verdicts speak for.

        Where nobody can say, it does not stand.
        """
        if not coming:
            return ()
        try:
            moved = staleness.verdicts_moved(coming, verdicts())
        except Exception as error:
            # in another thread it would be lost, and the rollout would wait for ever
            self._log.exception("the verdicts could not be asked for")
            moved = [repr(error)]
        return (Precondition.VERDICT_STANDS,) if moved else ()

    def _heard(self, machine: RolloutMachine) -> bool:
        """Whether the probe that makes the change is heard, and most of the others."""
        change, now_s = machine.current, self._clock()
        heard = {
            agent.hostname for agent in self._hosts.agents.all() if not agent.silent(now_s)
        }
        known = len(self._hosts.agents.all())
        needed = change.hostname if change is not None else ""
        return (not needed or needed in heard) and 2 * len(heard) >= known


def _ill(machine: RolloutMachine, cluster: ClusterState) -> Tuple[str, ...]:
    """Which OSDs keep the next changes from being made, and why, in words."""
    if machine.waits_to_judge:
        return tuple(filter(None, (machine.illness_of_step(cluster),)))
    found = (holding.illness_of(change, cluster) for change in machine.coming)
    return tuple(filter(None, found))


def _may_stop_several(change: Optional[Change], groups: Groups) -> bool:
    """Whether a step has several OSDs wait for drives at once.

    A toggle stops no OSD: it waits for a flush.  A drive that hangs in it stops its OSDs: one,
    which every cluster bears whose PGs are clean, or all those that share it, or the step.  A
    value in the config database and a mode that only is to last touch no drive's switch.
    """
    if change is None or not change.domain_id or change.only_lasts:
        return False
    return len(groups) > 1 or len(groups[0]) > 1

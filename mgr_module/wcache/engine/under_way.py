"""The one place that knows what is under way: runs, plans and trials that are not over, and where.

A bench call that goes on after its run is `Measuring.last_call`.
"""

from __future__ import annotations

from typing import FrozenSet, Iterator, List, Mapping, Optional, Protocol, Tuple

from ..core.change.gate.judge import Judgement
from ..core.change.phase import Phase
from ..core.change.rollout_state import Change, Rollout
from ..core.change.stepping import Step
from ..core.experiment.run_state import RunSpec, RunState
from ..core.fleet.disputes import Key
from ..core.jobs import Holding, Trial
from ..core.record import ExperimentSetup


class RunLook(Protocol):
    """A run as it stands."""

    @property
    def spec(self) -> RunSpec:
        """Its fixed part."""

    @property
    def state(self) -> RunState:
        """Where it stands, as it is stored."""

    @property
    def over(self) -> bool:
        """Whether it has come to its end."""

    @property
    def under_way(self) -> bool:
        """Whether it has begun and is not over."""

    @property
    def holds_lease(self) -> bool:
        """Whether the probe may hold the domain in a mode of ours."""

    @property
    def bytes_spent(self) -> int:
        """Bytes written so far by measuring."""

    @property
    def seconds_spent(self) -> float:
        """Drive time so far, what was interrupted included."""

    @property
    def open_periods(self) -> Tuple[int, int]:
        """(periods done, periods at most) of the experiments that have not ended."""

    @property
    def open_experiments(self) -> Tuple[Tuple[ExperimentSetup, int], ...]:
        """Each experiment that has not ended, with its periods done."""


class RolloutLook(Protocol):
    """A plan as it stands, and its machine."""

    @property
    def rollout(self) -> Rollout:
        """The plan as it is stored."""

    @property
    def over(self) -> bool:
        """Whether nothing is under way and nothing waits for an admin."""

    @property
    def moving(self) -> bool:
        """Whether something is under way."""

    @property
    def paused(self) -> bool:
        """Whether it waits for an admin."""

    @property
    def mid_change(self) -> bool:
        """Whether a change was asked for and is not yet proven, or is taken back."""

    @property
    def phase(self) -> Phase:
        """What it waits for."""

    @property
    def current(self) -> Optional[Change]:
        """The change under way, if any."""

    @property
    def waits_for(self) -> Tuple[str, ...]:
        """What keeps it from going on, in words."""

    @property
    def would_go_back(self) -> Tuple[Change, ...]:
        """What an abort would take back now."""

    @property
    def coming(self) -> Tuple[Change, ...]:
        """The changes that are made next."""

    def steps_left(self) -> Iterator[Step]:
        """The step under way and those after it, if all are proven."""

    def next_step(self) -> Tuple[int, str]:
        """Of how many changes the next step is, and why."""

    @property
    def blocks_max(self) -> int:
        """How many blocks the watch under way has at most."""

    @property
    def blocks_seen(self) -> int:
        """How many blocks the watch under way has so far."""

    def now_judged(self) -> Optional[Judgement]:
        """What the blocks after the step say so far."""


Runs = Mapping[str, RunLook]
Rollouts = Mapping[str, RolloutLook]


def open_runs(runs: Runs) -> List[str]:
    """Runs that are not over, those that wait for their turn included."""
    return [run_id for run_id, machine in runs.items() if not machine.over]


def begun_runs(runs: Runs) -> List[str]:
    """Runs that have begun and are not over."""
    return [run_id for run_id, machine in runs.items() if machine.under_way]


def open_plans(rollouts: Rollouts) -> List[str]:
    """Plans that were begun and are not over, paused ones included."""
    return [plan_id for plan_id, machine in rollouts.items() if not machine.over]


def moving_plans(rollouts: Rollouts) -> List[str]:
    """Plans of which something is under way."""
    return [plan_id for plan_id, machine in rollouts.items() if machine.moving]


def open_trials(trials: Mapping[str, Trial]) -> List[str]:
    """Trials that are not over: those that have still to take something back too."""
    return [job_id for job_id, machine in trials.items() if not machine.over]


def held(trials: Mapping[str, Trial]) -> Optional[Holding]:
    """The trial that has OSDs for itself, if one has."""
    return next((one.holds for one in trials.values() if one.holds is not None), None)


def leased(runs: Runs) -> FrozenSet[Key]:
    """The cache domains that experiments hold."""
    return frozenset(
        (machine.spec.hostname, domain_id) for machine in runs.values()
        if machine.holds_lease for domain_id in machine.spec.domain_ids
    )


def changing(rollouts: Rollouts) -> FrozenSet[Key]:
    """The cache domains of plans that are not over: mixed modes are their very purpose."""
    return frozenset(
        (change.hostname, change.domain_id) for plan_id in open_plans(rollouts)
        for change in rollouts[plan_id].rollout.drive_changes
    )


def busy(hostname: str, runs: Runs, rollouts: Rollouts) -> bool:
    """Whether one of them has something to do with a host now."""
    now = (rollouts[plan_id].current for plan_id in moving_plans(rollouts))
    return any(runs[run_id].spec.hostname == hostname for run_id in begun_runs(runs)) or any(
        change is not None and change.hostname == hostname for change in now
    )

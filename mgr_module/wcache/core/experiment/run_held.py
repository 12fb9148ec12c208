"""What a run holds, and how it gives it back: its lease, its cache domains, their prior states.

The part of the run's machine that asks for no measurement, with the experiment under way.  A
domain is given back when what was read of it equals what was stored before its first touch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import AbstractSet, List, Optional, Tuple, TypeVar

from .. import events
from ..codec import one_line
from ..drive.prior import PriorDoubt
from ..drive_kind import DriveKind
from ..protocol import Request, StateOutcome
from ..record import CHECKS_MAX, ExperimentSetup, Precondition, Record
from . import accounting, run_priors
from . import budget as run_budget
from .pairs import (
    PAIRS_WITHOUT_ANALYSIS,
    Discarded,
    compose,
    is_look,
    next_slot,
    pairs_of,
    whole,
)
from .period import PeriodUnderWay, Stage
from .run_state import OVER, RunSpec, RunState, RunStatus, may_turn_on
from .settling_time.checks import due_check, pairs_limit, settled
from .slots import AnySlot, CheckSlot, Periods, Slot

Machine = TypeVar("Machine", bound="HeldRun")
BACK = "read back: the prior state is restored"


@dataclass(frozen=True)
class ExperimentUnderWay:
    """The experiment of a run at `index`: its saved periods, and what voided ones have cost.

    What is next, when it ends, and its record are worked out from the saved periods alone, so a
    mgr that takes over finds the same.
    """

    spec: RunSpec
    index: int
    periods: Periods
    discarded: Discarded
    missed: Tuple[Precondition, ...] = ()  # what did not hold while it was measured
    starting_bytes: int = 0  # written so far for periods to begin where they should
    checks: Tuple[str, ...] = ()  # health checks that were raised meanwhile

    @property
    def setup(self) -> ExperimentSetup:
        """What is measured."""
        return self.spec.experiments[self.index]

    @property
    def next_slot(self) -> AnySlot:
        """Where the first settling check or period is missing; beyond the last pair, if none is."""
        return due_check(self.setup, self.periods) or next_slot(self.periods)

    @property
    def all_measured(self) -> bool:
        """Whether there are as many pairs as there may be."""
        slot = self.next_slot
        return not isinstance(slot, CheckSlot) and slot.pair_index >= pairs_limit(self.setup)

    @property
    def look_is_due(self) -> bool:
        """Whether the analysis is asked before anything else is measured."""
        return is_look(self.setup, next_slot(self.periods))

    def settle_s(self, slot: AnySlot) -> float:
        """How long a period settles; a settling check begins at once."""
        return 0.0 if isinstance(slot, CheckSlot) else settled(self.setup, self.periods).settle_s

    def spent(self, *, same: bool = False) -> str:
        """Which budget does not hold what is next, in words (`run_budget.spent`)."""
        return run_budget.spent(self.spec, self.setup, self.periods, self.discarded, same=same)

    def cut_off_at_s(self, now: PeriodUnderWay) -> float:
        """When the budget ends this period; before it has settled, by time alone."""
        cost = run_budget.cost_of(self.setup, self.periods, self.discarded)
        settles = self.spec.waits_for_controller and now.phase is not Stage.MEASURING
        # what was written before has kept clients waiting as well
        settled_at_s = math.inf if settles else (now.settled_at_s or math.inf) - now.written_s
        return run_budget.cut_off_at_s(
            self.spec, self.setup, cost, now.started_at_s, settled_at_s
        )

    @property
    def starting_left(self) -> Tuple[int, float]:
        """Bytes it may still write for a period to begin where it should, and for how long."""
        cost = run_budget.cost_of(self.setup, self.periods, self.discarded)
        left_s = self.spec.client_wait_max_s - cost.client_wait_s
        return self.spec.starting_bytes - self.starting_bytes, left_s

    def ends_after(self, look: events.Decided) -> str:
        """Why it ends with what this look of the analysis found; empty where it goes on."""
        pairs = len(pairs_of(self.setup, self.periods))
        most = pairs_limit(self.setup)
        if look.failed and pairs >= min(PAIRS_WITHOUT_ANALYSIS, most):
            return f"not analysed: {look.failed}"
        if look.stop:
            return "decided"
        if pairs >= most:
            return f"budget of {pairs} pairs is spent"
        return self.spent(same=True) if look.same else ""

    def record(self, ended: str, now_s: float) -> Record:
        """The record of what was measured so far; `ended` says why no more was."""
        return compose(
            self.setup, self.periods, record_id=f"{self.spec.run_id}.{self.index}",
            campaign_id=self.spec.campaign_id, ended=ended, ended_at_s=now_s,
            discarded=self.discarded, missed=self.missed, forced=self.spec.forced,
            checks=self.checks,
        )


@dataclass
class HeldRun:
    """What a run is made of, and how it ends.  `periods` are the saved ones of each experiment."""

    state: RunState
    periods: List[Periods]
    epoch: str = "0"  # differs after each restart of the mgr, so that answers cannot mix
    _now: PeriodUnderWay = field(default_factory=lambda: PeriodUnderWay(Slot(0, False)))
    _serial: int = 0
    _releases: int = 0

    def __post_init__(self) -> None:
        missing = len(self.state.spec.experiments) - len(self.state.waste)
        discarded = (*self.state.waste, *(Discarded() for _ in range(missing)))
        self.state = replace(self.state, waste=discarded)
        self._keep_whole()

    def _keep_whole(self) -> Periods:
        """Leave out what was thrown away, and return it; what is stored of it is written over."""
        if self.over or self._all_over or not self.state.voided_at_s:
            return {}
        index = self.experiment_index
        before = self.periods[index]
        kept = whole(self._setup, before, self.state.voided_at_s)
        self._put_periods(index, kept)
        return {slot: period for slot, period in before.items() if slot not in kept}

    def _put_periods(self, index: int, periods: Periods) -> None:
        """Replace those of one experiment, as a copy of this run has the same list."""
        self.periods = [*self.periods[:index], periods, *self.periods[index + 1:]]

    # ---- what others ask

    @property
    def spec(self) -> RunSpec:
        """The run's fixed part."""
        return self.state.spec

    @property
    def over(self) -> bool:
        """Whether the run has come to its end."""
        return self.state.status in OVER

    @property
    def holds_lease(self) -> bool:
        """Whether the probe may hold the domain in a mode of ours."""
        return self.under_way and self.spec.toggles

    @property
    def under_way(self) -> bool:
        """Whether it has begun and is not over."""
        return self.state.status in (RunStatus.RUNNING, RunStatus.RELEASING)

    @property
    def wake_at_s(self) -> Optional[float]:
        """When the machine wants its next Tick, or None."""
        return self._now.wake_at_s

    @property
    def waits_long(self) -> bool:
        """See Job: never for as long, whenever its budget ends."""
        return False

    @property
    def waited_for(self) -> str:
        """See Job; of an OSD's option no probe knows."""
        return self.spec.hostname if self.spec.option_osd is None else ""

    @property
    def hostnames(self) -> AbstractSet[str]:
        """See Job."""
        return {self.spec.hostname}

    @property
    def may_turn_on(self) -> AbstractSet[DriveKind]:
        """See Job; what it has turned on is being turned off where it is releasing."""
        goes_on = self.state.status in (RunStatus.WAITING, RunStatus.RUNNING)
        return may_turn_on(self.spec) if goes_on else set()

    def stalled(self, said: str) -> events.Event:
        """See Job; nobody waits for a release for ever."""
        releasing = self.state.status is RunStatus.RELEASING
        return events.AgentSilent(said) if releasing else events.Halt(said)

    def abandoned(self: Machine, reason: str) -> Machine:
        """See Job: whether its domains are as before, only the probe can say."""
        never_held = self.state.status is RunStatus.WAITING or self.spec.observes
        state = replace(
            self.state, status=RunStatus.ABORTED, reason=one_line(reason), restored=never_held,
            owed=() if never_held else self.spec.domain_ids,
        )
        return type(self)(state, [{} for _ in self.spec.experiments], self.epoch)

    @property
    def experiment_index(self) -> int:
        """Index of the experiment under way."""
        return len(self.state.finished)

    @property
    def seconds_spent(self) -> float:
        """Drive time spent so far, interrupted periods included."""
        return accounting.seconds_spent(self.state, self.periods)

    @property
    def bytes_spent(self) -> int:
        """Bytes written so far by measuring, interrupted periods included."""
        return accounting.bytes_spent(self.state, self.periods)

    @property
    def open_periods(self) -> Tuple[int, int]:
        """(periods done, periods at most) of the experiments that have not ended."""
        if self.over:
            return 0, 0
        index = self.experiment_index
        return (
            sum(isinstance(slot, Slot) for periods in self.periods[index:] for slot in periods),
            sum(2 * pairs_limit(setup) for setup in self.spec.experiments[index:]),
        )

    @property
    def open_experiments(self) -> Tuple[Tuple[ExperimentSetup, int], ...]:
        """Each experiment that has not ended, with its periods done."""
        first = len(self.spec.experiments) if self.over else self.experiment_index
        return tuple(
            (setup, sum(isinstance(slot, Slot) for slot in periods))
            for setup, periods in zip(self.spec.experiments[first:], self.periods[first:])
        )

    @property
    def _all_over(self) -> bool:
        """Whether every experiment has ended."""
        return self.experiment_index >= len(self.spec.experiments)

    @property
    def _experiment(self) -> ExperimentUnderWay:
        index = self.experiment_index
        return ExperimentUnderWay(
            self.spec, index, self.periods[index], self.state.waste[index], self.state.missed,
            self.state.starting_bytes, self.state.checks,
        )

    @property
    def _setup(self) -> ExperimentSetup:
        return self.spec.experiments[self.experiment_index]

    # ---- giving back and ending

    def _release(self) -> List[events.Action]:
        self.state = replace(self.state, status=RunStatus.RELEASING)
        return self._give_back()

    def _give_back(self) -> List[events.Action]:
        self._releases += 1
        self._now = PeriodUnderWay(Slot(0, False), phase=Stage.RELEASING)
        return self._release_next()

    @property
    def _releasing(self) -> str:
        """The cache domain whose release was asked for."""
        return self.spec.domain_ids[len(self._now.released)]

    def _release_next(self) -> List[events.Action]:
        """Ask for the next domain that was touched, or end."""
        domain_ids = self.spec.domain_ids
        while len(self._now.released) < len(domain_ids):
            domain_id = self._releasing
            if run_priors.touched(self.state, domain_id):
                request = run_priors.release_request(self.state, domain_id)
                return [events.SaveRun(), self._task(request)]
            self._now.released += (True,)
        if self.state.status is RunStatus.RUNNING:
            return self._given_back_while_ill(all(self._now.released))
        final = RunStatus.ABORTED if self.state.reason else RunStatus.DONE
        owed = tuple(name for name, back in zip(domain_ids, self._now.released) if not back)
        return self._end(final, self.state.reason, restored=not owed, owed=owed)

    @abstractmethod
    def _given_back_while_ill(self, back: bool) -> List[events.Action]:
        """Wait until its OSDs are well, or end where a domain is not back."""

    def _released(
        self, problem: str, doubt: PriorDoubt = PriorDoubt.NONE
    ) -> List[events.Action]:
        """The probe has answered for one cache domain; no problem: it was read as it was."""
        self._now.released += (not problem,)
        if doubt is PriorDoubt.DISPUTED:
            self.state = replace(self.state, dispute=one_line(problem))
        if problem:
            self.state = replace(self.state, reason=one_line(problem))
        return self._release_next()

    def _end_owing(self, reason: str) -> List[events.Action]:
        """Nobody answers for the domains: what was touched is owed until it is read."""
        began = self.state.status is not RunStatus.WAITING
        owed = tuple(
            name for name in self.spec.domain_ids if began and run_priors.touched(self.state, name)
        )
        return self._end(RunStatus.ABORTED, reason, restored=not owed, owed=owed)

    def _given_back_late(self, event: events.Event) -> List[events.Action]:
        """An OSD that did not answer when the run ended has its own value back now."""
        if not isinstance(event, events.TaskAnswered) or self.spec.option_osd is None:
            return []
        outcome, domain_id = event.outcome, self.spec.domain_id
        if self.state.settled or not isinstance(outcome, StateOutcome):
            return []
        if run_priors.words_of_release(self.state, domain_id, outcome):
            return []
        self.confirm(domain_id)
        return [events.SaveRun(), events.Note(BACK)]

    def confirm(self, domain_id: str) -> None:
        """A cache domain was read, and is as it was before the run."""
        owed = self.state.owed or self.spec.domain_ids
        owed = tuple(
            name for name in owed
            if name != domain_id and run_priors.touched(self.state, name)
        )
        self.state = replace(self.state, restored=not owed, owed=owed)

    def _end(
        self, status: RunStatus, reason: str, *, restored: bool, owed: Tuple[str, ...] = ()
    ) -> List[events.Action]:
        self.state = replace(
            self.state, status=status, reason=reason, restored=restored, owed=owed
        )
        self._now = PeriodUnderWay(Slot(0, False))
        word = "the prior state is back" if restored else "the prior state is not confirmed yet"
        word = "nothing was toggled" if self.spec.observes else word
        text = f"{status.value}: {reason}; {word}" if reason else f"{status.value}; {word}"
        return [events.SaveRun(), events.Note(text, None if restored else "error")]

    def _unmet(self, event: events.Unmet) -> List[events.Action]:
        """Its records will say so; a run that is over has said what it says."""
        unmet = tuple(dict.fromkeys((*self.state.unmet, *event.items)))
        checks = tuple(dict.fromkeys((*self.state.checks, *event.checks)))[:CHECKS_MAX]
        if self.over or (unmet, checks) == (self.state.unmet, self.state.checks):
            return []
        self.state = replace(self.state, unmet=unmet, checks=checks)
        return [events.SaveRun()]

    def _waits(self, reason: str) -> List[events.Action]:
        if self.state.status is not RunStatus.WAITING:
            return []
        self.state = replace(self.state, reason=reason)
        note = events.Note(reason, "warning") if reason else events.Note("waits for its turn again")
        return [events.SaveRun(), note]

    # ---- small things

    def _new_token(self) -> str:
        self._serial += 1
        self._now.token = f"{self.spec.run_id}.{self.epoch}.{self._serial}"
        return self._now.token

    def _task(self, request: Request) -> events.GiveTask:
        return events.GiveTask(self._new_token(), request)

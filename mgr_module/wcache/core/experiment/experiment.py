"""One experiment of a run as far as it has come: what is next, when it ends, its record.

It is worked out from the saved periods alone, so a mgr that takes over finds the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Tuple

from ..events import Decided
from ..record import ExperimentSetup, Precondition, Record
from . import budget as run_budget
from .pairs import PAIRS_WITHOUT_ANALYSIS, Discarded, compose, is_look, next_slot, pairs_of
from .period import PeriodUnderWay
from .run_state import RunSpec
from .settling_time.checks import due_check, pairs_limit, settled
from .slots import AnySlot, CheckSlot, Periods


@dataclass(frozen=True)
class ExperimentUnderWay:
    """The experiment of a run at `index`: its saved periods, and what voided ones have cost."""

    spec: RunSpec
    index: int
    periods: Periods
    discarded: Discarded
    missed: Tuple[Precondition, ...] = ()  # what did not hold while it was measured

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
        return run_budget.cut_off_at_s(
            self.spec, self.setup, cost, now.started_at_s, now.settled_at_s or math.inf
        )

    def ends_after(self, look: Decided) -> str:
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
        )

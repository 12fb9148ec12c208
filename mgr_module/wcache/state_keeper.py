"""Stores where machines stand, tries again what the mons did not take, and forgets the old."""

from __future__ import annotations

import contextlib
from typing import Callable, Dict, Set, Union

from .analyses import Analyses
from .archive import Archive
from .core.campaign import Campaign
from .core.errors import StorageError
from .core.policy import Result
from .core.record import Record
from .core.retention import Bounds, surplus
from .core.rollout import RolloutMachine
from .core.run import RunMachine
from .record_keeper import RecordKeeper

Machine = Union[RunMachine, RolloutMachine]

# How often what the mons did not store is stored again.
SAVE_RETRY_S = 10.0


class StateKeeper:
    """Runs, rollouts and records over the archive; `error` says what the store refused.

    Guarded by the engine's lock.  `prune_due` is set when a run is over.
    """

    def __init__(self, archive: Archive, bounds: Bounds) -> None:
        self._archive = archive
        self._bounds = bounds
        self._unsaved: Set[str] = set()  # ids of runs and rollouts
        self._retry_at_s = 0.0
        self.records = RecordKeeper(archive, bounds)
        self.prune_due = False
        self.error = ""

    def failed(self, error: StorageError) -> None:
        """Something was not stored: shown until nothing waits for the store."""
        self.error = error.line()

    def save(self, owner: str, machine: Machine) -> None:
        """Store where a machine stands; raises StorageError and is tried again later."""
        self._unsaved.add(owner)
        if isinstance(machine, RunMachine):
            self._archive.put_run(machine.state)
            # only now: a crash before this line must find the periods again
            ended = len(machine.spec.experiments) if machine.over else machine.experiment_index
            for index in range(ended) if machine.over else range(max(0, ended - 1), ended):
                self.records.drop_periods(owner, index)
            self.prune_due = self.prune_due or machine.over
        else:
            self._archive.put_rollout(machine.rollout)
        self._unsaved.discard(owner)
        self._stored()

    def save_record(self, record: Record, analyses: Analyses) -> None:
        """Store a finished record and have it analysed; raises StorageError, tried again later."""
        for side in self.records.take(record):
            self.records.save(side, analyses.ended_at_s())
            analyses.final(side)

    def forget(self, owner: str) -> None:
        """A machine that is gone needs nothing stored."""
        self._unsaved.discard(owner)

    def retry(self, now_s: float, save: Callable[[str], None], analyses: Analyses) -> None:
        """Store what the mons did not take before, and have records analysed that now are stored.

        `save` is called with the id of each machine that waits, and may raise StorageError.
        """
        if now_s < self._retry_at_s:
            return
        self._retry_at_s = now_s + SAVE_RETRY_S
        for owner in sorted(self._unsaved):
            with contextlib.suppress(StorageError):
                save(owner)
        if self.records.unsaved:
            for record in self.records.retry(analyses.ended_at_s()):
                analyses.final(record)
            self._stored()

    def _stored(self) -> None:
        """The store takes values: nothing is wrong with it, once nothing waits for it."""
        if not self._unsaved and not self.records.unsaved:
            self.error = ""

    def prune(
        self, campaigns: Dict[str, Campaign], runs: Dict[str, RunMachine],
        results: Dict[str, Result], rollouts: Dict[str, RolloutMachine],
    ) -> None:
        """Forget what is beyond the bounds of `core/retention.py`, here and in the store."""
        self.prune_due = False
        gone = surplus(
            campaigns, {run_id: m.state for run_id, m in runs.items()}, results,
            {plan_id: m.rollout for plan_id, m in rollouts.items()}, self._bounds,
        )
        for result_id in gone.result_ids:
            del results[result_id]
            self._archive.drop_result(result_id)
        for run_id in gone.run_ids:
            del runs[run_id]
            self._archive.drop_run(run_id)
        # the header goes last: a mgr lost in between prunes its campaign again
        for campaign_id in gone.campaign_ids:
            del campaigns[campaign_id]
            self._archive.drop_campaign(campaign_id)
        for plan_id in gone.plan_ids:
            del rollouts[plan_id]
            self._archive.drop_rollout(plan_id)

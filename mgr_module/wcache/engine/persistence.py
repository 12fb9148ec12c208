"""Persistence of runs, rollouts, trials, records: tried again where it fails; the old go."""

from __future__ import annotations

from functools import partial
from typing import Callable, Dict, Mapping, Optional, Set, Tuple, Union

from ..core.change.rollout import RolloutMachine
from ..core.errors import StorageError
from ..core.experiment.budget import Experiment
from ..core.experiment.campaign import Campaign
from ..core.experiment.factorial import OTHER, both_sides, measured_in
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import OVER, RunState, whole
from ..core.fleet.retention import Bounds, surplus
from ..core.jobs import Trial
from ..core.ports import Done
from ..core.record import Record
from ..core.verdict.result import Result
from .evidence.analyses import Analyses
from .storing.archive import (
    CAMPAIGN,
    PERIOD,
    RECORD,
    RESULT,
    RUN,
    Archive,
    StoredKind,
    StoreGate,
    T,
)

Machine = Union[RunMachine, RolloutMachine, Trial]

# How often what the mons did not store is stored again.
SAVE_RETRY_S = 10.0
# Beside the ids of machines: that the cluster is frozen, or not.
FROZEN = "frozen"
RECOVERED = "its record could not be stored when it ended; it was rebuilt from its periods"


class RecordPersistence:
    """The records with raw samples: bounded, and never lost for a store that fails once.

    A record replaces its periods, so they stay until it is stored.  One that could not be stored
    is tried again; where the mgr is lost meanwhile, the next one makes it anew from the periods.
    """

    def __init__(self, archive: Archive, bounds: Bounds) -> None:
        self._archive = archive
        self._bounds = bounds
        self.unsaved: Dict[str, Record] = {}
        self._sizes: Dict[str, int] = {}  # of those that are stored

    def stored(self, record: Record, ended_at_s: Mapping[str, float]) -> None:
        """The mons have a record; the oldest make room.

        `ended_at_s` is when each record ended; one without counts as the newest.
        """
        self.unsaved.pop(record.record_id, None)
        size = self._archive.sizes(RECORD, record.record_id).get(record.record_id, 0)
        self._sizes[record.record_id] = size
        self._make_room(record.record_id, ended_at_s)

    @staticmethod
    def made_of(record: Record) -> Tuple[str, int]:
        """The run and the index of the experiment whose periods a record is made of."""
        made_of = measured_in(record.record_id) or record.record_id
        run_id, _, experiment = made_of.rpartition(".")
        return run_id, int(experiment)

    def drop_periods(self, run_id: str, experiment: int) -> None:
        """Remove the periods of an ended experiment, unless a record still needs them."""
        record_id = f"{run_id}.{experiment}"
        if record_id not in self.unsaved and record_id + OTHER not in self.unsaved:
            self._archive.drop_periods(run_id, experiment)

    def recover(self, runs: Mapping[str, RunState]) -> None:
        """After a restart: make the records that are missing from the periods that are left.

        Periods that a lost mgr had no time to remove are removed.
        """
        left = {name.split("/")[0] for name in self._archive.names(PERIOD)}
        self._sizes = self._archive.sizes(RECORD)
        for run_id in sorted(left & set(runs)):
            state = runs[run_id]
            over = state.status in OVER
            for index in range(len(state.spec.experiments)):
                record_id = f"{run_id}.{index}"
                if record_id in state.finished:
                    for record in both_sides(self._made_anew(state, index)):
                        if record.pairs and record.record_id not in self._sizes:
                            self.unsaved[record.record_id] = record
                if over or record_id in state.finished:
                    self.drop_periods(run_id, index)

    def _made_anew(self, state: RunState, index: int) -> Record:
        spec = state.spec
        stored = self._archive.periods(spec.run_id, len(spec.experiments))[index]
        periods = whole(spec.experiments[index], stored, state.voided_at_s)
        ended_at_s = max((p.started_at_s + p.seconds for p in periods.values()), default=0.0)
        return Experiment(state, index, periods).record(RECOVERED, ended_at_s)

    def _make_room(self, newest: str, ended_at_s: Mapping[str, float]) -> None:
        for record_id in sorted(self._sizes, key=lambda i: (ended_at_s.get(i, float("inf")), i)):
            total = sum(self._sizes.values())
            if len(self._sizes) <= self._bounds.records and total <= self._bounds.records_bytes:
                return
            if record_id != newest:
                self.drop(record_id)

    def drop(self, record_id: str) -> None:
        """Remove a record; its result stays."""
        self._archive.drop(RECORD, record_id)
        self._sizes.pop(record_id, None)


class StatePersistence:
    """Runs, rollouts, trials and records over the archive; `error` says what the store refused.

    Guarded by the engine's lock.  `prune_due` is set when a run is over.
    """

    def __init__(self, archive: Archive, bounds: Bounds, gate: StoreGate) -> None:
        self._archive = archive
        self._bounds = bounds
        self._gate = gate
        self._values: Dict[str, Callable[[Done], None]] = {}  # how each was put last
        self._unsaved: Set[str] = set()  # ids of machines, FROZEN
        self._retry_at_s = 0.0
        self.records = RecordPersistence(archive, bounds)
        self.prune_due = False
        self.error = ""

    def failed(self, error: Optional[StorageError]) -> None:
        """Something was not stored, or was: shown until nothing waits for the store."""
        self.error = self.error if error is None else error.line()

    def not_saved(self, owner: str) -> None:
        """Where a machine stands was not stored: tried again later."""
        self._unsaved.add(owner)

    def save(self, owner: str, machine: Machine) -> None:
        """Store where a machine stands."""
        if not isinstance(machine, RunMachine):
            done = self._gate.expect(owner, lambda: self.forget(owner))
            if isinstance(machine, RolloutMachine):
                self._archive.plans.put(machine.rollout, done)
            else:
                kind = StoredKind(machine.key, type(machine.state))
                self._archive.put(kind, machine.state, done)
            return
        ended = len(machine.spec.experiments) if machine.over else machine.state.index
        indices = range(ended) if machine.over else range(max(0, ended - 1), ended)

        def stored() -> None:
            # only now: a crash before must find the periods again
            for index in indices:
                self.records.drop_periods(owner, index)
            self.forget(owner)

        self._archive.put(RUN, machine.state, self._gate.expect(owner, stored))
        self.prune_due = self.prune_due or machine.over

    def save_frozen(self, frozen: bool) -> None:
        """Store whether an admin has frozen the cluster."""
        self._put(FROZEN, partial(self._archive.set_frozen, frozen))

    def save_value(self, kind: StoredKind[T], value: T) -> None:
        """Store the one value of a kind; the newest is tried again later."""
        self._put(kind.prefix, partial(self._archive.put, kind, value))

    def _put(self, owner: str, put: Callable[[Done], None]) -> None:
        self._values[owner] = put
        put(self._gate.expect(
            owner, lambda: self.forget(owner), lambda error: self.not_saved(owner)
        ))

    def is_stored(self, owner: str) -> bool:
        """Whether the mons have where a machine stands, FROZEN, or the one value of a kind."""
        return owner not in self._unsaved and not self._gate.closed(owner)

    def save_record(self, owner: str, record: Record, analyses: Analyses) -> None:
        """Store a finished record and have it analysed then; tried again later."""
        for side in both_sides(record):  # a factorial's for either drive
            self.records.unsaved[side.record_id] = side
            self._put_record(owner, side, analyses)

    def _put_record(
        self, owner: str, record: Record, analyses: Analyses, again: bool = False
    ) -> None:
        run_id, index = self.records.made_of(record)

        def stored() -> None:
            results = analyses.results
            self.records.stored(record, {name: results[name].ended_at_s for name in results})
            analyses.final(record)
            if again and self.is_stored(run_id):
                self.records.drop_periods(run_id, index)
            self.stored()

        self._archive.put(RECORD, record, self._gate.expect(owner, stored))

    def forget(self, owner: str) -> None:
        """Store it no more: the mons have it, or it is gone."""
        self._unsaved.discard(owner)
        self.stored()

    def retry(self, now_s: float, save: Callable[[str], None], analyses: Analyses) -> None:
        """Store what the mons did not take before; records are analysed once they are stored.

        `save` is called with what waits and is no value: ids of machines, or FROZEN.
        """
        if now_s < self._retry_at_s:
            return
        self._retry_at_s = now_s + SAVE_RETRY_S
        if self.error and not self._unsaved and not self.records.unsaved:
            save(FROZEN)  # whether the mons take values again
        for owner in sorted(self._unsaved):
            if not self._gate.closed(owner):
                put = self._values.get(owner)
                if put is not None:
                    self._put(owner, put)
                else:
                    save(owner)
        for record in [*self.records.unsaved.values()]:
            again = f"record {record.record_id}"
            if self._gate.closed(self.records.made_of(record)[0]) or self._gate.closed(again):
                continue  # the mons have not answered yet
            self._put_record(again, record, analyses, again=True)

    def stored(self) -> None:
        """The store takes values: nothing is wrong with it, once nothing waits for it."""
        if not self._unsaved and not self.records.unsaved:
            self.error = ""

    def prune(
        self, campaigns: Dict[str, Campaign], runs: Dict[str, RunMachine],
        results: Dict[str, Result], rollouts: Dict[str, RolloutMachine],
    ) -> None:
        """Forget what is beyond the bounds of `core/fleet/retention.py`, here and in the store."""
        self.prune_due = False
        gone = surplus(
            campaigns, {run_id: m.state for run_id, m in runs.items()}, results,
            {plan_id: m.rollout for plan_id, m in rollouts.items()}, self._bounds,
        )
        for result_id in gone.result_ids:
            del results[result_id]
            self.records.drop(result_id)  # from which the result would be made again
            self._archive.drop(RESULT, result_id)
        for run_id in gone.run_ids:
            del runs[run_id]
            self._archive.drop_run(run_id)
        # the header goes last: a mgr lost in between prunes its campaign again
        for campaign_id in gone.campaign_ids:
            del campaigns[campaign_id]
            self._archive.drop(CAMPAIGN, campaign_id)
        for plan_id in gone.plan_ids:
            del rollouts[plan_id]
            self._archive.plans.drop(plan_id)

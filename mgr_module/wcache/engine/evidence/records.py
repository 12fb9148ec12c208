"""Keeps the records with raw samples: bounded, and never lost for a store that fails once.

A record replaces its periods, so they stay until it is stored.  One that could not be
stored is tried again; where the mgr is lost meanwhile, the next one makes it anew from
the periods.
"""

from __future__ import annotations

from typing import Dict, Mapping, Tuple

from ...core.experiment.factorial import OTHER, both_sides, measured_in
from ...core.experiment.pairs import Discarded, compose
from ...core.experiment.run_state import OVER, RunState
from ...core.fleet.retention import Bounds
from ...core.record import Record
from ..storing.archive import Archive

RECOVERED = "its record could not be stored when it ended; it was rebuilt from its periods"


class RecordPersistence:
    """Raw records over the archive."""

    def __init__(self, archive: Archive, bounds: Bounds) -> None:
        self._archive = archive
        self._bounds = bounds
        self._unsaved: Dict[str, Record] = {}

    @property
    def unsaved(self) -> Tuple[Record, ...]:
        """Records that are not stored yet."""
        return tuple(self._unsaved.values())

    def take(self, record: Record) -> Tuple[Record, ...]:
        """What is to be stored of a record, a factorial's for either drive: kept until it is."""
        sides = both_sides(record)
        self._unsaved.update((side.record_id, side) for side in sides)
        return sides

    def stored(self, record: Record, ended_at_s: Mapping[str, float]) -> None:
        """The mons have a record; the oldest make room.

        `ended_at_s` is when each record ended; one without counts as the newest.
        """
        self._unsaved.pop(record.record_id, None)
        self._archive.record_is_stored(record.record_id)
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
        if record_id not in self._unsaved and record_id + OTHER not in self._unsaved:
            self._archive.drop_periods(run_id, experiment)

    def recover(self, runs: Mapping[str, RunState]) -> None:
        """After a restart: make the records that are missing from the periods that are left.

        Periods that a lost mgr had no time to remove are removed.
        """
        left = {name.split("/")[0] for name in self._archive.names("period")}
        stored = set(self._archive.record_ids())
        for run_id in sorted(left & set(runs)):
            state = runs[run_id]
            over = state.status in OVER
            for index in range(len(state.spec.experiments)):
                record_id = f"{run_id}.{index}"
                if record_id in state.finished:
                    for record in both_sides(self._made_anew(state, record_id, index)):
                        if record.pairs and record.record_id not in stored:
                            self._unsaved[record.record_id] = record
                if over or record_id in state.finished:
                    self.drop_periods(run_id, index)

    def _made_anew(self, state: RunState, record_id: str, index: int) -> Record:
        spec = state.spec
        periods = self._archive.periods(spec.run_id, len(spec.experiments))[index]
        ended_at_s = max((p.started_at_s + p.seconds for p in periods.values()), default=0.0)
        discarded = state.waste[index] if index < len(state.waste) else Discarded()
        return compose(
            spec.experiments[index], periods, record_id=record_id,
            campaign_id=spec.campaign_id, ended=RECOVERED, ended_at_s=ended_at_s,
            discarded=discarded, missed=state.missed, forced=spec.forced,
        )

    def _make_room(self, newest: str, ended_at_s: Mapping[str, float]) -> None:
        sizes = self._archive.record_sizes()
        count, total = len(sizes), sum(sizes.values())
        by_age = sorted(sizes, key=lambda i: (ended_at_s.get(i, float("inf")), i))
        for record_id in by_age:
            if count <= self._bounds.records and total <= self._bounds.records_bytes:
                return
            if record_id != newest:
                self._archive.drop_record(record_id)
                count, total = count - 1, total - sizes[record_id]

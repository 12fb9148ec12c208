"""What the knob `memory` keeps over a mgr restart."""

from __future__ import annotations

from typing import Optional, Tuple

from ....core.ports import Done
from ....engine.storing.archive import Archive
from ..promise import Promise, Promises
from ..trial import Trial
from ..trial_result import TrialResult, TrialResults


class MemoryArchive:
    """Trials, what they have told, and what plans have promised."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def trial(self) -> Optional[Trial]:
        """The last trial of a larger target, over or not."""
        return self._archive.load_one(Trial, "memory/trial")

    def put_trial(self, trial: Trial, done: Done) -> None:
        """Store how far a trial is."""
        self._archive.put("memory/trial", trial, done)

    def results(self) -> Tuple[TrialResult, ...]:
        """What trials have told, oldest first."""
        found = self._archive.load_one(TrialResults, "memory/results")
        return found.items if found is not None else ()

    def put_results(self, results: TrialResults) -> None:
        """Store what trials have told."""
        self._archive.put_later("memory/results", results)

    def promises(self) -> Tuple[Promise, ...]:
        """What plans have promised of hosts' memory."""
        found = self._archive.load_one(Promises, "memory/promises")
        return found.items if found is not None else ()

    def put_promises(self, promises: Promises) -> None:
        """Store what plans have promised."""
        self._archive.put_later("memory/promises", promises)

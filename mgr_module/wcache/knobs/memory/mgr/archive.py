"""What the knob `memory` keeps over a mgr restart."""

from __future__ import annotations

from typing import Tuple

from ....engine.storing.archive import Archive
from ..promise import Promise, Promises
from ..trial_result import TrialResult, TrialResults


class MemoryArchive:
    """What trials have told, and what plans have promised."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

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

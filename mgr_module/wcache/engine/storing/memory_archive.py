"""What the knob `memory` keeps over a mgr restart; a part of the archive."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

from ...core.knobs.memory_target.promise import Promise, Promises
from ...core.knobs.memory_target.trial import Trial
from ...core.knobs.memory_target.trial_result import TrialResult, TrialResults
from ...core.ports import Done


class MemoryArchive:
    """Trials, what they have told, and what plans have promised."""

    def __init__(
        self, load: Callable[[Any, str], Any], put: Callable[[str, Any, Done], None],
        put_later: Callable[[str, Any], None],
    ) -> None:
        self._load = load
        self._put = put
        self._put_later = put_later

    def trial(self) -> Optional[Trial]:
        """The last trial of a larger target, over or not."""
        found: Optional[Trial] = self._load(Trial, "memory/trial")
        return found

    def put_trial(self, trial: Trial, done: Done) -> None:
        """Store how far a trial is."""
        self._put("memory/trial", trial, done)

    def results(self) -> Tuple[TrialResult, ...]:
        """What trials have told, oldest first."""
        found: Optional[TrialResults] = self._load(TrialResults, "memory/results")
        return found.items if found is not None else ()

    def put_results(self, results: TrialResults) -> None:
        """Store what trials have told."""
        self._put_later("memory/results", results)

    def promises(self) -> Tuple[Promise, ...]:
        """What plans have promised of hosts' memory."""
        found: Optional[Promises] = self._load(Promises, "memory/promises")
        return found.items if found is not None else ()

    def put_promises(self, promises: Promises) -> None:
        """Store what plans have promised."""
        self._put_later("memory/promises", promises)

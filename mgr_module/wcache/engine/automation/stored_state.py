"""Keeps the automation's state, in memory and on the mons."""

from __future__ import annotations

from typing import Optional

from ...core.automation.state import AutoState
from ...core.errors import StorageError
from ...knobs.registry import KNOBS
from ..engine import Engine


class StoredAutoState:
    """Guarded by the engine's lock; what was not stored is stored again with the next change."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.state = AutoState()
        self._unsaved = False

    def load(self) -> None:
        """Take up what was stored."""
        with self._engine.lock:
            stored = self._engine.archive.automation()
            self.state = stored.of_older([knob.name for knob in KNOBS])

    def keep(self, state: AutoState) -> None:
        """Take a new state, and store it where it differs."""
        if state == self.state and not self._unsaved:
            return
        self.state = state
        self._unsaved = False

        def done(error: Optional[StorageError]) -> None:
            if error is not None:
                self._unsaved = True
                self._engine.persistence.failed(error)

        self._engine.archive.put_automation(state, done)

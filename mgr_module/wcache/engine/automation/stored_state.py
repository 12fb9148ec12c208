"""Keeps the automation's state, in memory and on the mons."""

from __future__ import annotations

from ...core.automation.state import AutoState
from ..engine import Engine


class StoredAutoState:
    """Guarded by the lock of `auto`; what was not stored is stored again with the next change."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.state = AutoState()
        self._unsaved = False

    def load(self) -> None:
        """Take up what was stored."""
        self.state = self._engine.ports.archive.automation()

    def keep(self, state: AutoState) -> None:
        """Take a new state, and store it where it differs."""
        if state == self.state and not self._unsaved:
            return
        self.state = state
        self._unsaved = False

        def refused() -> None:
            self._unsaved = True

        self._engine.put_automation(state, refused)

"""Who plans the changes of a knob: what each knob's planner has in common."""

from __future__ import annotations

from typing import Protocol, Sequence

from ..core.knobs.knob import Asked, Wanted
from ..core.model import Finding
from ..engine.world import World


class Planner(Protocol):
    """Plans the changes of one knob from what is known now, and finds what is wrong with them.

    Changes nothing.
    """

    def plan(self, asked: Asked, world: World) -> Wanted:
        """The changes that make the recommendations true.

        Raises NotReadyError where nothing is known to plan by.
        """

    def findings(self, world: World) -> Sequence[Finding]:
        """What is wrong now with what the knob is about; quick, since each `status` asks."""
        return ()

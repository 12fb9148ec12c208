"""What the rest asks of a knob; nobody needs to know which knobs there are."""

from __future__ import annotations

from typing import AbstractSet, List, Protocol, Sequence

from ..core.automation.seen import Outdated
from ..core.knobs.knob import Asked, Wanted
from ..core.model import Finding
from ..engine.world import World


class Planner(Protocol):
    """Plans the changes of one knob from what is known now, and finds what is wrong with them.

    Only `tick` changes anything, and only what is the knob's own.
    """

    def plan(self, asked: Asked, world: World) -> Wanted:
        """The changes that make the recommendations true.

        Raises NotReadyError where nothing is known to plan by.
        """

    def findings(self, world: World) -> Sequence[Finding]:
        """What is wrong now with what the knob is about; quick, since each `status` asks."""
        return ()

    def tick(self, world: World) -> None:
        """Do what is due of the knob; called by the serve loop."""
        return

    def measuring(self, world: World) -> str:
        """What it measures now beside the campaigns that compare cache modes, in words."""
        return ""

    def outdated(self) -> Sequence[Outdated]:
        """Hosts that `auto` may plan anew, since they are others than they were planned for."""
        return ()

    def stale_keys(
        self, world: World, changing: AbstractSet[int], changed: AbstractSet[int]
    ) -> List[str]:
        """Stored values that a change of cache modes makes stale, or has made so.

        `changing` are OSDs whose drives are still to be changed, `changed` others.
        """
        return []

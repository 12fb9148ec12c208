"""Keeps Python's full collections of garbage short where a fleet is large.

A full collection goes through all objects that an interpreter tracks, in one piece: no other
thread of it runs meanwhile.  What 100,000 drives have reported is most of a second, and a command
that makes many objects sets it off: CPython makes one when what has become old since the last is a
quarter of what was left then (`long_lived_pending`; `gc_collect_generations`, from 3.13 on
`gc_select_generation`).

`gc.freeze` moves all objects to a generation that no collection goes through (`gc_freeze_impl`, in
constant time).  Here each full collection ends with that, called back when it is over and no
garbage is left (`invoke_gc_callback`).  So the next one goes through what is newer, and no more.
An object that nobody refers to any more is freed as ever, frozen or not.  What refers to itself
stays until the next whole collection.  That is made by CPython's own measure, when what is frozen
has grown by a quarter, but by the module's own thread and not by a command.

Generations and callbacks are each interpreter's own (`PyInterpreterState.gc`, from 3.9 on).
Ceph 16 and 18 give each module an interpreter; 20 has all in one, unless
`mgr_subinterpreter_modules` names it.  There, what is said above holds of other modules' objects
too, which is why nothing of it is done where a fleet is small.
"""

from __future__ import annotations

import gc
import math
from typing import Any, Mapping, Optional

from ..engine.world import World

# As many drives make a full collection of a tenth of a second or so.
DRIVES_MIN = 10_000
# Counting what is frozen goes through it, in a tenth of a collection's time or less.
LOOK_EVERY_S = 600.0
GROWN = 1.25


class Garbage:
    """Freezes what each full collection has left, as long as the fleet is large."""

    def __init__(self) -> None:
        self._looked_at_s = -math.inf
        self._frozen: Optional[int] = None  # what there was to freeze, once the module was filled

    def look(self, world: World) -> None:
        """Begin, or end, as the fleet's size asks for; collect all where it has grown."""
        if world.now_s - self._looked_at_s < LOOK_EVERY_S:
            return
        self._looked_at_s = world.now_s
        begun = _freeze in gc.callbacks
        if sum(len(report.drives) for report in world.reports.values()) < DRIVES_MIN:
            if begun:
                gc.callbacks.remove(_freeze)
                gc.unfreeze()
            self._frozen = None
        elif not begun:
            gc.callbacks.append(_freeze)
            gc.collect()  # which freezes what is left
        elif self._frozen is None:
            # a mgr that has just started reads reports, keys and more of them until now
            self._frozen = gc.get_freeze_count()
        elif gc.get_freeze_count() > GROWN * self._frozen:
            gc.unfreeze()
            gc.collect()
            self._frozen = gc.get_freeze_count()


def _freeze(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()

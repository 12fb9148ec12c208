"""The toy as a knob: its name, the option of Ceph that it sets, and the module's about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from wcache.knobs.knob import Knob

DEPTH = "osd_toy_depth"


@dataclass(frozen=True)
class ToyOptions:
    """Each field says what it is for, and its lowest and highest value."""

    toy_depth: int = field(default=8, metadata={"option": ("Depth of a toy queue.", 1, 64)})


TOY = Knob("toy", "how many writes the toy lets wait", (DEPTH,), together=False)

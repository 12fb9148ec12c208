"""What is kept of the automation over a mgr's end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Optional, Tuple

from .drift import Undone
from .modes import Modes
from .spending import Spent

TOKENS_MAX = 20_000
# Plans that wait, beside which something else is begun.
ASIDE_MAX = 4


class Purpose(str, Enum):
    """Why something was begun."""

    CONFIRM = "confirm"  # a new drive of a drive model with a verdict
    UNKNOWN = "unknown"  # a drive model without a verdict
    AGAIN = "again"  # it ended on a transient
    APPLY = "apply"  # the standing mode, on drives that are not in it
    DIVIDE = "divide"  # the memory of a host whose OSDs or daemons changed


@dataclass(frozen=True)
class Pending:
    """The campaign or plan that was begun last, with what it is charged for until it ends."""

    owner: str
    purpose: Purpose
    device_class: str
    drive_model: str = ""
    tokens: Tuple[str, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    seconds: float = 0.0
    bytes_written: int = 0
    changes: int = 0
    knob: str = ""  # of a host that is planned anew, which has no drive model
    host: str = ""


@dataclass(frozen=True)
class PlannedAnew:
    """A host's values of a knob that were planned anew, and when."""

    knob: str
    host: str
    at_s: float
    held: str = ""  # why that is not done by itself any more


@dataclass(frozen=True)
class Tried:
    """A drive model that was measured, or a mode of it that was taken back, and when."""

    device_class: str
    drive_model: str
    at_s: float
    held: str = ""  # why its mode is not applied by itself any more
    failed: bool = False  # the measurement did not come to its end
    undone: bool = False  # that said nothing of the drive model, and it is tried once more


@dataclass(frozen=True)
class AutoState:
    """All of it.

    `known` are tokens (`seen.token`) of drives that are not new: they were there when the
    automation was turned on, or were dealt with since.  `fresh` are those that came since, and
    `again` those that were measured a second time.  `unquiet_at_s` is when a drive came last.
    `aside` are plans that were begun and wait, so that others are begun beside them.
    """

    VERSION: ClassVar[int] = 2
    modes: Modes = ()
    known: Tuple[str, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    fresh: Tuple[str, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    again: Tuple[str, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    tried: Tuple[Tried, ...] = ()
    pending: Optional[Pending] = None
    spent: Spent = Spent()  # noqa: RUF009  frozen
    unquiet_at_s: float = 0.0
    undone: Tuple[Undone, ...] = field(default=(), metadata={"max_items": TOKENS_MAX})
    anew: Tuple[PlannedAnew, ...] = ()
    aside: Tuple[Pending, ...] = field(default=(), metadata={"max_items": ASIDE_MAX})

    @property
    def begun(self) -> Tuple[Pending, ...]:
        """All that was begun and is not settled; that which is not put aside comes last."""
        return (*self.aside, *(() if self.pending is None else (self.pending,)))

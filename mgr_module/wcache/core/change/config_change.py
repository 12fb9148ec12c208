"""A change of the config database: what a plan says and keeps of it.

What was there before is part of it from the start.  It is read again before anything is
written, and the change is not made where it has moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, FrozenSet, Optional, Sequence, Tuple

from ..config_database import EDITS_MAX, ConfigEdit, OsdValue
from ..model import LoadPoint
from .change_status import ChangeStatus, gain

# A block counts where all of them told of their load, so they are few.
JUDGED_MAX = 8


def sample(osd_ids: Sequence[int]) -> Tuple[int, ...]:
    """At most JUDGED_MAX of these OSDs, from the first to the last."""
    ids = list(dict.fromkeys(osd_ids))
    if len(ids) <= JUDGED_MAX:
        return tuple(ids)
    return tuple(ids[index * len(ids) // JUDGED_MAX] for index in range(JUDGED_MAX))


@dataclass(frozen=True)
class ConfigChange:
    """Values to be set or removed together, and taken back together, last first.

    `failure_domain` is what they concern at most.  With a `load_point` the change is proven
    by measuring `osd_id` before and after; without one the values that were read back prove it,
    also those of OSDs that `expect` names.  Nothing else is done for `wait_s` after it was made,
    and for `back_wait_s` after it was taken back.
    """

    KIND: ClassVar[str] = "config"

    action_id: str
    knob: str
    edits: Tuple[ConfigEdit, ...] = field(metadata={"max_items": EDITS_MAX})
    device_class: str
    why: str
    failure_domain: str = ""
    osd_id: int = 0
    load_point: Optional[LoadPoint] = None
    status: ChangeStatus = ChangeStatus.PLANNED
    detail: str = ""
    before_us: Optional[float] = None
    before_error: float = 0.0  # standard error of its logarithm
    after_us: Optional[float] = None
    seconds: float = 0.0
    bytes_written: int = 0
    at_s: float = 0.0  # when it came to its end
    expect: Tuple[OsdValue, ...] = field(default=(), metadata={"max_items": EDITS_MAX})
    wait_s: float = 0.0
    back_wait_s: float = 0.0
    # OSDs that take another value by it, a sample: whose clients judge it
    judged_on: Tuple[int, ...] = field(default=(), metadata={"max_items": JUDGED_MAX})

    @property
    def simulated(self) -> bool:
        """A config database is always the real one."""
        return False

    @property
    def hostname(self) -> str:
        """No probe has a part in it."""
        return ""

    @property
    def ratio(self) -> Optional[float]:
        """Latency before over latency after: above 1, the change helped."""
        return gain(self.before_us, self.after_us)

    @property
    def name(self) -> str:
        """What is changed, for people."""
        return f"{self.knob} of {self.failure_domain}"

    @property
    def words(self) -> str:
        """From what to what, for people."""
        first = self.edits[0]
        more = f" and {len(self.edits) - 1} more" if len(self.edits) > 1 else ""
        return f"{first.who} {first.name} {first.prior or '-'} to {first.value or '-'}{more}"

    @property
    def what(self) -> str:
        """What is changed."""
        return "configuration"

    @property
    def goal(self) -> str:
        """What it is changed to."""
        return "the recommended configuration"

    @property
    def look_first(self) -> str:
        """What an admin does before a rollback where nobody knows whether it was made."""
        return "look at `ceph config dump`, then"

    @property
    def touches(self) -> FrozenSet[Tuple[str, str]]:
        """What it changes: two plans that share one must be rolled back in order."""
        return frozenset(edit.key for edit in self.edits)

    @property
    def treated(self) -> Tuple[int, ...]:
        """The OSDs whose clients the change may touch, where it names them one by one."""
        own = [edit.who[len("osd."):] for edit in self.edits if edit.who.startswith("osd.")]
        named = sorted({int(item) for item in own if item.isdecimal()})
        return tuple(named) or ((self.osd_id,) if self.load_point is not None else ())

    @property
    def prior_known(self) -> bool:
        """Whether what was there before is stored with it."""
        return True

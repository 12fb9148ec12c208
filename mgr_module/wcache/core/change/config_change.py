"""A change of the config database: what a plan keeps of it, its steps, and what values read mean.

What was there before is part of it from the start.  It is read again before anything is
written, and the change is not made where it has moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import (
    TYPE_CHECKING,
    AbstractSet,
    ClassVar,
    Dict,
    FrozenSet,
    Optional,
    Sequence,
    Tuple,
)

from ..cluster import ClusterState
from ..codec import one_line
from ..config_database import (
    EDITS_MAX,
    ConfigEdit,
    ConfigRequest,
    ConfigState,
    OsdValue,
    is_of_others,
    mask_of,
    same,
)
from ..events import LoadRequest
from ..model import LoadPoint, Role
from ..scope import Scope
from ..text import named, setting
from ..verdict.option_choice import Ground, fallen
from .change import ChangeSteps, DriveWear, Verdicts, WentBack
from .change_status import ChangeStatus, Made, gain

if TYPE_CHECKING:
    from .rollout_state import Rollout

# A block counts where all of them told of their load, so they are few.
JUDGED_MAX = 8
# How many edits of one change the history tells, and in how many characters.
EDITS_TOLD = 4
SIDE_CHARS_MAX = 300
UNEXPECTED = "the config database gave an unexpected answer"


def sample(osd_ids: Sequence[int]) -> Tuple[int, ...]:
    """At most JUDGED_MAX of these OSDs, from the first to the last."""
    ids = list(dict.fromkeys(osd_ids))
    if len(ids) <= JUDGED_MAX:
        return tuple(ids)
    return tuple(ids[index * len(ids) // JUDGED_MAX] for index in range(JUDGED_MAX))


@dataclass(frozen=True)
class ConfigChange(ChangeSteps):
    """Values to be set or removed together, and taken back together, last first.

    `failure_domain` is what they concern at most.  With a `load_point` the change is proven
    by measuring `osd_id` before and after; without one the values that were read back prove it,
    also those of OSDs that `expect` names.  Nothing else is done for `wait_s` after it was made,
    and for `back_wait_s` after it was taken back.
    """

    KIND: ClassVar[str] = "config"
    READS_TOO: ClassVar[bool] = True
    MAY_RAMP: ClassVar[bool] = True

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
    # the verdicts that it was planned by, where it was by such
    grounds: Tuple[Ground, ...] = field(default=(), metadata={"max_items": EDITS_MAX})

    @property
    def simulated(self) -> bool:
        """A config database is always the real one."""
        return False

    @property
    def hostname(self) -> str:
        """No probe has a part in it."""
        return ""

    @property
    def domain_id(self) -> str:
        """No drive has a part in it."""
        return ""

    @property
    def dev_names(self) -> Tuple[str, ...]:
        """No drive has a part in it."""
        return ()

    @property
    def wear(self) -> Tuple[DriveWear, ...]:
        """No drive has a part in it."""
        return ()

    @property
    def manual(self) -> Tuple[str, ...]:
        """The commands that make it by hand."""
        return tuple(edit.command for edit in self.edits)

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
        prior, value = (setting(first.name, raw) for raw in (first.prior, first.value))
        return f"{first.who} {first.name} {prior} to {value}{more}"

    @property
    def what(self) -> str:
        """What is changed."""
        return "configuration"

    @property
    def goal(self) -> str:
        """What it is changed to."""
        return "the recommended configuration"

    @property
    def pooled_as(self) -> str:
        """See ChangeSteps: values differ, what finds them does not."""
        return f"{self.knob} of {self.device_class or 'all classes'}"

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

    # ---- what a rollout asks for, and what the answers mean: see ChangeSteps

    def measure(self, rollout: Rollout) -> Optional[LoadRequest]:
        """See ChangeSteps; without a load point, reading it back proves it."""
        if self.load_point is None:
            return None
        return LoadRequest(
            self.osd_id, self.load_point, Role.BLOCK, rollout.count, rollout.period_s,
            rollout.latency_limit_ms,
        )

    def look(self, rollout: Rollout) -> ConfigRequest:
        """See ChangeSteps; the values of all changes that come later are read too.

        A plan is made from what was there: where that has moved, none of the rest is made.
        """
        mine = {edit.key for edit in self.edits}
        later: Dict[Tuple[str, str], ConfigEdit] = {}
        for item in rollout.config_changes:
            if item.status is ChangeStatus.PLANNED and item != self:
                for edit in item.edits:
                    # of several in a row the first one knows what stands there until then
                    if edit.key not in mine:
                        later.setdefault(edit.key, edit)
        return ConfigRequest((*self.edits, *later.values())[:EDITS_MAX], write=False)

    def looked(self, rollout: Rollout, outcome: object) -> Tuple[ConfigChange, str]:
        """See ChangeSteps."""
        request = self.look(rollout)
        if not isinstance(outcome, ConfigState) or len(outcome.values) != len(request.edits):
            return self, UNEXPECTED
        if outcome.error:
            return self, outcome.error
        now = list(zip(request.edits, outcome.values))
        moved = [edit.who for edit, value in now if is_of_others(edit, value)]
        if moved:
            return self, f"{named(moved)} was changed since; make a new plan"
        # what is there already is not ours to take back
        edits = tuple(
            replace(edit, prior=edit.value) if same(value, edit.value) else edit
            for edit, value in now[: len(self.edits)]
        )
        return replace(self, edits=edits), ""

    def apply(self, rollout: Rollout) -> ConfigRequest:
        """See ChangeSteps."""
        return ConfigRequest(self.edits, expect=self.expect)

    def made(
        self, rollout: Rollout, outcome: object, again: bool
    ) -> Tuple[ConfigChange, Made, str]:
        """See ChangeSteps; the values that were read say it."""
        return (self, *self._made(outcome))

    def _made(self, outcome: object) -> Tuple[Made, str]:
        if not isinstance(outcome, ConfigState) or len(outcome.values) != len(self.edits):
            return Made.UNSURE, UNEXPECTED
        now = list(zip(self.edits, outcome.values))
        missing = [edit.who for edit, value in now if not same(value, edit.value)]
        if not missing and outcome.unlike:
            return Made.WRONG, f"{named(list(outcome.unlike))} after it was set"
        if not missing:
            return (Made.YES if outcome.written else Made.ALREADY), ""
        others = [edit.who for edit, value in now if is_of_others(edit, value)]
        why = outcome.error or (
            f"{named(others)} was changed since" if others
            else f"{named(missing)} did not take its change"
        )
        ours = any(
            same(value, edit.value) and not same(edit.prior, edit.value) for edit, value in now
        )
        return (Made.WRONG if ours else Made.NOT), why

    def back(self, rollout: Rollout) -> ConfigRequest:
        """See ChangeSteps; last first, and what others have changed since is left alone."""
        return ConfigRequest(
            tuple(edit.inverse for edit in reversed(self.edits)), others_stay=True,
            expect=tuple(item.inverse for item in self.expect),
        )

    def went_back(self, rollout: Rollout, outcome: object) -> WentBack:
        """See ChangeSteps."""
        inverse: Tuple[ConfigEdit, ...] = self.back(rollout).edits
        if not isinstance(outcome, ConfigState) or len(outcome.values) != len(inverse):
            return WentBack(self, UNEXPECTED)
        now = list(zip(inverse, outcome.values))
        others = [edit.who for edit, value in now if is_of_others(edit, value)]
        ours = [
            edit.who for edit, value in now
            if edit.who not in others and not same(value, edit.value)
        ]
        if ours:
            return WentBack(
                self, outcome.error or f"{named(ours)} did not take its prior value"
            )
        if not others and outcome.unlike:
            return WentBack(self, f"{named(list(outcome.unlike))} after it was taken back")
        if not others:
            return WentBack(self)
        said = f"left alone, since changed by others: {named(others)}"
        return WentBack(replace(self, detail=said), left_alone=said)

    def pause_s(self, rollout: Rollout) -> float:
        """See ChangeSteps."""
        return self.back_wait_s if rollout.rolling_back else self.wait_s

    def verdict_moved(self, verdicts: Verdicts) -> str:
        """See ChangeSteps."""
        told = (fallen(ground, verdicts.option_verdicts) for ground in self.grounds)
        return next(filter(None, told), "")

    # ---- whom it concerns, and the history: see ChangeSteps

    @property
    def judging_osds(self) -> Tuple[int, ...]:
        """See ChangeSteps."""
        return self.judged_on or (self.treated if self.load_point is not None else ())

    @property
    def alone_touched(self) -> bool:
        """See ChangeSteps."""
        sections = {f"osd.{osd_id}" for osd_id in self.judging_osds}
        return all(edit.who in sections for edit in self.edits)

    def concerned_osds(self, cluster: ClusterState) -> AbstractSet[int]:
        """See ChangeSteps; of an OSD that nobody can place it may be true."""
        masks = [mask_of(edit.who) for edit in self.edits]
        return {
            osd_id for osd_id, osd in cluster.osds.items()
            if any(mask.covers(osd) is not False for mask in masks)
        }

    def is_within(self, scope: Scope) -> bool:
        """See ChangeSteps; values go with a scope only where they concern nothing else."""
        at_home = self.failure_domain.rpartition(", ")[2] == f"host {scope.hostname}"
        return (
            (scope.osd_id is None or self.treated == (scope.osd_id,))
            and (not scope.hostname or at_home) and not scope.drive_model
        )

    @property
    def sides(self) -> Tuple[str, str]:
        """See ChangeSteps."""
        edits = self.edits[:EDITS_TOLD]
        before = "; ".join(f"{e.who} {e.name} {e.prior or 'not set'}" for e in edits)
        after = "; ".join(f"{e.who} {e.name} {e.value or 'not set'}" for e in edits)
        return one_line(before, SIDE_CHARS_MAX), one_line(after, SIDE_CHARS_MAX)

    def moved(self, back: bool) -> str:
        """See ChangeSteps; with each setting named once."""
        told = [edit.inverse if back else edit for edit in self.edits[:EDITS_TOLD]]
        said = [
            f"{edit.who} {edit.name}: {setting(edit.name, edit.prior)} -> "
            f"{setting(edit.name, edit.value)}" for edit in told
        ]
        more = len(self.edits) - EDITS_TOLD
        return "; ".join(said) + (f" and {more} more" if more > 0 else "")

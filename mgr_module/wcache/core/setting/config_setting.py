"""Values of the config database that change together; they go back last first.

What was there before is part of it from the start.  It is read again before anything is
written, and nothing is written where it has moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import AbstractSet, ClassVar, Dict, FrozenSet, Iterable, Sequence, Tuple

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
from ..drive.prior import Prior
from ..text import chained, named
from ..text import setting as shown
from .setting import HOW_FAR, Looked, Made, Setting, Warrant, WayBack

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
class ConfigSetting(Setting):
    """Values of the config database; OSDs that `expect` names are read back with them."""

    KIND: ClassVar[str] = "config"
    SHOWN: ClassVar[str] = (
        "kind action_id knob edits device_class why failure_domain osd_id load_point "
        f"{HOW_FAR} at_s expect wait_s back_wait_s judged_on grounds manual"
    )
    READS_TOO: ClassVar[bool] = True
    IN_ORDER: ClassVar[bool] = True
    MAY_RAMP: ClassVar[bool] = True
    LOOK_FIRST: ClassVar[str] = "look at `ceph config dump`, then"
    what: ClassVar[str] = "configuration"
    goal: ClassVar[str] = "the recommended configuration"
    kept_by: ClassVar[str] = "the mons' config database"

    knob: str
    edits: Tuple[ConfigEdit, ...] = field(metadata={"max_items": EDITS_MAX})
    expect: Tuple[OsdValue, ...] = field(default=(), metadata={"max_items": EDITS_MAX})

    @property
    def manual(self) -> Tuple[str, ...]:
        """The commands that make it by hand."""
        return tuple(edit.command for edit in self.edits)

    @property
    def undo(self) -> str:
        """The commands that take it back by hand."""
        return chained((edit.inverse.command for edit in reversed(self.edits)), " && ")

    # ---- what a rollout asks for, and what the answers mean: see Setting

    def look(self, later: Iterable[ConfigEdit]) -> ConfigRequest:
        """Say what reads the values of this change, and of all that come later.

        A plan is made from what was there: where that has moved, none of the rest is made.
        """
        mine = {edit.key for edit in self.edits}
        rest: Dict[Tuple[str, str], ConfigEdit] = {}
        for edit in later:
            # of several in a row the first one knows what stands there until then
            if edit.key not in mine:
                rest.setdefault(edit.key, edit)
        return ConfigRequest((*self.edits, *rest.values())[:EDITS_MAX], write=False)

    def looked(self, outcome: object, warrant: Warrant) -> Looked:
        if not isinstance(outcome, ConfigState) or outcome.request.write:
            return Looked(UNEXPECTED)
        if outcome.error:
            return Looked(outcome.error)
        moved = [edit.who for edit, value in outcome.read if is_of_others(edit, value)]
        if moved:
            return Looked(f"{named(moved)} was changed since; make a new plan")
        return Looked()

    def as_found(self, outcome: object) -> ConfigSetting:
        """Return it with what is there already as the prior: that is not ours to take back."""
        read = outcome.read if isinstance(outcome, ConfigState) else ()
        edits = tuple(
            replace(edit, prior=edit.value) if same(value, edit.value) else edit
            for edit, value in read[: len(self.edits)]
        )
        return replace(self, edits=edits)

    def apply(self, warrant: Warrant) -> ConfigRequest:
        return ConfigRequest(self.edits, expect=self.expect)

    def made(self, outcome: object, warrant: Warrant, again: bool) -> Tuple[Made, str]:
        """Judge by the values that were read."""
        if not isinstance(outcome, ConfigState) or not outcome.request.write:
            return Made.UNSURE, UNEXPECTED
        missing = [edit.who for edit, value in outcome.read if not same(value, edit.value)]
        if not missing and outcome.unlike:
            return Made.WRONG, f"{named(list(outcome.unlike))} after it was set"
        if not missing:
            return (Made.YES if outcome.written else Made.ALREADY), ""
        others = [edit.who for edit, value in outcome.read if is_of_others(edit, value)]
        why = outcome.error or (
            f"{named(others)} was changed since" if others
            else f"{named(missing)} did not take its change"
        )
        ours = any(
            same(value, edit.value) and not same(edit.prior, edit.value)
            for edit, value in outcome.read
        )
        return (Made.WRONG if ours else Made.NOT), why

    def back(self, warrant: Warrant) -> ConfigRequest:
        """Take edits back, the last one first; leave alone what others have changed since."""
        return ConfigRequest(
            tuple(edit.inverse for edit in reversed(self.edits)), others_stay=True,
            expect=tuple(item.inverse for item in self.expect),
        )

    def went_back(self, outcome: object, prior: Prior) -> WayBack:
        if not isinstance(outcome, ConfigState) or not outcome.request.write:
            return WayBack(UNEXPECTED)
        others = [edit.who for edit, value in outcome.read if is_of_others(edit, value)]
        ours = [
            edit.who for edit, value in outcome.read
            if edit.who not in others and not same(value, edit.value)
        ]
        if ours:
            return WayBack(outcome.error or f"{named(ours)} did not take its prior value")
        if not others and outcome.unlike:
            return WayBack(f"{named(list(outcome.unlike))} after it was taken back")
        said = f"left alone, since changed by others: {named(others)}" if others else ""
        return WayBack(left_alone=said)

    # ---- whom it concerns

    @property
    def touches(self) -> FrozenSet[Tuple[str, str]]:
        """What it changes: two plans that share one must be rolled back in order."""
        return frozenset(edit.key for edit in self.edits)

    @property
    def osd_ids(self) -> Tuple[int, ...]:
        """The OSDs whose clients it may touch, where it names them one by one."""
        own = [edit.who[len("osd."):] for edit in self.edits if edit.who.startswith("osd.")]
        return tuple(sorted({int(item) for item in own if item.isdecimal()}))

    def concerned_osds(self, cluster: ClusterState) -> AbstractSet[int]:
        """Return all OSDs that it may concern; of one that nobody can place it may be true."""
        masks = [mask_of(edit.who) for edit in self.edits]
        return {
            osd_id for osd_id, osd in cluster.osds.items()
            if any(mask.covers(osd) is not False for mask in masks)
        }

    # ---- for people

    @property
    def words(self) -> str:
        """From what to what, the first of them."""
        first = self.edits[0]
        more = f" and {len(self.edits) - 1} more" if len(self.edits) > 1 else ""
        prior, value = (shown(first.name, raw) for raw in (first.prior, first.value))
        return f"{first.who} {first.name} {prior} to {value}{more}"

    @property
    def sides(self) -> Tuple[str, str]:
        """What was there before, and what is there with it."""
        edits = self.edits[:EDITS_TOLD]
        before = "; ".join(f"{e.who} {e.name} {e.prior or 'not set'}" for e in edits)
        after = "; ".join(f"{e.who} {e.name} {e.value or 'not set'}" for e in edits)
        return one_line(before, SIDE_CHARS_MAX), one_line(after, SIDE_CHARS_MAX)

    def moved(self, back: bool) -> str:
        """Say from what to what, each value named once; `back`: the other way round."""
        told = [edit.inverse if back else edit for edit in self.edits[:EDITS_TOLD]]
        said = [
            f"{edit.who} {edit.name}: {shown(edit.name, edit.prior)} -> "
            f"{shown(edit.name, edit.value)}" for edit in told
        ]
        more = len(self.edits) - EDITS_TOLD
        return "; ".join(said) + (f" and {more} more" if more > 0 else "")

    def pooled_as(self, device_class: str) -> str:
        """Say which kind of effect it has: values differ, what finds them does not."""
        return f"{self.knob} of {device_class or 'all classes'}"

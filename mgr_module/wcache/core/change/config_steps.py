"""A change of the config database, step by step: what is asked, and what the values read mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Optional, Tuple

from ..config_database import (
    EDITS_MAX,
    ConfigEdit,
    ConfigRequest,
    ConfigState,
    is_of_others,
    same,
)
from ..events import LoadRequest
from ..model import Role
from ..text import named
from .change_status import LEFT_ALONE, ChangeStatus, Made
from .config_change import ConfigChange
from .rollout_state import Rollout


def measure(rollout: Rollout, change: ConfigChange) -> Optional[LoadRequest]:
    """What measures an OSD before and after the change; None where reading it back proves it."""
    if change.load_point is None:
        return None
    return LoadRequest(
        change.osd_id, change.load_point, Role.BLOCK, rollout.count, rollout.period_s,
        rollout.latency_limit_ms,
    )


def look(rollout: Rollout, change: ConfigChange) -> ConfigRequest:
    """What reads the values before the change, and those of all changes that come later.

    A plan is made from what was there: where that has moved, none of the rest is made.
    """
    mine = {edit.key for edit in change.edits}
    later: Dict[Tuple[str, str], ConfigEdit] = {}
    for item in rollout.config_changes:
        if item.status is ChangeStatus.PLANNED and item != change:
            for edit in item.edits:
                # of several in a row the first one knows what stands there until then
                if edit.key not in mine:
                    later.setdefault(edit.key, edit)
    return ConfigRequest((*change.edits, *later.values())[:EDITS_MAX], write=False)


def looked(
    rollout: Rollout, change: ConfigChange, outcome: object
) -> Tuple[ConfigChange, str]:
    """The change with what is there before it, or why it is not made."""
    request = look(rollout, change)
    if not isinstance(outcome, ConfigState) or len(outcome.values) != len(request.edits):
        return change, "the config database gave an unexpected answer"
    if outcome.error:
        return change, outcome.error
    now = list(zip(request.edits, outcome.values))
    moved = [edit.who for edit, value in now if is_of_others(edit, value)]
    if moved:
        return change, f"{named(moved)} was changed since; make a new plan"
    # what is there already is not ours to take back
    edits = tuple(
        replace(edit, prior=edit.value) if same(value, edit.value) else edit
        for edit, value in now[: len(change.edits)]
    )
    return replace(change, edits=edits), ""


def apply(change: ConfigChange) -> ConfigRequest:
    """What makes a change."""
    return ConfigRequest(change.edits, expect=change.expect)


def made(change: ConfigChange, outcome: object) -> Tuple[Made, str]:
    """What the values read after `apply` mean, and why."""
    if not isinstance(outcome, ConfigState) or len(outcome.values) != len(change.edits):
        return Made.UNSURE, "the config database gave an unexpected answer"
    now = list(zip(change.edits, outcome.values))
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


def back(change: ConfigChange) -> ConfigRequest:
    """What takes a change back, last first; what others have changed since is left alone."""
    return ConfigRequest(
        tuple(edit.inverse for edit in reversed(change.edits)), others_stay=True,
        expect=tuple(item.inverse for item in change.expect),
    )


def went_back(change: ConfigChange, outcome: object) -> Tuple[ConfigChange, str]:
    """The change with what its way back has told, and why it is not back."""
    inverse: Tuple[ConfigEdit, ...] = back(change).edits
    if not isinstance(outcome, ConfigState) or len(outcome.values) != len(inverse):
        return change, "the config database gave an unexpected answer"
    now = list(zip(inverse, outcome.values))
    others = [edit.who for edit, value in now if is_of_others(edit, value)]
    ours = [
        edit.who for edit, value in now
        if edit.who not in others and not same(value, edit.value)
    ]
    if ours:
        return change, outcome.error or f"{named(ours)} did not take its prior value"
    if not others and outcome.unlike:
        return change, f"{named(list(outcome.unlike))} after it was taken back"
    if not others:
        return change, ""
    return replace(change, detail=f"{LEFT_ALONE}: {named(others)}"), ""

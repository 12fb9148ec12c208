"""What nobody but an admin changes: entries that say so, and values that plans took back."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Tuple

from ...core.change.change import Change, ChangeStatus
from ...core.change.option_setting import OptionSetting
from ...core.change.rollout_state import Rollout
from ...core.options.option import Follow, Option
from .drift import OPTIONS_KNOB

# So often the same value is set by plans; where it is gone again, something else wants another.
TIMES_MAX = 3


class _Value(NamedTuple):
    """A value of an option, for a class and drive model (`of`), or for a drive or an OSD."""

    of: Tuple[str, str]
    option: str
    value: str


class Refusals:
    """Asked by option, value and drive; `by_itself`: no admin asks for the plan."""

    def __init__(self, by_itself: bool, plans: Iterable[Rollout] = ()) -> None:
        self._by_itself = by_itself
        self._worse: Dict[_Value, str] = {}
        self._set: Dict[_Value, int] = {}
        made = sorted(plans, key=lambda plan: plan.created_at_s) if by_itself else ()
        for plan in made:
            for index, change in enumerate(plan.changes):
                if change.knob != OPTIONS_KNOB.name:
                    continue
                if index in plan.worse.indices:
                    self._worse.update((one, plan.plan_id) for one in _kinds(change))
                elif change.status is ChangeStatus.APPLIED:
                    for one in _kinds(change):
                        self._worse.pop(one, None)  # a later plan proved it
                    for one in _things(change):
                        self._set[one] = self._set.get(one, 0) + 1

    def why(
        self, entry: Option, value: str, kind: Tuple[str, str], thing: Tuple[str, str]
    ) -> str:
        """Say why a value is not set, \"\" where it may be.

        `kind` is the device class and drive model, `thing` the host and domain, or ("", "osd.N").
        """
        if not self._by_itself:
            return ""
        if entry.follow is not Follow.AUTO:
            return "only a plan that an admin asks for changes it"
        kinds = (kind, (kind[0], ""))
        plan_id = next(filter(None, (
            self._worse.get(_Value(one, entry.name, value)) for one in kinds
        )), "")
        if plan_id:
            return f"it made clients slower and went back in plan {plan_id}, so an admin decides"
        if self._set.get(_Value(thing, entry.name, value), 0) >= TIMES_MAX:
            return f"it was set {TIMES_MAX} times and was gone again, so an admin decides"
        return ""


def _kinds(change: Change) -> List[_Value]:
    setting = change.setting
    if isinstance(setting, OptionSetting):
        kind = (change.device_class, str(change.drive_model))
        return [_Value(kind, setting.option, setting.after)]
    # what is set for OSDs keeps no drive model
    return [_Value((change.device_class, ""), one.name, one.value or "") for one in change.edits]


def _things(change: Change) -> List[_Value]:
    setting = change.setting
    if isinstance(setting, OptionSetting):
        thing = (change.hostname, change.domain_id)
        return [_Value(thing, setting.option, setting.after)]
    return [_Value(("", one.who), one.name, one.value or "") for one in change.edits]

"""Changes of a plan as plain data: what `--format json` shows of each, in this order."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

from ...core import codec
from ...core.change.cache_mode_setting import CacheModeSetting
from ...core.change.change import Change
from ...core.change.config_setting import ConfigSetting
from ...core.change.option_setting import OptionSetting

# What a drive keeps of a change that is planned to last, and is not made yet.
PLANNED_TO_LAST = "planned"
_HOW_FAR = "status detail before_us before_error after_us seconds bytes_written"
_OF_DRIVES = "action_id hostname domain_id dev_names osd_id device_class transport"
_SHOWN: Dict[type, str] = {
    CacheModeSetting:
        f"{_OF_DRIVES} expected mode why manual load_point osd_ids drive_ids simulated {_HOW_FAR} "
        "failure_domain prior doubt kept wear at_s drive_model",
    OptionSetting:
        f"kind {_OF_DRIVES} option expected value why manual load_point osd_ids drive_ids wait_s "
        f"simulated {_HOW_FAR} failure_domain prior doubt wear at_s drive_model shared",
    ConfigSetting:
        "kind action_id knob edits device_class why failure_domain osd_id load_point "
        f"{_HOW_FAR} at_s expect wait_s back_wait_s judged_on grounds manual",
}


def plain_changes(changes: Iterable[Change], to_last: bool) -> List[Dict[str, Any]]:
    """Each with its commands by hand; `to_last`: that is planned."""
    return [_plain(change, to_last and change.can_last) for change in changes]


def _plain(change: Change, to_last: bool) -> Dict[str, Any]:
    plain = codec.to_plain(change)
    setting = plain.pop("setting")
    plain.update(setting.pop("domain", {}), **setting)
    before, after = plain.get("before"), plain.get("after")
    plain.update(
        expected=before, mode=after, value=after, manual=list(change.setting.manual),
        kept=PLANNED_TO_LAST if to_last else after if change.lasts else None,
    )
    return {name: plain[name] for name in _SHOWN[type(change.setting)].split()}

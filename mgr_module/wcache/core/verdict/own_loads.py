"""OSDs of a drive model whose own load asks for another answer than the load of them all.

A drive model is weighed by all writes of its OSDs together, so that a busy OSD weighs as
much as it writes.  What that would do to a quieter OSD with another load is said.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Mapping, Sequence, Tuple

from ..model import Verdict
from .across_loads import over_loads
from .load_profile import LoadProfile, evened
from .pooling import LoadVerdict
from .recommend import Recommendation

NAMED_MAX = 8

OsdProfiles = Mapping[Tuple[str, str], Mapping[int, LoadProfile]]
"""Load profiles by (device class, drive model), and in each by OSD."""


def answers(
    loads: Sequence[LoadVerdict], profiles: Mapping[int, LoadProfile]
) -> Dict[int, Verdict]:
    """The verdict by each OSD's own load, of those whose load is known.

    Over the whole time: an hour that says otherwise is a matter of the load of them all.
    """
    return {
        osd_id: over_loads(loads, evened(profile))[0]
        for osd_id, profile in sorted(profiles.items()) if profile.known
    }


def with_dissent(
    found: Sequence[Recommendation], profiles: OsdProfiles
) -> Tuple[Recommendation, ...]:
    """Recommendations that name a mode, with a warning where an OSD's own load would not."""
    said: List[Recommendation] = []
    for item in found:
        key = (item.device_class, str(item.drive_model))
        dissent = "" if item.simulated else _dissent(item, profiles.get(key, {}))
        said.append(replace(item, warnings=(*item.warnings, dissent)) if dissent else item)
    return tuple(said)


def _dissent(item: Recommendation, profiles: Mapping[int, LoadProfile]) -> str:
    """Which OSDs would get another answer, in words; empty where none would."""
    if item.mode is None:
        return ""
    own = answers(item.loads, profiles)
    others = [(osd_id, verdict) for osd_id, verdict in own.items() if verdict is not item.verdict]
    if not others:
        return ""
    names = [f"osd.{osd_id} {verdict.value}" for osd_id, verdict in others[:NAMED_MAX]]
    if len(others) > NAMED_MAX:
        names.append(f"and {len(others) - NAMED_MAX} more")
    return (
        f"{len(others)} of {len(own)} OSD(s) with a known load would not get {item.verdict.value} "
        f"by their own load alone: {', '.join(names)}; OSDs that write more weigh more"
    )

"""From advice to changes: the class's value first, then the OSDs' own keys, host by host.

The order matters: no OSD falls back to the compiled default in between.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ...core.change.change import Change
from ...core.change.config_setting import ConfigSetting, sample
from ...core.change.waves import growing
from ...core.cluster import ClusterState, failure_domains
from ...core.config_database import Config, ConfigEdit, Entry
from ..knob import CHANGES_MAX, Asked, Wanted
from .advice import Advice
from .capacity import option
from .config import MCLOCK

# Hosts share a change, in groups that grow to 1 / SHARE of a device class: a plan is stored
# whole after each step, and thousands of OSDs have a key of their own.
SHARE = 32
NOTHING = Config(())


def make_changes(
    asked: Asked, advices: Sequence[Advice], cluster: ClusterState, config: Config = NOTHING,
) -> Wanted:
    """The changes that make the advice of each device class true.

    By `config`, what stands there now, each names OSDs that take another value by it.
    """
    found: List[Change] = []
    left: List[str] = []
    for advice in advices:
        left += [f"class {advice.device_class}: {line}" for line in advice.warnings]
        for where, edits in _grouped(advice, cluster):
            config, before = config.after(edits), config
            found.append(
                Change(
                    asked.action_id(len(found)), ConfigSetting(MCLOCK.name, edits),
                    advice.device_class, "measured by the OSDs' own recipe", where,
                    judged_on=sample(_felt(edits, before, config, cluster)),
                )
            )
    if len(found) > CHANGES_MAX:
        more = len(found) - CHANGES_MAX
        left.append(f"{more} more hosts: plan again when this plan is done")
    return Wanted(tuple(found[:CHANGES_MAX]), tuple(left))


def _felt(
    edits: Sequence[ConfigEdit], before: Config, after: Config, cluster: ClusterState
) -> List[int]:
    """The OSDs that are up and take another value by these edits."""
    names = {edit.name for edit in edits}
    own = {edit.who[len("osd."):] for edit in edits if edit.who.startswith("osd.")}
    widely = len(own) < len(edits)
    return [
        osd_id for osd_id, osd in sorted(cluster.osds.items())
        if osd.up and (widely or str(osd_id) in own) and any(
            _number(before.of_osd(osd, name)) != _number(after.of_osd(osd, name))
            for name in names if name == option(osd.rotational)
        )
    ]


def _number(entry: Optional[Entry]) -> Optional[float]:
    return None if entry is None else entry.number


def _grouped(
    advice: Advice, cluster: ClusterState
) -> List[Tuple[str, Tuple[ConfigEdit, ...]]]:
    """Edits that are made together, by where they matter; those of whole classes come first."""
    groups: Dict[str, List[ConfigEdit]] = {}
    for edit in advice.changes:
        own = edit.who[len("osd."):] if edit.who.startswith("osd.") else ""
        osd = cluster.osds.get(int(own)) if own.isdecimal() else None
        where = ", ".join(failure_domains(osd, cluster)) if osd else f"class {advice.device_class}"
        groups.setdefault(where, []).append(edit)
    # the first is of the whole class, or of one host where the class's value stays
    found = growing(list(groups.items()), SHARE)
    return [
        (_named([where for where, _ in items]), tuple(edit for _, mine in items for edit in mine))
        for items in found
    ]


def _named(places: Sequence[str]) -> str:
    return places[0] + (f" to {places[-1]}" if len(places) > 1 else "")

"""Which stored values override one for a device class, and for which OSDs.

An OSD's own plain key is not among them: it is removed with the class's value.  What
narrows a value down to a CRUSH location stays, since others may have meant it so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, FrozenSet, Sequence, Tuple

from ...core.cluster import OsdInfo
from ...core.config_database import Config, Entry, Mask, mask_of


@dataclass(frozen=True)
class Override:
    """One entry that overrides a device class's value: surely for some OSDs, for others maybe."""

    entry: Entry
    surely: FrozenSet[int]
    maybe: FrozenSet[int]


def overrides(config: Config, name: str, members: Sequence[OsdInfo]) -> Tuple[Override, ...]:
    """The entries of option `name`, masked by a location, that override a class's value.

    Those that are known to cover none of `members` are left out.
    """
    found = []
    by_id = {osd.osd_id: osd for osd in members}
    for entry in config.entries:
        mask = mask_of(entry.who)
        if entry.name != name or not mask.precedes_class() or "/" not in entry.who:
            continue
        covers = [(osd.osd_id, mask.covers(osd)) for osd in _within(mask, by_id, members)]
        surely = frozenset(osd_id for osd_id, said in covers if said)
        maybe = frozenset(osd_id for osd_id, said in covers if said is None)
        if surely or maybe:
            found.append(Override(entry, surely, maybe))
    return tuple(found)


def _within(
    mask: Mask, by_id: Dict[int, OsdInfo], members: Sequence[OsdInfo]
) -> Sequence[OsdInfo]:
    """The OSDs that may be in a section; an OSD's own has one at most."""
    own = mask.section[4:]
    if not mask.section.startswith("osd."):
        return members
    return [by_id[int(own)]] if own.isdecimal() and int(own) in by_id else []

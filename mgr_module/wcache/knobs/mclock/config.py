"""What the config database says to mClock: when it was stored, and what overrides it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Dict, FrozenSet, Iterable, List, Mapping, Sequence, Tuple

from ...core.cluster import OsdInfo
from ...core.config_database import Config, Entry, Mask, mask_of
from ...core.loads import QUEUE, SCHEDULER, capacity_limits
from ...core.model import FindingCode
from ..knob import Knob
from .capacity import option

CAPACITIES = (option(True), option(False))
FORCED_BENCH = "osd_mclock_force_run_benchmark_on_init"
NAMES = (*CAPACITIES, QUEUE, FORCED_BENCH, *capacity_limits(True), *capacity_limits(False))
ADVICE = (
    (
        FindingCode.MCLOCK_STALE,
        "value{s} of osd_mclock_max_capacity_iops_* {does|do} not fit the cache mode the drives "
        "are in",
        "measure again and set it: `ceph wcache campaign start --loads=capacity`, then `ceph "
        "wcache plan --knob=mclock`",
    ),
)
# Capacities are measured anew after a change of the cache mode, so they have a plan of their own.
MCLOCK = Knob("mclock", NAMES, ADVICE, together=False)


@dataclass(frozen=True)
class Known:
    """A value with the setting that the OSD's drives were in when it was first seen."""

    who: str
    name: str
    value: str
    setting: str = ""


@dataclass(frozen=True)
class Knowns:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[Known, ...] = field(default=(), metadata={"max_items": 100_000})


def scheduler(config: Config, osd: OsdInfo, compiled: str) -> str:
    """The scheduler that the OSD is told to use; `compiled` is the release's default.

    An OSD takes it when it starts, and a ceph.conf of its own is not seen here.
    """
    entry = config.of_osd(osd, QUEUE)
    return entry.value if entry is not None else compiled


def by_mclock(config: Config, osd: OsdInfo, compiled: str) -> bool:
    """Whether the OSD is told to schedule by mClock."""
    return scheduler(config, osd, compiled) == SCHEDULER


def see(
    known: Mapping[Tuple[str, str], Known], config: Config, osds: Mapping[int, OsdInfo],
    settings: Mapping[int, str],
) -> Dict[Tuple[str, str], Known]:
    """`known` after one more reading: what is new was stored in the present setting.

    A value that stays keeps the setting in which it was first seen, so that it is known to
    be older than a change of the cache mode.
    """
    now: Dict[Tuple[str, str], Known] = {}
    for entry in config.entries:
        if entry.name not in CAPACITIES:
            continue
        key = (entry.who, entry.name)
        before = known.get(key)
        if before is None or before.value != entry.value:
            before = Known(entry.who, entry.name, entry.value)
        if not before.setting:
            before = replace(before, setting=_setting(entry, osds, settings))
        now[key] = before
    return now


def _setting(
    entry: Entry, osds: Mapping[int, OsdInfo], settings: Mapping[int, str]
) -> str:
    """The one setting of all OSDs that a section covers; empty where they differ."""
    said = {settings.get(osd.osd_id, "") for osd in covered(entry, osds)}
    return said.pop() if len(said) == 1 else ""


def covered(entry: Entry, osds: Mapping[int, OsdInfo]) -> List[OsdInfo]:
    """The OSDs that would read an entry, if nothing took precedence over it."""
    if entry.name not in CAPACITIES:
        return []
    rotational, mask = entry.name == option(True), mask_of(entry.who)
    mine: Iterable[OsdInfo] = osds.values()
    if mask.section.startswith("osd.") and mask.section[4:].isdecimal():
        osd = osds.get(int(mask.section[4:]))
        mine = [osd] if osd is not None else []
    return [osd for osd in mine if osd.rotational is rotational and mask.covers(osd)]


# ---- which values override one for a device class
#
# An OSD's own plain key is not among them: it is removed with the class's value.  What narrows a
# value down to a CRUSH location stays, since others may have meant it so.


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

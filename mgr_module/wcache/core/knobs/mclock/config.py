"""What the config database says to mClock: values by section, and which one an OSD takes.

A section is written as `ceph config set` takes it: `global`, `osd`, `osd/class:hdd`,
`osd/root:default`, `osd/rack:r1`, `osd/host:h1`, `osd/host:h1/class:hdd`, `osd.3`.  A stronger
section wins whatever its masks are; within one, any CRUSH location outranks a device class,
and the inner location the outer one (src/mon/ConfigMap.cc, `generate_entity_map` and
`get_precision`).  Masks that are equally precise are settled by their order in the dump.

Not modelled: the mons compare precision across sections too where an option is the last
of `osd` and the first of `osd.N`; seen on 18, a value of `osd/host:h1` then outranks `osd.N`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ...cluster import OsdInfo
from .capacity import SCHEDULER, option

CAPACITIES = (option(True), option(False))
QUEUE = "osd_op_queue"
FORCED_BENCH = "osd_mclock_force_run_benchmark_on_init"
NAMES = (*CAPACITIES, QUEUE, FORCED_BENCH)
TEXT_CHARS_MAX = 200


@dataclass(frozen=True)
class Entry:
    """One value in the config database."""

    who: str
    name: str
    value: str

    @property
    def iops(self) -> Optional[float]:
        """The value as IOPS, or None where it is none."""
        try:
            number = float(self.value)
        except ValueError:
            return None
        return number if math.isfinite(number) and number > 0 else None


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

    items: Tuple[Known, ...] = field(default=(), metadata={"max_items": 100_000})


def parse_dump(plain: Any) -> Tuple[Entry, ...]:
    """The entries of `ceph config dump` that mClock cares for; odd rows are left out."""
    found = []
    for row in plain if isinstance(plain, list) else ():
        if not isinstance(row, Mapping) or row.get("name") not in NAMES:
            continue
        section, value = row.get("section"), row.get("value")
        mask = row.get("mask") or ""
        texts = (section, value, mask)
        if not all(isinstance(text, str) and len(text) <= TEXT_CHARS_MAX for text in texts):
            continue
        found.append(Entry(f"{section}/{mask}" if mask else str(section), row["name"], str(value)))
    return tuple(found)


@dataclass(frozen=True)
class Mask:
    """A section and what narrows it; `place` is a CRUSH bucket as (type, name)."""

    section: str
    place: Optional[Tuple[str, str]] = None
    device_class: str = ""

    def covers(self, osd: OsdInfo) -> Optional[bool]:
        """Whether an OSD is in it; None where its CRUSH location is not known well enough."""
        if self.section not in ("global", "osd", f"osd.{osd.osd_id}"):
            return False
        if self.device_class and self.device_class != osd.device_class:
            return False
        if self.place is None or self.place in _places(osd):
            return True
        # without the CRUSH map only the host is known, by its own name
        return False if osd.location or self.place[0] == "host" else None

    def outranks_class(self) -> bool:
        """Whether it is stronger than a value for a device class, where it covers an OSD."""
        return self.section.startswith("osd.") or (
            self.section == "osd" and self.place is not None
        )


def mask_of(who: str) -> Mask:
    """A section as it is written, taken apart."""
    section, place, device_class = "global", None, ""
    for part in who.split("/"):
        kind, colon, name = part.partition(":")
        if not colon:
            section = part
        elif kind == "class":
            device_class = name
        else:
            place = (kind, name)
    return Mask(section, place, device_class)


def _places(osd: OsdInfo) -> Tuple[Tuple[str, str], ...]:
    return osd.location or (("host", osd.failure_domain or osd.hostname),)


class Config:
    """Entries, asked by OSD."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self._values = {(entry.who, entry.name): entry for entry in self.entries}
        # by option, section and place: an OSD's own are found without going through them all
        self._found: Dict[Tuple[str, str, Optional[Tuple[str, str]]], List[Entry]] = (
            defaultdict(list)
        )
        for entry in self.entries:
            mask = mask_of(entry.who)
            self._found[(entry.name, mask.section, mask.place)].append(entry)

    def at(self, who: str, name: str) -> Optional[Entry]:
        """The entry of one section itself."""
        return self._values.get((who, name))

    def of_osd(self, osd: OsdInfo, name: str) -> Optional[Entry]:
        """The entry that an OSD takes; None where the compiled default is in force."""
        for section in (f"osd.{osd.osd_id}", "osd", "global"):
            for place in (*_places(osd), None):
                mine = [
                    entry for entry in self._found.get((name, section, place), ())
                    if mask_of(entry.who).device_class in ("", osd.device_class)
                ]
                if place is None:
                    # a class is the more precise one; beside a place it adds nothing
                    mine.sort(key=lambda entry: bool(mask_of(entry.who).device_class))
                if mine:
                    return mine[-1]
        return None

    def scheduler(self, osd: OsdInfo, compiled: str) -> str:
        """The scheduler that the OSD is told to use; `compiled` is the release's default.

        An OSD takes it when it starts, and a ceph.conf of its own is not seen here.
        """
        entry = self.of_osd(osd, QUEUE)
        return entry.value if entry is not None else compiled

    def mclock(self, osd: OsdInfo, compiled: str) -> bool:
        """Whether the OSD is told to schedule by mClock."""
        return self.scheduler(osd, compiled) == SCHEDULER


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
    """The OSDs that would read an entry, if nothing outranked it."""
    mask = mask_of(entry.who)
    if mask.section.startswith("osd.") and mask.section[4:].isdecimal():
        osd = osds.get(int(mask.section[4:]))
        mine = [osd] if osd is not None else []
    else:
        mine = list(osds.values())
    return [osd for osd in mine if option(osd.rotational) == entry.name and mask.covers(osd)]

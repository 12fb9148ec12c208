"""What the config database says to mClock: values by section, and which one an OSD takes.

A section is written as `ceph config set` takes it: `global`, `osd`, `osd/class:hdd`,
`osd/host:h1`, `osd.3`.  The later in this list, the stronger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .mclock import SCHEDULER, option
from .osds import OsdInfo

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


class Config:
    """Entries, asked by OSD."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self._values = {(entry.who, entry.name): entry for entry in self.entries}

    def at(self, who: str, name: str) -> Optional[Entry]:
        """The entry of one section itself."""
        return self._values.get((who, name))

    def of_osd(self, osd: OsdInfo, name: str) -> Optional[Entry]:
        """The entry that an OSD takes; None where the compiled default is in force."""
        for who in (
            f"osd.{osd.osd_id}", f"osd/host:{osd.failure_domain or osd.hostname}",
            f"osd/class:{osd.device_class}", "osd", "global",
        ):
            entry = self.at(who, name)
            if entry is not None:
                return entry
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
    who = entry.who
    if who.startswith("osd.") and who[4:].isdecimal():
        osd = osds.get(int(who[4:]))
        mine = [osd] if osd is not None else []
    else:
        mine = [osd for osd in osds.values() if _in(who, osd)]
    return [osd for osd in mine if option(osd.rotational) == entry.name]


def _in(who: str, osd: OsdInfo) -> bool:
    return who in (
        "global", "osd", f"osd/class:{osd.device_class}",
        f"osd/host:{osd.failure_domain or osd.hostname}",
    )

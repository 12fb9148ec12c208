"""The mons' config database: its values by section, which one an OSD takes, and edits of it.

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
from dataclasses import dataclass, field
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Tuple

from .cluster import OsdInfo

TEXT_CHARS_MAX = 200
EDITS_MAX = 4096


@dataclass(frozen=True)
class Entry:
    """One value in the config database."""

    who: str
    name: str
    value: str

    @property
    def number(self) -> Optional[float]:
        """The value as a positive number, or None where it is none."""
        try:
            number = float(self.value)
        except ValueError:
            return None
        return number if math.isfinite(number) and number > 0 else None


def parse_dump(plain: Any, names: Collection[str]) -> Tuple[Entry, ...]:
    """The entries of `ceph config dump` with these options; odd rows are left out."""
    found = []
    for row in plain if isinstance(plain, list) else ():
        if not isinstance(row, Mapping) or row.get("name") not in names:
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


# ---- edits


@dataclass(frozen=True)
class ConfigEdit:
    """One value to set (None: to remove), and what stands there before (None: nothing)."""

    who: str
    name: str
    value: Optional[str]
    prior: Optional[str]

    @property
    def key(self) -> Tuple[str, str]:
        """What it is about."""
        return self.who, self.name

    @property
    def command(self) -> str:
        """The command by hand."""
        if self.value is None:
            return f"ceph config rm {self.who} {self.name}"
        return f"ceph config set {self.who} {self.name} {self.value}"

    @property
    def inverse(self) -> ConfigEdit:
        """The edit that takes this one back."""
        return ConfigEdit(self.who, self.name, self.prior, self.value)


@dataclass(frozen=True)
class ConfigRequest:
    """Edits to be made in order, or, without `write`, only to be looked at.

    Nothing at all is written where others have changed one of them since, unless
    `others_stay`: then theirs are left as they are and the rest is written.
    """

    edits: Tuple[ConfigEdit, ...] = field(metadata={"max_items": EDITS_MAX})
    write: bool = True
    others_stay: bool = False


@dataclass(frozen=True)
class ConfigState:
    """What was read of each edit's value last, how many were written before, and what failed."""

    values: Tuple[Optional[str], ...]
    written: int = 0
    error: str = ""


def same(one: Optional[str], other: Optional[str]) -> bool:
    """Whether two values are the same number: the mons print 310 as 310.000000."""
    if one is None or other is None:
        return one is other
    numbers = Entry("", "", one).number, Entry("", "", other).number
    return one == other or (numbers[0] is not None and numbers[0] == numbers[1])


def values_of(edits: Iterable[ConfigEdit], config: Config) -> Tuple[Optional[str], ...]:
    """What stands at each edit's place."""
    entries = [config.at(*edit.key) for edit in edits]
    return tuple(None if entry is None else entry.value for entry in entries)


def left_to_write(request: ConfigRequest, config: Config) -> List[ConfigEdit]:
    """The edits of a request that are to be written, in order, by what stands there now."""
    if not request.write:
        return []
    now = list(zip(request.edits, values_of(request.edits, config)))
    others = [edit for edit, value in now if is_of_others(edit, value)]
    if others and not request.others_stay:
        return []
    return [edit for edit, value in now if edit not in others and not same(value, edit.value)]


def is_of_others(edit: ConfigEdit, value: Optional[str]) -> bool:
    """Whether a value is neither what an edit makes nor what was there before it."""
    return not same(value, edit.value) and not same(value, edit.prior)

"""Ceph's configuration: the mons' database, edits of it, the places of its file.

A section is written as `ceph config set` takes it: `global`, `osd`, `osd/class:hdd`,
`osd/root:default`, `osd/rack:r1`, `osd/host:h1`, `osd/host:h1/class:hdd`, `osd.3`.  Within a
section, any CRUSH location overrides a device class, and the inner location the outer one;
what is equally precise is settled by the order of the keys (src/mon/ConfigMap.cc,
`generate_entity_map` and `get_precision`).

A stronger section wins, with one exception: the mons go through all options in the order of
their names, and compare precision with the one before also where that was in the section
before.  So `osd/host:h1` overrides a plain `osd.3` where the option is the last that the OSD
has of `osd` and the first that it has of `osd.3`.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Tuple

from .cluster import OsdInfo
from .text import CommandLine, arguments, command

TEXT_CHARS_MAX = 200
EDITS_MAX = 4096
# A host's label at cephadm, among the entries: `HOST/cephadm` is no section of the mons.
LABELS_OF = "/cephadm"
CLUSTER = "ceph"


@dataclass(frozen=True)
class Entry:
    """One value in the config database."""

    who: str
    name: str
    value: str
    other: bool = False  # of an option that no knob goes by: it stands there, no more is kept

    @property
    def number(self) -> Optional[float]:
        """The value as a positive number, or None where it is none."""
        try:
            number = float(self.value)
        except ValueError:
            return None
        return number if math.isfinite(number) and number > 0 else None


def parse_dump(plain: Any, names: Collection[str]) -> Tuple[Entry, ...]:
    """The entries of `ceph config dump`; odd rows are left out.

    Of options that are not in `names` no value is kept: they may be secrets.
    """
    found = []
    for row in plain if isinstance(plain, list) else ():
        if not isinstance(row, Mapping):
            continue
        section, name, mask = row.get("section"), row.get("name"), row.get("mask") or ""
        other = name not in names
        value = "" if other else row.get("value")
        texts = (section, name, value, mask)
        if not all(isinstance(text, str) and len(text) <= TEXT_CHARS_MAX for text in texts):
            continue
        who = f"{section}/{mask}" if mask else str(section)
        found.append(Entry(who, str(name), str(value), other))
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

    def precedes_class(self) -> bool:
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


Place = Optional[Tuple[str, str]]


class Config:
    """Entries, asked by OSD."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        # the mons go by the order of their keys ("osd/host:h1/osd_memory_target")
        everything = sorted(entries, key=lambda entry: f"{entry.who}/{entry.name}")
        self.entries = tuple(entry for entry in everything if not entry.other)
        self._values = {(entry.who, entry.name): entry for entry in self.entries}
        # by option and section, then by place: an OSD's own are found without going through all
        self._found: Dict[Tuple[str, str], Dict[Place, List[Tuple[int, Entry, str]]]] = (
            defaultdict(dict)
        )
        # by section, then by place and class: the first and the last option that stands there
        self._edges: Dict[str, Dict[Tuple[Place, str], Tuple[str, str]]] = defaultdict(dict)
        for index, entry in enumerate(everything):
            mask = mask_of(entry.who)
            edges, key = self._edges[mask.section], (mask.place, mask.device_class)
            low, high = edges.get(key, (entry.name, entry.name))
            edges[key] = min(low, entry.name), max(high, entry.name)
            if not entry.other:
                found = self._found[entry.name, mask.section]
                found.setdefault(mask.place, []).append((index, entry, mask.device_class))
        self._names = {entry.name for entry in self.entries}
        self._everything = tuple(everything)

    def at(self, who: str, name: str) -> Optional[Entry]:
        """The entry of one section itself."""
        return self._values.get((who, name))

    def after(self, edits: Iterable[ConfigEdit]) -> Config:
        """What would stand there after these edits, one after the other."""
        last = {edit.key: edit for edit in edits}
        kept = [entry for entry in self._everything if (entry.who, entry.name) not in last]
        made = [Entry(e.who, e.name, e.value) for e in last.values() if e.value is not None]
        return Config([*kept, *made])

    def of_osd(self, osd: OsdInfo, name: str) -> Optional[Entry]:
        """The entry that an OSD takes; None where the compiled default is in force.

        As the mons find it: the last of the most precise ones.  `before` is the precision of
        what was taken last, as long as no other option has come in between.
        """
        if name not in self._names:
            return None
        places: Tuple[Place, ...] = (*_places(osd), None)
        taken: Optional[Entry] = None
        last, before = "", 0
        for section in ("global", "osd", f"osd.{osd.osd_id}"):
            stands = self._edges.get(section)
            if stands is None:
                continue
            edges = [
                stands[key] for place in places
                for key in ((place, ""), (place, osd.device_class)) if key in stands
            ]
            if not edges:
                continue
            best = before if last == name == min(low for low, _ in edges) else None
            for _, entry, precision in self._matching(section, places, osd.device_class, name):
                if best is None or precision <= best:
                    taken, best = entry, precision
            last, before = max(high for _, high in edges), best or 0
        return taken

    def _matching(
        self, section: str, places: Tuple[Place, ...], device_class: str, name: str
    ) -> List[Tuple[int, Entry, int]]:
        """Entries of one section that cover an OSD, in order, with their precision (0: best)."""
        stands = self._found.get((name, section))
        if stands is None:
            return []
        found = [
            (index, entry, rank + (place is None and not of_class))
            for rank, place in enumerate(places)
            for index, entry, of_class in stands.get(place, ())
            if of_class in ("", device_class)
        ]
        return sorted(found, key=lambda item: item[0])


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
    def command(self) -> CommandLine:
        """The command by hand."""
        if self.who.endswith(LABELS_OF):
            verb = "rm" if self.value is None else "add"
            host = self.who[: -len(LABELS_OF)]
            return command("ceph orch host label {} {} {}", verb, host, self.name)
        if self.value is None:
            return arguments(["ceph", "config", "rm", self.who, self.name])
        return arguments(["ceph", "config", "set", self.who, self.name, self.value])

    @property
    def inverse(self) -> ConfigEdit:
        """The edit that takes this one back."""
        return ConfigEdit(self.who, self.name, self.prior, self.value)


@dataclass(frozen=True)
class OsdValue:
    """An option as an OSD itself has to have it after a change, and as it was before."""

    osd_id: int
    name: str
    value: str
    prior: str

    @property
    def inverse(self) -> OsdValue:
        """What it has to have when the change is back."""
        return OsdValue(self.osd_id, self.name, self.prior, self.value)


@dataclass(frozen=True)
class ConfigRequest:
    """Edits to be made in order, or, without `write`, only to be looked at.

    Nothing at all is written where others have changed one of them since, unless
    `others_stay`: then theirs are left as they are and the rest is written.  What `expect`
    names is read back from the OSDs.
    """

    edits: Tuple[ConfigEdit, ...] = field(metadata={"max_items": EDITS_MAX})
    write: bool = True
    others_stay: bool = False
    expect: Tuple[OsdValue, ...] = ()


@dataclass(frozen=True)
class ConfigState:
    """What was read of each edit's value last, how many were written before, and what failed.

    It carries what was asked for: what a look has found is no answer to a change.  `unlike` are
    OSDs that do not have what was expected of them, with what they have.
    """

    request: ConfigRequest
    values: Tuple[Optional[str], ...]
    written: int = 0
    error: str = ""
    unlike: Tuple[str, ...] = ()

    @property
    def read(self) -> Tuple[Tuple[ConfigEdit, Optional[str]], ...]:
        """Each edit with what stood at its place."""
        return tuple(zip(self.request.edits, self.values))


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


def left_to_write(
    request: ConfigRequest, config: Config, unanswered: Collection[Tuple[str, str]] = ()
) -> List[ConfigEdit]:
    """The edits of a request that are to be written, in order, by what stands there now.

    Of `unanswered` keys nobody knows whether an earlier write comes late: they are written anyway.
    """
    if not request.write:
        return []
    now = list(zip(request.edits, values_of(request.edits, config)))
    others = [edit for edit, value in now if is_of_others(edit, value)]
    if others and not request.others_stay:
        return []
    return [
        edit for edit, value in now if edit not in others
        and (edit.key in unanswered or not same(value, edit.value))
    ]


def is_of_others(edit: ConfigEdit, value: Optional[str]) -> bool:
    """Whether a value is neither what an edit makes nor what was there before it."""
    return not same(value, edit.value) and not same(value, edit.prior)


def conf_places(given: str, cluster: str, environment: Mapping[str, str]) -> Tuple[str, ...]:
    """The files of which the first that can be read is it.

    `given` is what --conf says: one path or several with commas between them, as CEPH_CONF may
    have too; `cluster` is its name, if it has one.  (common/config.cc: get_conffile_paths,
    CEPH_CONF_FILE_DEFAULT)
    """
    cluster = cluster or CLUSTER
    named = given or environment.get("CEPH_CONF", "")
    if named:
        paths = [path.strip() for path in re.split("[,;]", named)]
        return tuple(path.replace("$cluster", cluster) for path in paths if path)
    home = environment.get("HOME", "")
    file_name = f"{cluster}.conf"
    of_user = (f"{home}/.ceph/{file_name}",) if home else ()
    return (f"/etc/ceph/{file_name}", *of_user, file_name)


def looked_in(places: Tuple[str, ...]) -> str:
    """What to say where no place has a configuration."""
    shown = [path if path.startswith("/") else f"{path} in this folder" for path in places]
    return f"no configuration of Ceph is there: looked for {', '.join(shown)}"

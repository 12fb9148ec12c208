"""From measured capacities to advice: what to set for a device class.

One value for a device class, since OSDs that are added take it too; an OSD's own key
takes precedence over it, and an OSD with a value other than the compiled default does not bench
itself again.  So the class is set first and the keys that override it are removed then:
no OSD falls back to the default in between.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import AbstractSet, Dict, FrozenSet, Iterator, List, Mapping, Optional, Sequence, Tuple

from ...core.cluster import OsdInfo
from ...core.config_database import EDITS_MAX, Config, ConfigEdit
from ...core.loads import SCHEDULER, capacity_limits
from ...core.model import CacheMode
from ...core.text import NAMED_MAX, command, many, named, typed
from ...core.verdict.hosts_by_model import missing_word
from .capacity import (
    DEFAULT_IOPS,
    FORCED_BENCH,
    ONE_CLASS,
    PLAUSIBLE_IOPS,
    Capacity,
    Known,
    Measurement,
    Override,
    by_mclock,
    of_model,
    of_one,
    option,
    overrides,
    uncertain,
)

# A threshold to set lies so far beyond what was measured: OSDs of a model differ a little.
WIDER = 1.1


@dataclass(frozen=True)
class ModelCapacity:
    """What was measured on OSDs of one stack of drive models, all in one setting."""

    stack: str
    setting: str
    capacity: Capacity
    osds: int  # in the device class, measured or not


@dataclass(frozen=True)
class Advice:
    """What to set for a device class; no changes where a warning says why not."""

    device_class: str
    option: str
    iops: Optional[int]
    models: Tuple[ModelCapacity, ...]
    shadowing: Tuple[str, ...] = field(metadata={"max_items": EDITS_MAX})
    changes: Tuple[ConfigEdit, ...] = field(metadata={"max_items": EDITS_MAX})
    warnings: Tuple[str, ...]


@dataclass(frozen=True)
class Basis:
    """Everything that advice and findings follow from."""

    osds: Mapping[int, OsdInfo]
    settings: Mapping[int, str]
    stacks: Mapping[int, str]
    config: Config
    measured: Sequence[Measurement] = ()
    known: Mapping[Tuple[str, str], Known] = field(default_factory=dict)
    wanted: Mapping[Tuple[str, str], CacheMode] = field(default_factory=dict)
    compiled_queue: str = SCHEDULER

    def current(self) -> List[Measurement]:
        """Measurements that still hold: same OSD, same drive models, same setting."""
        return [
            item for item in self.measured
            if not item.forced and item.osd_id in self.osds
            and self.settings.get(item.osd_id) == item.setting
            and self.stacks.get(item.osd_id) == item.stack
        ]


def advise(facts: Basis) -> Tuple[Advice, ...]:
    """One advice for each device class with a measured OSD, in a stable order."""
    groups = sorted({
        (facts.osds[m.osd_id].device_class, facts.osds[m.osd_id].rotational)
        for m in facts.measured if m.osd_id in facts.osds
    })
    return tuple(_Class(facts, *group).advice() for group in groups)


class _Class:
    """The OSDs of a device class on drives of one kind, rotational or not, and their capacities."""

    def __init__(self, facts: Basis, device_class: str, rotational: bool) -> None:
        self.facts, self.device_class, self.rotational = facts, device_class, rotational
        self.option = option(rotational)
        self.osds = [
            osd for _, osd in sorted(facts.osds.items())
            if osd.device_class == device_class and osd.rotational == rotational
        ]
        self.ids = {osd.osd_id for osd in self.osds}
        self.counts = Counter(facts.stacks[osd_id] for osd_id in self.ids & set(facts.stacks))
        self.current = [item for item in facts.current() if item.osd_id in self.ids]
        self.mixed: List[str] = []  # why OSDs on a stack have no common capacity
        self.found = tuple(self._models())

    def advice(self) -> Advice:
        """What to set, or why nothing is."""
        facts, name, found = self.facts, self.option, self.found
        stronger = overrides(facts.config, name, self.osds)
        warnings = [
            *self.mixed, *self._doubts(),
            *_overridden(stronger, facts.config, self.device_class),
        ]
        value: Optional[int] = None
        shadowing: Tuple[str, ...] = ()
        changes: List[ConfigEdit] = []
        blocked = self._blocked()
        if found:
            by_class = _class_value(found, self.rotational)
            own = _own_values(found, by_class, self.rotational)
            given = {model.stack: own.get(model.stack, by_class) for model in found}
            unsure = uncertain(self.current, given, self.counts) + self._one_host_alone()
            value, blocked = None if unsure else by_class, [*unsure, *blocked]
            held = {(model.stack, model.setting) for model in found}
            mine = [
                osd for osd in self.osds
                if (facts.stacks.get(osd.osd_id), facts.settings.get(osd.osd_id)) in held
            ]
            shadowing = tuple(
                f"osd.{osd.osd_id}" for osd in mine if facts.config.at(f"osd.{osd.osd_id}", name)
            )
            if not blocked:
                # without its own key such an OSD would take the stronger value, not the class's
                kept = frozenset().union(*(item.surely | item.maybe for item in stronger))
                changes = self._changes(by_class, own, mine, kept)
        if len(changes) > EDITS_MAX:
            del changes[EDITS_MAX:]
            blocked.append(f"these are the first {EDITS_MAX} changes; look again after them")
        return Advice(
            self.device_class, name, value, found, shadowing[:EDITS_MAX], tuple(changes),
            (*blocked, *warnings),
        )

    def _models(self) -> Iterator[ModelCapacity]:
        by_model: Dict[str, List[Measurement]] = defaultdict(list)
        for item in self.current:
            by_model[item.stack].append(item)
        for model, items in sorted(by_model.items()):
            modes = sorted({item.setting for item in items})
            capacity = of_model(items)
            if len(modes) > 1:
                self.mixed.append(
                    f"{model}: its OSDs are in different modes ({'; '.join(modes)}), so they have "
                    "no common capacity; make the modes the same and measure again"
                )
            elif capacity is not None:
                yield ModelCapacity(model, modes[0], capacity, self.counts[model])

    def _changes(
        self, value: int, own: Mapping[str, int], mine: Sequence[OsdInfo], kept: FrozenSet[int]
    ) -> List[ConfigEdit]:
        """The class's value, then OSDs' own: set, or removed where nothing would be stronger."""
        wanted: List[Tuple[str, Optional[int]]] = [(f"osd/class:{self.device_class}", value)]
        for osd in mine:
            of_stack = own.get(self.facts.stacks[osd.osd_id])
            if of_stack is not None or osd.osd_id not in kept:
                wanted.append((f"osd.{osd.osd_id}", of_stack))
        changes = []
        for who, iops in wanted:
            entry = self.facts.config.at(who, self.option)
            number = None if entry is None else entry.number
            same = entry is None if iops is None else number is not None and round(number) == iops
            if not same:
                prior, after = entry.value if entry else None, None if iops is None else str(iops)
                changes.append(ConfigEdit(who, self.option, after, prior))
        return changes

    # ---- why not, and doubts

    def _blocked(self) -> List[str]:
        """Reasons to change nothing, however good the numbers are."""
        lines, facts = [], self.facts
        others = {item.osd_id for item in self.current if item.scheduler != SCHEDULER}
        idle = [o for o in self.osds if not by_mclock(facts.config, o, facts.compiled_queue)]
        idle += [osd for osd in self.osds if osd.osd_id in others]
        if idle:
            lines.append(
                f"{_osds(idle)} do not schedule by mClock (osd_op_queue), so the value would do "
                "nothing there"
            )
        if not self.found:
            lines.append("no measurement is still valid; measure again")
        return [*lines, *filter(None, map(self._beyond, self.found))]

    def _one_host_alone(self) -> List[str]:
        """Whose word is missing before a value goes for OSDs of other hosts, by kind.

        By the hosts of Ceph's map.  OSDs on models that were not measured get the class's value.
        """
        facts, stacks = self.facts, {item.stack for item in self.found}
        kinds = [(item.stack, {item.stack}) for item in self.found]
        if any(facts.stacks.get(osd.osd_id) not in stacks for osd in self.osds):
            kinds.append((f"class {self.device_class}", stacks))
        lines = []
        for name, mine in kinds:
            measured = {
                facts.osds[item.osd_id].hostname for item in self.current
                if item.stack in mine and of_one(item.iops) is not None
            }
            hosts = {
                osd.hostname for osd in self.osds
                if mine is stacks or facts.stacks.get(osd.osd_id) in mine
            }
            missing = missing_word(
                measured, measured, hosts, have=f"OSDs of {name}", what="value",
                measure=lambda host: command(
                    "ceph wcache campaign start --loads=capacity --scope=host:{}", host
                ),
            )
            lines += [f"{name}: {missing.why}"] if missing is not None else []
        return lines

    def _beyond(self, item: ModelCapacity) -> str:
        """Why an OSD would discard such a bench; "" where it would not.

        Its thresholds are those that are set now, else those it had when it was measured.
        """
        first, iops = next(m for m in self.current if m.stack == item.stack), item.capacity.iops
        names, values = capacity_limits(self.rotational), []
        bounds = zip(names, PLAUSIBLE_IOPS[self.rotational], (first.iops_min, first.iops_max))
        for name, compiled, told in bounds:
            entry = self.facts.config.of_osd(self.facts.osds[first.osd_id], name)
            values.append((entry.number if entry else None) or told or compiled)
        low, high = values
        if low <= iops <= high:
            return ""
        wide = math.ceil(WIDER * iops) if iops > high else math.floor(iops / WIDER)
        return (
            f"{item.stack}: {iops:.0f} IOPS is outside of {low:.0f} to {high:.0f}, and an OSD "
            "discards such a bench as wrong; check it with fio and set it by hand, or where it is "
            "right: " + typed("ceph config set osd {} {}", names[iops > high], wide)
        )

    def _doubts(self) -> List[str]:
        facts, osds = self.facts, self.osds
        held = {item.osd_id for item in self.current}
        old = [m for m in facts.measured if m.osd_id in self.ids - held and not m.forced]
        lines = [
            f"osd.{m.osd_id} was measured in {m.setting}, its drives are "
            f"{facts.settings.get(m.osd_id) or 'in an unknown mode'} now; measure it again"
            for m in old[:NAMED_MAX]
        ]
        for item in self.found:
            mode = facts.wanted.get((self.device_class, item.stack))
            if mode is not None and mode.value != item.setting:
                lines.append(
                    f"{item.stack}: {mode.value} is recommended and {item.setting} was "
                    "measured; apply the mode first, then measure again"
                )
            if item.capacity.drives < 3:
                measured = many(item.capacity.drives, "OSD")
                lines.append(f"{item.stack}: {measured} measured; 3 or more are better")
            others = [
                osd for osd in osds if facts.stacks.get(osd.osd_id) == item.stack
                and facts.settings.get(osd.osd_id, "") != item.setting
            ]
            if others:
                lines.append(
                    f"{_osds(others)} are not in {item.setting}, in which it was measured"
                )
        stacks = {item.stack for item in self.found}
        others = [osd for osd in osds if facts.stacks.get(osd.osd_id) not in stacks]
        if self.found and others:
            lines.append(f"{_osds(others)} are on drive models that were not measured")
        benches = ((osd, facts.config.of_osd(osd, FORCED_BENCH)) for osd in osds)
        forced = [osd for osd, entry in benches if entry and entry.value.lower() in ("true", "1")]
        if forced:
            lines.append(
                f"{_osds(forced)} bench themselves at every start ({FORCED_BENCH}) and store the "
                "result as their own key"
            )
        return lines


def _class_value(found: Sequence[ModelCapacity], rotational: bool) -> int:
    """One value where the stacks are close, else that of the most common one."""
    low = min(item.capacity.iops for item in found)
    high = max(item.capacity.iops for item in found)
    if high / low <= ONE_CLASS:
        weights = [max(1, item.osds) for item in found]
        logs = [w * math.log(item.capacity.iops) for w, item in zip(weights, found)]
        return _not_default(math.exp(math.fsum(logs) / sum(weights)), rotational)
    most = max(found, key=lambda item: (item.osds, -item.capacity.iops))
    return _not_default(most.capacity.iops, rotational)


def _own_values(
    found: Sequence[ModelCapacity], value: int, rotational: bool
) -> Dict[str, int]:
    """By stack, what its OSDs get as their own where the class's value is not theirs."""
    return {
        item.stack: _not_default(item.capacity.iops, rotational) for item in found
        if not 1 / ONE_CLASS <= item.capacity.iops / value <= ONE_CLASS
    }


def _not_default(iops: float, rotational: bool) -> int:
    """An OSD that finds the compiled default benches itself, and its key overrides ours."""
    value = max(1, round(iops))
    return value + 1 if value == DEFAULT_IOPS[rotational] else value


def _overridden(
    stronger: Sequence[Override], config: Config, device_class: str
) -> List[str]:
    """What is stronger than the class's value, by entry, and what follows for which OSDs."""
    lines = []
    for item in stronger[:NAMED_MAX]:
        entry, parts = item.entry, []
        if item.surely:
            parts.append(f"takes precedence over the class for {_ids(item.surely)}")
        if item.maybe:
            parts.append(
                f"may take precedence over the class for {_ids(item.maybe)}, whose CRUSH location "
                "is not known"
            )
        own = {
            osd_id for osd_id in item.surely | item.maybe
            if config.at(f"osd.{osd_id}", entry.name) is not None
        }
        rm = command("ceph config rm {} {}", entry.who, entry.name)
        keeps = f"; until then {_ids(own)} keep their own keys" if own else ""
        lines.append(
            f"{entry.who} ({entry.value}) {' and '.join(parts)}, so class {device_class} does "
            f"not reach them: remove it by hand ({rm}){keeps}"
        )
    if len(stronger) > NAMED_MAX:
        others = named([item.entry.who for item in stronger[NAMED_MAX:]])
        lines.append(f"{others} also take precedence over the class, or may")
    return lines


def _osds(osds: Sequence[OsdInfo]) -> str:
    return _ids({osd.osd_id for osd in osds})


def _ids(osd_ids: AbstractSet[int]) -> str:
    return named([f"osd.{osd_id}" for osd_id in sorted(osd_ids)])

"""Facts about memory, with what a plan has promised of it.

A promise is stored when the plan is made, and watched once the plan is done.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import ClassVar, Collection, Dict, Mapping, Optional, Tuple

from ...core.cluster import OsdInfo
from ...core.config_database import LABELS_OF, Config, Mask, mask_of
from ...core.hardware import HostMemory
from .curve import MissCost, Rates, usual_costs
from .reading import (
    AUTOTUNE,
    TARGET,
    TARGET_BYTES_DEFAULT,
    MemoryOptions,
    OsdReading,
    Room,
    others_bytes,
    room_of,
)
from .trial_result import AGE_S_MAX, TrialResult

# The label by which cephadm leaves a host's targets alone (mgr/cephadm/serve.py).
OPT_OUT_LABEL = "_no_autotune_memory"
# Where the labels stand among the entries of the config database: no section of it.
LABELS = "{host}" + LABELS_OF


class Source(Enum):
    """Where an OSD has its target from, as far as it matters; the first four by its own word."""

    CONF_FILE = "file"
    ENVIRONMENT = "env"
    COMMAND_LINE = "cmdline"
    LEASED = "override"
    OWN_KEY = "own key"
    OTHER = "other"


# By the levels of the OSD's own config, weak to strong (CONF_FILE and on in
# src/common/config_values.h).
_BY_LEVEL = {
    "file": (Source.CONF_FILE, "ceph.conf"), "env": (Source.ENVIRONMENT, "environment"),
    "cmdline": (Source.COMMAND_LINE, "command line"),
    "override": (Source.LEASED, "set by `ceph tell`"),
}
# What an OSD reads once, when it starts, and prefers to the config database.
FIXED_AT_START = (Source.CONF_FILE, Source.COMMAND_LINE)


@dataclass(frozen=True)
class OsdFacts:
    """One OSD: who it is, its last reading, and what it did since the one before."""

    osd: OsdInfo
    reading: Optional[OsdReading] = None
    rates: Optional[Rates] = None
    settling_s: float = 0.0  # its target was changed: until then it tells of the change
    known_in_s: float = 0.0  # at most, until it has rates

    @property
    def target_bytes(self) -> int:
        """What it goes by; the compiled default where nobody has asked it yet."""
        read = self.reading
        return read.target_bytes if read and read.target_bytes else TARGET_BYTES_DEFAULT

    def target_by(self, config: Config) -> int:
        """What it goes by as soon as it has what the mons have."""
        entry, read = config.of_osd(self.osd, TARGET), self.reading
        if entry is None:
            return TARGET_BYTES_DEFAULT if read and read.source == "mon" else self.target_bytes
        told = self.told_source is not None or entry.number is None
        return self.target_bytes if told else int(entry.number or 0)

    @property
    def told_source(self) -> Optional[Tuple[Source, str]]:
        """Where its target is from by its own word; None where that is what the mons say."""
        said = self.reading.source if self.reading is not None else ""
        if said in ("", "mon", "default"):
            return None
        return _BY_LEVEL.get(said, (Source.OTHER, said))


@dataclass(frozen=True)
class HostFacts:
    """A machine with OSDs.  `name` is its host name; `memory` is None where no probe told.

    Memory is the machine's, whatever CRUSH hosts its OSDs stand in; `crush_hosts` are those,
    by which sections of the config database are named.
    """

    name: str
    osds: Tuple[OsdFacts, ...]
    config: Config
    limits: MemoryOptions
    memory: Optional[HostMemory] = None
    daemons: Tuple[Tuple[str, int], ...] = ()  # by type, without OSDs
    autotuned: bool = False  # cephadm sets the targets of this host

    @property
    def crush_hosts(self) -> Tuple[str, ...]:
        """The CRUSH buckets of type host over its OSDs."""
        return tuple(sorted({crush_host_of(item.osd) for item in self.osds}))

    @property
    def mapped_bytes(self) -> int:
        """What its OSDs have of the host's memory, by their own account."""
        return sum(item.reading.mapped_bytes for item in self.osds if item.reading)

    def source_of(self, item: OsdFacts) -> Tuple[Source, str]:
        """Where an OSD of it has its target from, and that for people.

        What the OSD says comes first: its environment and its ceph.conf take precedence over the
        mons.
        """
        if item.told_source is not None:
            return item.told_source
        entry = self.config.of_osd(item.osd, TARGET)
        if entry is None:
            return Source.OTHER, "default"
        mask = mask_of(entry.who)
        if mask.section.startswith("osd."):
            return Source.OWN_KEY, "own key"
        return Source.OTHER, _words_of(mask, self)

    @cached_property
    def own_keys(self) -> Tuple[OsdFacts, ...]:
        """OSDs that an admin has given a target of their own: they keep it."""
        return tuple(one for one in self.osds if self.source_of(one)[0] is Source.OWN_KEY)

    @cached_property
    def without_own_keys(self) -> Tuple[OsdFacts, ...]:
        """OSDs that have the target of their class or host."""
        own = {one.osd.osd_id for one in self.own_keys}
        return tuple(one for one in self.osds if one.osd.osd_id not in own)

    @property
    def shape(self) -> str:
        """What a division is made for: OSDs by class, daemons, RAM."""
        counts = Counter(item.osd.device_class for item in self.osds)
        parts = [f"{count} {name}" for name, count in sorted(counts.items())]
        parts += [f"{count} {kind}" for kind, count in self.daemons]
        parts += [f"{len(self.own_keys)} with keys of their own"] if self.own_keys else []
        gib = round(self.memory.total_bytes / 2**30) if self.memory else 0
        return ", ".join((*parts, f"{gib} GiB"))

    @cached_property
    def room(self) -> Optional[Room]:
        """What it can give to its OSDs; None where its memory is not known."""
        memory = self.memory
        if memory is None or memory.total_bytes <= 0:
            return None
        used = 0
        if memory.available_bytes and self.mapped_bytes:
            used = max(0, memory.total_bytes - memory.available_bytes - self.mapped_bytes)
        others = others_bytes(dict(self.daemons), used)
        ids = {item.osd.osd_id for item in self.osds}
        together = [
            limit.bytes_max for limit in memory.limits if ids and ids <= set(limit.osd_ids)
        ]
        return room_of(memory.total_bytes, others, self.limits, min(together, default=None))

    def limit_of(self, osd_id: int) -> Optional[int]:
        """What one OSD may use by the limits of its cgroups; what is shared, in equal parts."""
        found = [
            limit.bytes_max // len(limit.osd_ids)
            for limit in (self.memory.limits if self.memory else ()) if osd_id in limit.osd_ids
        ]
        return min(found, default=None)

    @cached_property
    def bearable(self) -> Dict[int, int]:
        """The largest targets that OSDs' own cgroups bear, of those that have limits."""
        found = ((item.osd.osd_id, self.limit_of(item.osd.osd_id)) for item in self.osds)
        share = 1.0 - self.limits.memory_headroom
        return {osd_id: int(limit * share) for osd_id, limit in found if limit is not None}

    @property
    def ceiling_bytes(self) -> int:
        """The largest target: what the admin allows, and every OSD's own cgroup."""
        allowed = max(self.limits.least_target_bytes, self.limits.memory_ceiling)
        return min([allowed, *self.bearable.values()])


class Want(str, Enum):
    """What an OSD would do better with than its target, whatever its host can give."""

    MORE = "more"  # by a trial it would wait less
    LESS = "less"  # by its bins it would hardly wait longer
    RIGHT = "right"
    UNTRIED = "untried"  # not less; only a trial tells whether it is more


@dataclass(frozen=True)
class Answer:
    """What an OSD wants that has this target, and when it was read."""

    osd_id: int
    want: Want
    target_bytes: int
    at_s: int


ANSWERS_MAX = 20_000


@dataclass(frozen=True)
class Answers:
    """The last one of each OSD, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[Answer, ...] = field(default=(), metadata={"max_items": ANSWERS_MAX})


# So far the clocks of two mgrs may be apart.
CLOCKS_S = 60.0


@dataclass(frozen=True)
class Facts:
    """Everything that advice follows from."""

    hosts: Tuple[HostFacts, ...]
    config: Config
    limits: MemoryOptions
    trials: Tuple[TrialResult, ...] = ()
    now_s: float = 0.0
    answers: Mapping[int, Answer] = field(default_factory=dict)  # the last one of each OSD

    def answer_of(self, item: OsdFacts) -> Optional[Answer]:
        """The last answer on what it wants; None where that is of another target, or too old."""
        last = self.answers.get(item.osd.osd_id)
        if last is None or not -CLOCKS_S <= self.now_s - last.at_s <= AGE_S_MAX:
            return None
        another = item.reading is not None and item.target_bytes != last.target_bytes
        return None if another else last

    @cached_property
    def usual_costs(self) -> Dict[bool, MissCost]:
        """By whether a drive is rotational, what a miss costs OSDs that have told."""
        return usual_costs(
            (item.osd.rotational, item.rates) for host in self.hosts for item in host.osds
            if item.rates is not None
        )

    def taken_over(self, names: Collection[str]) -> Facts:
        """The facts as they are once cephadm's autotuner leaves these hosts alone."""
        return replace(self, hosts=tuple(
            replace(host, autotuned=False) if host.name in names else host for host in self.hosts
        ))

    def by_id(self) -> Dict[int, Tuple[HostFacts, OsdFacts]]:
        """Every OSD with its host."""
        return {item.osd.osd_id: (host, item) for host in self.hosts for item in host.osds}


def _words_of(mask: Mask, host: HostFacts) -> str:
    if mask.place and mask.place[0] == "host":
        if mask.device_class:
            return "host and class"
        return "autotuner" if host.autotuned else "host"
    if mask.place:
        return f"{mask.place[0]} {mask.place[1]}"
    return "class" if mask.device_class else f"{mask.section} section"


def is_autotuned(facts_config: Config, osd: OsdInfo) -> bool:
    """Whether cephadm may set this OSD's target: the option's default is true."""
    entry = facts_config.of_osd(osd, AUTOTUNE)
    return entry is None or entry.value.lower() in ("true", "1", "yes")


def crush_host_of(osd: OsdInfo) -> str:
    """The host by which a mask of the config database finds an OSD: CRUSH's, not the machine."""
    return osd.failure_domain or osd.hostname


def host_section(host: str, device_class: str = "") -> str:
    """The section of a CRUSH host's OSDs, of one device class or of all."""
    return f"osd/host:{host}/class:{device_class}" if device_class else f"osd/host:{host}"


PROMISES_MAX = 1000
# Loads swing, and a cache goes on to settle for long: bins and trials tell of minutes, a promise
# is for later.  It is wider by this on both sides, and by so many misses a second.
SWING = 1.25
MISSES_MIN = 5.0


def widened(low: float, high: float) -> Tuple[float, float]:
    """What is promised where bins or a trial say from `low` to `high` misses per second."""
    return max(0.0, low / SWING - MISSES_MIN), SWING * high + MISSES_MIN


class Outcome(str, Enum):
    """What became of a promise."""

    KEPT = "kept"
    BROKEN = "broken"
    SETTLING = "not known yet"  # the caches settle, or too little was watched since
    RULE = "by a rule"  # nothing was measured, so nothing was promised
    GONE = "other targets since"


@dataclass(frozen=True)
class Promise:
    """Onode misses per second of all OSDs of a device class on a host: from `low` to `high`.

    Less than `low` is no harm.
    """

    plan_id: str
    host: str
    device_class: str
    target_bytes: int
    shape: str
    misses_before: float = 0.0
    high: float = 0.0
    measured: bool = False
    low: float = 0.0

    def outcome(self, host: HostFacts) -> Tuple[Outcome, Optional[float]]:
        """Whether it came true, and the misses that there are now."""
        mine = [item for item in host.osds if item.osd.device_class == self.device_class]
        if any(item.target_bytes != self.target_bytes for item in mine) or not mine:
            return Outcome.GONE, None
        if any(item.settling_s > 0 or item.rates is None for item in mine):
            return Outcome.SETTLING, None
        misses = sum(item.rates.onode_misses or 0.0 for item in mine if item.rates)
        if not self.measured:
            return Outcome.RULE, misses
        kept = misses <= self.high
        return (Outcome.KEPT if kept else Outcome.BROKEN), misses


@dataclass(frozen=True)
class Promises:
    """All of them, as they are stored."""

    VERSION: ClassVar[int] = 1
    items: Tuple[Promise, ...] = field(default=(), metadata={"max_items": PROMISES_MAX})

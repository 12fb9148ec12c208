"""The knob `memory` in a mgr: what OSDs have of memory, what they should have.

Each use case takes plain arguments, returns plain data, and raises a WcacheError with one line.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ....commands.views import ACCEPT_COST, DRY_RUN, EACH, SCOPE, Command
from ....core import codec
from ....core.automation.deciding import Wish
from ....core.change.change import TOUCHED, Change, ChangeStatus
from ....core.change.rollout_state import Rollout, RolloutStatus
from ....core.errors import NotFoundError, NotReadyError
from ....core.model import Finding
from ....core.scope import Scope, parse_scope
from ....core.text import NOTHING, CommandLine, command
from ....engine.engine import steady_clock
from ....engine.world import World
from ....services.guards import require_all_drives, require_config, require_scope
from ....services.plans.plan_guards import OwnTrial, plan_order
from ....services.plans.planners import Parts, Planner
from ...knob import Asked, Wanted
from ..advice import GroupAdvice, advise, instead, of_one_host
from ..curve import ratio
from ..facts import Facts, HostFacts, OsdFacts, Promise, Want
from ..plan import back_edits, hosts_of, make_changes, overfull
from ..reading import MEMORY, TARGET
from ..single import single_osds
from . import tables
from .facts import MemoryFacts
from .osds import READINGS_S, CephMemory, MemoryWatch, TrialOsds
from .trials import BOUNDS, Trials, untried_yet

# Of more OSDs `memory status` has those of single hosts, or all where it is asked for them.
OSDS_SHOWN_MAX = 1000


def make(parts: Parts) -> Planner:
    """Make the planner."""
    # what OSDs have counted is divided by it: a clock that is set must not change a rate
    clock = steady_clock()
    reader = CephMemory(parts.ceph, is_up=parts.is_up, clock=clock)
    trial_osds = TrialOsds(view=parts.view, log=parts.log, reader=reader)
    return MemoryPlanner(parts, reader, trial_osds, clock)


class MemoryPlanner(Planner):
    """From the division of each host's memory."""

    def __init__(
        self, parts: Parts, reader: CephMemory, trial_osds: TrialOsds,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._engine = parts.engine
        self.watch = MemoryWatch(
            reader=reader, log=parts.log.warning, clock=wall,
            osds=lambda: parts.view.cluster().osds.values(),
            emptied_at_s=parts.emptied_at_s,
        )
        self.facts = MemoryFacts(
            watch=self.watch, archive=parts.archive, surroundings=parts.surroundings, wall=wall
        )
        self.trials = Trials(parts.engine, self.facts, trial_osds)
        parts.engine.objections[MEMORY.name] = self.objection

    def plan(self, asked: Asked, world: World) -> Wanted:
        require_all_drives(asked.without, MEMORY.name)
        require_config(world)
        if self.watch.read_at_s is None:
            raise NotReadyError("no OSD has reported its memory yet", "try again in a minute")
        facts = self.facts.gather(world)
        known = [host.name for host in facts.hosts]
        for name in asked.take_over:
            if name not in known:
                raise NotFoundError(
                    f"no OSD is on a host {name[:60]!r}", "see `ceph wcache memory status`"
                )
        facts = facts.taken_over(asked.take_over)
        groups = advise(facts)
        wanted = make_changes(asked, groups, facts, asked.take_over)
        return replace(
            wanted, remember=lambda changes: self._promise(asked, groups, facts, changes)
        )

    def _promise(
        self, asked: Asked, groups: Tuple[GroupAdvice, ...], facts: Facts,
        changes: Sequence[Change],
    ) -> None:
        """Remember what a plan promises, by the changes it has.

        What is looked at anew and stays was divided for what is there now.
        """
        planned = any(c.setting.knob == MEMORY.name for c in changes)
        by_name = {host.name: host for host in facts.hosts}
        stays: Dict[Tuple[str, str], str] = {}
        new: List[Promise] = []
        for group in groups:
            for host in (by_name[name] for name in group.hosts):
                for item in group.classes:
                    if not asked.wants(host.name, item.device_class):
                        continue
                    if not item.changed:
                        stays[host.name, item.device_class] = host.shape
                    elif planned:
                        own = of_one_host(facts, host, item)
                        new.append(Promise(
                            asked.plan_id, host.name, own.device_class, own.target_bytes,
                            host.shape, own.misses_now or 0.0, own.high or 0.0,
                            own.high is not None, own.low or 0.0,
                        ))
        self.facts.promise(lambda old: (*(
            replace(p, shape=stays.get((p.host, p.device_class), p.shape))
            for p in old if p.plan_id != asked.plan_id
        ), *new))

    def objection(self, rollout: Rollout, back: bool, world: World) -> str:
        """Say which host would give its OSDs more than it has for them.

        A way back is to what was there before: a host that is as it was then may have that, if no
        later plan goes by what this one has left, and all its targets would be as they were.
        """
        left = _changes(rollout, TOUCHED if back else (ChangeStatus.PLANNED,))
        if not left:
            return ""
        facts = self.facts.gather(world)
        if back or rollout.status is not RolloutStatus.PLANNED:
            # what is used swings while caches shrink
            facts = replace(facts, hosts=tuple(
                replace(host, memory=host.memory and replace(host.memory, available_bytes=0))
                for host in facts.hosts
            ))
        if not back:
            edits = [edit for change in left for edit in change.edits]
            return next(iter(overfull(facts, edits).values()), "")
        name, hosts = rollout.plan_id, hosts_of(left, facts)
        later = [
            plan.plan_id for plan in world.plans if plan_order(plan.plan_id) > plan_order(name)
            and hosts & hosts_of(_changes(plan, TOUCHED), facts)
        ]
        way = back_edits(left, facts.config)
        whole = reversed(_changes(rollout, tuple(ChangeStatus)))
        was = facts.config.after(e.inverse for change in whole for e in reversed(change.edits))
        then = facts.config.after(way)
        shapes = {p.host: p.shape for p in self.facts.promises if p.plan_id == name}
        facts = replace(facts, hosts=tuple(
            host for host in facts.hosts
            if host.room is not None and (
                later or host.shape != shapes.get(host.name)
                or any(item.target_by(then) != item.target_by(was) for item in host.osds)
            )
        ))
        todo = f"roll back {max(later, key=plan_order)} first" if later else (
            "its OSDs, daemons, RAM or targets set by others are not what they were: see "
            "`ceph wcache memory recommend`"
        )
        full = overfull(facts, way)
        return next((f"{why}: {todo}" for why in full.values()), "")

    def instead(self, asked: Asked, world: World) -> Optional[CommandLine]:
        """Return a trial of the first class that could be tried and was not lately."""
        if world.frozen or any(not one.over for one in world.trials.values()):
            return NOTHING
        facts = self.facts.gather(world)
        classes = {
            item.osd.device_class for host in facts.hosts for item in host.osds
            if asked.wants(host.name, item.osd.device_class)
        }
        return next((
            command("ceph wcache memory trial start class:{} --dry-run", name)
            for name in sorted(classes) if untried_yet(name, world, facts)
        ), None)

    def trial_of(self, rollout: Rollout, world: World) -> OwnTrial:
        """Return a trial that leases a larger target to some OSDs of a class, in blocks."""
        return self.trials.of_plan(rollout, world)

    def findings(self, world: World) -> Sequence[Finding]:
        return self.facts.findings

    def load(self) -> None:
        self.facts.load()

    def start(self) -> None:
        self.watch.start()

    def close(self) -> None:
        self.trials.close(self._engine.world())
        self.watch.close()

    def tick(self, world: World) -> None:
        self.trials.tick(world)
        self.facts.tick(world)

    def wishes(self) -> Sequence[Wish]:
        return [
            Wish.of_host(
                MEMORY.name, host, classes, f"divide the memory of host {host} anew",
                f"memory was divided for others than host {host} has: its memory is divided anew",
            )
            for host, classes in self.facts.to_divide
        ]

    def pauses_s(self, emptied: Iterable[int]) -> Mapping[int, float]:
        """Return how long until age bins reach back to after it, with time for two readings."""
        known = self.watch.by_osd()
        reach_s = {osd_id: known[osd_id].last.reach_s for osd_id in emptied if osd_id in known}
        return {osd_id: each_s + READINGS_S for osd_id, each_s in reach_s.items() if each_s}

    # ---- look

    def _seen(self, world: World) -> Facts:
        """What is known; somebody looks, so what the next answer says is of now."""
        self.watch.soon()
        self._engine.config.read_soon()
        return self.facts.gather(world)

    def status(self, scope: Optional[str] = None, *, whole: bool = False) -> Dict[str, Any]:
        """`memory status`: what each host has and gives, each OSD's target and its source."""
        wanted, world = parse_scope(scope), self._engine.world()
        ids = wanted.osds(world.reports.values(), world.cluster)
        facts = self._seen(world)
        osds = [
            (host, item) for host in facts.hosts for item in host.osds if item.osd.osd_id in ids
        ]
        if wanted != Scope() and not osds:
            raise NotFoundError(f"no OSD is in scope {wanted}", "see `ceph osd tree`")
        names = {host.name for host, _ in osds}
        hosts = {
            host.name: host for host in facts.hosts if wanted == Scope() or host.name in names
        }
        shown = osds if whole else osds[:OSDS_SHOWN_MAX]
        by_class: Dict[str, List[OsdFacts]] = {}
        wants: Dict[str, List[int]] = {want.value: [] for want in Want}
        for _, item in osds:
            by_class.setdefault(item.osd.device_class, []).append(item)
            last = facts.answer_of(item)
            if last is not None:
                wants[last.want.value].append(item.osd.osd_id)
        return {
            "read_s_ago": None if self.watch.read_at_s is None
            else round(facts.now_s - self.watch.read_at_s, 1),
            "hosts": [_host(host) for host in hosts.values()],
            "osds": [_osd(facts, host, item) for host, item in shown],
            "osds_left_out": len(osds) - len(shown), "wants": wants,
            "classes": [_class(name, items) for name, items in sorted(by_class.items())],
            "promises": [
                {
                    "plan_id": one.plan_id, "host": one.host, "device_class": one.device_class,
                    "target_bytes": one.target_bytes, "outcome": outcome.value,
                    "misses_before_per_s": one.misses_before, "low_per_s": one.low,
                    "high_per_s": one.high, "misses_per_s": misses,
                }
                for one in self.facts.standing(world) if one.host in hosts
                for outcome, misses in [one.outcome(hosts[one.host])]
            ],
            "next": command("ceph wcache memory status") if self.watch.read_at_s is None
            else command("ceph wcache memory recommend"),
        }

    def recommend(self, scope: Optional[str] = None) -> Dict[str, Any]:
        """`memory recommend`: a division for each group of hosts that are alike."""
        wanted, world = parse_scope(scope), self._engine.world()
        require_scope(world, wanted)
        facts = self._seen(world)
        groups = [
            {
                "hosts": list(group.hosts), "fits": group.fits,
                "room_bytes": group.room.osds_bytes if group.room else None,
                "classes": [
                    {**codec.to_plain(item), "changed": item.changed}
                    for item in group.classes if wanted.has_class(item.device_class)
                ],
                "single_osds": [
                    codec.to_plain(item) for item in single_osds(facts, group)
                    if wanted.has_class(item.device_class)
                ],
                "left_alone": list(group.left_alone), "instead": instead(facts, group.hosts),
            }
            for group in advise(facts) if any(map(wanted.has_host, group.hosts))
        ]
        return {
            "groups": groups,
            "trials": [codec.to_plain(item) for item in facts.trials],
            "next": tables.after_recommend(groups),
        }


def _changes(rollout: Rollout, statuses: Sequence[ChangeStatus]) -> List[Change]:
    return [c for c in rollout.changes if c.setting.knob == MEMORY.name and c.status in statuses]


def _host(host: HostFacts) -> Dict[str, Any]:
    room = host.room
    known = [item for item in host.osds if item.reading is not None]
    given = sum(item.target_bytes for item in known)
    return {
        "host": host.name, "osds": len(host.osds), "osds_read": len(known),
        "ram_bytes": room.total_bytes if room else None,
        "limit_bytes": room.limit_bytes if room else None,
        "daemons": dict(host.daemons),
        "others_bytes": room.others_bytes if room else None,
        "room_bytes": room.osds_bytes if room else None,
        "given_bytes": given, "used_bytes": host.mapped_bytes,
        "over_bytes": max(0, given - room.osds_bytes) if room else None,
        "autotuned": host.autotuned,
    }


def _osd(facts: Facts, host: HostFacts, item: OsdFacts) -> Dict[str, Any]:
    read, rates, entry = item.reading, item.rates, facts.config.of_osd(item.osd, TARGET)
    last = facts.answer_of(item)
    return {
        "osd_id": item.osd.osd_id, "host": host.name, "device_class": item.osd.device_class,
        "target_bytes": read.target_bytes if read else None,
        "source": host.source_of(item)[1] if read else "",
        "computed_bytes": None if entry is None or entry.number is None else int(entry.number),
        "tunable": read.tunable if read else None,
        "followed_bytes": read.followed_bytes if read else None,
        "mapped_bytes": read.mapped_bytes if read else None,
        "cache_bytes": read.cache_bytes if read else None,
        "limit_bytes": host.limit_of(item.osd.osd_id),
        "settling_s": round(item.settling_s, 1),
        "wants": None if last is None else last.want.value,
        "wants_age_s": None if last is None else max(0.0, round(facts.now_s - last.at_s, 1)),
        "known_in_s": round(item.known_in_s, 1),
        "onode_hit_ratio": ratio(rates.onode_hits, rates.onode_misses) if rates else None,
        "onode_misses_per_s": rates.onode_misses if rates else None,
        "miss_us": 1e6 * rates.miss_s if rates and rates.miss_s is not None else None,
        "age_bins": [codec.to_plain(bins) for bins in read.bins] if read else [],
        "outside": dict(read.outside) if read else {},
    }


def _class(name: str, items: List[OsdFacts]) -> Dict[str, Any]:
    rates = [item.rates for item in items if item.rates is not None]

    def total(field: str) -> Optional[float]:
        found = [getattr(rate, field) for rate in rates if getattr(rate, field) is not None]
        return sum(found) if found else None

    costs = [rate.miss_s for rate in rates if rate.miss_s is not None]
    ages: Dict[str, Dict[str, int]] = {}
    for item in items:
        for bins in item.reading.bins if item.reading else ():
            mine = ages.setdefault(bins.cache, {})
            for edge, held in zip(bins.edges_s, bins.bin_bytes):
                mine[f"{edge:g}"] = mine.get(f"{edge:g}", 0) + held
            mine["older"] = mine.get("older", 0) + bins.rest_bytes
    return {
        "device_class": name, "osds": len(items), "osds_counted": len(rates),
        "onode_hit_ratio": ratio(total("onode_hits"), total("onode_misses")),
        "onode_misses_per_s": total("onode_misses"),
        "buffer_hit_ratio": ratio(total("buffer_hit_bytes"), total("buffer_miss_bytes")),
        "miss_us": 1e6 * sum(costs) / len(costs) if costs else None,
        "age_bytes": ages,
    }


ROWS: Tuple[Command, ...] = (
    Command(
        "wcache memory status", (SCOPE, EACH), "r",
        "Show hosts' memory, each OSD's target with its source, whether it wants more or less, "
        "hit ratios, and age bins; many hosts and OSDs are listed with --all, or those of a "
        "scope, as host:NAME",
        lambda s, v, a: s.behind(MEMORY.name).status(a.get("scope"), whole=bool(a.get("all"))),
        tables.status, partial(tables.status, most=None),
        {"hosts": tables.HOSTS, "classes": tables.CLASSES, "osds": tables.OSDS},
    ),
    Command(
        "wcache memory recommend", (SCOPE,), "r",
        "Recommend osd_memory_target per host and device class, and say what it would gain",
        lambda s, v, a: s.behind(MEMORY.name).recommend(a.get("scope")), tables.recommend,
        terms=("cluster", "class", "host"),
    ),
    Command(
        "wcache memory trial start",
        ("name=scope,type=CephString", "name=target_bytes,type=CephInt,req=false",
         "name=osds,type=CephInt,req=false", "name=period_s,type=CephInt,req=false",
         "name=blocks,type=CephInt,req=false", ACCEPT_COST, DRY_RUN), "rw",
        "Try a larger target on some OSDs of a device class, class:NAME, by a lease, as "
        "`apply --trial` does for a plan; --accept-cost accepts what it takes: hours, and caches "
        "that are filled and emptied again",
        lambda s, v, a: s.behind(MEMORY.name).trials.ask(**a), tables.trial,
        bounds=BOUNDS, terms=("class",),
    ),
    Command(
        "wcache memory trial show", (), "r",
        "Show the last trial and the results of all trials; `rollout abort t1` ends one",
        lambda s, v, a: s.behind(MEMORY.name).trials.show(), tables.trial_show,
    ),
)

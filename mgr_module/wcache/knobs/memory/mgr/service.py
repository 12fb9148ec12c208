"""The use cases behind `ceph wcache memory ...`: look, recommend, try.

Each takes plain arguments, returns plain data, and raises a WcacheError with one line.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ....ceph.surroundings import Surroundings
from ....core import codec
from ....core.change.change import Change
from ....core.change.rollout_state import Rollout
from ....core.config_database import Config
from ....core.errors import ConflictError, MalformedError, NotFoundError, RefusedError
from ....core.scope import Scope, parse_scope
from ....core.shell import typed
from ....core.text import FORMAT_VERSION, amount, many
from ....engine.engine import Engine
from ....engine.orders import Orders
from ....engine.storing.archive import Archive
from ....engine.under_way import open_jobs
from ....engine.world import World
from ....services.guards import bounded, require_scope
from ....services.plans.own_trial import OwnTrial, begin_trial
from ...knob import Asked
from ..advice import ClassAdvice, GroupAdvice, advise, of_one_host, own_keys
from ..external_settings import cephadm_settings, rook_patch
from ..facts import Facts, HostFacts, OsdFacts, Source, source_of, told_source
from ..knob import MEMORY
from ..plan import raised_by
from ..promise import Promise
from ..rates import ratio
from ..single import single_osds
from ..trial import BLOCKS_MAX, OSDS_MAX, Trial
from .facts import KeptPromises, MemoryFacts
from .osds import OsdMemory
from .trial_choice import Wish, choose
from .trial_work import TrialOsds, Trials, last_trial
from .watch import MemoryWatch

OSDS_DEFAULT = 3
# Of more OSDs `memory status` has those of single hosts, or all where it is asked for them.
OSDS_SHOWN_MAX = 1000


class MemoryService:
    """What memory OSDs have, should have, and would gain from."""

    def __init__(
        self, *, engine: Engine, archive: Archive, reader: OsdMemory,
        surroundings: Surroundings, log: logging.Logger, trial_osds: TrialOsds,
        wall: Callable[[], float] = time.time,
        emptied_at_s: Optional[Callable[[int], float]] = None,
    ) -> None:
        self._engine = engine
        self._surroundings = surroundings
        self.watch = MemoryWatch(
            reader=reader, osd_ids=self._up, log=log.warning, clock=wall,
            emptied_at_s=emptied_at_s,
        )
        self._kept = KeptPromises(archive)
        self.trials = Trials(engine=engine, archive=archive, osds=trial_osds)
        self.facts = MemoryFacts(
            watch=self.watch, trials=self.trials, promises=self._kept,
            surroundings=surroundings, wall=wall,
        )

    def _up(self) -> List[int]:
        return [o.osd_id for o in self._engine.world().cluster.osds.values() if o.up]

    def load(self) -> None:
        """Take up the stored state."""
        self._kept.load()
        self.trials.load()

    def tick(self, world: World) -> None:
        """What is due, from the serve loop."""
        self.trials.tick(world)
        self.facts.tick(world)

    def close(self) -> None:
        """The mgr stops."""
        self.trials.close(self._engine.world())
        self.watch.close()

    def _read_soon(self) -> None:
        """Somebody looks: what the next answer says is of now."""
        self.watch.read_soon()
        self._engine.config.read_soon()

    # ---- look

    def status(self, scope: Optional[str] = None, *, whole: bool = False) -> Dict[str, Any]:
        """`memory status`: what each host has and gives, each OSD's target and its source."""
        wanted, world = parse_scope(scope), self._engine.world()
        facts = self.facts.gather(world)
        ids = wanted.osds(world.reports.values(), world.cluster)
        osds = [
            (host, item) for host in facts.hosts for item in host.osds if item.osd.osd_id in ids
        ]
        if wanted != Scope():
            if not osds:
                raise NotFoundError(f"no OSD is in scope {wanted}", "see `ceph osd tree`")
            names = {host.name for host, _ in osds}
            facts = replace(facts, hosts=tuple(h for h in facts.hosts if h.name in names))
        shown = osds if whole else osds[:OSDS_SHOWN_MAX]
        self._read_soon()
        by_class: Dict[str, List[OsdFacts]] = {}
        for _, item in osds:
            by_class.setdefault(item.osd.device_class, []).append(item)
        return {
            "format_version": FORMAT_VERSION,
            "read_s_ago": None if self.watch.read_at_s is None
            else round(facts.now_s - self.watch.read_at_s, 1),
            "hosts": [self._host(facts, host) for host in facts.hosts],
            "osds": [_osd(facts, host, item) for host, item in shown],
            "osds_left_out": len(osds) - len(shown),
            "classes": [_class(name, items) for name, items in sorted(by_class.items())],
            "promises": self._promises(world, facts),
        }

    def _promises(self, world: World, facts: Facts) -> List[Dict[str, Any]]:
        """What plans have promised of each host's classes, and what became of it."""
        by_name = {host.name: host for host in facts.hosts}
        rows = []
        for item in self.facts.standing(world):
            if item.host in by_name:
                outcome, misses = item.outcome(by_name[item.host])
                rows.append({
                    "plan_id": item.plan_id, "host": item.host, "device_class": item.device_class,
                    "target_bytes": item.target_bytes, "outcome": outcome.value,
                    "misses_before_per_s": item.misses_before, "low_per_s": item.low,
                    "high_per_s": item.high, "misses_per_s": misses,
                })
        return rows

    def _host(self, facts: Facts, host: HostFacts) -> Dict[str, Any]:
        room = host.room(facts.limits)
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

    # ---- recommend

    def recommend(self, scope: Optional[str] = None) -> Dict[str, Any]:
        """`memory recommend`: a division for each group of hosts that are alike."""
        wanted, world = parse_scope(scope, ("class", "host")), self._engine.world()
        require_scope(world, wanted)
        facts = self.facts.gather(world)
        self._read_soon()
        rows, by_name = [], {host.name: host for host in facts.hosts}
        for group in advise(facts):
            if not any(wanted.has_host(name) for name in group.hosts):
                continue
            rows.append({
                "hosts": list(group.hosts), "fits": group.fits,
                "room_bytes": group.room.osds_bytes if group.room else None,
                "classes": [
                    {**codec.to_plain(item), "changed": item.changed} for item in group.classes
                    if wanted.has_class(item.device_class)
                ],
                "single_osds": [
                    codec.to_plain(item) for item in single_osds(facts, group)
                    if wanted.has_class(item.device_class)
                ],
                "left_alone": list(group.left_alone),
                "instead": _instead(facts, [by_name[name] for name in group.hosts]),
            })
        return {
            "format_version": FORMAT_VERSION, "groups": rows,
            "trials": [codec.to_plain(item) for item in facts.trials],
        }

    def promise(
        self, asked: Asked, groups: Tuple[GroupAdvice, ...], facts: Facts,
        changes: Sequence[Change],
    ) -> None:
        """Remember what a plan promises, by the changes it has.

        What is looked at anew and stays was divided for what is there now.
        """
        planned = any(c.knob == MEMORY.name for c in changes)
        by_name = {host.name: host for host in facts.hosts}
        found = [
            (_promised(asked.plan_id, by_name[name], item, facts), item.changed)
            for group in groups for name in group.hosts for item in group.classes
            if asked.wants(name, item.device_class)
        ]
        stays = {(p.host, p.device_class): p.shape for p, changed in found if not changed}
        new = [
            item for item, changed in found
            if changed and planned and asked.scope.has_host(item.host)
        ]
        self._kept.change(lambda old: (*(
            replace(p, shape=stays.get((p.host, p.device_class), p.shape))
            for p in old if p.plan_id != asked.plan_id
        ), *new))

    # ---- try

    def trial(
        self, scope: str, target_bytes: Optional[int] = None, osds: Optional[int] = None,
        period_s: Optional[int] = None, blocks: Optional[int] = None, accept_cost: bool = False,
    ) -> Dict[str, Any]:
        """`memory trial`: what it would take; with `accept_cost` it is begun."""
        engine, world = self._engine, self._engine.world()
        wanted = parse_scope(scope, ("class",))
        if not wanted.device_class:
            raise MalformedError("a trial is of OSDs of one device class", "use class:NAME")
        require_scope(world, wanted)
        facts = self.facts.gather(world)
        most = bounded(osds, OSDS_DEFAULT, 1, OSDS_MAX, "osds")
        blocks = bounded(blocks, 1, 1, BLOCKS_MAX, "blocks")
        wish = Wish(wanted.device_class, target_bytes, most, blocks, period_s)
        trial = choose(self._next_id(world), world, facts, wish)
        cost = {
            "osds": list(trial.osd_ids), "low_bytes": trial.low_bytes,
            "high_bytes": trial.high_bytes, "seconds": round(trial.seconds, 1),
            "periods": 4 * trial.blocks, "period_s": trial.period_s, "settle_s": trial.settle_s,
        }
        if not accept_cost:
            return {"format_version": FORMAT_VERSION, "trial_id": "", "forecast": cost}
        with engine.deciding(world) as (world, orders):
            begin_trial(self._own(trial), world, orders)
        engine.wake()
        return {"format_version": FORMAT_VERSION, "trial_id": trial.trial_id, "forecast": cost}

    def trial_of(self, rollout: Rollout, world: World) -> OwnTrial:
        """`apply --trial` of a plan: its first larger target, on OSDs that are to have it."""
        raised = raised_by(rollout)
        if not raised:
            raise RefusedError(
                f"plan {rollout.plan_id} raises no target, and a smaller one is not tried: what it "
                "costs is foretold by age bins",
                "apply it without --trial: what is set is read back, and can be rolled back",
            )
        osds = world.cluster.osds
        first = next(iter(raised))
        target_bytes = raised[first]
        device_class = osds[first].device_class if first in osds else ""
        alike = frozenset(
            osd_id for osd_id, value in raised.items() if value == target_bytes
            and osd_id in osds and osds[osd_id].device_class == device_class
        )
        wish = Wish(device_class, target_bytes, OSDS_DEFAULT, 1, None, alike, rollout.plan_id)
        try:
            facts = self.facts.gather(world)
            return self._own(choose(self._next_id(world), world, facts, wish))
        except MalformedError as error:
            by_hand = typed("ceph wcache memory trial start class:{}", device_class)
            raise RefusedError(error.message, f"by {by_hand}, {error.advice}") from None

    def _own(self, trial: Trial) -> OwnTrial:
        words = f"memory trial of {many(len(trial.osd_ids), 'OSD')}"

        def start(world: World, orders: Orders, by: str) -> None:
            _require_none_owed(world)
            orders.note(by, trial.trial_id, words)
            self.trials.start(trial, world, orders)

        span = f"{amount(trial.low_bytes)} to {amount(trial.high_bytes)} and back, leased"
        return OwnTrial(
            trial.trial_id, words, [f"osd.{osd_id}: {span}" for osd_id in trial.osd_ids],
            trial.seconds, trial.touched, start,
        )

    def trial_show(self) -> Dict[str, Any]:
        """`memory trial show`: the last one, how far it is, and all results."""
        trial = last_trial(self._engine.world())
        plain = None if trial is None else codec.to_plain(trial)
        return {
            "format_version": FORMAT_VERSION, "trial": plain,
            "results": [codec.to_plain(item) for item in self.trials.results],
        }

    def trial_stop(self) -> Dict[str, Any]:
        """`memory trial stop`: take all leases back."""
        changed = self.trials.stop(self._engine.world())
        self._engine.wake()
        return {"changed": changed}

    def _next_id(self, world: World) -> str:
        last = last_trial(world)
        ids = [item.trial_id for item in self.trials.results]
        ids += [last.trial_id] if last else []
        return f"t{max((int(i[1:]) for i in ids if i[1:].isdecimal()), default=0) + 1}"


def _instead(facts: Facts, hosts: List[HostFacts]) -> List[str]:
    """What to do where somebody else sets the targets."""
    if any(host.autotuned for host in hosts):
        return cephadm_settings(facts, hosts)
    sources = {found[0] for host in hosts for found in map(told_source, host.osds) if found}
    return rook_patch(facts, hosts) if Source.ENVIRONMENT in sources else []


def _require_none_owed(world: World) -> None:
    last = last_trial(world)
    if last is not None and last.trial_id in open_jobs(world.trials):
        names = ", ".join(f"osd.{osd_id}" for osd_id in last.owed)
        raise ConflictError(
            f"trial {last.trial_id} has not taken back the targets of {names} yet",
            "wait until they are up, or remove them from the cluster",
        )


def _promised(plan_id: str, host: HostFacts, item: ClassAdvice, facts: Facts) -> Promise:
    own = len(own_keys(facts, host))
    item = of_one_host(facts, host, item)
    return Promise(
        plan_id, host.name, item.device_class, item.target_bytes, Promise.shape_of(host, own),
        item.misses_now or 0.0, item.high or 0.0, item.high is not None, item.low or 0.0,
    )


def _osd(facts: Facts, host: HostFacts, item: OsdFacts) -> Dict[str, Any]:
    read, rates = item.reading, item.rates
    return {
        "osd_id": item.osd.osd_id, "host": host.name, "device_class": item.osd.device_class,
        "target_bytes": read.target_bytes if read else None,
        "source": source_of(facts, host, item)[1] if read else "",
        "computed_bytes": _computed(facts.config, item),
        "tunable": read.tunable if read else None,
        "followed_bytes": read.followed_bytes if read else None,
        "mapped_bytes": read.mapped_bytes if read else None,
        "cache_bytes": read.cache_bytes if read else None,
        "limit_bytes": host.limit_of(item.osd.osd_id),
        "settling_s": round(item.settling_s, 1),
        "onode_hit_ratio": rates.onode_hit_ratio if rates else None,
        "onode_misses_per_s": rates.onode_misses if rates else None,
        "miss_us": 1e6 * rates.miss_s if rates and rates.miss_s is not None else None,
        "age_bins": [codec.to_plain(bins) for bins in read.bins] if read else [],
        "outside": dict(read.outside) if read else {},
    }


def _computed(config: Config, item: OsdFacts) -> Optional[int]:
    entry = config.of_osd(item.osd, "osd_memory_target")
    return None if entry is None or entry.number is None else int(entry.number)


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

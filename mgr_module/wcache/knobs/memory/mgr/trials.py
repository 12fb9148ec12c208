"""Trials of a larger target in a mgr: what one takes, how it begins, and what ends it."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Mapping, Optional

from ....core import codec
from ....core.change.preconditions import no_longer_met
from ....core.change.rollout_state import Rollout
from ....core.errors import ConflictError, ConsentError, MalformedError, RefusedError
from ....core.fleet.agents import MEMORY_UNTOLD_S
from ....core.scope import WHOLE, parse_scope
from ....core.text import NOTHING, amount, command, many, typed
from ....engine.engine import Engine
from ....engine.measuring import TrialKind
from ....engine.orders import Orders
from ....engine.storing.archive import StoredKind
from ....engine.under_way import open_jobs
from ....engine.world import World
from ....services.guards import require_scope
from ....services.plans.plan_guards import OwnTrial, begin_trial
from ..plan import raised_by
from ..reading import MEMORY
from ..trial import BLOCKS_MAX, KEY, OSDS_MAX, TargetTrial, TrialMachine, TrialStatus
from .facts import MemoryFacts
from .osds import TrialOsds
from .trial_choice import choose, crowded

TRIAL = StoredKind(KEY, TargetTrial)
CLUSTER_EVERY_S = 5.0
OSDS_DEFAULT = 3
BOUNDS = {"osds": (1, OSDS_MAX), "blocks": (1, BLOCKS_MAX), "period_s": (1, 86400)}


def require_class(arguments: Mapping[str, Any]) -> None:
    """Raise MalformedError where the scope of a trial names no device class."""
    if arguments["scope"] == WHOLE:
        raise MalformedError("a trial is of OSDs of one device class", "use class:NAME")


class Trials:
    """Begins and ends trials, and keeps what they have told; the engine carries them out."""

    def __init__(self, engine: Engine, facts: MemoryFacts, osds: TrialOsds) -> None:
        self._engine = engine
        self._facts = facts
        self._osds = osds
        self._cluster_at_s = 0.0
        self._up_from: Dict[int, int] = {}  # when the trial began
        # its OSDs by the host that tells of their memory, and since when that is asked
        self._on: Dict[str, List[int]] = {}
        self._asked_at_s = 0.0
        self._watched: FrozenSet[str] = frozenset()  # hosts whose memory is asked for now
        engine.trial_kinds[MEMORY.name] = TrialKind(TRIAL, TrialMachine, osds)

    # ---- what admins ask

    def ask(
        self, scope: str, target_bytes: Optional[int] = None, osds: Optional[int] = None,
        period_s: Optional[int] = None, blocks: Optional[int] = None, accept_cost: bool = False,
        dry_run: bool = False,
    ) -> Dict[str, Any]:
        """`memory trial start`: what it would take; with `accept_cost` it is begun."""
        engine, world = self._engine, self._engine.world()
        wanted = parse_scope(scope)
        require_scope(world, wanted)
        facts = self._facts.gather(world)
        trial = choose(
            self._next_id(world), world, facts, wanted.device_class, target_bytes,
            osds or OSDS_DEFAULT, period_s=period_s, blocks=blocks or 1,
        )
        told = {
            "trial_id": "",
            "forecast": {
                "osds": list(trial.osd_ids), "low_bytes": trial.low_bytes,
                "high_bytes": trial.high_bytes, "seconds": round(trial.seconds, 1),
                "periods": 4 * trial.blocks, "period_s": trial.period_s,
                "settle_s": trial.settle_s,
            },
        }
        if not accept_cost:
            raise ConsentError("this is only what it would take", "accept_cost", told)
        if dry_run:
            return told
        with engine.deciding(world) as (world, orders):
            begin_trial(self._own(trial), world, orders)
        engine.wake()
        return {**told, "trial_id": trial.trial_id, "started": True}

    def of_plan(self, rollout: Rollout, world: World) -> OwnTrial:
        """`apply --trial` of a plan: its first larger target, on OSDs that are to have it."""
        raised = raised_by(rollout)
        if not raised:
            raise RefusedError(
                f"plan {rollout.plan_id} raises no target, and a smaller one is not tried: what it "
                "costs is foretold by age bins",
                "apply it without --trial: what is set is read back, and can be rolled back",
            )
        osds = world.cluster.osds
        first, target_bytes = next(iter(raised.items()))
        device_class = osds[first].device_class if first in osds else ""
        alike = {
            osd_id for osd_id, value in raised.items() if value == target_bytes
            and osd_id in osds and osds[osd_id].device_class == device_class
        }
        try:
            return self._own(choose(
                self._next_id(world), world, self._facts.gather(world), device_class, target_bytes,
                OSDS_DEFAULT, among=alike, plan_id=rollout.plan_id,
            ))
        except MalformedError as error:
            by_hand = typed("ceph wcache memory trial start class:{}", device_class)
            raise RefusedError(error.message, f"by {by_hand}, {error.advice}") from None

    def show(self) -> Dict[str, Any]:
        """`memory trial show`: the last one, how far it is, and all results."""
        world = self._engine.world()
        trial = last_trial(world)
        return {
            "trial": None if trial is None else codec.to_plain(trial),
            "results": [codec.to_plain(item) for item in self._facts.results],
            "next": NOTHING if trial is not None and trial.trial_id in open_jobs(world.trials)
            else command("ceph wcache memory recommend"),
        }

    def _next_id(self, world: World) -> str:
        last = last_trial(world)
        ids = [item.trial_id for item in self._facts.results]
        ids += [last.trial_id] if last else []
        return f"t{max((int(i[1:]) for i in ids if i[1:].isdecimal()), default=0) + 1}"

    def _own(self, trial: TargetTrial) -> OwnTrial:
        words = f"memory trial of {many(len(trial.osd_ids), 'OSD')}"

        def start(world: World, orders: Orders, by: str) -> None:
            last = last_trial(world)
            if last is not None and last.trial_id in open_jobs(world.trials):
                names = ", ".join(f"osd.{osd_id}" for osd_id in last.owed)
                raise ConflictError(
                    f"trial {last.trial_id} has not taken back the targets of {names} yet",
                    "wait until they are up, or remove them from the cluster",
                )
            orders.note(by, trial.trial_id, words)
            # they may have fallen ill since they were chosen
            for osd_id, why in world.cluster.illness(trial.osd_ids).items():
                raise RefusedError(f"osd.{osd_id} {why}", "wait until it is well, or try it anew")
            known = world.cluster.osds
            self._up_from = {i: known[i].up_from for i in trial.osd_ids if i in known}
            self._on, self._asked_at_s, self._cluster_at_s = {}, world.now_s, 0.0
            for osd_id in trial.osd_ids:
                # the name that a probe has for its host need not be Ceph's
                hostname = world.told_by.get(osd_id) or known[osd_id].hostname
                self._on.setdefault(hostname, []).append(osd_id)
            orders.begin_trial(MEMORY.name, trial)

        span = f"{amount(trial.low_bytes)} to {amount(trial.high_bytes)} and back, leased"
        return OwnTrial(
            trial.trial_id, words, [f"osd.{osd_id}: {span}" for osd_id in trial.osd_ids],
            trial.seconds, trial.touched, start,
        )

    # ---- what is due

    def tick(self, world: World) -> None:
        """End a trial that must not go on, and keep what one has told."""
        trial, why, running = last_trial(world), "", False
        if trial is not None:
            if trial.measured:
                self._facts.keep(trial, world.now_s)
            running = trial.status is TrialStatus.RUNNING
            if running:
                why = self._unfit(trial, world) or self._crowded(trial, world)
        watched = frozenset(self._on if running and not why else ())
        if not why and watched == self._watched:
            return
        with self._engine.orders() as orders:
            if trial is not None and why:
                orders.end_trial(trial.trial_id, why)
            orders.hosts.watch_memory(watched)
        self._watched = watched

    def close(self, world: World) -> None:
        """The mgr stops: all leases go back, as far as Ceph lets them."""
        trial = last_trial(world)
        if trial is not None and trial.status in (TrialStatus.RUNNING, TrialStatus.ENDING):
            self._osds.close(trial.owed)

    def _unfit(self, trial: TargetTrial, world: World) -> str:
        """Why the cluster is not fit for it any more, or that an OSD began anew."""
        if world.now_s < self._cluster_at_s:
            return ""
        self._cluster_at_s = world.now_s + CLUSTER_EVERY_S
        if world.cluster.blocking:
            return no_longer_met(world.cluster.blocking, world.cluster.sick)
        for osd_id, why in world.cluster.illness(trial.osd_ids).items():
            return f"osd.{osd_id} {why}"
        for osd_id, since in self._up_from.items():
            osd = world.cluster.osds.get(osd_id)
            if osd is None or osd.up_from != since:
                return f"osd.{osd_id} was restarted"
        return ""

    def _crowded(self, trial: TargetTrial, world: World) -> str:
        """Why its hosts run out of memory, or that one of them does not tell."""
        for hostname, osd_ids in self._on.items():
            told_at_s, memory = world.host_memory.get(hostname, (self._asked_at_s, None))
            if world.now_s - told_at_s > MEMORY_UNTOLD_S:
                return (
                    f"the probe of {hostname} has not reported its memory for "
                    f"{MEMORY_UNTOLD_S:g} s"
                )
            why = crowded(osd_ids, trial.high_bytes, memory) if memory else ""
            if why:
                return why
        return ""


def last_trial(world: World) -> Optional[TargetTrial]:
    """The last trial of a larger target, over or not."""
    found = (machine.state for machine in world.trials.values())
    return next((state for state in found if isinstance(state, TargetTrial)), None)

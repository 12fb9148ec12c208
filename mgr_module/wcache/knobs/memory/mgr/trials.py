"""Trials of a larger target in a mgr: what one takes, how it begins, what ends it.

An OSD tells what it uses itself.  The kernel kills by what all processes of a control group
use, and a limit may be lowered at any time, so the probe is asked again and again.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Any,
    Dict,
    FrozenSet,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ....core import codec
from ....core.change.rollout_state import Rollout
from ....core.cluster import in_turns
from ....core.errors import (
    ConflictError,
    ConsentError,
    MalformedError,
    NotReadyError,
    RefusedError,
    WcacheError,
)
from ....core.fleet.agents import MEMORY_UNTOLD_S
from ....core.scope import parse_scope
from ....core.text import NOTHING, amount, command, many, named, typed
from ....engine.engine import Engine
from ....engine.measuring import TrialKind
from ....engine.orders import Orders
from ....engine.storing.archive import StoredKind
from ....engine.under_way import open_jobs, touched_by_run
from ....engine.world import World
from ....services.guards import require_scope
from ....services.plans.plan_guards import OwnTrial, begin_trial
from ..advice import UNHEARD, why_not
from ..facts import Facts, HostFacts, OsdFacts
from ..plan import raised_by
from ..reading import EDGES_DEFAULT_S, MEMORY, STEP_BYTES, MemoryOptions
from ..trial import (
    BLOCKS_DEFAULT,
    BLOCKS_MAX,
    BLOCKS_MIN,
    KEY,
    TargetTrial,
    TrialMachine,
    TrialStatus,
)
from ..trial_result import OSDS_MAX, OSDS_MIN
from .facts import LIMIT_SHARE, MemoryFacts, crowded
from .osds import TrialOsds

TRIAL = StoredKind(KEY, TargetTrial)
OSDS_DEFAULT = 3
BOUNDS = {
    "osds": (OSDS_MIN, OSDS_MAX), "blocks": (BLOCKS_MIN, BLOCKS_MAX), "period_s": (1, 86400),
}


class Trials:
    """Begins and ends trials, and keeps what they have told; the engine carries them out."""

    def __init__(self, engine: Engine, facts: MemoryFacts, osds: TrialOsds) -> None:
        self._engine = engine
        self._facts = facts
        self._osds = osds
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
            osds or OSDS_DEFAULT, period_s=period_s, blocks=blocks or BLOCKS_DEFAULT,
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
            self._on, self._asked_at_s = {}, world.now_s
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
                why = self._restarted(world) or self._crowded(trial, world)
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
            self._osds.close(trial.owed, trial.given_bytes)

    def _restarted(self, world: World) -> str:
        """Which of its OSDs began anew, or is gone."""
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


# A trial ends where an OSD has so much more than the larger target.
OVER_SHARE = 1.2
RAISE = 1.5


def choose(
    trial_id: str, world: World, facts: Facts, device_class: str, target_bytes: Optional[int],
    most: int, *, among: Optional[AbstractSet[int]] = None, plan_id: str = "",
    period_s: Optional[int] = None, blocks: int = BLOCKS_DEFAULT,
) -> TargetTrial:
    """Return a trial on at most so many OSDs that have one target and room for more.

    `among` are the OSDs of a plan that they are chosen from.
    """
    chosen: List[Tuple[HostFacts, OsdFacts]] = []
    why = f"no OSD of class {device_class[:40]} has reported its memory yet"
    alike = [
        (host, item) for host in facts.hosts for item in host.osds
        if item.osd.device_class == device_class
        and (among is None or item.osd.osd_id in among)
    ]
    ill = world.cluster.illness(item.osd.osd_id for _, item in alike)
    well = [each for each in alike if each[1].osd.osd_id not in ill]
    if ill and not well:
        why = named([f"osd.{osd_id} {said}" for osd_id, said in ill.items()], 3)
    for host, item in _in_order(well, world):
        said = why_not(host)
        if len(chosen) >= most:
            break
        if said or item.rates is None or item.reading is None:
            why = said or why
        elif not chosen or item.target_bytes == chosen[0][1].target_bytes:
            chosen.append((host, item))
    if len(chosen) < OSDS_MIN:
        if chosen:
            why = (
                f"it takes {OSDS_MIN} OSDs of class {device_class[:40]} with one target that can "
                f"be tried, and there is osd.{chosen[0][1].osd.osd_id} alone"
            )
        see = "" if why == UNHEARD else "see `ceph wcache memory status`"
        raise NotReadyError(f"nothing can be tried: {why}", see)
    low = chosen[0][1].target_bytes
    high = int(low * RAISE) // STEP_BYTES * STEP_BYTES if target_bytes is None else target_bytes
    most_bytes = most_of_trial(chosen, low, facts.limits)
    if most_bytes.target_bytes <= low:
        raise ConflictError(
            f"no target above {amount(low)} can be tried: {most_bytes.why}",
            "choose fewer --osds" if most_bytes.fewer
            else "see `ceph wcache memory recommend` for what the host has left",
        )
    if not low < high <= most_bytes.target_bytes:
        why = "" if high <= low else f": {most_bytes.why}"
        fewer = ", or fewer --osds" if high > low and most_bytes.fewer else ""
        raise MalformedError(
            f"the target of a trial must be larger than {amount(low)} and at most "
            f"{amount(most_bytes.target_bytes)}{why}",
            f"choose --target-bytes={most_bytes.target_bytes} or less{fewer}",
        )
    reach_s = max(
        (b.edges_s[-1] for _, i in chosen if i.reading for b in i.reading.bins),
        default=EDGES_DEFAULT_S[-1],
    )
    # what a process may use before the trial is ended, below what the kernel would kill at
    own = [host.limit_of(item.osd.osd_id) for host, item in chosen]
    return TargetTrial(
        trial_id, world.now_s, device_class, tuple(item.osd.osd_id for _, item in chosen),
        tuple(
            int(OVER_SHARE * high) if limit is None
            else min(int(OVER_SHARE * high), int(LIMIT_SHARE * limit)) for limit in own
        ), low, high,
        float(period_s or max(1, int(reach_s))), reach_s,
        world.options.of(MemoryOptions).memory_step_s, blocks, plan_id=plan_id,
    )


def untried_yet(device_class: str, world: World, facts: Facts) -> bool:
    """Whether a larger target of a class can be tried now, and no trial has told of it lately."""
    try:
        trial = choose("", world, facts, device_class, None, OSDS_DEFAULT)
    except WcacheError:
        return False
    return not any(
        one.is_of(device_class, trial.low_bytes, facts.now_s) for one in facts.trials
    )


def _in_order(
    alike: Sequence[Tuple[HostFacts, OsdFacts]], world: World
) -> List[Tuple[HostFacts, OsdFacts]]:
    """One OSD of each host, then a second one.

    Those come last that move data or had slow operations in BlueStore, and after them those that
    others have for themselves or compare with.
    """
    last = world.cluster.sampled_last(item.osd.osd_id for _, item in alike)
    others = [touched for _, touched in world.taken]
    others += [touched_by_run(world.runs[run_id].spec) for run_id in world.open_runs]
    theirs = {osd_id for touched in others for osd_id in touched.osds | touched.controls}

    def rank(each: Tuple[HostFacts, OsdFacts]) -> int:
        osd_id = each[1].osd.osd_id
        return 2 if osd_id in theirs else int(osd_id in last)

    return [
        each for number in range(3)
        for each in in_turns(
            (one for one in alike if rank(one) == number), lambda one: one[0].name
        )
    ]


class Most(NamedTuple):
    """The largest target that a trial's OSDs have room for, and what keeps out a larger one.

    `fewer`: a trial of fewer of them would have room for more.
    """

    target_bytes: int
    why: str
    fewer: bool = False


def most_of_trial(
    chosen: Sequence[Tuple[HostFacts, OsdFacts]], low_bytes: int, limits: MemoryOptions
) -> Most:
    """Of OSDs that all go by `low_bytes` now, with the hosts that they are on."""
    found = [Most(limits.memory_ceiling, f"memory_ceiling is {amount(limits.memory_ceiling)}")]
    for host in dict.fromkeys(where for where, _ in chosen):
        ids = [item.osd.osd_id for where, item in chosen if where is host]
        own = min((limit for limit in map(host.limit_of, ids) if limit is not None), default=None)
        if own is not None:
            found.append(Most(
                int(own * (1.0 - limits.memory_headroom)),
                f"the cgroup limit of an OSD on host {host.name} is {amount(own)}, of which "
                f"{limits.memory_headroom:.0%} stays free (memory_headroom)",
            ))
        room = host.room
        given = sum(item.target_bytes for item in host.osds)
        free = room.osds_bytes - given if room is not None else 0
        found.append(Most(
            low_bytes + free // len(ids), f"host {host.name} does not have the memory for it",
            free >= STEP_BYTES and len(ids) > 1 and len(chosen) > OSDS_MIN,
        ))
    least = min(found, key=lambda item: item.target_bytes)
    return least._replace(target_bytes=least.target_bytes // STEP_BYTES * STEP_BYTES)

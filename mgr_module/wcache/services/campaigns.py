"""The use cases behind `ceph wcache campaign ...` that cost something."""

from __future__ import annotations

import random
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..core.change.preconditions import precondition_text
from ..core.errors import (
    ConflictError,
    ConsentError,
    NotFoundError,
    RefusedError,
)
from ..core.events import STOP
from ..core.experiment import observing_plan as observing
from ..core.experiment.campaign import (
    Campaign,
    CampaignOptions,
    candidates,
    parse_loads,
    select,
)
from ..core.experiment.forecast import Forecast, forecast
from ..core.experiment.observed import CAPACITY_CALLS_MAX
from ..core.experiment.osd_option import ELSEWHERE, by_hand, unmet
from ..core.experiment.period import START_WAIT_S
from ..core.experiment.run_state import RunSpec, RunState, RunStatus
from ..core.experiment.schedule import TrySample, cheapest, make_runs
from ..core.fleet.claims import Age
from ..core.fleet.disputes import on_domains
from ..core.hardware import Dirty
from ..core.history import ADMIN
from ..core.model import DriveReport, LoadPoint
from ..core.options.entries import parse_trial
from ..core.options.option import Option
from ..core.scope import parse_scope
from ..core.text import amount, many, named, typed
from ..core.verdict.foreign import priors, shortened
from ..engine.engine import Engine
from ..engine.orders import Orders
from ..engine.world import World
from .guards import (
    domains_not_now,
    require_campaign,
    require_reports,
    require_some_left,
    require_store,
    require_thawed,
    would,
)
from .plans.planners import OwnRuns, Planner

# OSDs are asked by `ab` itself whether an option does something there: so many, for so long.
ASKED_MAX = 64
ASKED_S = 3.0
CHECKS_MAX = 16  # settling checks of an experiment, there and back each
FREE_LOADS = (LoadPoint.OSD_TRAFFIC, LoadPoint.FDATASYNC_TIMER)  # they write nothing
BOUNDS = {
    "pairs": (4, 80), "drives_per_model": (1, 1000), "seed": (0, 2**31 - 1),
    "calls": (3, CAPACITY_CALLS_MAX),
}
# What it goes by may change while it is prepared, and then it is prepared anew.
PREPARED_MAX = 3
# Of all hosts alike; of a host's report see `_moved`.
_FOLLOWS_FROM = ("options", "results", "foreign", "trusted", "accepted")


@dataclass(frozen=True)
class Ready:
    """A campaign that is prepared and not begun, by a look that may be over."""

    world: World
    campaign: Campaign
    made: OwnRuns
    cost: Forecast
    cost_accepted: bool


@dataclass(frozen=True)
class Pause:
    """Advice of a knob on these OSDs that cannot be had meanwhile, and for so long after it."""

    knob: str
    osd_ids: Sequence[int]
    seconds: float


@dataclass(frozen=True)
class Priced:
    """What a campaign costs at most, and its id once it is begun."""

    campaign_id: Optional[str]
    started: Optional[bool]
    forecast: Forecast
    reported: Age
    clients: Optional[str]
    pauses: Optional[Sequence[Pause]] = None
    compares: Optional[str] = None
    undo_with_no_mgr: Optional[str] = None


class CampaignService:
    """Forecasts, starts and stops campaigns; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine, knobs: Mapping[str, Planner]) -> None:
        self._engine = engine
        self._knobs = knobs
        self._planners = {load: one for one in knobs.values() for load in one.own_loads}

    def forecast(
        self, sample: Optional[TrySample] = None, world: Optional[World] = None, *,
        accepted: bool = True, **arguments: Any,
    ) -> Priced:
        """What a campaign with these arguments would cost at most."""
        world = world or self._engine.world()
        made = self.prepare(world, arguments, sample)
        with self._engine.orders() as orders:
            return self._priced(made, self._cost(world, made), orders.refresh(), accepted)

    @staticmethod
    def _cost(world: World, made: OwnRuns) -> Forecast:
        return forecast(made.runs, world.cluster, made.skipped, world.expected_pairs)

    def start(self, *, dry_run: bool = False, **arguments: Any) -> Priced:
        """`campaign start`: store the campaign; its runs begin as hosts become free."""
        if dry_run:
            return self.forecast(accepted=bool(arguments.get("accept_cost")), **arguments)
        with self.deciding(lambda world: self.ready(world, **arguments)) as (world, orders, ready):
            return self.started(world, orders, ready)

    @contextmanager
    def deciding(
        self, prepare: Callable[[World], Ready], before: Optional[World] = None
    ) -> Iterator[Tuple[World, Engine, Ready]]:
        """A look and orders, as the engine's, with a campaign that was prepared before.

        That takes long on a large fleet, so others have the lock meanwhile.  It is prepared anew
        where something has moved that it goes by.  The maps are those of its look: each run looks
        at its OSDs before it begins.
        """
        looked = before or self._engine.world()
        for _ in range(PREPARED_MAX):
            ready = prepare(looked)
            with self._engine.deciding(looked) as (world, orders):
                if not _moved(ready, world, orders):
                    yield world, orders, ready
                    return
            looked = self._engine.world()
        raise ConflictError("what is to be measured changes while it is chosen", "try again")

    def ready(
        self, world: World, sample: Optional[TrySample] = None, **arguments: Any
    ) -> Ready:
        """Prepare a campaign; a WcacheError where there is nothing to begin."""
        require_free(world)
        with self._engine.orders() as orders:
            campaign_id = orders.new_campaign_id()
        seed = _seed(arguments.get("seed"))
        made = self.prepare(world, arguments, sample, campaign_id, seed)
        return Ready(
            world,
            Campaign(
                campaign_id, made.options, world.now_s, seed,
                tuple(run.run_id for run in made.runs), made.skipped, sample is not None,
                arguments.get("by", ADMIN),
            ),
            made, self._cost(world, made), bool(arguments.get("accept_cost")),
        )

    def started(self, world: World, orders: Orders, ready: Ready) -> Priced:
        """Start a campaign that is ready, by a look that holds."""
        require_free(world)
        made, campaign, chosen = ready.made, ready.campaign, ready.made.options
        broken = world.cluster.blocking
        if made.real and broken and not chosen.forced:
            never = "recommended" if made.cost else "pooled"
            way = (
                "wait until they are met, or use --override=cluster_healthy (what is measured is "
                f"then never {never})"
            )
            raise RefusedError(precondition_text(broken, sick=world.cluster.sick), way)
        told = self._priced(made, ready.cost, orders.refresh(), ready.cost_accepted)
        text = f"campaign started, scope {chosen.scope}, seed {campaign.seed}"
        text += ", toggles nothing" if chosen.observe else ""
        text += f", compares {chosen.option}" if chosen.option else ""
        orders.note(campaign.by, campaign.campaign_id, text)
        orders.add_campaign(campaign, [RunState(run, RunStatus.WAITING) for run in made.runs])
        self._engine.wake()
        return replace(told, campaign_id=campaign.campaign_id, started=True)

    def _priced(self, made: OwnRuns, cost: Forecast, reported: Age, accepted: bool) -> Priced:
        """The answer; raises ConsentError with it where an admin has to agree to the cost."""
        trial = made.options.option
        pauses = [
            Pause(name, sorted(each), max(each.values())) for name, knob in self._knobs.items()
            if (each := knob.pauses_s(cost.osds_emptied))
        ]
        told = Priced(None, None, cost, reported, made.cost or None, pauses or None)
        if trial is not None:
            undo = "" if trial.entry.on_host else by_hand(trial.name, "osd.N")
            told = replace(
                told, compares=f"{trial.name}={trial.a},{trial.b}", undo_with_no_mgr=undo
            )
        if not accepted:
            _require_no_cost(made, cost, told)
        return told

    def compare_values(self, **arguments: Any) -> Priced:
        """`ab`: a campaign that compares two values of an option, or what it would cost."""
        trial = parse_trial(str(arguments["option"]))
        arguments["option"] = str(trial)
        if trial.entry.needs:
            arguments["unfit"] = self._unfit(
                trial.entry, self.prepare(self._engine.world(), arguments).runs
            )
        return self.start(**arguments)

    def _unfit(self, entry: Option, runs: Sequence[RunSpec]) -> Dict[int, str]:
        """OSDs of the sample on which an option does nothing, by what they say themselves.

        One that does not answer in time stays in it: its run asks again.
        """
        osd_ids = [run.option_osd for run in runs if run.option_osd is not None][:ASKED_MAX]
        told = self._engine.ports.osd_options.values(
            osd_ids, [name for name, _ in entry.needs], ASKED_S
        )
        found = {osd_id: unmet(entry, osd_id, values) for osd_id, values in told.items()}
        return {osd_id: why for osd_id, why in sorted(found.items()) if why}

    def prepare(
        self, world: World, arguments: Mapping[str, Any], sample: Optional[TrySample] = None,
        campaign_id: str = "c0", seed: int = 0,
    ) -> OwnRuns:
        """Choose the runs of a campaign with these arguments."""
        planner = self._planners.get(parse_loads(arguments.get("loads") or "traffic")[0])
        if planner is not None:
            return planner.own_runs(world, campaign_id, arguments)
        return OwnRuns(*_prepare(world, campaign_id, seed, arguments, sample), "")

    def stop(self, campaign_id: str, dry_run: bool = False) -> Dict[str, Any]:
        """`campaign stop`: end every run, restoring the prior states."""
        with self._engine.deciding() as (world, orders):
            require_campaign(world, campaign_id)
            stopping = [
                run_id for run_id in world.open_runs
                if world.runs[run_id].spec.campaign_id == campaign_id
            ]
            if dry_run:
                lines = [f"end run {run_id} and restore its drives" for run_id in stopping]
                return {"campaign_id": campaign_id, "stopping": [], **would(lines)}
            if stopping:
                orders.note(ADMIN, campaign_id, STOP.reason)
            for run_id in stopping:
                orders.feed(run_id, STOP)
        return {"campaign_id": campaign_id, "changed": bool(stopping), "stopping": stopping}


def require_free(world: World) -> None:
    """A campaign may begin now, as far as no drive is concerned."""
    require_thawed(world)
    require_store(world)
    require_some_left(world)
    if world.open_campaign:
        raise ConflictError(
            f"campaign {world.open_campaign} is not over yet",
            f"wait for it, or {typed('ceph wcache campaign stop {}', world.open_campaign)}",
        )


def _moved(ready: Ready, now: World, orders: Orders) -> bool:
    """Whether something is another by now that a campaign was prepared by.

    Of other hosts' reports it goes by nothing but who there is, and which models lost writes.
    """
    before, runs = ready.world, ready.made.runs
    if (
        orders.new_campaign_id() != ready.campaign.campaign_id
        or any(getattr(now, name) != getattr(before, name) for name in _FOLLOWS_FROM)
        or now.reports.keys() != before.reports.keys()
        or any(
            report.power_cuts != before.reports[hostname].power_cuts
            for hostname, report in now.reports.items() if report is not before.reports[hostname]
        )
        or any(_drives(now, run) != _drives(before, run) for run in runs)
    ):
        return True
    hosts = {run.hostname: now.reports[run.hostname] for run in runs}
    there = replace(now, reports=hosts)
    disputed, new = {key for key, _ in on_domains(there.disputes, hosts)}, {*there.of_plans}
    new.difference_update(before.of_plans if new else ())
    return any(
        (run.hostname, domain_id) in new or (run.toggles and (run.hostname, domain_id) in disputed)
        for run in runs for domain_id in run.domain_ids
    )


def _drives(world: World, run: RunSpec) -> List[DriveReport]:
    return [
        drive for drive in world.reports[run.hostname].drives if drive.domain_id in run.domain_ids
    ]


def _require_no_cost(made: OwnRuns, cost: Forecast, told: Priced) -> None:
    """What writes to real drives, and empties caches, is begun where that was agreed to."""
    if not (cost.bytes_written and made.real):
        return
    emptied, option = named([f"osd.{osd_id}" for osd_id in cost.osds_emptied]), made.options.option
    free = [load.short for load in FREE_LOADS if option is None or load in option.entry.loads]
    no_way = made.cost or made.options.dirty is not Dirty.ANY or not free
    raise ConsentError(
        f"this writes up to {amount(cost.bytes_written)} in "
        f"{many(cost.bench_calls, 'bench call')}"
        + (emptied and f", and each call empties the caches of {emptied}")
        + (made.cost and f"; {made.cost}")
        + ("" if no_way else f"; --loads={','.join(free)} writes nothing"),
        "accept_cost", told,
    )


def _prepare(
    world: World, campaign_id: str, seed: int, arguments: Mapping[str, Any],
    sample: Optional[TrySample],
) -> Tuple[Tuple[RunSpec, ...], Tuple[str, ...], CampaignOptions]:
    options = world.options
    observe = bool(arguments.get("observe"))
    trial = parse_trial(arguments["option"]) if arguments.get("option") else None
    settle_s = max(options.settle_s, arguments.get("settle_s") or 0.0)
    seconds_max = options.experiment_seconds_max
    pairs_max = arguments.get("pairs") or options.pairs_max
    if trial is not None:
        settle_s = max(settle_s, trial.entry.settle_s)
        # the budget is for measuring: what an option takes to settle comes on top
        seconds_max += (2 * pairs_max + CHECKS_MAX) * settle_s
    dirty = Dirty(arguments.get("dirty_data") or Dirty.ANY)
    if trial is not None and dirty is not Dirty.ANY:
        trial = replace(trial, dirty=dirty)
        seconds_max += START_WAIT_S
    chosen = CampaignOptions(
        scope=str(parse_scope(arguments.get("scope"))),
        loads=parse_loads(
            arguments.get("loads") or (observing.LOADS if observe else "traffic" if trial
                                       else "traffic,depth1,batch")
        ),
        pairs_max=pairs_max,
        drives_per_model=arguments.get("drives_per_model") or options.drives_per_model,
        settle_s=settle_s,
        period_s=options.period_s,
        latency_limit_ms=options.latency_limit_ms,
        seconds_max=seconds_max,
        bytes_max=options.experiment_bytes_max,
        consent_turn_on=bool(arguments.get("consent_turn_on")),
        forced=bool(arguments.get("override")),
        client_wait_max_s=options.experiment_client_wait_max_s,
        same_share=options.no_difference_share,
        observe=observe,
        option=trial,
        dirty=dirty,
    )
    cluster = world.cluster
    require_reports(world)
    found = candidates(world.believed_reports, cluster, parse_scope(chosen.scope))
    only = arguments.get("only")  # the automation's: hosts and cache domains
    found = [c for c in found if only is None or (c.hostname, c.domain_id) in only]
    selection = select(
        found, cluster, chosen, throwaway=options.throwaway_cluster,
        disputed=domains_not_now(world),
        gentle=observe or sample is not None or {*chosen.loads} <= {LoadPoint.OSD_TRAFFIC},
        by_try=sample is not None,
    )
    runs = make_runs(
        campaign_id, selection, cluster, chosen, seed=seed,
        throwaway=options.throwaway_cluster, nonce=secrets.token_hex(8),
    )
    unfit: Mapping[int, str] = arguments.get("unfit") or {}
    fit = tuple(run for run in runs if run.option_osd not in unfit)
    if runs and not fit:
        first, more = next(iter(unfit.values())), len(unfit) - 1
        raise RefusedError(first + (f" (and {more} more)" if more else ""), ELSEWHERE)
    runs, skipped = fit, (*selection.skipped, *unfit.values())
    if sample is not None:
        runs, chosen = cheapest(runs, chosen, sample)
    if arguments.get("recheck"):
        foreign = [verdict for _, verdict in world.foreign_verdicts]
        runs = shortened(runs, priors(world.recommendations, foreign))
    if observe:
        runs = tuple(observing.observing(run) for run in runs)
    if not runs:
        raise NotFoundError(
            "none of these loads touches a drive in the scope",
            "add `timer` or `4m`" if trial is None else "add `traffic`, while clients write",
        )
    return runs, skipped, chosen


def _seed(value: Any) -> int:
    return random.SystemRandom().randrange(2**31) if value is None else int(value)

"""`ceph wcache try`: a thin face over campaigns, no engine of its own.

It is called again and again: first it says what measuring would cost, then how far it is,
then what came out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ..ceph.view import CephTraffic
from ..core import codec
from ..core.change.preconditions import PROBE_RESPONDS, precondition_text
from ..core.errors import ConflictError, ConsentError, RefusedError, WcacheError
from ..core.experiment.campaign import Campaign, candidates, turning_on
from ..core.experiment.forecast import forecast
from ..core.experiment.schedule import (
    TRY_DRIVES_PER_MODEL,
    TRY_LOADS,
    TrySample,
    enough_traffic_per_s,
)
from ..core.fleet.claims import again
from ..core.fleet.findings import ADVICE
from ..core.model import CacheMode, FindingCode, Verdict
from ..core.scope import parse_scope
from ..core.text import (
    NAMED_MAX,
    NOTHING,
    amount,
    chained,
    command,
    commented,
    duration,
    grouped,
    many,
    named,
    ticked,
    time_left,
    typed,
    when,
)
from ..engine.engine import Engine
from ..engine.world import World
from ..services.campaigns import CampaignService, Ready
from ..services.guards import require_reports
from ..services.outlook import ending, periods_of, sorted_by_try, try_of
from .campaigns import campaign as campaign_of
from .recommend import Recommended, figures, to_change
from .tables import cost_words, left_out, model_of, pauses, strict, undecided

ARGUMENTS: Mapping[str, Any] = {"loads": TRY_LOADS, "drives_per_model": TRY_DRIVES_PER_MODEL}
FORECAST, MEASURING, ANSWER = "forecast", "measuring", "answer"
ANALYSED_SOON = "the measurements are being analysed: ask again in a moment"
# The last drive is still to be brought back.
PERCENT_OPEN_MAX = 99


class TryService:
    """Picks a measurement, and says where it stands; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine, campaigns: CampaignService, traffic: CephTraffic) -> None:
        self._engine = engine
        self._campaigns = campaigns
        self._traffic = traffic

    def look(
        self, scope: Optional[str] = None, accept_cost: bool = False, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`try`: what it would cost; with `accept_cost` it is begun, and then told of."""
        chosen, looked = str(parse_scope(scope)), self._engine.world()
        if dry_run or not accept_cost:
            return self._looked(looked, chosen, anew=accept_cost)
        told = _under_way(looked, chosen)
        if told:
            return told
        with self._campaigns.deciding(lambda now: self._ready(now, chosen), looked) as (
            world, orders, ready
        ):
            told = _under_way(world, chosen)
            if told:
                return told
            _require_fit(world)
            begun = self._campaigns.started(world, orders, ready)
            told = _measuring(orders.look(world), ready.campaign)
            return {**told, "pauses": codec.to_plain(begun.pauses or [])}

    def _looked(self, world: World, chosen: str, *, anew: bool) -> Dict[str, Any]:
        running = world.campaigns.get(world.open_campaign)
        last = None if anew or running is not None else _last(world, chosen)
        if last is not None and last.campaign_id in world.awaited:
            running = last  # its runs are over; a record is still to be stored or analysed
        if running is not None and running.trial:
            return _measuring(world, running)
        if last is not None:
            with self._engine.orders() as orders:
                reported = orders.refresh()
            return {
                "state": ANSWER, "scope": last.options.scope, "campaign_id": last.campaign_id,
                "reported": codec.to_plain(reported),
                "all_off": sorted_by_try(world, chosen).all_off,
            }
        sample = self._sample(world, chosen)
        # beside a plan or a trial that leaves no drive: what it costs once that has ended
        then = replace(world, rollouts={}, reserved=()) if world.occupied else world
        told = codec.told(self._campaigns.forecast(sample, then, scope=chosen, **ARGUMENTS))
        return {
            "state": FORECAST, "scope": chosen, **told, "in_the_way": _in_the_way(world),
            "sick": list(world.cluster.sick),
            "busy_osds": sorted(sample.busy_osds), "not_heard": world.not_heard,
            "frozen": world.frozen,
            "under_way": running.campaign_id if running is not None else "",
            "occupied": world.occupied,
        }

    def costs(self, world: World, scope: Optional[str] = None) -> List[Dict[str, Any]]:
        """What measuring each drive model of a scope that is not measured would cost at most."""
        measured = {item.drive_model for item in world.recommendations}
        if all(d.drive_model in measured for r in world.reports.values() for d in r.drives):
            return []
        chosen, then = str(parse_scope(scope)), replace(world, rollouts={}, reserved=())
        try:
            sample = self._sample(then, chosen)
            made = self._campaigns.prepare(then, {"scope": chosen, **ARGUMENTS}, sample)
        except WcacheError:
            return []  # `try` says why
        runs = grouped(
            ((setup.device_class, setup.drive_model), run) for run in made.runs
            for setup in [run.experiments[0]] if setup.drive_model not in measured
        )
        return [
            {"device_class": device_class, "drive_model": codec.to_plain(model),
             "forecast": codec.to_plain(forecast(alike, world.cluster, (), world.expected_pairs))}
            for (device_class, model), alike in runs.items()
        ]

    def _ready(self, world: World, chosen: str) -> Ready:
        sample = self._sample(world, chosen)
        _require_fit(world)
        return self._campaigns.ready(world, sample, accept_cost=True, scope=chosen, **ARGUMENTS)

    def _sample(self, world: World, scope: str) -> TrySample:
        options = world.options
        require_reports(world)
        found = candidates(world.believed_reports, world.cluster, parse_scope(scope))
        osd_ids = {
            use.osd_id for item in found if item.real
            for drive in item.drives for use in drive.uses
        }
        return TrySample(
            {osd_id: self._traffic.commits_per_s(osd_id) for osd_id in osd_ids},
            enough_traffic_per_s(options.period_s, options.traffic_commits_min),
        )


def _under_way(world: World, chosen: str) -> Dict[str, Any]:
    """How far it is, where it was begun before; a ConflictError where something else was."""
    running, occupied = world.campaigns.get(world.open_campaign), world.occupied
    if running is not None and running.trial and running.options.scope == chosen:
        return _measuring(world, running)
    if running is not None:
        occupied = f"campaign {running.campaign_id}"
    if occupied:
        raise ConflictError(f"{occupied} is under way", "begin this after it")
    return {}


def _require_fit(world: World) -> None:
    in_the_way = _in_the_way(world)
    if in_the_way:
        raise RefusedError(
            precondition_text(in_the_way, sick=world.cluster.sick),
            "wait until they are met, and try again",
        )


def _in_the_way(world: World) -> List[str]:
    if not set(world.reports) - set(world.not_heard):
        return [PROBE_RESPONDS]
    if not world.real_reports:
        return []
    return [item.value for item in world.cluster.blocking]


def _last(world: World, scope: str) -> Optional[Campaign]:
    found = [c for c in world.campaigns.values() if c.trial and c.options.scope == scope]
    return max(found, key=lambda item: item.created_at_s) if found else None


def _measuring(world: World, campaign: Campaign) -> Dict[str, Any]:
    """How far a campaign is: by its periods and those that are expected."""
    machines = [world.runs[name] for name in campaign.run_ids if name in world.runs]
    open_ = [machine for machine in machines if not machine.over]
    periods = [periods_of(world, machine) for machine in machines]
    share = sum(
        1.0 if machine.over else done / max(1, at_end)
        for machine, (done, _, at_end) in zip(machines, periods)
    ) / max(1, len(machines))
    return {
        "state": MEASURING, "scope": campaign.options.scope, "campaign_id": campaign.campaign_id,
        "percent": min(PERCENT_OPEN_MAX, round(100.0 * share)),
        **ending(world, campaign),
        "drives_done": len(machines) - len(open_), "drives": len(machines),
    }


_OFF, _ON = "turn the write cache off", "keep the write cache on"


def tried(
    tries: TryService, look: Callable[[], World], recommended: Recommended, **arguments: Any
) -> Dict[str, Any]:
    """What `try` answers, with its lines as text, and what begins it.

    Raises ConsentError with it where nothing is begun yet.
    """
    data = tries.look(**arguments)
    again_by, begin = try_of(data["scope"]), NOTHING
    accepted = chained((again_by, command("--accept-cost")), " ")
    if data["state"] == FORECAST:
        lines = _forecast(data)
        if not any(data[name] for name in ("frozen", "under_way", "occupied", "in_the_way")):
            begin = accepted if not data["not_heard"] else commented(
                accepted, "without the hosts that are not responding"
            )
    elif data["state"] == ANSWER:
        lines = _answered(look(), recommended, data)
        lines.append("to measure again: " + ticked(
            turning_on(data["scope"]) if data["all_off"] else accepted
        ))
    else:
        lines = [
            f"measuring: {data['percent']}%, {time_left(data)}, "
            f"{data['drives_done']} of {data['drives']} drives done "
            f"(campaign {data['campaign_id']})",
            *pauses(data),
        ]
        if data["drives_done"] == data["drives"]:
            lines.append(ANALYSED_SOON)
    if "reported" in data:
        lines += again(data["reported"], again_by)
    told = {**data, "lines": lines, "next": begin}
    if data["state"] == FORECAST:
        raise ConsentError("this is only what it would cost", "accept_cost", told)
    return told


def try_text(data: Mapping[str, Any]) -> str:
    """The lines."""
    return "\n".join(data["lines"])


def _forecast(data: Mapping[str, Any]) -> List[str]:
    cost = data["forecast"]
    busy = data["busy_osds"]
    own = f"{many(len(busy), 'busy OSD')} by the writes of its clients; the others"
    drives = many(cost["drives"], "drive")
    lines = [
        f"this would measure {drives} with the cache on and off, a drive or two of each drive "
        "model:",
        f"  {own if busy else 'each'} by one 4 KiB write at a time",
        f"  {cost_words(cost)}",
    ]
    emptied = cost["osds_emptied"]
    if emptied:
        osds = named([f"osd.{osd_id}" for osd_id in emptied])
        lines.append(f"  each call empties the OSD's caches, so reads are slower after it: {osds}")
    lines += [f"  {line}" for line in pauses(data)]
    lines.append("  every drive is brought back to the cache mode that it is in now")
    lines += strict(cost["strict_pools"]) + left_out(cost["skipped"])
    if data["not_heard"]:
        lines.append(
            f"not responding: {named(data['not_heard'])}; without them the result may not cover "
            "their drives"
        )
    if data["under_way"]:
        lines.append(f"not now: campaign {data['under_way']} is under way")
    if data["occupied"]:
        lines.append(f"not now: {data['occupied']} is under way")
    if data["frozen"]:
        lines.append("not now: the cluster is frozen")
    if data["in_the_way"]:
        lines.append(f"not now: {precondition_text(data['in_the_way'], sick=data['sick'])}")
    return lines


def _answered(world: World, recommended: Recommended, data: Dict[str, Any]) -> List[str]:
    """What a campaign came to; its recommendations are put into the data."""
    campaign = campaign_of(world, data["campaign_id"])
    shown = recommended.answer(world)["recommendations"]
    here = {*map(_kind, campaign["results"])}
    rows = data["recommendations"] = [row for row in shown if _kind(row) in here]
    # what a plan would change too
    others = [
        row for row in shown if row["to_change"] and row not in rows
        and data["scope"] in ("cluster", f"class:{row['device_class']}")
    ]
    lines = _answer(rows, campaign)
    lines += [f"by other measurements: {_named(row)}: {_advice(row)}" for row in others]
    ways = to_change(rows + others)
    return lines + ways + ([_offered()] if ways and not recommended.modes() else [])


def _offered() -> str:
    """What `auto` does in the mode in which it changes nothing, for who has not asked for it."""
    return "to see what waits in `ceph health`: " + typed(
        "ceph wcache auto recommend  # from now on measures new and unmeasured drives by itself, "
        "within daily limits; applies nothing"
    )


def _kind(row: Mapping[str, Any]) -> Tuple[Optional[str], str, bool]:
    return row["device_class"], str(row["drive_model"]), row["simulated"]


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['device_class']}, {model_of(row)}"


def _answer(rows: List[Dict[str, Any]], campaign: Mapping[str, Any]) -> List[str]:
    lines = [
        f"campaign {campaign['campaign_id']} of {when(campaign['created_at_s'])} UTC: "
        f"{campaign['status']}, "
        f"{duration(campaign['seconds'])} of drive time, "
        f"{amount(campaign['bytes_written'])} written"
    ]
    for row in rows:
        lines.append(f"{_named(row)}: {_advice(row)}")
        for load in row["loads"]:
            lines += figures(row, load)
        lines += [f"  {line}" for line in row["noop_flushes"]]
        lines.append(f"  why: {row['why']}")
    ended = [run for run in campaign["run_list"] if run["reason"] and run["status"] == "aborted"]
    lines += [
        f"not measured: {run['hostname']} {','.join(run['dev_names']) or run['domain_id']}: "
        f"{run['reason']}"
        for run in ended[:NAMED_MAX]
    ]
    lines += _unanalysed(campaign["results"])
    # nothing is recommended by an experiment without a pair
    lines += undecided(
        [r for r in campaign["results"] if r["analysed"] and not r["pairs"]][:NAMED_MAX]
    )
    if not rows and not campaign["results"]:
        lines.append("nothing was decided: no measurement of a drive was completed")
    return lines


def _unanalysed(results: List[Dict[str, Any]]) -> List[str]:
    """What was measured and not analysed, as the analysis cannot run."""
    reasons = sorted({r["why"] for r in results if not r["analysed"]})
    if not reasons:
        return []
    return [f"the measurements are kept, but not analysed: {reasons[0]}",
            f"  {ADVICE[FindingCode.NO_ANALYSIS][1]}; then ask again; nothing has to be measured "
            "again"]


def _advice(row: Mapping[str, Any]) -> str:
    verdict = row["verdict"]
    if row["mode"] is not None and not row["to_change"]:
        advice = _OFF if row["mode"] == CacheMode.WRITE_THROUGH.value else _ON
        return f"{advice}: already in {row['mode']}"
    if verdict == Verdict.NO_DIFFERENCE.value:
        return "leave the write cache as it is: it makes no material difference"
    if verdict == Verdict.INSUFFICIENT.value:
        return "not decided: there is not enough data"
    if verdict == Verdict.CONFLICTING.value:
        return "not decided: the results conflict"
    return _OFF if row["mode"] == CacheMode.WRITE_THROUGH.value else _ON

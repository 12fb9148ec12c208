"""`ceph wcache campaign ...`: the runs of each campaign with what they measured."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..core import codec, versions
from ..core.change.preconditions import faults
from ..core.codec import decode
from ..core.errors import MalformedError, NotFoundError
from ..core.experiment.campaign import Campaign
from ..core.experiment.observed import IDLE_WRITES_PER_S
from ..core.experiment.observing_run import NOT_FLUSHED
from ..core.experiment.run import RunMachine
from ..core.experiment.run_state import RunStatus
from ..core.experiment.two_campaigns import compare, lines, of_shown
from ..core.figures.latency_table import HEADINGS, LatencyTable, row
from ..core.hardware import BcacheState, crossed_target
from ..core.model import LoadPoint, Verdict, load_name
from ..core.options.entries import CACHE_MODES
from ..core.record import Record
from ..core.text import NOTHING, amount, command, duration, table, time_left, when
from ..core.verdict.result import Result, turned_off
from ..engine.world import World
from ..services.guards import require_campaign
from ..services.outlook import ending, periods_of
from . import options
from .drives import bcache_words
from .tables import BY_95, LONG, NUMBER, Column, left_out, listing, undecided


def campaigns(world: World) -> Dict[str, Any]:
    """`campaign ls`: all campaigns, newest last."""
    return {
        "campaigns": [
            head(world, campaign_id)
            for campaign_id in sorted(world.campaigns, key=lambda c: (len(c), c))
        ],
    }


def plain_record(record: Optional[Record], record_id: str) -> Dict[str, Any]:
    """`campaign record`: one record with its raw samples, as `wcache analyze` takes it."""
    if record is None:
        raise NotFoundError(
            f"there is no record {record_id[:60]!r}", "see `ceph wcache campaign show`"
        )
    return versions.to_plain(record)


def head(world: World, campaign_id: str) -> Dict[str, Any]:
    """A campaign in one row."""
    campaign = world.campaigns[campaign_id]
    machines = [world.runs[run_id] for run_id in campaign.run_ids if run_id in world.runs]
    open_runs = [m for m in machines if not m.over]
    aborted = [m for m in machines if m.state.status is RunStatus.ABORTED]
    progress = [periods_of(world, machine) for machine in machines]
    # the end of the last run is not the end: its record is stored first, then analysed
    going_on = open_runs or campaign_id in world.awaited
    status = "running" if going_on else "aborted" if aborted else "done"
    results = [r for r in world.all_results.values() if r.campaign_id == campaign_id]
    observed = [one for m in machines for one in m.state.observed]
    measuring = [m for m in open_runs if not m.spec.observes]
    # a factorial is told of twice, and was measured once; runs under way have results as well
    told = [
        r for r in results if not r.measured_in
        and not any(r.record_id.startswith(f"{m.spec.run_id}.") for m in measuring)
    ]
    return {
        "campaign_id": campaign_id, "status": status, "scope": campaign.options.scope,
        "observes": campaign.options.observe,
        "created_at_s": campaign.created_at_s, "seed": campaign.seed,
        "runs": len(machines), "runs_over": len(machines) - len(open_runs),
        "runs_aborted": len(aborted),
        "periods_done": sum(done for done, _, _ in progress),
        "periods_max": sum(most for _, most, _ in progress),
        "periods_expected": sum(at_end for _, _, at_end in progress),
        **(ending(world, campaign) if going_on else {"seconds_left": 0.0, "seconds_left_max": 0.0}),
        "seconds": round(
            sum(r.seconds for r in told) + sum(m.seconds_spent for m in measuring)
            + sum(one.seconds for one in observed), 3,
        ),
        "bytes_written": sum(r.bytes_written for r in told)
        + sum(m.bytes_spent for m in (*measuring, *(m for m in machines if m.spec.observes))),
    }


def _waits_s(world: World, machine: RunMachine) -> Optional[float]:
    """For how long a run waits for OSDs that are ill; None where it does not."""
    since_s = machine.state.ill_since_s
    return None if machine.over or not since_s else round(max(0.0, world.now_s - since_s), 1)


def campaign(world: World, campaign_id: str) -> Dict[str, Any]:
    """`campaign show`: runs, results and what was left out."""
    one = require_campaign(world, campaign_id)
    machines = [world.runs[run_id] for run_id in one.run_ids if run_id in world.runs]
    runs = [
        {
            "run_id": machine.spec.run_id, "hostname": machine.spec.hostname,
            "domain_id": machine.spec.domain_id,
            "domain_ids": list(machine.spec.domain_ids),
            "dev_names": [
                name for domain_id in machine.spec.domain_ids
                for name in dev_names(world, machine.spec.hostname, domain_id)
            ],
            "status": machine.state.status.value, "reason": machine.state.reason,
            "waits_s": _waits_s(world, machine),
            "given_back": not machine.over and bool(machine.state.ill_since_s)
            and not machine.state.priors and not machine.spec.observes,
            "instead_of": machine.spec.instead_of,
            "restored": machine.state.restored or not machine.over,
            "periods_done": done, "periods_max": most,
            "periods_expected": at_end,
            "interrupted_periods": sum(w.periods for w in machine.state.waste),
        }
        for machine in machines for done, most, at_end in [periods_of(world, machine)]
    ]
    observed = [row for machine in machines for row in _observed(world, machine)]
    results = [
        {**told(result), "dev_names": dev_names(world, result.hostname, result.domain_id)}
        for _, result in sorted(world.results.items()) if result.campaign_id == campaign_id
    ]
    asked = codec.to_plain(one.options)
    del asked["option"]  # see `compares`
    shown = {
        **head(world, campaign_id),
        **_of_options(world, one), "options": asked, "skipped": list(one.skipped),
        "run_list": runs, "results": results, "observed": observed,
    }
    dropped = any(NOT_FLUSHED in row["note"] for row in observed)
    following = command(
        "ceph wcache status  # says what to do about flushes that are dropped"
    ) if dropped else NOTHING
    trial = one.options.option
    if trial is not None and shown["status"] != "running":
        following = options.to_plan(world, (trial.name,))
    return {**shown, "next": following}


def _of_options(world: World, campaign: Campaign) -> Dict[str, Any]:
    """What a campaign that compares two values of an option has, in the option's own words."""
    if campaign.options.option is None:
        return {}
    return {
        "compares": str(campaign.options.option),
        "option_results": [
            {
                "record_id": result.record_id, "campaign_id": result.campaign_id,
                "hostname": result.hostname, "osd_id": result.osd_id,
                "device_class": result.device_class, "drive_model": str(result.drive_model),
                "simulated": result.simulated,
                "dev_names": dev_names(world, result.hostname, result.domain_id),
                "load_point": result.load_point.value, "option": codec.to_plain(trial),
                "verdict": trial.arms.said(result.verdict), "decided": result.verdict.decided,
                "ratio": result.ratio, "ratio_low": result.ratio_low,
                "ratio_high": result.ratio_high,
                "a_us": result.a.level_us, "b_us": result.b.level_us,
                "pairs": result.pairs, "seconds": result.seconds,
                "bytes_written": result.bytes_written, "why": result.why, "ended": result.ended,
                "warnings": list(result.warnings),
            }
            for _, result in sorted(world.all_results.items())
            if result.campaign_id == campaign.campaign_id
            for trial in [result.option] if trial is not None
        ],
    }


_OF_MODES = {"a": "write_back", "b": "write_through"}  # fields of a result on the cache modes


def told(result: Result) -> Dict[str, Any]:
    """What an experiment with the cache modes came to, in their words."""
    plain: Dict[str, Any] = {
        _OF_MODES.get(key, key): value
        for key, value in codec.to_plain(result).items() if key != "option"
    }
    plain["verdict"] = CACHE_MODES.said(result.verdict)
    if result.tail is not None:
        plain["tail"] = CACHE_MODES.said(result.tail)
    if result.if_trusted is not None:
        plain["if_trusted"]["verdict"] = CACHE_MODES.said(result.if_trusted.verdict)
    return plain


def _observed(world: World, machine: RunMachine) -> List[Dict[str, Any]]:
    """What a run that toggles nothing has seen, load by load."""
    spec = machine.spec
    about = {
        "run_id": spec.run_id, "hostname": spec.hostname, "domain_id": spec.domain_id,
        "dev_names": dev_names(world, spec.hostname, spec.domain_id),
    }
    models = {setup.osd_id: str(setup.drive_model) for setup in spec.experiments}
    return [
        {**codec.to_plain(one), **about, "drive_model": models.get(one.osd_id, "")}
        for one in machine.state.observed
    ]


def dev_names(world: World, hostname: str, domain_id: str) -> List[str]:
    """What the host calls the drives of a cache domain now; empty where it is gone."""
    report = world.reports.get(hostname)
    drives = report.drives if report else ()
    return [drive.dev_name for drive in drives if drive.domain_id == domain_id]


def periods(row: Mapping[str, Any]) -> str:
    """Those measured, and of a campaign that goes on, how many are expected."""
    done = str(row["periods_done"])
    return f"{done} of about {row['periods_expected']}" if row["status"] == "running" else done


CAMPAIGNS = (
    Column("CAMPAIGN", "campaign_id", "/campaigns/"), Column("STATUS", "status"),
    Column("SCOPE", "scope"), Column("STARTED", lambda c: when(c["created_at_s"]), NUMBER),
    Column("DRIVES", lambda c: f"{c['runs_over']}/{c['runs']}", NUMBER),
    Column("PERIODS", periods, NUMBER),
    Column("DRIVE TIME", lambda c: duration(c["seconds"]), NUMBER),
    Column("WRITTEN", lambda c: amount(c["bytes_written"]), NUMBER),
)
RUNS = (
    Column("RUN", "run_id"), Column("HOST", "hostname"),
    Column("DRIVE", lambda r: ",".join(r["dev_names"]) or " x ".join(r["domain_ids"])),
    Column("STATUS", lambda r: r["status"] if r["waits_s"] is None
           else f"waiting, {duration(r['waits_s'])}"),
    Column("PRIOR STATE", "prior_state"),
    Column("REASON", lambda r: r["reason"] or (
        r["instead_of"] and f"in the place of {r['instead_of']}"), LONG),
)
_MEASURED = (
    Column("OSD", lambda r: f"osd.{r['osd_id']}"),
    Column("DRIVE", lambda r: ",".join(r["dev_names"])),
    Column("LOAD", lambda r: load_name(r["load_point"])), Column("PAIRS", "pairs", NUMBER),
)
_SPENT = (
    Column("TIME", lambda r: duration(r["seconds"]), NUMBER),
    Column("WRITTEN", lambda r: amount(r["bytes_written"]), NUMBER),
)
RESULTS = (
    *_MEASURED, Column("CACHE OFF", turned_off), Column("VERDICT", "verdict"), *_SPENT,
)
VALUES = (*_MEASURED, Column("A -> B", options.moved), Column("BETTER", "verdict"), *_SPENT)


def campaigns_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign ls`."""
    if not data["campaigns"]:
        return "no campaign yet"
    return listing(CAMPAIGNS, data["campaigns"])


def campaign_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign show`."""
    lines = [
        f"campaign {data['campaign_id']}: {data['status']}, scope {data['scope']}, "
        f"seed {data['seed']}, {periods(data)} periods"
        + (f"; {time_left(data)}" if data["status"] == "running" else ""),
        "",
        listing(RUNS, runs_of(data)),
    ]
    if data["results"]:
        lines += ["", listing(RESULTS, data["results"]), "",
                  "CACHE OFF: latency with the cache on -> off in this experiment, what turning it "
                  "off does, and the interval at 99%"]
        if any(r["verdict"] == Verdict.NO_DIFFERENCE.value for r in data["results"]):
            lines.append(BY_95)
        lines += undecided(
            r for r in data["results"] if not CACHE_MODES.meant(r["verdict"]).decided
        )
    if "compares" in data:
        lines += ["", f"compares {data['compares']}: A, B"]
        lines += [listing(VALUES, data["option_results"])] if data["option_results"] else []
        lines += undecided(r for r in data["option_results"] if not r["decided"])
    lines += observed_text(data["observed"])
    lines += left_out(data["skipped"])
    return "\n".join(lines)


def runs_of(data: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """The runs of `campaign show`, each with what became of the prior state of its drives."""
    return [
        {**r, "prior_state": "not touched" if data["observes"] else
         "given back" if r["given_back"] else
         "under lease" if r["status"] in ("running", "releasing")
         else "in place" if r["restored"] else "NOT CONFIRMED"}
        for r in data["run_list"]
    ]


_TRAFFIC, _TIMER = LoadPoint.OSD_TRAFFIC.value, LoadPoint.FDATASYNC_TIMER.value
LEGEND = (
    "timer: one fdatasync() on the OSD's device; traffic: the mean commit latency of each part "
    "of a second",
    "client writes: one by one, from the OSD's histogram, whose buckets span up to a factor of two",
)
OF_WRITES = "WRITES/S is of the whole drive, in the same time"


def observed_text(observed: List[Mapping[str, Any]]) -> List[str]:
    """What `campaign show` prints of them."""
    if not observed:
        return []
    rows, notes = [], []
    for one in observed:
        name = f"osd.{one['osd_id']}/{one['role']}"
        drive, load = ",".join(one["dev_names"]), load_words(one)
        mode = one["mode"] or f"unknown (kernel view {one['kernel_view']})"
        writes = one["writes_per_s"]
        last = "-" if writes is None else f"{writes:.1f}"
        rows.append((name, drive, load, mode, *row(_latencies(one["table"])), last))
        if one["client_writes"] is not None:
            cells = row(_latencies(one["client_writes"]))
            rows.append((name, drive, "client writes", mode, *cells, last))
        if one["note"]:
            notes.append(f"{name} {drive} {load}: {one['note']}")
        notes += [
            f"{name} {drive} {load}: {fault} meanwhile" for fault in faults(one.get("unmet", ()))
        ]
        notes += [f"{name} {drive} {load}: {line}" for line in _bcache(one.get("bcache", ()))]
    heads = ("OSD", "DRIVE", "LOAD", "CACHE MODE", *HEADINGS, "WRITES/S")
    seen = [OF_WRITES] if {cells[-1] for cells in rows} != {"-"} else []
    return ["", table(heads, rows), "", *LEGEND, *seen, *notes]


def load_words(one: Mapping[str, Any]) -> str:
    """The load of a row, and what the drive had to do beside it."""
    load = load_name(one["load_point"])
    if one["beside"] is not None:
        return f"{load}, beside {load_name(one['beside'])}"
    writes: Optional[float] = one["writes_per_s"]
    if one["load_point"] not in (_TRAFFIC, _TIMER) or writes is None:
        return load
    return f"{load}, " + ("idle" if writes <= IDLE_WRITES_PER_S else "under load")


def _bcache(readings: Sequence[Mapping[str, Any]]) -> List[str]:
    """Each device as it was read last, and whether the load was measured on both sides."""
    latest = {reading["name"]: reading for reading in readings}
    crossed = crossed_target(decode(BcacheState, dict(one), "a reading") for one in readings)
    return [
        *(bcache_words(one) for one in latest.values()),
        *(f"the dirty data of {name} crossed its target meanwhile: part of the table is from "
          "below the target, part from above" for name in crossed),
    ]


def _latencies(plain: Mapping[str, Any]) -> LatencyTable:
    return decode(LatencyTable, dict(plain), "a table")


def require_two(arguments: Mapping[str, Any]) -> None:
    """Raise MalformedError where one campaign is named twice, or one is named by nothing."""
    if arguments.get("before") == "":
        raise MalformedError("--before names no campaign", "see `ceph wcache campaign ls`")
    if arguments.get("before") == arguments["campaign_id"]:
        raise MalformedError("a campaign compared with itself says nothing", "name two")


def compared(world: World, campaign_id: str, before: str) -> Dict[str, Any]:
    """Both campaigns, the earlier one as before."""
    first, second = sorted(
        (_that_observes(world, name) for name in (before, campaign_id)),
        key=lambda one: one.created_at_s,
    )
    shown = [campaign(world, one.campaign_id)["observed"] for one in (first, second)]
    found = compare(*map(of_shown, shown))
    return {
        "before": first.campaign_id, "before_at_s": first.created_at_s,
        "after": second.campaign_id, "after_at_s": second.created_at_s,
        "comparison": codec.to_plain(found),
        "lines": lines(found, second.created_at_s - first.created_at_s),
    }


def compared_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign show --before`."""
    head = (
        f"before: campaign {data['before']} of {when(data['before_at_s'])} UTC; after: campaign "
        f"{data['after']} of {when(data['after_at_s'])} UTC"
    )
    return "\n".join([head, "", *data["lines"]])


def _that_observes(world: World, campaign_id: str) -> Campaign:
    found = require_campaign(world, campaign_id)
    if not found.options.observe:
        raise MalformedError(
            f"campaign {campaign_id} toggled the caches: it compares the modes by itself",
            "compare campaigns that were started with --observe; of two records see `wcache "
            "compare --before`",
        )
    return found

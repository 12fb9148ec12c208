"""`ceph wcache try` in words and figures, for whoever sees it first."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

from ..core.automation.state import any_on
from ..core.fleet.ages import again
from ..core.fleet.findings import ADVICE
from ..core.model import CacheMode, FindingCode, Verdict, load_name
from ..core.precondition_text import precondition_text
from ..core.shell import CommandLine, command
from ..core.text import (
    NAMED_MAX,
    amount,
    at_most,
    duration,
    latency,
    many,
    named,
    time_left,
    when,
    written,
)
from ..engine.evidence.results import BEING_ANALYSED
from ..services.service import Service
from ..services.trying import ANSWER, FORECAST
from .campaigns import campaign as campaign_of
from .recommend import after_recommend
from .tables import left_out, strict
from .views import Views

_OFF, _ON = "turn the write cache off", "keep the write cache on"


def tried(service: Service, views: Views, arguments: Mapping[str, Any]) -> Dict[str, Any]:
    """What `try` answers, with its lines as text and the next command."""
    data = service.tries.look(**arguments)
    again_by = _try(data["scope"])
    if data["state"] == FORECAST:
        lines, following = _forecast(data), _after_forecast(data, again_by)
    elif data["state"] == ANSWER:
        campaign = campaign_of(views.world(), data["campaign_id"])
        shown = views.recommended.answer(views.world())
        rows = _measured(shown["recommendations"], campaign["results"])
        data["recommendations"] = rows
        lines = _answer(rows, campaign)
        others = _elsewhere(rows, shown["recommendations"], data["scope"])
        lines += [f"by other measurements: {_named(row)}: {_advice(row)}" for row in others]
        following = after_recommend({**shown, "recommendations": rows + others}) if (
            rows or others or shown["rollout"]
        ) else command("ceph wcache campaign show {}", data["campaign_id"])
        lines.append(f"to measure again: {again_by} --accept-cost")
        if not any_on(service.auto.state.modes):
            lines.append(
                "to have drives that come later measured too, and what waits told by `ceph "
                "health`: ceph wcache auto recommend"
            )
    else:
        lines = [
            f"measuring: {data['percent']}%, {time_left(data)}, "
            f"{data['drives_done']} of {data['drives']} drives done "
            f"(campaign {data['campaign_id']})"
        ]
        following = again_by
    if "reported" in data:
        lines += again(data["reported"], again_by)
    return {**data, "lines": lines, "next": following}


def text(data: Mapping[str, Any]) -> str:
    """The lines, and what to type next."""
    return "\n".join([*data["lines"], f"next: {data['next']}"])


def _try(scope: str) -> CommandLine:
    if scope == "cluster":
        return command("ceph wcache try")
    return command("ceph wcache try {}", scope)


def _written(cost: Mapping[str, Any]) -> str:
    """What calls write, to end a line."""
    return f"at most {written(cost)} written" if cost["bench_calls"] else "nothing is written"


def _forecast(data: Mapping[str, Any]) -> List[str]:
    cost = data["forecast"]
    busy = data["busy_osds"]
    own = f"{many(len(busy), 'busy OSD')} by the writes of its clients; the others"
    drives = many(cost["drives"], "drive")
    lines = [
        f"this would measure {drives} with the cache on and off, a drive or two of each drive "
        "model:",
        f"  {own if busy else 'each'} by one 4 KiB write at a time",
        f"  {at_most(cost['seconds_expected'], cost['seconds'])}; {_written(cost)}",
    ]
    emptied = cost["osds_emptied"]
    if emptied:
        osds = named([f"osd.{osd_id}" for osd_id in emptied])
        lines.append(f"  each call empties the OSD's caches, so reads are slower after it: {osds}")
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


def _after_forecast(data: Mapping[str, Any], again_by: CommandLine) -> str:
    if data["frozen"]:
        return "ceph wcache freeze --thaw"
    if data["under_way"]:
        return f"{again_by}, once campaign {data['under_way']} has ended"
    if data["occupied"]:
        return f"{again_by}, once {data['occupied']} has ended"
    if data["sick"] and data["in_the_way"]:
        return command("ceph health detail") + f"; once the cluster is healthy again: {again_by}"
    if data["in_the_way"]:
        return f"{again_by}, once the preconditions are met"
    if data["not_heard"]:
        return f"{again_by}, once they respond; without them: {again_by} --accept-cost"
    return f"{again_by} --accept-cost"


def _measured(
    rows: List[Dict[str, Any]], results: List[Dict[str, Any]]
) -> List[Dict[str, Any]]:
    """The recommendations for what the campaign has measured."""
    here = {(r["device_class"], str(r["drive_model"]), r["simulated"]) for r in results}
    return [
        row for row in rows
        if (row["device_class"], str(row["drive_model"]), row["simulated"]) in here
    ]


def _elsewhere(
    rows: List[Dict[str, Any]], all_rows: List[Dict[str, Any]], scope: str
) -> List[Dict[str, Any]]:
    """What a plan would change too, by other campaigns than the one that is told of."""
    return [
        row for row in all_rows
        if row["to_change"] and row not in rows
        and scope in ("cluster", f"class:{row['device_class']}")
    ]


def _named(row: Mapping[str, Any]) -> str:
    model = " ".join(
        part for part in (row["drive_model"]["vendor"], row["drive_model"]["model"],
                          row["drive_model"]["firmware"]) if part
    )
    return f"{row['device_class']}, {model or '(unnamed)'}"


def _answer(rows: List[Dict[str, Any]], campaign: Mapping[str, Any]) -> List[str]:
    lines = [
        f"campaign {campaign['campaign_id']} of {when(campaign['created_at_s'])} UTC: "
        f"{campaign['status']}, "
        f"{duration(campaign['seconds'])} of drive time, "
        f"{amount(campaign['bytes_written'])} written"
    ]
    for row in rows:
        lines.append(f"{_named(row)}: {_advice(row)}")
        lines += [f"  {_figures(load)}" for load in row["loads"]]
        lines += [f"  {line}" for line in _medians(row, campaign["results"])]
        lines += [f"  {line}" for line in row["noop_flushes"]]
        lines.append(f"  why: {row['why']}")
    ended = [run for run in campaign["run_list"] if run["reason"] and run["status"] == "aborted"]
    lines += [
        f"not measured: {run['hostname']} {','.join(run['dev_names']) or run['domain_id']}: "
        f"{run['reason']}"
        for run in ended[:NAMED_MAX]
    ]
    lines += _unanalysed(campaign["results"])
    if not rows and not campaign["results"]:
        lines.append("nothing was decided: no measurement of a drive was completed")
    return lines


def _unanalysed(results: List[Dict[str, Any]]) -> List[str]:
    """What was measured and not analysed: since the analysis works on it, or cannot run."""
    reasons = sorted({r["why"] for r in results if not r["analysed"]})
    if not reasons:
        return []
    if reasons == [BEING_ANALYSED]:
        return ["the measurements are being analysed: ask again in a moment"]
    why = next(why for why in reasons if why != BEING_ANALYSED)
    return [f"the measurements are kept, but not analysed: {why}",
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


def _figures(load: Mapping[str, Any]) -> str:
    """A ratio said so that it is above 1, with its interval."""
    name = load_name(load["load_point"])
    if load["ratio"] is None:
        return f"{name}: {load['verdict']}, {many(load['drives'], 'drive')}"
    ratio, low, high = load["ratio"], load["ratio_low"], load["ratio_high"]
    faster = "off"
    if ratio < 1.0:
        faster, ratio, low, high = "on", 1.0 / ratio, _inverse(high), _inverse(low)
    between = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return (
        f"{name}: writes are {ratio:.2f} times as fast{between} with the cache {faster}, on "
        f"{many(load['drives'], 'drive')}"
    )


def _inverse(value: Optional[float]) -> Optional[float]:
    return None if not value else 1.0 / value


def _medians(row: Mapping[str, Any], results: List[Dict[str, Any]]) -> List[str]:
    return [
        f"osd.{r['osd_id']} {','.join(r['dev_names'])}: {latency(r['write_back']['p50_us'])} with "
        f"the cache on, {latency(r['write_through']['p50_us'])} with it off"
        for r in results
        if r["record_id"] in row["record_ids"] and r["write_back"]["p50_us"] is not None
    ][:NAMED_MAX]

"""Text an admin reads at 3 a.m.: aligned tables with units, and the next command to run."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..core.experiment.observing.run import NOT_FLUSHED
from ..core.fleet import ages
from ..core.model import Verdict, load_name
from ..core.shell import command, ticked, typed
from ..core.text import (
    amount,
    at_most,
    cell,
    duration,
    many,
    named,
    ratio,
    relative,
    table,
    time_left,
    turned_off,
    when,
    written,
)
from ..core.verdict.recommend import BURSTS, FEW
from . import cluster_view, observed_tables
from .drives import options
from .outlook_view import sentence

# Findings of one code that are listed in words; a fleet can have one for each drive.
FINDINGS_MAX = 50
# Drives left out for one reason that are listed one by one.
ALIKE_MAX = 3
BY_95 = "`no material difference` is decided by the 95% interval, which is narrower"


def status(data: Mapping[str, Any]) -> str:
    """`ceph wcache status`."""
    agents, reported = data["agents"], ages.words(data["reported"])
    lines = [
        sentence(data["summary"]), "",
        f"probes:    {agents['heard']} of {agents['known']} responding" + without_probe(agents),
        f"drives:    {data['drives']}" + (f", reported {reported}" if reported else ""),
        *cluster_view.lines(data["cluster"]),
        f"campaign:  {data['campaign'] or 'none under way'}",
        f"rollout:   {data['rollout'] or 'none under way'}",
    ]
    if data["measuring"]:
        lines.append(f"measuring: {data['measuring']}; see {ticked(data['measuring_shown_by'])}")
    if data["frozen"]:
        lines.append("frozen:    yes; thaw with `ceph wcache freeze --thaw`")
    if data["throwaway_cluster"]:
        lines.append("throwaway: yes; this cluster's data is declared worthless")
    if data["drive_models"]:
        rows = [
            (r["drive_model"], r["drives"], r["device_cache"], r["kernel_view"], r["safety"])
            for r in data["drive_models"]
        ]
        heads = ("DRIVE MODEL", "DRIVES", "DEVICE CACHE", "KERNEL VIEW", "STATE")
        lines += ["", table(heads, rows), *flushed(data["drive_models"])]
    if data["findings"]:
        lines.append("")
        shown: Counter[str] = Counter()
        for item in data["findings"]:
            shown[item["code"]] += 1
            if shown[item["code"]] <= FINDINGS_MAX:
                lines.append(
                    f"{item['severity'].upper()} {item['code']} {item['subject']}: "
                    f"{item['detail']}"
                )
        lines += [
            f"and {count - FINDINGS_MAX} more {code}: see --format json"
            for code, count in shown.items() if count > FINDINGS_MAX
        ]
        for advice in dict.fromkeys((f["code"], f["advice"]) for f in data["findings"]):
            lines.append(f"  {advice[0]}: {advice[1]}")
    for key, why in data["unreadable"].items():
        lines.append(f"stored value {key} could not be read and was left alone: {why}")
    return "\n".join(lines)


def without_probe(agents: Mapping[str, Any]) -> str:
    """Which hosts with OSDs have none, to end a sentence."""
    hosts = agents["hosts_without"]
    return f"; {many(len(hosts), 'host')} without one: {named(hosts)}" if hosts else ""


def flushed(states: Iterable[Mapping[str, Any]]) -> List[str]:
    """Which direction is safe, where the two sides of some drive's cache differ."""
    differ = any(
        (state["device_cache"], state["kernel_view"]) == ("write through", "write back")
        for state in states
    )
    return [
        "device cache off and kernel view write back is safe: the kernel flushes a cache that is "
        "off; the other way round data can be lost"
    ] if differ else []


def forecast(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign forecast`."""
    cost = data["forecast"]
    emptied = ", ".join(f"osd.{o}" for o in cost["osds_emptied"]) or "none"
    lines = [
        f"drives:          {cost['drives']}",
        f"experiments:     {cost['experiments']}" + _factorials(cost["factorials"]),
        f"time:            {at_most(cost['seconds_expected'], cost['seconds'])}",
        f"written at most: {written(cost)}",
        f"caches emptied:  {emptied}",
    ]
    lines += [f"clients:         {data['clients']}"] if data.get("clients") else []
    if data.get("undo_with_no_mgr"):
        lines.append(f"with no mgr:     nothing puts it back; {data['undo_with_no_mgr']}")
    lines += strict(cost["strict_pools"]) + left_out(cost["skipped"])
    lines += ages.again(data["reported"], command("ceph wcache campaign forecast"))
    if "campaign_id" in data:
        lines += ["", f"campaign {data['campaign_id']} started",
                  "next: " + command("ceph wcache campaign show {}", data["campaign_id"])]
    else:
        consent = ", and --accept-cost" if cost["bytes_written"] else ""
        what = "ceph wcache ab, without --dry-run"
        if not data.get("compares"):
            what = "ceph wcache campaign start"
        lines += ["", f"next: {what} (same arguments{consent})"]
    return "\n".join(lines)


def strict(pools: Sequence[str]) -> List[str]:
    """What a drive that hangs does to pools whose min_size is their size."""
    return [
        f"pools with min_size = size: {named(pools)}; a drive that hangs stops the writes of those "
        "that have data on it"
    ] if pools else []


def left_out(skipped: Sequence[str]) -> List[str]:
    """What is not measured; many drives with the same reason are one line."""
    alike: Dict[str, List[str]] = {}
    for line in skipped:
        of, _, reason = line.partition(": ")  # a host and a domain, then mostly a device's name
        alike.setdefault(reason.rpartition(": ")[2], []).append(of)
    lines = []
    for line in skipped:
        reason = line.partition(": ")[2].rpartition(": ")[2]
        owners = alike[reason]
        if len(owners) <= ALIKE_MAX or not reason:
            lines.append(f"left out: {line}")
            continue
        hosts = list(dict.fromkeys(of.partition(" ")[0] for of in owners))
        lines.append(f"left out: {len(owners)} drives on {named(hosts)}: {reason}")
    return list(dict.fromkeys(lines))


def _factorials(count: int) -> str:
    if not count:
        return ""
    return f", {count} of them that toggle block and DB/WAL drive in all four combinations"


def periods(row: Mapping[str, Any]) -> str:
    """Those measured, and of a campaign that goes on, how many are expected."""
    done = str(row["periods_done"])
    return f"{done} of about {row['periods_expected']}" if row["status"] == "running" else done


def campaigns(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign ls`."""
    if not data["campaigns"]:
        return "no campaign yet\nnext: ceph wcache campaign forecast"
    rows = [
        (c["campaign_id"], c["status"], c["scope"], when(c["created_at_s"]),
         f"{c['runs_over']}/{c['runs']}", periods(c),
         duration(c["seconds"]), amount(c["bytes_written"]))
        for c in data["campaigns"]
    ]
    heads = ("CAMPAIGN", "STATUS", "SCOPE", "STARTED", "DRIVES", "PERIODS", "DRIVE TIME",
             "WRITTEN")
    return table(heads, rows)


def campaign(data: Mapping[str, Any]) -> str:
    """`ceph wcache campaign show`."""
    lines = [
        f"campaign {data['campaign_id']}: {data['status']}, scope {data['scope']}, "
        f"seed {data['seed']}, {periods(data)} periods"
        + (f"; {time_left(data)}" if data["status"] == "running" else ""),
        "",
        table(
            ("RUN", "HOST", "DRIVE", "CACHE DOMAIN", "STATUS", "PRIOR STATE", "REASON"),
            [(r["run_id"], r["hostname"], ",".join(r["dev_names"]),
              " x ".join(r["domain_ids"]),
              r["status"] if r["waits_s"] is None else f"waiting, {duration(r['waits_s'])}",
              "not touched" if data["observes"] else
              "given back" if r["given_back"] else
              "under lease" if r["status"] in ("running", "releasing")
              else "in place" if r["restored"] else "NOT CONFIRMED",
              r["reason"] or (r["instead_of"] and f"in the place of {r['instead_of']}"))
             for r in data["run_list"]],
        ),
    ]
    if data["results"]:
        rows = [
            (f"osd.{r['osd_id']}", ",".join(r["dev_names"]), load_name(r["load_point"]),
             r["pairs"], turned_off(r), r["ratio"], r["verdict"], duration(r["seconds"]),
             amount(r["bytes_written"]))
            for r in data["results"]
        ]
        heads = ("OSD", "DRIVE", "LOAD", "PAIRS", "CACHE OFF", "RATIO", "VERDICT", "TIME",
                 "WRITTEN")
        lines += ["", table(heads, rows), "",
                  "CACHE OFF: median latency with the cache on -> off, what turning it off does to "
                  "latency, and the interval at 99%; RATIO: on over off"]
        if any(r["verdict"] == Verdict.NO_DIFFERENCE.value for r in data["results"]):
            lines.append(BY_95)
        lines += [
            f"osd.{r['osd_id']} {','.join(r['dev_names'])} {load_name(r['load_point'])}: "
            + "; ".join(text for text in (r["why"], r["ended"]) if text not in ("", "decided"))
            for r in data["results"] if not Verdict(r["verdict"]).decided
        ]
    lines += options.of_campaign(data)
    lines += observed_tables.lines(data["observed"])
    lines += left_out(data["skipped"])
    lines += ["", "next: ceph wcache " + (command("campaign show {}", data["campaign_id"])
              if data["status"] == "running"
              else "status, which says what to do about flushes that are dropped"
              if any(NOT_FLUSHED in row["note"] for row in data["observed"])
              else "campaign forecast, to measure both cache modes" if data["observes"]
              else "option verdicts" if "compares" in data
              else "campaign start (same arguments), once the reason no longer holds"
              if data["status"] == "aborted" and not data["results"] else "recommend")]
    return "\n".join(lines)


def recommendations(data: Mapping[str, Any]) -> str:
    """`ceph wcache recommend`."""
    others = _foreign(data["foreign"])
    if not data["recommendations"]:
        following = data["summary"]["next"] or "ceph wcache campaign forecast"
        return "\n".join(["nothing is measured yet", *others, f"next: {following}"])
    rows = sorted(data["recommendations"], key=_by_weight)
    lines = [data["summary"]["text"], ""]
    heads = ("CLASS", "DRIVE MODEL", "VERDICT", "CACHE OFF", "RATIO", "MEASURED",
             "TO CHANGE")
    lines.append(table(heads, [
        (r["device_class"] or "-", model_of(r) + (" (simulated)" if r["simulated"] else ""),
         r["verdict"], *_gain(r), max((load["drives"] for load in r["loads"]), default=0),
         r["to_change"])
        for r in rows
    ]))
    lines += [
        "CACHE OFF: what turning the cache off does to the latency of a commit, with the interval "
        "at 99%; RATIO: latency with it on over latency with it off", "",
    ]
    said_of: Dict[str, List[str]] = {}  # what is said of several drive models is said once
    for r in rows:
        said = [
            *(f"went back: {line}" for line in went_back(r)), *stale_keys(r),
            *([r["why"]] if not Verdict(r["verdict"]).decided else []),
            *(
                f"to settle it: {step['what']}: {ticked(step['command'])}"
                for step in r["settled_by"]
            ),
            *r["noop_flushes"],
            # what is said of every drive model is under `explain`
            *(f"note: {line}" for line in r["warnings"] if line != BURSTS and FEW not in line),
        ]
        for line in said:
            said_of.setdefault(line, []).append(model_of(r))
    lines += [f"{named(list(dict.fromkeys(of)))}: {line}" for line, of in said_of.items()]
    lines += others
    explain = command("ceph wcache explain model:{}", model_of(rows[0]))
    lines.append(f"why, with figures and what to do by hand: {explain}")
    return "\n".join([*lines, f"next: {after_recommend(data)}"])


def _foreign(rows: List[Dict[str, Any]]) -> List[str]:
    """Word the verdicts of other clusters on drive models of this one."""
    shown = []
    for row in rows:
        if not row["drives_here"]:
            continue
        loads = ", ".join(
            f"{load_name(load['load_point'])} {ratio(load)}" for load in row["loads"]
            if load["verdict"] == row["verdict"]
        )
        todo = "" if row["measured_here"] else "; confirm it: ceph wcache campaign start --confirm"
        shown.append(
            f"foreign (decides nothing): class {row['device_class']}, drive model "
            f"{model_of(row)}: {row['verdict']}" + (f" ({loads})" if loads else "")
            + f", from cluster {row['cluster']}{todo}"
        )
    return shown


def model_of(row: Mapping[str, Any]) -> str:
    """A row's drive model in words."""
    return " ".join(part for part in row["drive_model"].values() if part) or "(unnamed)"


def _by_weight(row: Mapping[str, Any]) -> Tuple[bool, bool, str, str]:
    """What is to be done comes first, then what is open."""
    open_ = not Verdict(row["verdict"]).decided
    return not row["to_change"], not open_, row["device_class"], model_of(row)


def _gain(row: Mapping[str, Any]) -> Tuple[str, Optional[float]]:
    """What is gained and the ratio, of the first load that decided; `explain` has the others."""
    loads = [load for load in row["loads"] if load["verdict"] == row["verdict"]] or row["loads"]
    if not loads:
        return "-", None
    return f"{load_name(loads[0]['load_point'])}{relative(loads[0])}", loads[0]["ratio"]


_PLAN = command("ceph wcache plan")
_BY_TRAFFIC = command("ceph wcache campaign forecast --loads=traffic")


def went_back(row: Mapping[str, Any]) -> List[str]:
    """What a plan found against the recommended mode of a drive model, and what to do."""
    mark, lines = row["went_back"], []
    if mark is not None:
        lines.append(
            f"plan {mark['plan_id']} put drives of this model into {mark['mode']}, and took that "
            f"back: {mark['why']}"
        )
        lines.append("what was seen: " + typed("ceph wcache rollout show {}", mark["plan_id"]))
        lines.append(f"to settle it, measure it while clients write: {ticked(_BY_TRAFFIC)}")
        lines.append("`auto` does not apply it before that")
    elif row["held_by_auto"]:
        lines.append(
            f"`auto` no longer applies it ({row['held_by_auto']}); run `ceph wcache auto apply` "
            "again to let it retry"
        )
    return lines


def after_recommend(data: Mapping[str, Any]) -> str:
    """A plan, or the command that would settle what is open; nothing may be left to settle."""
    if data["rollout"]:
        return command("ceph wcache rollout show {}", data["rollout"])
    if any(r["to_change"] and r["went_back"] is None for r in data["recommendations"]):
        return _PLAN
    if any(r["to_change"] for r in data["recommendations"]):
        return f"{_BY_TRAFFIC}, while clients write"
    steps = [step for r in data["recommendations"] for step in r["settled_by"]]
    if steps:
        return str(steps[0]["command"])
    return "nothing; leave the drives as they are"


def stale_keys(data: Mapping[str, Any]) -> List[str]:
    """What a change of the cache mode makes of mClock's values."""
    keys = data.get("stale_keys", [])
    if not keys:
        return []
    return [
        "a change of cache mode makes mClock's stored capacities stale "
        f"({named(keys)}); after it, run `ceph wcache campaign start --loads=capacity` and `ceph "
        "wcache mclock recommend`"
    ]


def would(data: Mapping[str, Any]) -> str:
    """What a command has done, or with --dry-run what it would do."""
    if not data.get("dry_run"):
        return lines_of(data)
    lines = [f"would {line}" for line in data["would"]] or ["there is nothing to do"]
    return "\n".join(["dry run: nothing is changed", *lines])


def lines_of(data: Mapping[str, Any]) -> str:
    """Small answers: one `key: value` line each."""
    return "\n".join(f"{key}: {cell(value)}" for key, value in data.items())

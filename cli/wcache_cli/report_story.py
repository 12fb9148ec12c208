"""What a report tells first, from the module's answers: what was done, gained and spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from wcache.core.figures.geometry import Gain, GainPlot, gain_plot
from wcache.core.model import load_name
from wcache.core.text import (
    amount,
    arguments,
    before_after,
    commented,
    duration,
    gained,
    many,
    relative,
    setting,
)

from .evidence import Evidence

ROWS_MAX = 40  # of the plot; the tables have all of them
PLOTS_MAX = 12  # ECDFs of one drive model
# Statuses of a change that is in place.
APPLIED = "applied"
LATENCIES = (
    ("mean_us", "Mean"), ("std_us", "Std"), ("min_us", "Min"), ("p25_us", "p25"),
    ("p50_us", "p50"), ("p75_us", "p75"), ("p90_us", "p90"), ("max_us", "Max"),
)
# What the command that follows means for who was sent the report.
NEXT = (
    ("agent add", "an admin puts a probe on each OSD host; nothing is known of drives before"),
    ("agent ls", "an admin finds out why no probe responds"),
    ("freeze", "an admin has frozen all work; nothing is measured or changed until it is thawed"),
    ("status", "the cluster has to be well before anything is measured or changed"),
    ("rollout resume", "a rollout is paused; an admin decides whether it goes on or goes back"),
    ("apply", "a plan is made; who answers for the cluster decides whether it is applied"),
    ("plan", "who answers for the cluster decides whether a plan is made; it changes nothing yet, "
             "and shows what it would change"),
    ("try", "an admin measures the drives; it says first what that costs, and sets each back"),
    ("campaign start", "more is to be measured before it is decided; the command says what it "
                       "costs"),
    ("explain", "it is undecided; the command says why"),
    ("drive", "these drives cannot be changed as things are; the command says why"),
)
UNDER_WAY = "something is under way; a report made after it tells more"
# Arguments of `campaign start` by their names in a campaign's options.
OPTIONS = (("pairs_max", "pairs"), ("drives_per_model", "drives-per-model"))


@dataclass(frozen=True)
class Story:
    """What stands above all tables."""

    done: Tuple[str, ...]  # sentences
    verdicts: Tuple[Mapping[str, Any], ...]  # a row for each drive model and load
    plot: GainPlot
    measured: Tuple[Mapping[str, Any], ...]  # campaigns with something to show
    empty: Tuple[str, ...]  # the others, a line each
    repeat: Tuple[str, ...]  # commands
    advice: Tuple[Tuple[str, str], ...]  # by code of a finding, each once


def tell(evidence: Evidence) -> Story:
    """The story of a report; raises KeyError, TypeError where an answer lacks a field."""
    measured = [
        c for c in evidence.campaigns
        if c["results"] or c.get("observed") or c.get("option_results")
    ]
    empty = [_empty(c) for c in evidence.campaigns if c not in measured]
    return Story(
        tuple(_done(evidence, measured)), tuple(_verdicts(evidence)),
        gain_plot(gains(evidence.plans), ROWS_MAX), tuple(measured), tuple(empty),
        tuple(_repeat(evidence, measured)),
        tuple(dict.fromkeys((f["code"], f["advice"]) for f in evidence.status["findings"])),
    )


def setting_of(change: Mapping[str, Any]) -> Dict[str, str]:
    """Where and what a change is, of a drive's cache or of the config database alike."""
    if change.get("kind") == "config":
        edit = change["edits"][0]
        more = f" and {len(change['edits']) - 1} more" if len(change["edits"]) > 1 else ""
        return {
            "where": str(edit["who"]), "what": f"{edit['name']}{more}",
            "from": setting(edit["name"], edit["prior"]),
            "to": setting(edit["name"], edit["value"]),
        }
    drives = ", ".join(change["dev_names"]) or change["domain_id"]
    is_option = change.get("kind") == "option"
    return {
        "where": f"{change['hostname']} {drives}, osd.{change['osd_id']}",
        "what": str(change["option"]) if is_option else "cache mode",
        "from": str(change["expected"]), "to": str(change["value" if is_option else "mode"]),
    }


def gains(plans: Sequence[Mapping[str, Any]]) -> List[Gain]:
    """The changes that were measured before and after, the newest plan first."""
    return [
        Gain(
            setting_of(change)["where"], before_after(change["before_us"], change["after_us"]),
            change["before_us"], change["after_us"],
        )
        for plan in reversed(plans) for change in plan["changes"]
        if change["before_us"] and change["after_us"]
    ]


def next_words(following: str) -> str:
    """What follows in words, for who reads it and has no cluster at hand."""
    words = following.partition("ceph wcache ")[2]
    return next(
        (said for begins, said in NEXT if words.startswith(begins)), UNDER_WAY
    ) if words else "nothing is to be done"


def _done(evidence: Evidence, measured: Sequence[Mapping[str, Any]]) -> List[str]:
    lines = []
    of_modes = [c for c in measured if not c.get("compares")]
    if of_modes:
        results = [row for c in of_modes for row in (*c["results"], *c.get("observed", ()))]
        drives = {(row["hostname"], row["domain_id"]) for row in results}
        lines.append(
            f"Measured: {many(len(drives), 'drive')} in {many(len(of_modes), 'campaign')}, "
            f"{many(len(results), 'result')}."
        )
    for campaign in (c for c in measured if c.get("compares")):
        found = campaign["option_results"]
        decided = sum(1 for row in found if row["decided"])
        lines.append(
            f"Compared {campaign['compares']}: {many(len(found), 'result')} in campaign "
            f"{campaign['campaign_id']}, {decided} of them decided."
        )
    if measured:
        lines.append(
            f"What it cost: {duration(sum(c['seconds'] for c in evidence.campaigns))} of drive "
            f"time, {amount(sum(c['bytes_written'] for c in evidence.campaigns))} written to OSDs."
        )
    for plan in evidence.plans:
        lines.append(_plan_line(plan))
    counts: Dict[str, int] = {}
    for finding in evidence.status["findings"]:
        counts[finding["severity"]] = counts.get(finding["severity"], 0) + 1
    if counts:
        told = ", ".join(many(counts[key], key) for key in sorted(counts))
        lines.append(f"Open findings: {told}; they stand below with what to do.")
    return lines


def _verdicts(evidence: Evidence) -> Iterable[Mapping[str, Any]]:
    """Each drive model at each load, with what is expected of one more drive."""
    for item in evidence.recommendations:
        for load in item["loads"]:
            coming = {
                "interval": "95%", "ratio": load["ratio"] if load["next_low"] else None,
                "ratio_low": load["next_low"], "ratio_high": load["next_high"],
            }
            yield {
                **load, "verdict_at_it": load["verdict"], "verdict": item["verdict"],
                "next": relative(coming).strip(" ()"),
                **{key: item[key] for key in ("device_class", "drive_model", "simulated")},
            }


def _plan_line(plan: Mapping[str, Any]) -> str:
    changes = plan["changes"]
    now = [c for c in changes if c["status"] == APPLIED]
    known = [c for c in changes if c["before_us"] and c["after_us"]]
    line = f"Plan {plan['plan_id']} is {plan['status']}: "
    line += f"{len(now)} of {many(len(changes), 'change')} in place"
    if known:
        times = median(math.log(c["before_us"] / c["after_us"]) for c in known)
        undone = "" if now else ", while it was in place"
        of = many(len(known), "change")
        line += f"; latency {gained(math.exp(times))}, the median of {of}{undone}"
    return line + "."


def _empty(campaign: Mapping[str, Any]) -> str:
    reasons = dict.fromkeys(row["reason"] for row in campaign["run_list"] if row["reason"])
    because = f": {', '.join(reasons)}" if reasons else ""
    return f"{campaign['campaign_id']} ({campaign['status']}{because})"


def _repeat(evidence: Evidence, measured: Sequence[Mapping[str, Any]]) -> List[str]:
    """The commands that measure the same again; the seed gives the same order of modes."""
    lines: List[str] = []
    for campaign in measured:
        options, parts = campaign["options"], []
        if options.get("loads"):
            parts.append(f"--loads={','.join(load_name(load) for load in options['loads'])}")
        parts += [f"--{word}={options[key]}" for key, word in OPTIONS if key in options]
        if campaign.get("observes"):
            parts.append("--observe")
        words = ["campaign", "start", campaign["scope"]]
        if campaign.get("compares"):
            words = ["ab", campaign["compares"], f"--scope={campaign['scope']}"]
            if options.get("dirty"):
                parts.append(f"--dirty-data={options['dirty']}")
        words = ["ceph", "wcache", *words, *parts, f"--seed={campaign['seed']}"]
        lines.append(commented(arguments(words), "{}; add --accept-cost", campaign["campaign_id"]))
    return lines

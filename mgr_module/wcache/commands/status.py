"""`ceph wcache status`: the text of what there is, of what is under way, of what is wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping

from ..core.fleet import ages
from ..core.shell import ticked
from ..core.text import many, named
from ..core.verdict.outlook import Backlog, Outlook
from . import cluster_view
from .drives.drives import flushed
from .tables import NUMBER, Column, listing


def summary(found: Outlook, following: str) -> Dict[str, Any]:
    """The sentence and its figures as plain data."""
    return {
        "text": found.text, "next": following, "drive_models": found.models,
        "drives": found.drives, "cache_off": _side(found.off), "cache_on": _side(found.on),
        "right": found.right, "undecided": found.undecided, "unmeasured": found.unmeasured,
        "went_back": found.went_back, "fixed": found.fixed, "simulated": found.simulated,
    }


def _side(found: Backlog) -> Dict[str, Any]:
    return {
        "drive_models": found.models, "drives": found.drives, "times_low": found.times_low,
        "times_high": found.times_high,
    }


def sentence(data: Mapping[str, Any]) -> str:
    """The sentence with the command that follows."""
    following = f". Next: {ticked(data['next'])}" if data["next"] else ""
    return f"{data['text']}{following}"


def bare(data: Mapping[str, Any]) -> str:
    """`ceph wcache`: the sentence, and what is wrong; the rest is `status`."""
    by_severity: Dict[str, List[str]] = {}
    for item in data["findings"]:
        by_severity.setdefault(item["severity"], []).append(item["code"])
    lines = [sentence(data["summary"])]
    for severity in ("error", "warning"):
        codes = by_severity.get(severity)
        if codes:
            lines.append(
                f"{severity}s: {', '.join(dict.fromkeys(codes))}; what to do: `ceph wcache status`"
            )
    if data["measuring"]:
        lines.append(f"under way: {data['measuring']}")
    left = cluster_view.headline(data["cluster"])
    lines += [left] if left else []
    return "\n".join(lines)


# Findings of one code that are listed in words; a fleet can have one for each drive.
FINDINGS_MAX = 50
MODELS = (
    Column("DRIVE MODEL", "drive_model"), Column("DRIVES", "drives", NUMBER),
    Column("DEVICE CACHE", "device_cache"), Column("KERNEL VIEW", "kernel_view"),
    Column("STATE", "safety"),
)


def status_text(data: Mapping[str, Any]) -> str:
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
        lines += ["", listing(MODELS, data["drive_models"]), *flushed(data["drive_models"])]
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

"""The sentence that says what all of it would gain, and what to type next."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ..core.shell import ticked
from ..core.verdict.outlook import Backlog, Outlook
from . import cluster_view


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

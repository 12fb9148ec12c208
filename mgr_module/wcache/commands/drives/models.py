"""`drive-model ls`: what is known of each drive model, and how it looks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Dict, List, Mapping, Set

from ...core.drive.accepted_proofs import Evidence, is_accepted, shown_of
from ...core.host_report import ToggleProof
from ...core.model import DriveReport
from ...core.simulation import real
from ...core.text import table, when
from ...core.verdict.plp import hints
from ...engine.world import World


def drive_models(world: World) -> Dict[str, Any]:
    """Every drive model that a host reported, or that an admin vouches for."""
    found: Dict[str, List[DriveReport]] = defaultdict(list)
    hosts: Dict[str, Set[str]] = defaultdict(set)
    for report in world.reports.values():
        for drive in report.drives:
            name = str(drive.drive_model)
            if name:
                found[name].append(drive)
                hosts[name].add(report.hostname)
    trusted = {item.drive_model: item for item in world.trusted}
    shown = [
        _shown(report.hostname, one, is_accepted(world.accepted, report.hostname, one))
        for report in real(world.reports.values()) for one in shown_of(report, "")
    ]
    rows = []
    for name in sorted({*found, *trusted}):
        word = trusted.get(name)
        drives = found.get(name, [])
        told = dict.fromkeys(hint for drive in drives for hint in drive.plp_hints)
        rows.append({
            "drive_model": name, "drives": len(drives), "hosts": len(hosts[name]),
            "transports": sorted({drive.transport.value for drive in drives}),
            "rotational": drives[0].rotational if drives else None,
            "plp": hints.cell(tuple(told), word is not None),
            "plp_hints": [
                {"protected": hint.protected, "source": hint.source,
                 "drives": sum(hint in drive.plp_hints for drive in drives)}
                for hint in told
            ],
            "plp_trusted": None if word is None else
            {"reason": word.reason, "since_s": word.since_s},
            "shown": sorted(
                (one for one in shown if one["drive_model"] == name), key=lambda one: str(one)
            ),
        })
    return {"drive_models": rows}


def _shown(hostname: str, evidence: Evidence, accepted: bool) -> Dict[str, Any]:
    """What a host has shown of a drive model, in words."""
    if isinstance(evidence, ToggleProof):
        about = f"toggling behind {evidence.host_driver}"
        held, what = not evidence.disagreed, "proven" if not evidence.disagreed else "did not hold"
        if evidence.in_place:
            what = "proven in place, but for its flushes: it counts on this host alone"
    else:
        mode = evidence.mode.value if evidence.mode else "unknown mode"
        about, held = f"a power cut in {mode}", not evidence.lost
        what = f"{evidence.lost} of {evidence.checked} acknowledged writes lost"
    return {
        "drive_model": str(evidence.drive_model), "hostname": hostname, "about": about,
        "held": held, "what": what, "accepted": accepted,
    }


def render(data: Mapping[str, Any]) -> str:
    """`ceph wcache drive-model ls`."""
    if not data["drive_models"]:
        return "no probe has reported a drive yet\nnext: ceph wcache agent ls"
    rows = []
    for row in data["drive_models"]:
        word, sources = row["plp_trusted"], row["plp_hints"]
        plp = row["plp"] if word is None else f"trusted since {when(word['since_s'])}"
        why = word["reason"] if word else ""
        if word and sources:
            why += f" (and hinted: {sources[0]['source']})"
        rows.append((row["drive_model"], row["drives"], row["hosts"],
                     ",".join(row["transports"]), plp, why))
    heads = ("DRIVE MODEL", "DRIVES", "HOSTS", "TRANSPORT", "POWER-LOSS PROTECTION", "REASON")
    lines = [table(heads, rows)]
    lines += [
        f"{row['drive_model']}: {one['hostname']} on {one['about']}: {one['what']}"
        + (" (accepted for all hosts)" if one["accepted"] else "")
        for row in data["drive_models"] for one in row["shown"]
    ]
    if len(lines) > 1:
        lines.append(
            "a proof counts on its own host, and on others when two hosts have it or an admin "
            "accepts it: `ceph wcache drive-model accept-proof`"
        )
    return "\n".join(lines)

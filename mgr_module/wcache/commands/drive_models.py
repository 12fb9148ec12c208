"""`ceph wcache drive-model ...`: what is known of each drive model, also by an admin's word."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Mapping, NamedTuple, Set

from ..core.drive.proofs import (
    ACCEPTED_MAX,
    SHOWN_MAX,
    AcceptedProof,
    Evidence,
    digest,
    is_accepted,
    shown_of,
)
from ..core.errors import MalformedError, NotFoundError, RefusedError
from ..core.host_report import ToggleProof
from ..core.text import command, grouped, table, when
from ..core.verdict.result import MODELS_MAX, REASON_CHARS_MAX, TrustedModel, plp_cell
from ..engine.engine import Engine
from ..engine.orders import Orders
from ..engine.storing.archive import ACCEPTED_PROOFS, TRUSTED
from ..engine.world import World
from ..services.guards import would

NAMED_MAX = 5
_ASKED = ("drive_model", "hostname", "reason")  # what a dry run has of the answer


class _Word(NamedTuple):
    """An admin's word, given or taken back: what it does, what is stored, and what is told."""

    changed: bool
    would: str
    log: str
    about: Mapping[str, Any]
    told: Mapping[str, str]
    store: Callable[[Orders], None]
    too_many: str = ""


class DriveModelService:
    """Trust in power-loss protection, given and taken back."""

    def __init__(self, engine: Engine, wall_clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._wall_clock = wall_clock

    def trust(
        self, drive_model: str, reason: str = "", hostname: str = "", *, take_back: bool = False,
        dry_run: bool = False,
    ) -> Dict[str, Any]:
        """`drive-model trust`: an admin's word for a drive model, or for what a host has shown."""
        said = "" if take_back else reason_in(reason)
        with self._engine.deciding() as (world, orders):
            word = self._of_proof(world, drive_model, hostname, said) if hostname else (
                self._of_plp(world, drive_model, said, dry_run)
            )
            if dry_run:
                about = {name: word.about[name] for name in _ASKED if name in word.about}
                return {**about, **would([word.would] if word.changed else [])}
            if word.changed:
                if word.too_many:
                    raise RefusedError(word.too_many)
                orders.note("admin", drive_model, word.log)
                word.store(orders)
            stored = orders.is_stored(ACCEPTED_PROOFS.prefix if hostname else TRUSTED.prefix)
        return {**word.about, "changed": word.changed, "stored": stored, **word.told}

    def _of_plp(self, world: World, drive_model: str, said: str, dry_run: bool) -> _Word:
        """What lifts FLUSH_TOO_FAST for one drive model; where nothing is said, it counts again."""
        old = next((one for one in world.trusted if one.drive_model == drive_model), None)
        if said or (old is None and not dry_run):
            _require_known(world, drive_model)
        plp, about = f"the power-loss protection of {drive_model}", {"drive_model": drive_model}
        if not said:
            return _Word(
                old is not None, f"no longer trust {drive_model}",
                "power-loss protection no longer trusted", {**about, "trusted": False}, {
                    "text": f"{plp} is no longer trusted",
                    "undo": command(
                        "ceph wcache drive-model trust {} {}", drive_model,
                        old.reason if old else "",
                    ),
                    "note": "drives that were put into write back on this trust stay in it",
                }, lambda orders: orders.trust(drive_model, None),
            )
        item = TrustedModel(drive_model, said, self._wall_clock())
        full = old is None and len(world.trusted) >= MODELS_MAX
        return _Word(
            old is None or old.reason != said, f"trust {plp}",
            f"power-loss protection trusted: {said}", {**about, "trusted": True, "reason": said}, {
                "note": "if this drive model has no power-loss protection, write back can lose "
                "acknowledged data at a power cut",
                "text": f"{plp} is trusted: {said}",
                "undo": command("ceph wcache drive-model trust {} --take-back", drive_model),
            }, lambda orders: orders.trust(drive_model, item),
            f"{MODELS_MAX} drive models are trusted already" if full else "",
        )

    def _of_proof(self, world: World, drive_model: str, hostname: str, said: str) -> _Word:
        """What has a host's word count everywhere, or by the rule of two hosts again."""
        key = (hostname, drive_model)
        old = next((o for o in world.accepted if (o.hostname, o.drive_model) == key), None)
        about = {"drive_model": drive_model, "hostname": hostname}
        shown = f"what {hostname} has shown"
        if not said:
            return _Word(
                old is not None, f"no longer accept {shown} of {drive_model}",
                f"{shown} is no longer accepted", about, {
                    "text": f"{shown} of {drive_model} is no longer accepted",
                    "undo": command(
                        "ceph wcache drive-model trust {} {} --hostname={}", drive_model,
                        old.reason if old else "", hostname,
                    ),
                    "note": "hosts learn of it at their next report; drives that were changed stay "
                    "changed",
                }, lambda orders: orders.accept_proof(hostname, drive_model, None),
            )
        report = world.reports.get(hostname)
        known = report is not None and report.real and drive_model
        found = shown_of(report, drive_model) if known and report else ()
        if not found:
            raise NotFoundError(
                f"{hostname} has shown nothing of {drive_model[:80]!r}",
                "see `ceph wcache drive-model ls`; run `wcache-probe prove` or `witness` there",
            )
        digests = tuple(digest(one) for one in found)[:SHOWN_MAX]
        proof = AcceptedProof(hostname, drive_model, said, digests, self._wall_clock())
        full = old is None and len(world.accepted) >= ACCEPTED_MAX
        return _Word(
            old is None or (old.reason, old.shown) != (said, digests),
            f"accept on all hosts {shown} of {drive_model}", f"{shown} is accepted: {said}",
            {**about, "accepted": len(digests)}, {
                "note": f"{shown} until now counts on all hosts; what it shows later does not",
                "text": f"{shown} of {drive_model} is accepted",
                "undo": command(
                    "ceph wcache drive-model trust {} --hostname={} --take-back", drive_model,
                    hostname,
                ),
            }, lambda orders: orders.accept_proof(hostname, drive_model, proof),
            f"{ACCEPTED_MAX} proofs are accepted already" if full else "",
        )


def _require_known(world: World, drive_model: str) -> None:
    known: Set[str] = {str(result.drive_model) for result in world.results.values()}
    known |= {
        str(drive.drive_model) for report in world.reports.values() for drive in report.drives
    }
    known.discard("")
    if drive_model not in known:
        names = ", ".join(repr(name) for name in sorted(known)[:NAMED_MAX])
        raise NotFoundError(
            f"there is no drive model {drive_model[:80]!r}",
            f"give vendor, model and firmware as `ceph wcache drive-model ls` does: {names}",
        )


def reason_in(reason: str) -> str:
    """A reason in one line; MalformedError where there is none, or too much of it."""
    said = " ".join(reason.split())
    if not said:
        raise MalformedError(
            "a reason is missing", "say how you know: a data sheet, a test with pulled plugs"
        )
    if len(said) > REASON_CHARS_MAX:
        raise MalformedError(f"the reason is longer than {REASON_CHARS_MAX} characters")
    return said


def drive_models(world: World) -> Dict[str, Any]:
    """Every drive model that a host reported, or that an admin vouches for."""
    on_hosts = grouped(
        (str(drive.drive_model), (report.hostname, drive))
        for report in world.reports.values() for drive in report.drives
    )
    on_hosts.pop("", None)
    trusted = {item.drive_model: item for item in world.trusted}
    shown = [
        _shown(report.hostname, one, is_accepted(world.accepted, report.hostname, one))
        for report in world.real_reports for one in shown_of(report, "")
    ]
    rows = []
    for name in sorted({*on_hosts, *trusted}):
        word = trusted.get(name)
        mine = on_hosts.get(name, [])
        hosts, drives = {hostname for hostname, _ in mine}, [drive for _, drive in mine]
        told = dict.fromkeys(hint for drive in drives for hint in drive.plp_hints)
        rows.append({
            "drive_model": name, "drives": len(drives), "hosts": len(hosts),
            "transports": sorted({drive.transport.value for drive in drives}),
            "rotational": drives[0].rotational if drives else None,
            "plp": plp_cell(tuple(told), word is not None),
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


def drive_models_text(data: Mapping[str, Any]) -> str:
    """`ceph wcache drive-model ls`."""
    if not data["drive_models"]:
        return "no probe has reported a drive yet"
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
            "accepts it: `ceph wcache drive-model trust --hostname`"
        )
    return "\n".join(lines)

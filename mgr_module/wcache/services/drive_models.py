"""The use cases behind `ceph wcache drive-model ...`: an admin's word for a drive model."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Optional, Set

from ..core.drive.accepted_proofs import ACCEPTED_MAX, SHOWN_MAX, AcceptedProof, digest, shown_of
from ..core.errors import MalformedError, NotFoundError, RefusedError
from ..core.simulation import is_real
from ..core.verdict.plp.trust import MODELS_MAX, REASON_CHARS_MAX, TrustedModel
from ..engine.engine import Engine
from ..engine.storing.archive import ACCEPTED_PROOFS, TRUSTED
from ..engine.world import World
from .guards import would

NAMED_MAX = 5


class DriveModelService:
    """Trust in power-loss protection, given and taken back."""

    def __init__(self, engine: Engine, wall_clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._wall_clock = wall_clock

    def trust_plp(
        self, drive_model: str, reason: str, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`drive-model trust-plp`: lift FLUSH_TOO_FAST for one drive model."""
        said = _reason(reason)
        engine = self._engine
        with engine.deciding() as (world, orders):
            _require_known(world, drive_model)
            old = _trusted(world, drive_model)
            changed = old is None or old.reason != said
            if dry_run:
                lines = [f"trust the power-loss protection of {drive_model}"] if changed else []
                return {"drive_model": drive_model, "reason": said, **would(lines)}
            if changed:
                if old is None and len(world.trusted) >= MODELS_MAX:
                    raise RefusedError(f"{MODELS_MAX} drive models are trusted already")
                orders.note("admin", drive_model, f"power-loss protection trusted: {said}")
                orders.trust(TrustedModel(drive_model, said, self._wall_clock()))
            stored = orders.executor.is_stored(TRUSTED.prefix)
        return {
            "drive_model": drive_model, "trusted": True, "reason": said, "changed": changed,
            "stored": stored,
            "note": "if this drive model has no power-loss protection, write back can lose "
            "acknowledged data at a power cut",
            "next": "ceph wcache recommend; take it back with `ceph wcache drive-model "
            "distrust-plp`",
        }

    def distrust_plp(self, drive_model: str, dry_run: bool = False) -> Dict[str, Any]:
        """`drive-model distrust-plp`: FLUSH_TOO_FAST counts again for this drive model."""
        engine = self._engine
        with engine.deciding() as (world, orders):
            changed = _trusted(world, drive_model) is not None
            if dry_run:
                lines = [f"no longer trust {drive_model}"] if changed else []
                return {"drive_model": drive_model, **would(lines)}
            if changed:
                orders.note("admin", drive_model, "power-loss protection no longer trusted")
                orders.distrust(drive_model)
            else:
                _require_known(world, drive_model)
            stored = orders.executor.is_stored(TRUSTED.prefix)
        return {
            "drive_model": drive_model, "trusted": False, "changed": changed, "stored": stored,
            "note": "drives that were put into write back on this trust stay in it",
            "next": "ceph wcache recommend; `ceph wcache rollback` takes back what was applied",
        }

    def accept_proof(
        self, drive_model: str, hostname: str, reason: str, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`drive-model accept-proof`: what a host has shown of a drive model counts everywhere."""
        said, engine = _reason(reason), self._engine
        with engine.deciding() as (world, orders):
            report = world.reports.get(hostname)
            known = report is not None and is_real(report) and drive_model
            shown = shown_of(report, drive_model) if known and report else ()
            if not shown:
                raise NotFoundError(
                    f"{hostname} has shown nothing of {drive_model[:80]!r}",
                    "see `ceph wcache drive-model ls`; run `wcache-probe prove` or `witness` there",
                )
            proof = AcceptedProof(
                hostname, drive_model, said, tuple(digest(one) for one in shown)[:SHOWN_MAX],
                self._wall_clock(),
            )
            old = _accepted(world, hostname, drive_model)
            changed = old is None or (old.reason, old.shown) != (said, proof.shown)
            if dry_run:
                text = f"accept on all hosts what {hostname} has shown of {drive_model}"
                about = {"drive_model": drive_model, "hostname": hostname}
                return {**about, **would([text] if changed else [])}
            if changed:
                if old is None and len(world.accepted) >= ACCEPTED_MAX:
                    raise RefusedError(f"{ACCEPTED_MAX} proofs are accepted already")
                text = f"what {hostname} has shown is accepted: {said}"
                orders.note("admin", drive_model, text)
                orders.accept_proof(proof)
            stored = orders.executor.is_stored(ACCEPTED_PROOFS.prefix)
        return {
            "drive_model": drive_model, "hostname": hostname, "accepted": len(proof.shown),
            "changed": changed, "stored": stored,
            "note": f"what {hostname} has shown until now counts on all hosts; what it shows "
            "later does not",
            "next": "ceph wcache drive-model ls; take it back with `ceph wcache drive-model "
            "revoke-proof`",
        }

    def revoke_proof(
        self, drive_model: str, hostname: str, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`drive-model revoke-proof`: a host's word counts by the rule of two hosts again."""
        engine = self._engine
        with engine.deciding() as (world, orders):
            changed = _accepted(world, hostname, drive_model) is not None
            if dry_run:
                text = f"no longer accept what {hostname} has shown of {drive_model}"
                about = {"drive_model": drive_model, "hostname": hostname}
                return {**about, **would([text] if changed else [])}
            if changed:
                text = f"what {hostname} has shown is no longer accepted"
                orders.note("admin", drive_model, text)
                orders.revoke_proof(hostname, drive_model)
            stored = orders.executor.is_stored(ACCEPTED_PROOFS.prefix)
        return {
            "drive_model": drive_model, "hostname": hostname, "changed": changed,
            "stored": stored,
            "note": "hosts learn of it at their next report; drives that were changed stay changed",
            "next": "ceph wcache recommend; `ceph wcache rollback` takes back what was applied",
        }


def _trusted(world: World, drive_model: str) -> Optional[TrustedModel]:
    return next((item for item in world.trusted if item.drive_model == drive_model), None)


def _accepted(world: World, hostname: str, drive_model: str) -> Optional[AcceptedProof]:
    found = (
        item for item in world.accepted
        if (item.hostname, item.drive_model) == (hostname, drive_model)
    )
    return next(found, None)


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


def _reason(reason: str) -> str:
    """A reason in one line; MalformedError where there is none, or too much of it."""
    said = " ".join(reason.split())
    if not said:
        raise MalformedError(
            "a reason is missing", "say how you know: a data sheet, a test with pulled plugs"
        )
    if len(said) > REASON_CHARS_MAX:
        raise MalformedError(f"the reason is longer than {REASON_CHARS_MAX} characters")
    return said

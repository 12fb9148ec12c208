"""The use case behind `ceph wcache drive accept`: an admin takes a drive as it is.

What was there before is given up, on the mgr and in the probe's journal.  The drive itself
is not touched.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ..core.drive.journal import Acceptance
from ..core.errors import ConflictError, ConsentError, NotFoundError, NotReadyError
from ..core.fleet.disputes import Dispute
from ..core.text import command, typed
from ..engine.engine import Engine
from ..engine.under_way import busy
from ..engine.world import World
from .guards import would

SHOWN = "ceph wcache status  # shows it until the mons have it and the probe has dropped it"


class AcceptService:
    """Settles disputes by an admin's word; thread-safe by the engine's lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def accept(
        self, hostname: str, domain_id: str, accept_cost: bool = False, dry_run: bool = False
    ) -> Dict[str, Any]:
        """`drive accept`: give up what is owed or in dispute of one cache domain.

        A damaged journal entry that names no domain is accepted by its key, and so alone is one
        of another version: its probe knows what was there.
        """
        engine = self._engine
        with engine.deciding() as (world, orders):
            found = [
                item for item in world.disputes
                if item.hostname == hostname and domain_id in (
                    item.journal_key, item.journal_key if item.of_version else item.domain_id
                )
            ]
            pending = world.acceptances.get((hostname, domain_id))
            if not found and pending is not None:
                found = [Dispute(hostname, domain_id, "accepted before", False)]
            if not found:
                raise NotFoundError(
                    f"nothing to accept on {hostname} {domain_id[:120]}",
                    "see `ceph wcache status`",
                )
            why = "; ".join(item.why for item in found)
            told = {"hostname": hostname, "domain_id": domain_id, **would([
                f"give up the prior state, and change no drive: {item.why}" for item in found
            ])}
            if not accept_cost:
                raise ConsentError(
                    f"{why}. Look at the drive first (`ceph wcache drive ls`)", "accept_cost", told
                )
            if dry_run:
                return told
            if busy(hostname, world.runs, world.rollouts):
                raise ConflictError(f"something is under way on {hostname}", "wait for its end")
            keys = _keys(world, hostname, domain_id, found) or (pending.keys if pending else ())
            if keys:
                _require_probe(world, hostname, domain_id)
            orders.note("admin", f"{hostname} {domain_id}", f"accepted as it is: {why}")
            item = Acceptance(hostname, domain_id, keys, _owners(world, found))
            stored = orders.accept(item)
        engine.wake()
        return {
            "hostname": hostname, "domain_id": domain_id, "changed": True,
            "given_up": [item.why for item in found], "journal_entries": list(keys),
            "stored": stored,
            "next": command(SHOWN if keys or not stored else ""),
        }


def _keys(
    world: World, hostname: str, domain_id: str, found: List[Dispute]
) -> Tuple[str, ...]:
    """The journal entries to drop: the disputed ones, and those of what is given up."""
    report = world.reports.get(hostname)
    actions = {f"action/{item.action_id}" for item in found if item.action_id}
    owed = any(item.run_id for item in found)
    keys = {item.journal_key for item in found if item.journal_key}
    for note in report.journal if report is not None else ():
        lease = owed and note.key == f"lease/{domain_id}"
        if lease or note.key in actions:
            keys.add(note.key)
    return tuple(sorted(keys))


def _require_probe(world: World, hostname: str, domain_id: str) -> None:
    agent = world.agent(hostname)
    if agent is None or agent.silent(world.now_s):
        raise NotReadyError(
            f"the probe on {hostname} is not responding, and its journal has entries to drop",
            f"start it, or run {typed('wcache-probe accept {} --yes', domain_id)} there; first "
            + typed("ceph wcache agent rm {} --host-is-gone", hostname)
            + " where the host is gone for good",
        )


def _owners(world: World, found: List[Dispute]) -> Tuple[str, ...]:
    """The runs and plans that owe what is given up."""
    actions = {item.action_id for item in found if item.action_id}
    plans = {
        plan.plan_id for plan in world.plans
        if actions & {change.action_id for change in plan.changes}
    }
    return tuple(sorted(plans | {item.run_id for item in found if item.run_id}))

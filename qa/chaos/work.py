"""What a round has wcache do: begun, watched, stopped by its own command, taken back."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List

from harness import CommandError, HarnessError
from probes import Wcache

from .choices import AB, CAMPAIGN, MEMORY, ROLLOUT, Round
from .stage import CLASS, MIB, Stage

BEGIN_S = 25.0
UNDER_WAY = ("running", "rolling back")
HIGH_BYTES = 1280 * MIB
# Of the queue of a native drive; the guest's have other limits.
OPTIONS = ("nr_requests=64,96", "scheduler=bfq,mq-deadline")
# A refusal that ends when the cluster is well again.
NOT_YET = (
    "preconditions not met", "no answer", "not available", "does not answer",
    "nothing can be tried",
)


@dataclass
class Work:
    """One piece of work; without an id it was refused."""

    kind: str
    what: str
    work_id: str = ""
    refused: str = ""
    took_back: bool = field(default=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.what}" + (f" ({self.refused[:60]})" if self.refused else "")


def begin(stage: Stage, chosen: Round, place: int) -> Work:
    """Begin a piece of work of a round, as soon as it may begin."""
    kind, host, osd_id = chosen.works[place], chosen.hosts[place], chosen.osds[place]
    dice = random.Random(chosen.seed + place)
    native = [osd for each in stage.native for osd in each.osd_ids]
    if kind in (AB, MEMORY) and osd_id not in native:
        osd_id = dice.choice(native)
    work = Work(kind, {
        CAMPAIGN: f"of {host}", AB: f"of osd.{osd_id}", MEMORY: "of 2 OSDs", ROLLOUT: f"of {host}",
    }[kind])
    until_s = time.monotonic() + BEGIN_S
    while True:
        try:
            if kind == MEMORY:
                stage.wcache("memory status")  # or OSDs are read once in two minutes
            work.work_id = _begun(stage.wcache, kind, host, osd_id, dice)
            return work
        except HarnessError as refusal:
            work.refused = str(refusal).splitlines()[0]
            if time.monotonic() > until_s or not any(word in work.refused for word in NOT_YET):
                return work
            time.sleep(0.5)


def _begun(wcache: Wcache, kind: str, host: str, osd_id: int, dice: random.Random) -> str:
    seed = dice.randrange(1 << 20)
    if kind == CAMPAIGN:
        return str(wcache(
            "campaign start", scope=f"host:{host}", loads="depth1", drives_per_model=3, pairs=12,
            seed=seed, accept_cost=True,
        )["campaign_id"])
    if kind == AB:
        return str(wcache(
            "ab", option=dice.choice(OPTIONS), scope=f"osd.{osd_id}", loads="batch", pairs=12,
            seed=seed, accept_cost=True,
        )["campaign_id"])
    if kind == MEMORY:
        return str(wcache(
            "memory trial start", scope=f"class:{CLASS}", target_bytes=HIGH_BYTES, osds=2,
            period_s=3, accept_cost=True,
        )["trial_id"])
    planned = wcache("plan", scope=f"host:{host}")
    if not planned["plan_id"]:  # no cache mode is better there: divide memory in its place
        planned = wcache("plan", knob="memory")
    if not planned["plan_id"]:
        raise CommandError(f"nothing to change: {str(planned['left_alone'])[:200]}")
    wcache("apply", plan_id=planned["plan_id"])
    return str(planned["plan_id"])


def over(wcache: Wcache, work: Work) -> bool:
    """Whether nothing of it is under way."""
    if not work.work_id:
        return True
    return state(wcache, work)["status"] not in UNDER_WAY


def state(wcache: Wcache, work: Work) -> Dict[str, Any]:
    """What its own command shows."""
    if work.kind == MEMORY:
        return dict(wcache("memory trial show")["trial"])
    if work.kind == ROLLOUT:
        return dict(wcache("rollout show", plan_id=work.work_id))
    return wcache.campaign(work.work_id)


def stop(wcache: Wcache, work: Work) -> None:
    """Stop it by its command, where it goes on."""
    if over(wcache, work):
        return
    if work.kind in (MEMORY, ROLLOUT):
        wcache("rollout abort", plan_id=work.work_id)
    else:
        wcache("campaign stop", campaign_id=work.work_id)


def take_back(wcache: Wcache, work: Work) -> None:
    """Roll back what a plan has changed, once."""
    if work.kind == ROLLOUT and work.work_id and not work.took_back:
        wcache("rollback", plan_id=work.work_id)
        work.took_back = True


def still(wcache: Wcache, works: List[Work]) -> List[str]:
    """What goes on, with where it stands."""
    found = []
    for work in works:
        if work.work_id:
            shown = state(wcache, work)
            if shown["status"] in UNDER_WAY:
                found.append(f"{work} {work.work_id}: {str(shown)[:300]}")
    return found

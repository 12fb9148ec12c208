"""What must hold of a plan itself before it is applied, made to last or rolled back.

What a knob tries by itself, in place of a plan's first change, and the one way it is begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ...core.change import preconditions
from ...core.change.gate.gate_state import GateSettings
from ...core.change.gate.judge import WATCHED
from ...core.change.preconditions import ALWAYS, precondition_text
from ...core.change.rollout_state import Rollout, RolloutStatus
from ...core.config_database import same, values_of
from ...core.errors import (
    ConflictError,
    ConsentError,
    MalformedError,
    RefusedError,
    WcacheError,
)
from ...core.history import ADMIN
from ...core.jobs import Touched
from ...core.record import Precondition
from ...core.text import NOTHING, CommandLine, arguments, command, many, roughly, typed
from ...engine.orders import Orders
from ...engine.world import World
from ...knobs.knob import knobs_of
from ...knobs.registry import ALL
from ...options import Options
from ..guards import require_apart, require_clear, require_settled, require_store, require_thawed


def require_startable(world: World, rollout: Rollout) -> None:
    """Whatever a plan changes: that can be stored, nothing else is under way, nothing is owed."""
    require_store(world)
    require_apart(world, rollout)
    if rollout.throwaway and not world.options.throwaway_cluster:
        raise RefusedError(
            f"plan {rollout.plan_id} was made while this was a throwaway cluster",
            "make a new plan with `ceph wcache plan`",
        )
    require_settled(world, ((c.hostname, c.domain_id) for c in rollout.drive_changes))


def obstructed(world: World, rollout: Rollout, begin: CommandLine) -> Dict[str, str]:
    """Say what `apply` would be refused for now, whatever the plan, and what shows that.

    Where nothing is in the way, `begin` follows.
    """
    try:
        if rollout.status is RolloutStatus.PLANNED:
            require_startable(world, rollout)
    except WcacheError as refusal:
        shown_by = refusal.shown_by if isinstance(refusal, ConflictError) else NOTHING
        return {
            "in_the_way": refusal.line(), "next": shown_by or command("ceph wcache status"),
        }
    return {"in_the_way": "", "next": begin}


def require_unmoved(world: World, rollout: Rollout) -> None:
    """A plan is made from drives' states, verdicts and failure domains: they hold still."""
    found = preconditions.reasons(rollout, world.reports, world.cluster, world)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise ConflictError(
            f"plan {rollout.plan_id} no longer fits: {found[0]}{more}",
            "make a new one with `ceph wcache plan`",
        )


def hosts_taken_over(override: str) -> Tuple[str, ...]:
    """The hosts whose memory a plan takes over from cephadm, of `autotuner:HOST,...`."""
    hosts = []
    for name in filter(None, override.split(",")):
        owner, _, host = name.strip().partition(":")
        if owner != "autotuner" or not host:
            raise MalformedError(
                f"{name.strip()[:60]!r} is nothing that a plan overrides", "use autotuner:HOST"
            )
        hosts.append(host)
    return tuple(hosts)


def gate_settings(options: Options) -> GateSettings:
    """How a plan is judged; the canary for `canary_wait_s` at least: its blocks are longer."""
    block_s = options.gate_block_s
    return GateSettings(
        options.gate_by_load, block_s, max(block_s, options.canary_wait_s / WATCHED)
    )


def require_consent(rollout: Rollout, consent: bool) -> None:
    """What is acknowledged is on a cache device alone where an admin agreed to that by name."""
    shared = writeback_shared(rollout)
    if shared and not consent:
        more = f" (and {many(len(shared) - 1, 'other cache device')})" if shared[1:] else ""
        raise ConsentError(
            f"plan {rollout.plan_id} puts bcache into writeback: what OSDs acknowledge is then on "
            f"{shared[0]}{more} alone until it is written back, and all of them lose it at once if "
            "that device fails", "consent_turn_on", {},
        )


def only_to_last(rollout: Rollout) -> bool:
    """Whether a plan that was not begun changes nothing for now."""
    changed = any(not change.setting.only_lasts for change in rollout.changes)
    return rollout.status is RolloutStatus.PLANNED and not changed


def require_for_now(rollout: Rollout, persist: bool) -> None:
    """A plan whose drives are only to keep their modes does nothing without that consent."""
    if not persist and only_to_last(rollout):
        raise ConsentError(
            f"plan {rollout.plan_id} changes nothing for now: its drives are in the modes that "
            "they are to keep", "persist", {},
        )


def writeback_shared(rollout: Rollout) -> List[str]:
    """The cache devices, with who is behind them, that a plan puts before acknowledged data."""
    shared = (change.setting.needs_consent for change in rollout.changes)
    return list(dict.fromkeys(filter(None, shared)))


def anew(rollout: Rollout) -> CommandLine:
    """The command that plans again what a plan changes, where it is taken back or forgotten."""
    for one in (change.setting for change in rollout.changes):
        if one.assigned:
            return command("ceph wcache plan --knob={} --option={}", one.knob, one.assigned)
    first, *more = knobs_of(rollout)
    return command("ceph wcache plan --knob={}", ALL if more else first)


def to_begin(
    rollout: Rollout, persist: bool, trial: bool = False, need_not: Iterable[Precondition] = ()
) -> CommandLine:
    """The command that carries a plan out, whatever of these does not hold."""
    names = dict.fromkeys(item.name.lower() for item in need_not if item not in ALWAYS)
    return arguments((
        "ceph", "wcache", "apply", rollout.plan_id, *(["--trial"] if trial else []),
        *(["--persist"] if persist else []),
        *(["--consent-turn-on"] if writeback_shared(rollout) else []),
        *([f"--override={','.join(names)}"] if names else []),
    ))


def require_measured(rollout: Rollout) -> None:
    """Only what is measured before and after can be tried and taken back."""
    not_tried = rollout.changes[0].setting.not_tried
    if not_tried:
        raise RefusedError(not_tried, "apply it without --trial: it can be rolled back")
    if rollout.changes[0].load_point is None:
        raise RefusedError(
            f"nothing measures what {rollout.changes[0].name} would gain",
            "apply it without --trial: what is set is read back, and can be rolled back",
        )


def require_in_place(world: World, rollout: Rollout) -> None:
    """A plan is carried out once: asked for again, it must be under way or in place."""
    again = "make a new one with `ceph wcache plan`"
    if rollout.status is RolloutStatus.ROLLING_BACK:
        raise ConflictError(
            f"plan {rollout.plan_id} is being rolled back", f"wait for it, then {again}"
        )
    if rollout.status is RolloutStatus.PAUSED:
        raise ConflictError(
            f"plan {rollout.plan_id} is paused: {rollout.reason}",
            "go on with " + typed("ceph wcache rollout resume {}", rollout.plan_id),
        )
    if rollout.status not in (RolloutStatus.RUNNING, RolloutStatus.DONE):
        reason = f" ({rollout.reason})" if rollout.reason else ""
        raise ConflictError(
            f"plan {rollout.plan_id} is {rollout.status.value}{reason}, "
            "and a plan is applied once", again,
        )
    _require_set(world, rollout, again)
    for change in rollout.changes if rollout.status is RolloutStatus.DONE else ():
        if change.hostname not in world.reported_at_s or change.hostname not in world.reports:
            continue
        drives = world.drives_of(change)
        moved = (f"{why} since" for why in map(change.setting.unlike, drives) if why)
        gone = "" if drives else f"{', '.join(change.domain.dev_names)} is not there any more"
        why = gone or next(moved, "")
        if why:
            raise ConflictError(
                f"plan {rollout.plan_id} is done, and {change.hostname} {why}", again,
            )


def _require_set(world: World, rollout: Rollout, again: str) -> None:
    """What a plan has set in the config database stands there still, as last read."""
    if world.config_read_at_s is None or rollout.status is not RolloutStatus.DONE:
        return
    # of several changes of one value, the last one stands
    last = {edit.key: edit for change in rollout.config_changes for edit in change.edits}
    for edit, value in zip(last.values(), values_of(last.values(), world.config)):
        if not same(value, edit.value):
            raise ConflictError(
                f"plan {rollout.plan_id} is done, and {edit.who} {edit.name} is "
                f"{value or 'not set'} since", again,
            )


def require_latest(world: World, rollout: Rollout) -> None:
    """A later plan on the same drive keeps the state that this one left: it goes first.

    So does what a knob knows to rest on it.
    """
    mine = {key for change in rollout.touched for key in change.setting.touches}
    for other in world.plans:
        later = plan_order(other.plan_id) > plan_order(rollout.plan_id)
        theirs = {key for change in other.touched for key in change.setting.touches}
        if later and mine & theirs:
            raise ConflictError(
                f"plan {other.plan_id} changed drives of {rollout.plan_id} after it",
                f"roll back {other.plan_id} first",
            )
    against = world.objection(rollout, back=True)
    if against:
        raise ConflictError(f"plan {rollout.plan_id} is not rolled back: {against}")


def plan_order(plan_id: str) -> Tuple[int, str]:
    """Sort key: plans are numbered in the order they were made."""
    number = plan_id[1:]
    return (int(number) if number.isdecimal() else 0, plan_id)


class OwnTrial(NamedTuple):
    """A trial that is ready to begin.

    `words` are for the history, `would` says what it would change, a line each, and `touched` what
    it has for itself.  `start` begins it in the name of whom it is given, and may refuse.
    """

    trial_id: str
    words: str
    would: Sequence[str]
    seconds: float
    touched: Touched
    start: Callable[[World, Orders, str], None]


def begin_trial(trial: OwnTrial, world: World, orders: Orders, by: str = ADMIN) -> None:
    """Begin it by a look that holds, with nothing in common with what is not over.

    No precondition of the whole cluster may be missed; those of its OSDs `start` asks for.
    """
    require_thawed(world)
    require_store(world)
    require_clear(world, trial.touched)
    if world.cluster.blocking:
        cluster = world.cluster
        raise RefusedError(
            precondition_text(cluster.blocking, sick=cluster.sick), "wait until they are met"
        )
    trial.start(world, orders, by)


@dataclass(frozen=True)
class Steered:
    """What became of a plan that was to be steered; `trial_id` is a trial of its changes."""

    plan_id: str
    changed: bool
    status: Optional[RolloutStatus] = None
    reason: Optional[str] = None
    trial_id: Optional[str] = None
    text: Optional[str] = None
    undo: Optional[CommandLine] = None
    later: Optional[List[str]] = None
    dry_run: Optional[bool] = None
    would: Optional[List[str]] = None
    would_restore: Optional[List[str]] = None
    missed: Optional[List[Precondition]] = None


def begin_trial_of(
    rollout: Rollout, trial: OwnTrial, world: World, orders: Orders, by: str
) -> Steered:
    """Begin the trial of a plan's changes; the plan itself is not begun."""
    require_startable(world, rollout)
    require_unmoved(world, rollout)
    begin_trial(trial, world, orders, by)
    orders.note(by, rollout.plan_id, f"apply --trial requested: {trial.trial_id}, {trial.words}")
    return Steered(
        rollout.plan_id, True, rollout.status, trial_id=trial.trial_id,
        text=f"trial {trial.trial_id} of {rollout.plan_id} begins: {trial.words}, at most "
        f"{roughly(trial.seconds)}",
        undo=command("ceph wcache rollout abort {}", trial.trial_id),
    )


def trial_forecast(rollout: Rollout, trial: OwnTrial, world: World) -> Dict[str, Any]:
    """Say what it would change and for how long, and what would keep it."""
    return {
        "plan_id": rollout.plan_id, "changed": False, "status": rollout.status.value,
        "dry_run": True,
        "would_change": list(trial.would),
        "seconds_least": round(trial.seconds), "seconds_most": round(trial.seconds),
        "missed": [item.value for item in world.cluster.blocking],
        **obstructed(
            world, rollout, command("ceph wcache apply {} --trial", rollout.plan_id)
        ),
    }

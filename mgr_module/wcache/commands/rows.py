"""Rows of the table of commands, by what they are about; `commands.py` has the table."""

from __future__ import annotations

import json
from typing import Any, Mapping, Tuple

from ..core.change.preconditions import parse_override
from ..core.errors import MalformedError
from ..core.options.entries import parse_assignment
from ..core.text import amount, duration, many, typed
from ..knobs.registry import ALL, DEFAULT, KNOBS
from ..services.campaigns import BOUNDS
from ..services.guards import require_comparable
from ..services.plans.plan_guards import hosts_taken_over
from . import drives, options
from .drive_models import drive_models, drive_models_text, reason_in
from .drives import load_ls, load_text
from .evidence import evidence_text
from .plans import plan, plan_text, whole_plan_text
from .rollouts import forecast_text, plans, plans_text, rollout, rollout_text
from .tables import forecast
from .views import ACCEPT_COST, DRY_RUN, EACH, OF_CAMPAIGNS, SCOPE, TURN_ON, Command

OF_DRIVES: Tuple[Command, ...] = (
    Command(
        "wcache drive reload", (SCOPE,), "r",
        "Print a script that deactivates and activates LVs which device-mapper set up while the "
        "cache was off, so that they pass flushes",
        lambda s, v, a: drives.reload(v.world(), **a), drives.reload_text,
    ),
    Command(
        "wcache controller ls", (), "r",
        "List storage controllers as their vendors' tools report them, with advice",
        lambda s, v, a: drives.controllers(v.world()), drives.controllers_text,
    ),
    Command(
        "wcache option ls", (), "r",
        "List the options beside the cache mode that have an entry: where each lives, its values, "
        "and what drives have now; and what `ab` has found, by option and values, device class, "
        "drive model and load",
        lambda s, v, a: options.options(v.world()), options.render,
    ),
    Command(
        "wcache option show", ("name=option,type=CephString",), "r",
        "Show an option's entry: its values, how it is undone, what to mind about it",
        lambda s, v, a: options.one_option(**a), options.render_one,
    ),
    Command(
        "wcache ab",
        ("name=option,type=CephString", SCOPE,
         "name=loads,type=CephString,req=false", "name=pairs,type=CephInt,req=false",
         "name=drives_per_model,type=CephInt,req=false", "name=seed,type=CephInt,req=false",
         OF_CAMPAIGNS, ACCEPT_COST,
         "name=dirty_data,type=CephChoices,strings=clean|target|beyond,req=false",
         DRY_RUN), "rw",
        "Compare two values of an option, OPTION=A,B, by a campaign; arguments as for "
        "`campaign start`; with --dry-run say what it would cost",
        lambda s, v, a: s.campaigns.compare_values(**a), forecast, bounds=BOUNDS,
        fit=require_comparable,
    ),
    Command(
        "wcache drive-model ls", (), "r",
        "List drive models, with what is known of their power-loss protection and from where",
        lambda s, v, a: drive_models(v.world()), drive_models_text,
    ),
    Command(
        "wcache drive-model trust",
        ("name=drive_model,type=CephString", "name=reason,type=CephString,req=false",
         "name=hostname,type=CephString,req=false", "name=take_back,type=CephBool,req=false",
         DRY_RUN), "rw",
        "Vouch for a drive model's power-loss protection, which lifts WCACHE_FLUSH_TOO_FAST for "
        "it; with --hostname accept on all hosts what that one has shown of the model, by proofs "
        "and power cuts; --take-back takes either back",
        lambda s, v, a: s.drive_models.trust(**a),
        fit=lambda a: a.get("take_back") or reason_in(a.get("reason", "")),
    ),
)


LINES_MAX = 20


def _auto_status(data: Mapping[str, Any]) -> str:
    """Word what is allowed, what is spent, what it waits for and what it leaves alone."""
    modes = ", ".join(f"{name}: {mode}" for name, mode in data["modes"].items()) or "off"
    spent, limits = data["spent_today"], data["limits"]
    lines = [
        f"auto:       {modes}" + (" (persisting)" if data["persist"] else ""),
        f"windows:    {data['windows'] or 'any time'} (UTC), now "
        f"{'open' if data['window_open'] else 'closed'}",
        f"today:      {duration(spent['seconds'])} of {duration(limits['seconds_per_day'])}, "
        f"{amount(spent['bytes_written'])} of {amount(limits['bytes_per_day'])}, "
        f"{many(spent['changes'], 'change')} (each rollout: "
        f"{limits['rollout_harm_max_s']:.0f} s of extra wait at most)",
        f"under way:  {data['under_way'] or 'nothing'}",
        f"new drives: {data['new_drives']}",
        f"waiting:    {data['waiting'] or 'no'}",
    ]
    left = data["left_alone"]
    lines += [f"left alone: {line}" for line in left[:LINES_MAX]]
    if len(left) > LINES_MAX:
        lines.append(f"and {len(left) - LINES_MAX} more: see --format json")
    return "\n".join(lines)


OF_AUTOMATION: Tuple[Command, ...] = (
    Command(
        "wcache auto",
        ("name=mode,type=CephChoices,strings=off|recommend|apply",
         SCOPE, DRY_RUN), "rw",
        "Say what may be begun without an admin: nothing, measuring, or also applying; new drives "
        "of a known model are confirmed first; the options auto_* set windows and daily limits",
        lambda s, v, a: s.auto.turn(**a), terms=("cluster", "class"),
    ),
    Command(
        "wcache auto status", (), "r",
        "Show what is allowed, what was spent today, what it waits for and what it leaves alone",
        lambda s, v, a: s.auto.status(), _auto_status,
    ),
    Command(
        "wcache evidence export", (), "r",
        "Print what was found of this cluster's drive models, as a file for another cluster",
        lambda s, v, a: s.evidence.export(),
        lambda data: json.dumps(data, indent=1, allow_nan=False),
    ),
    Command(
        "wcache evidence import", (DRY_RUN,), "rw",
        "Keep what another cluster found (-i FILE): shown as foreign, it decides nothing",
        lambda s, v, a: s.evidence.take(**a),
    ),
    Command(
        "wcache evidence ls", (), "r", "List what was imported from other clusters",
        lambda s, v, a: s.evidence.ls(), evidence_text,
    ),
    Command(
        "wcache evidence rm", ("name=cluster,type=CephString", DRY_RUN), "rw",
        "Forget what was imported from a cluster",
        lambda s, v, a: s.evidence.drop(**a),
    ),
    Command(
        "wcache load ls", (), "r",
        "Show the hourly load of measured OSDs, by which bench results are weighted",
        lambda s, v, a: load_ls(
            v.profiles(), v.world().real_results, v.latencies()
        ), load_text,
    ),
)


def _require_assignable(arguments: Mapping[str, Any]) -> None:
    """An admin names an option and its value only to a knob that takes such words."""
    knob, takes = arguments.get("knob", DEFAULT.name), [one.name for one in KNOBS if one.assigns]
    if "option" in arguments and knob not in takes:
        raise MalformedError(
            f"--option names nothing of the knob {knob}",
            typed("ceph wcache plan --knob={} --option=OPTION=VALUE", takes[0]),
        )
    if "option" in arguments:
        parse_assignment(arguments["option"])
    hosts_taken_over(arguments.get("override", ""))


def _require_preconditions(arguments: Mapping[str, Any]) -> None:
    parse_override(arguments.get("override", ""))


_ID = "name=plan_id,type=CephString"
_OVERRIDE = "name=override,type=CephString,req=false"
_KNOBS = "|".join((*(knob.name for knob in KNOBS), ALL))
_PLAN = (
    SCOPE,
    TURN_ON,
    "name=persist,type=CephBool,req=false",
    _OVERRIDE,
    f"name=knob,type=CephChoices,strings={_KNOBS},req=false",
    "name=option,type=CephString,req=false",
    "name=without,type=CephString,req=false",
    DRY_RUN,
)

OF_PLANS: Tuple[Command, ...] = (
    Command(
        "wcache plan", _PLAN, "rw",
        "Print the ordered changes that carry out the recommendations, in waves; changes nothing. "
        "--scope=class:NAME, host:NAME, osd.N, model:PART or several, with commas between, narrows "
        "it; --without=DRIVE,DRIVE leaves drives out (HOST:sda, a drive's id, or osd.N); "
        "--knob=all: cache modes, then memory; --consent-turn-on may turn a cache on that is off: "
        "a drive that lies about flushes then loses writes at a power cut; --persist plans them to "
        "last: a power cycle no longer takes them back; --override=autotuner:HOST takes memory "
        "over from cephadm, which then divides it no more; "
        "--knob=options --option=cache_mode=MODE names bcache's mode; --dry-run keeps no plan",
        lambda s, v, a: s.plans.plan(**a), plan_text, fit=_require_assignable,
    ),
    Command(
        "wcache plan ls", (), "r",
        "List plans, how far each is, and the time left; and the last trial of memory",
        lambda s, v, a: plans(v.world()), plans_text,
    ),
    Command(
        "wcache plan show", (_ID, EACH), "r",
        "Show a plan, its progress, and what changes gained: many by their kind, with --all each",
        lambda s, v, a: plan(v.world(), v.knobs, a["plan_id"]), plan_text, whole_plan_text,
    ),
    Command(
        "wcache plan rm", (_ID, DRY_RUN), "rw",
        "Forget a plan that was never begun",
        lambda s, v, a: s.plans.remove(**a),
    ),
    Command(
        "wcache apply",
        (_ID, _OVERRIDE, "name=trial,type=CephBool,req=false",
         "name=persist,type=CephBool,req=false",
         TURN_ON, DRY_RUN), "rw",
        "Carry out a plan in waves, each step judged by clients' writes; --persist, and nothing "
        "else, makes changes that are judged well last: a power cycle no longer takes them back; "
        "--override skips named "
        "preconditions, each of which keeps clients from harm, as cluster_healthy or client_load "
        "(judge by benches); --trial makes the "
        "first change only and takes it back, or of a plan of memory leases its larger target to "
        "some OSDs; --consent-turn-on turns bcache's writeback on: what its cache device alone "
        "has is lost with it",
        lambda s, v, a: s.plans.apply(**a), forecast_text, fit=_require_preconditions,
    ),
    Command(
        "wcache rollback", ("name=plan_id,type=CephString,req=false", DRY_RUN), "rw",
        "Restore what was there before a plan (default: the last one applied)",
        lambda s, v, a: s.rollouts.rollback(**a), forecast_text,
    ),
    Command(
        "wcache rollout show", (_ID,), "r",
        "Show the waves of a plan, the step under way, its judgement, and the time left; or a "
        "trial of memory (t1)",
        lambda s, v, a: rollout(v.world(), **a), rollout_text,
    ),
    Command(
        "wcache rollout pause", (_ID, DRY_RUN), "rw",
        "Change nothing further until it is resumed; what was changed stays, and is not persisted",
        lambda s, v, a: s.rollouts.pause(**a),
    ),
    Command(
        "wcache rollout resume", (_ID, _OVERRIDE, DRY_RUN), "rw",
        "Go on with a paused plan; --override=gate_decided goes on though the gate is undecided, "
        "--override=client_load judges by benches",
        lambda s, v, a: s.rollouts.resume(**a), forecast_text, fit=_require_preconditions,
    ),
    Command(
        "wcache rollout abort", (_ID, DRY_RUN), "rw",
        "End a plan: the wave that is not judged goes back, what earlier ones changed stays; or a "
        "trial of memory (t1): its leases go back",
        lambda s, v, a: s.rollouts.abort(**a), forecast_text,
    ),
)

"""The commands about plans and their rollouts."""

from __future__ import annotations

from typing import Tuple

from ...knobs.registry import ALL, KNOBS
from .. import plan_tables, tables
from ..command import DRY_RUN, EACH, SCOPE, Command
from ..plan_views import plan, plans
from ..rollout import tables as rollout_tables
from ..rollout.views import rollout, rollouts

_ID = "name=plan_id,type=CephString"
_OVERRIDE = "name=override,type=CephString,req=false"
_KNOBS = "|".join((*(knob.name for knob in KNOBS), ALL))
_PLAN = (
    SCOPE,
    "name=consent_turn_on,type=CephBool,req=false",
    "name=persist,type=CephBool,req=false",
    "name=take_over,type=CephString,req=false",
    f"name=knob,type=CephChoices,strings={_KNOBS},req=false",
    "name=option,type=CephString,req=false",
    "name=without,type=CephString,req=false",
    DRY_RUN,
)

ROWS: Tuple[Command, ...] = (
    Command(
        "wcache plan", _PLAN, "rw",
        "Print the ordered changes that carry out the recommendations, in waves; changes nothing. "
        "--scope=class:NAME, host:NAME, osd.N, model:PART or several, with commas between, narrows "
        "it; --without=DRIVE,DRIVE leaves drives out (HOST:sda, a drive's id, or osd.N); "
        "--knob=all: cache modes, then memory; --consent-turn-on may turn a cache on that is off; "
        "--persist plans them to last over a power cycle, too; --take-over=HOST takes memory over "
        "from cephadm; "
        "--knob=options --option=cache_mode=MODE names bcache's mode; --dry-run keeps no plan",
        lambda s, v, a: s.plans.plan(**a), plan_tables.plan,
    ),
    Command(
        "wcache plan ls", (), "r", "List plans",
        lambda s, v, a: plans(v.world()), plan_tables.plans,
    ),
    Command(
        "wcache plan show", (_ID, EACH), "r",
        "Show a plan, its progress, and what changes gained: many by their kind, with --all each",
        lambda s, v, a: plan(v.world(), v.knobs, a["plan_id"]), plan_tables.plan, plan_tables.each,
    ),
    Command(
        "wcache plan rm", (_ID, DRY_RUN), "rw",
        "Forget a plan that was never begun",
        lambda s, v, a: s.plans.remove(**a), tables.would,
    ),
    Command(
        "wcache apply",
        (_ID, _OVERRIDE, "name=trial,type=CephBool,req=false",
         "name=persist,type=CephBool,req=false",
         "name=consent_writeback,type=CephBool,req=false", DRY_RUN), "rw",
        "Carry out a plan in waves, each step judged by clients' writes; --persist, and nothing "
        "else, makes changes that are judged well last over a power cycle; --override skips named "
        "preconditions, as cluster_healthy or client_load (judge by benches); --trial makes the "
        "first change only and takes it back, or of a plan of memory leases its larger target to "
        "some OSDs; --consent-writeback lets bcache acknowledge what its cache device alone has",
        lambda s, v, a: s.plans.apply(**a), rollout_tables.forecast,
    ),
    Command(
        "wcache rollback", ("name=plan_id,type=CephString,req=false", DRY_RUN), "rw",
        "Restore what was there before a plan (default: the last one applied)",
        lambda s, v, a: s.plans.rollback(**a), rollout_tables.forecast,
    ),
    Command(
        "wcache rollout ls", (), "r",
        "List the plans that were begun, and the time left; and the last trial of memory",
        lambda s, v, a: rollouts(v.world()), rollout_tables.rollouts,
    ),
    Command(
        "wcache rollout show", (_ID,), "r",
        "Show the waves of a plan, the step under way, its judgement, and the time left; or a "
        "trial of memory (t1)",
        lambda s, v, a: rollout(v.world(), **a), rollout_tables.rollout,
    ),
    Command(
        "wcache rollout pause", (_ID, DRY_RUN), "rw",
        "Change nothing further until it is resumed; what was changed stays, and is not persisted",
        lambda s, v, a: s.rollouts.pause(**a), tables.would,
    ),
    Command(
        "wcache rollout resume", (_ID, _OVERRIDE, DRY_RUN), "rw",
        "Go on with a paused plan; --override=gate_decided goes on though the gate is undecided, "
        "--override=client_load judges by benches",
        lambda s, v, a: s.rollouts.resume(**a), rollout_tables.forecast,
    ),
    Command(
        "wcache rollout abort", (_ID, DRY_RUN), "rw",
        "End a plan: the wave that is not judged goes back, what earlier ones changed stays; or a "
        "trial of memory (t1): its leases go back",
        lambda s, v, a: s.rollouts.abort(**a), rollout_tables.forecast,
    ),
)

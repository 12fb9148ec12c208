"""The commands about drive models and controllers: rows of the table."""

from __future__ import annotations

from typing import Tuple

from ..command import DRY_RUN, SCOPE, Command
from ..drives import controllers, options, reload
from ..drives.models import drive_models, render
from ..tables import forecast, would

ROWS: Tuple[Command, ...] = (
    Command(
        "wcache drive reload", (SCOPE,), "r",
        "Print a script that loads volumes of OSDs on pinned disks anew, where they were loaded "
        "while something else had turned the cache off",
        lambda s, v, a: reload.reload(v.world(), **a), reload.render,
    ),
    Command(
        "wcache controller ls", (), "r",
        "List storage controllers as their vendors' tools report them, with advice",
        lambda s, v, a: controllers.controllers(v.world()), controllers.render,
    ),
    Command(
        "wcache option ls", (), "r",
        "List the options beside the cache mode that have an entry: where each lives, its values, "
        "and what drives have now",
        lambda s, v, a: options.options(v.world()), options.render,
    ),
    Command(
        "wcache option show", ("name=option,type=CephString",), "r",
        "Show an option's entry: its values, how it is undone, what to mind about it",
        lambda s, v, a: options.one_option(**a), options.render_one,
    ),
    Command(
        "wcache option verdicts", (), "r",
        "Show what `ab` has found, by option and values, device class, drive model and load",
        lambda s, v, a: options.verdicts(v.world()), options.render_verdicts,
    ),
    Command(
        "wcache ab",
        ("name=option,type=CephString", SCOPE,
         "name=loads,type=CephString,req=false", "name=pairs,type=CephInt,req=false",
         "name=drives_per_model,type=CephInt,req=false", "name=seed,type=CephInt,req=false",
         "name=force,type=CephBool,req=false", "name=accept_cost,type=CephBool,req=false",
         "name=dirty_data,type=CephChoices,strings=clean|target|beyond,req=false",
         DRY_RUN), "rw",
        "Compare two values of an option, OPTION=A,B, by a campaign; arguments as for "
        "`campaign start`; with --dry-run say what it would cost",
        lambda s, v, a: s.campaigns.compare_values(**a), forecast,
    ),
    Command(
        "wcache drive-model ls", (), "r",
        "List drive models, with what is known of their power-loss protection and from where",
        lambda s, v, a: drive_models(v.world()), render,
    ),
    Command(
        "wcache drive-model trust-plp",
        ("name=drive_model,type=CephString", "name=reason,type=CephString", DRY_RUN), "rw",
        "Vouch for a drive model's power-loss protection: lifts WCACHE_FLUSH_TOO_FAST for it",
        lambda s, v, a: s.drive_models.trust_plp(**a), would,
    ),
    Command(
        "wcache drive-model distrust-plp", ("name=drive_model,type=CephString", DRY_RUN), "rw",
        "No longer vouch for a drive model's power-loss protection",
        lambda s, v, a: s.drive_models.distrust_plp(**a), would,
    ),
    Command(
        "wcache drive-model accept-proof",
        ("name=drive_model,type=CephString", "name=hostname,type=CephString",
         "name=reason,type=CephString", DRY_RUN), "rw",
        "Accept on all hosts what one host has shown of a drive model, by proofs and power cuts",
        lambda s, v, a: s.drive_models.accept_proof(**a), would,
    ),
    Command(
        "wcache drive-model revoke-proof",
        ("name=drive_model,type=CephString", "name=hostname,type=CephString", DRY_RUN), "rw",
        "Take back an accepted proof: it counts on its own host, and on others once two hosts "
        "have it",
        lambda s, v, a: s.drive_models.revoke_proof(**a), would,
    ),
)

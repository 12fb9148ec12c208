"""The commands about automation and about verdicts of other clusters: rows of the table."""

from __future__ import annotations

from typing import Tuple

from ..automation import auto, evidence
from ..command import DEVICE_CLASS, DRY_RUN, Command
from ..tables import would

ROWS: Tuple[Command, ...] = (
    Command(
        "wcache auto",
        ("name=mode,type=CephChoices,strings=off|recommend|apply",
         DEVICE_CLASS, DRY_RUN), "rw",
        "Say what may be begun without an admin: nothing, measuring, or also applying; new drives "
        "of a known model are confirmed first; the options auto_* set windows and daily limits",
        lambda s, v, a: s.auto.turn(
            a["mode"], a.get("device_class"), bool(a.get("dry_run"))
        ), would,
    ),
    Command(
        "wcache auto status", (), "r",
        "Show what is allowed, what was spent today, what it waits for and what it leaves alone",
        lambda s, v, a: s.auto.status(), auto.status,
    ),
    Command(
        "wcache evidence export", (), "r",
        "Print what was found of this cluster's drive models, as a file for another cluster",
        lambda s, v, a: s.evidence.export(), evidence.as_file,
    ),
    Command(
        "wcache evidence import", (DRY_RUN,), "rw",
        "Keep what another cluster found (-i FILE): shown as foreign, it decides nothing",
        lambda s, v, a: s.evidence.take(a["inbuf"], bool(a.get("dry_run"))), would,
    ),
    Command(
        "wcache evidence ls", (), "r", "List what was imported from other clusters",
        lambda s, v, a: s.evidence.ls(), evidence.ls,
    ),
    Command(
        "wcache evidence rm", ("name=cluster,type=CephString", DRY_RUN), "rw",
        "Forget what was imported from a cluster",
        lambda s, v, a: s.evidence.drop(a["cluster"], bool(a.get("dry_run"))), would,
    ),
)
# These read a file (-i FILE).
READS_FILE = ("wcache evidence import",)

"""The commands about osd_memory_target: rows of the table."""

from __future__ import annotations

from typing import Tuple

from ....commands.command import EACH, SCOPE, Command
from ....commands.service import Service
from ....commands.tables import lines_of
from ..knob import MEMORY
from . import tables as memory_tables
from .service import MemoryService


def _service(service: Service) -> MemoryService:
    found: MemoryService = service.behind(MEMORY.name)
    return found


ROWS: Tuple[Command, ...] = (
    Command(
        "wcache memory status", (SCOPE, EACH), "r",
        "Show hosts' memory, each OSD's target with its source, hit ratios, and age bins; many "
        "hosts and OSDs are listed with --all, or those of a scope, as host:NAME",
        lambda s, v, a: _service(s).status(a.get("scope"), whole=bool(a.get("all"))),
        memory_tables.status, memory_tables.whole_status,
    ),
    Command(
        "wcache memory recommend", (SCOPE,), "r",
        "Recommend osd_memory_target per host and device class, and say what it would gain",
        lambda s, v, a: _service(s).recommend(a.get("scope")), memory_tables.recommend,
    ),
    Command(
        "wcache memory trial start",
        ("name=scope,type=CephString", "name=target_bytes,type=CephInt,req=false",
         "name=osds,type=CephInt,req=false", "name=period_s,type=CephInt,req=false",
         "name=blocks,type=CephInt,req=false", "name=accept_cost,type=CephBool,req=false"), "rw",
        "Try a larger target on some OSDs of a device class, class:NAME, by a lease, as "
        "`apply --trial` does for a plan; without --accept-cost, say what it would take",
        lambda s, v, a: _service(s).trial(**a), memory_tables.trial,
    ),
    Command(
        "wcache memory trial show", (), "r", "Show the last trial and the results of all trials",
        lambda s, v, a: _service(s).trial_show(), memory_tables.trial_show,
    ),
    Command(
        "wcache memory trial stop", (), "rw",
        "End a trial and take its leases back, as `rollout abort` does",
        lambda s, v, a: _service(s).trial_stop(), lines_of,
    ),
)

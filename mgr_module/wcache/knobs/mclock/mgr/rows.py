"""The commands about mClock's capacities: rows of the table."""

from __future__ import annotations

from typing import Tuple

from ....commands.command import DEVICE_CLASS, DRY_RUN, Command
from ....commands.tables import would
from ....services.service import Service
from ..knob import MCLOCK
from . import tables
from .service import MclockService

_CAPACITY = (
    "name=scope,type=CephString,req=false",
    "name=calls,type=CephInt,req=false",
    "name=drives_per_model,type=CephInt,req=false",
    "name=force,type=CephBool,req=false",
)


def _service(service: Service) -> MclockService:
    found: MclockService = service.behind(MCLOCK.name)
    return found


ROWS: Tuple[Command, ...] = (
    Command(
        "wcache mclock forecast", _CAPACITY, "r",
        "Say what measuring OSDs' capacities for mClock would cost: time, bytes, OSDs; arguments "
        "as for `mclock measure`: an alias of `campaign forecast --loads=capacity`, which goes "
        "with the next release",
        lambda s, v, a: _service(s).forecast(**a), tables.forecast,
    ),
    Command(
        "wcache mclock measure", (*_CAPACITY, "name=accept_cost,type=CephBool,req=false"), "rw",
        "Measure capacities (IOPS at 4 KiB) by the OSDs' own recipe, on sampled OSDs of scope "
        "cluster, class:NAME, host:NAME or osd.N, in the cache mode they are in; --accept-cost "
        "accepts what `mclock forecast` says; --force measures on an unhealthy cluster: an "
        "alias of `campaign start --loads=capacity`, which goes with the next release",
        lambda s, v, a: _service(s).measure(**a), tables.forecast,
    ),
    Command(
        "wcache mclock stop", (DRY_RUN,), "rw",
        "End a measurement after the bench call under way",
        lambda s, v, a: _service(s).stop(bool(a.get("dry_run"))), would,
    ),
    Command(
        "wcache mclock show", (), "r",
        "Show measured capacities with their intervals, and what was set",
        lambda s, v, a: _service(s).show(), tables.show,
    ),
    Command(
        "wcache mclock recommend", (DEVICE_CLASS,), "r",
        "Recommend osd_mclock_max_capacity_iops_* per device class, with the commands",
        lambda s, v, a: _service(s).recommend(a.get("device_class")), tables.recommend,
    ),
    Command(
        "wcache mclock apply", (DEVICE_CLASS, DRY_RUN), "rw",
        "Make the changes that `mclock recommend` shows in the config database: an alias of `plan "
        "--knob=mclock` and `apply`, which goes with the next release",
        lambda s, v, a: _service(s).with_plans(s.plans).apply(
            a.get("device_class"), bool(a.get("dry_run"))
        ),
        tables.applied,
    ),
    Command(
        "wcache mclock rollback", ("name=change_id,type=CephString,req=false", DRY_RUN), "rw",
        "Bring back the capacities from before an apply (default: the last one): an alias of "
        "`rollback`, which goes with the next release",
        lambda s, v, a: _service(s).with_plans(s.plans).rollback(
            a.get("change_id"), bool(a.get("dry_run"))
        ),
        tables.rolled_back,
    ),
)

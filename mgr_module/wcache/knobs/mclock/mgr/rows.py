"""The commands about mClock's capacities: rows of the table."""

from __future__ import annotations

from typing import Tuple

from ....commands.command import SCOPE, Command
from ....commands.service import Service
from ..knob import MCLOCK
from . import tables
from .service import MclockService


def _service(service: Service) -> MclockService:
    found: MclockService = service.behind(MCLOCK.name)
    return found


ROWS: Tuple[Command, ...] = (
    Command(
        "wcache mclock show", (), "r",
        "Show measured capacities with their intervals, and what was set",
        lambda s, v, a: _service(s).show(), tables.show,
    ),
    Command(
        "wcache mclock recommend", (SCOPE,), "r",
        "Recommend osd_mclock_max_capacity_iops_* per device class, with the commands",
        lambda s, v, a: _service(s).recommend(a.get("scope")), tables.recommend,
    ),
)

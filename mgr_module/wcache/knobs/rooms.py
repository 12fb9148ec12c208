"""What of each knob runs in a mgr: its planner, and its rows of the table of commands.

A knob of the registry has both in `mgr/room.py` of its folder, as `make` and `ROWS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Dict, List, Tuple

from ..commands.views import Command
from ..services.plans.planners import Parts, Planner
from .registry import KNOBS


def _rooms() -> List[Tuple[str, Any]]:
    return [(one.name, import_module(f"{__package__}.{one.name}.mgr.room")) for one in KNOBS]


def make_all(parts: Parts) -> Dict[str, Planner]:
    """Make the planner of each knob, by the knob's name."""
    return {name: room.make(parts) for name, room in _rooms()}


ROWS: Tuple[Command, ...] = tuple(row for _, room in _rooms() for row in room.ROWS)

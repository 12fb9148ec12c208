"""Which machine carries out a run."""

from __future__ import annotations

from typing import List

from ..run import RunMachine
from ..run_state import RunState
from ..slots import Periods
from .capacity_run import CapacityRun, benches_capacity
from .run import ObservingRun


def machine_of(state: RunState, periods: List[Periods], epoch: str) -> RunMachine:
    """The machine that carries out a stored run."""
    if benches_capacity(state.spec):
        return CapacityRun(state, periods, epoch)
    return (ObservingRun if state.spec.observes else RunMachine)(state, periods, epoch)

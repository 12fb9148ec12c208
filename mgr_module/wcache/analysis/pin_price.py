"""The price of the pin in write through: flushes with nothing to write, as the kernel saw them."""

from __future__ import annotations

from typing import Optional, Sequence

from ..core.model import KernelView
from ..core.record import Pair, Record
from .decision import mean_flush_us


def pin_price_us(record: Record, pairs: Sequence[Pair]) -> Optional[float]:
    """Mean time of one no-op flush in us; None where none was sent, or too few were counted."""
    periods = [pair.write_through for pair in pairs]
    views = {state.kernel_view for period in periods for state in period.state_after}
    if views != {KernelView.WRITE_BACK}:
        return None  # where the kernel's view is write through, it sends none
    return mean_flush_us(periods)

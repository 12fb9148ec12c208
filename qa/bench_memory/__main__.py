"""`make bench-memory [SEED=1] [FORMAT=json]`: age bins against truth.

One trace of accesses goes through an LRU of one size.  From the ages of what it holds at the
end the product's own code predicts the misses with smaller targets.  The same trace then goes
through an LRU of each of these sizes, which says how many there are.  Nothing is asserted.
"""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import asdict, dataclass
from typing import Iterator, List

from wcache.core.text import amount, table
from wcache.knobs.memory.curve import CACHE_SHARE

from bench_memory.lru import ONODE_BYTES, TRACES, Access, predicted, run, target_of

OBJECTS, PER_S = 40_000, 1000
WARM_S, SECONDS = 120.0, 360.0
# The cache that is watched, as a share of all objects.
SHARE = 0.6


@dataclass(frozen=True)
class Row:
    """One target of one trace: misses per second as the bins predict them, and as counted."""

    load: str
    target_bytes: int
    low_per_s: float
    predicted_per_s: float
    high_per_s: float
    measured_per_s: float


def rows_of(name: str, seed: int, objects: int = OBJECTS, seconds: float = SECONDS) -> List[Row]:
    """The bins' prediction for each target that they know of, beside the truth."""

    def trace() -> Iterator[Access]:
        return TRACES[name](random.Random(seed), objects, PER_S, seconds)

    size = int(SHARE * objects)
    watched = run(trace(), size, WARM_S, seconds)
    curve = predicted(watched, size)
    found = []
    for point in curve.points:
        less = (target_of(size) - point.target_bytes) * CACHE_SHARE / ONODE_BYTES
        if round(less) >= size:
            continue
        truth = run(trace(), size - round(less), WARM_S, seconds)
        found.append(Row(
            name, point.target_bytes, point.low, point.misses, point.high, truth.misses_per_s
        ))
    return found


def plain(rows: List[Row]) -> str:
    """As a table."""
    return table(
        ("LOAD", "TARGET", "PREDICTED MISSES", "FROM", "TO", "MEASURED", "MEASURED/PREDICTED"),
        [
            (
                r.load, amount(r.target_bytes), f"{r.predicted_per_s:.0f}/s",
                f"{r.low_per_s:.0f}", f"{r.high_per_s:.0f}", f"{r.measured_per_s:.0f}/s",
                f"{r.measured_per_s / r.predicted_per_s:.2f}" if r.predicted_per_s else "-",
            ) for r in rows
        ],
    )


def main() -> int:
    """Predict, measure, print; returns the exit code."""
    seed = int(os.environ.get("SEED") or 1)
    rows = [item for name in TRACES for item in rows_of(name, seed)]
    as_json = os.environ.get("FORMAT") == "json"
    print(json.dumps([asdict(item) for item in rows], indent=2) if as_json else plain(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether memory grows from round to round: a line through it, and how sure its slope is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from scipy.special import stdtrit

FROM_ROUND = 10  # what is before is warming up
CONFIDENCE = 0.95
FLAT_SHARE = 0.002  # of the mean, each round
FEWEST = 4


@dataclass(frozen=True)
class Slope:
    """Growth each round as a share of the mean, with its interval."""

    share: float
    low: float
    high: float
    mean_kib: float
    rounds: int

    @property
    def flat(self) -> bool:
        """Whether it may be nothing, or is less than matters."""
        return self.low <= 0.0 <= self.high or self.share < FLAT_SHARE

    def __str__(self) -> str:
        word = "flat" if self.flat else "GROWS"
        return (
            f"{word}: {self.share:+.2%} a round ({self.low:+.2%} to {self.high:+.2%}) of "
            f"{self.mean_kib / 1024:.0f} MiB, {self.rounds} rounds"
        )


def slope(points: Sequence[Tuple[int, int]]) -> Optional[Slope]:
    """The least squares line through (round, KiB); None for too few."""
    count = len(points)
    if count < FEWEST:
        return None
    middle = sum(x for x, _ in points) / count
    mean = sum(y for _, y in points) / count
    spread = sum((x - middle) ** 2 for x, _ in points)
    each = sum((x - middle) * (y - mean) for x, y in points) / spread
    left = sum((y - mean - each * (x - middle)) ** 2 for x, y in points)
    half = float(stdtrit(count - 2, (1 + CONFIDENCE) / 2)) * math.sqrt(left / (count - 2) / spread)
    return Slope(each / mean, (each - half) / mean, (each + half) / mean, mean, count)


def rss_kib(pid: int) -> int:
    """What a process has of the machine's memory; 0 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return next((int(x.split()[1]) for x in text.splitlines() if x.startswith("VmRSS:")), 0)


class Series:
    """Who had how much at the end of which round."""

    def __init__(self) -> None:
        self.points: Dict[str, List[Tuple[int, int]]] = {}

    def add(self, number: int, kib: Dict[str, int]) -> None:
        """What there was after a round."""
        for who, amount in kib.items():
            if amount:
                self.points.setdefault(who, []).append((number, amount))

    def judged(self, from_round: int = FROM_ROUND) -> Dict[str, Optional[Slope]]:
        """By who, the slope from that round on."""
        return {
            who: slope([p for p in points if p[0] >= from_round])
            for who, points in sorted(self.points.items())
        }

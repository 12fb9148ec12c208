"""How often somebody may do something: at a rate, after a first burst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict

# So many may be remembered at once; full buckets are forgotten first.
BUCKETS_MAX = 20_000


@dataclass
class _Bucket:
    left: float
    at_s: float


class TokenBuckets:
    """A bucket for each name.  No clock: the caller gives the time."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._buckets: Dict[str, _Bucket] = {}

    def take(self, name: str, cost: float, per_s: float, now_s: float) -> bool:
        """Take `cost` tokens; False, and none taken, where there are too few.

        `per_s` come in each second, up to `most`.
        """
        bucket = self._buckets.get(name)
        if bucket is None:
            self._make_room(per_s, now_s)
            bucket = self._buckets[name] = _Bucket(self._most, now_s)
        since_s = max(0.0, now_s - bucket.at_s)
        bucket.left, bucket.at_s = min(self._most, bucket.left + since_s * per_s), now_s
        if bucket.left < cost:
            return False
        bucket.left -= cost
        return True

    def _make_room(self, per_s: float, now_s: float) -> None:
        if len(self._buckets) < BUCKETS_MAX:
            return
        full_s = self._most / per_s
        kept = {n: b for n, b in self._buckets.items() if now_s - b.at_s < full_s}
        self._buckets = kept if len(kept) < BUCKETS_MAX else {}

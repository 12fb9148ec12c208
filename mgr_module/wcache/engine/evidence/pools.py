"""Keeps the pooled estimate of each drive model up with the results.

Pools are computed by the analysis child and kept in memory: what a mgr takes up after a
failover is computed anew from the stored results, in milliseconds a pool.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ...core import codec
from ...core.codec import one_line
from ...core.model import Verdict
from ...core.record import RESULT_FORMAT, RESULT_VERSION
from ...core.verdict.pooling import POOL_DRIVES_MIN, Pool, poolable
from ...core.verdict.recommend import PoolKey, drive_verdict, groups
from ...core.verdict.repeated import Standing
from ...core.verdict.result import Result
from .results import number

TRIES_MAX = 3


Answered = Callable[[Optional[Dict[str, object]], str], None]
PoolOp = Callable[[Sequence[Mapping[str, Any]], Answered], None]
"""Pools results of like drives; calls `done(answer, error)` once, from any thread."""


class Pools:
    """Pools by kind of drive, load point and what was compared."""

    def __init__(self, pool: PoolOp) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._pools: Dict[PoolKey, Pool] = {}
        # what was asked last: its record ids, and how often it failed
        self._asked: Dict[PoolKey, Tuple[Tuple[str, ...], int]] = {}

    def known(self) -> Dict[PoolKey, Pool]:
        """The pools there are; one that no longer fits its results is not used."""
        with self._lock:
            return dict(self._pools)

    def clear(self) -> None:
        """Forget every pool; `refresh` has them computed anew."""
        with self._lock:
            self._pools.clear()
            self._asked.clear()

    def refresh(self, results: Sequence[Result]) -> None:
        """Have computed what is missing for these results; forget what they no longer hold."""
        wanted = {key: _poolable(found) for key, found in groups(results).items()}
        wanted = {key: found for key, found in wanted.items() if len(found) >= POOL_DRIVES_MIN}
        with self._lock:
            self._pools = {key: pool for key, pool in self._pools.items() if key in wanted}
            self._asked = {key: asked for key, asked in self._asked.items() if key in wanted}
        for key in sorted(wanted, key=str):
            self._ask(key, wanted[key])

    def _ask(self, key: PoolKey, found: List[Standing]) -> None:
        ids = tuple(sorted(drive_verdict(result).record_id for result in found))
        with self._lock:
            asked, tries = self._asked.get(key, ((), 0))
            tries = tries if asked == ids else 0
            pool = self._pools.get(key)
            settled = pool is not None and pool.record_ids == ids and not pool.refused
            waiting = asked == ids and (pool is None or pool.record_ids != ids)
            if settled or waiting or tries >= TRIES_MAX:
                return
            self._asked[key] = (ids, tries + 1)
            self._pools.pop(key, None)

        def done(answer: Optional[Dict[str, object]], error: str) -> None:
            made = Pool(ids, refused=one_line(error, 300)) if answer is None else of(ids, answer)
            with self._lock:
                if self._asked.get(key, ((), 0))[0] == ids:
                    self._pools[key] = made

        self._pool([item(result) for result in found], done)


def _poolable(found: Sequence[Standing]) -> List[Standing]:
    by_id = {drive_verdict(result).record_id: result for result in found}
    kept = poolable([drive_verdict(result) for result in found])
    return [by_id[drive.record_id] for drive in kept]


def item(result: Result) -> Dict[str, Any]:
    """A result as the child's `pool` takes it: what `experiment` answered, in part."""
    term = result.pool_term
    assert term is not None  # poolable() kept it  # noqa: S101
    trial = result.option
    return {
        **({"compared": codec.to_plain(trial)} if trial is not None else {}),
        "format": RESULT_FORMAT, "version": RESULT_VERSION, "forced": result.forced,
        "pairs": result.pairs, "log_ratio": term.log_ratio, "pair_sd": term.pair_sd,
        "tail_log_ratio": term.tail_log_ratio, "tail_pair_sd": term.tail_pair_sd,
        "verdict": result.verdict.value,
        "subject": {"domain_id": result.drive_name},
        "alike": {
            **({"meanwhile": "slow operations"} if term.slow_ops else {}),
            **({"compared": str(trial)} if trial is not None else {}),
            "load_point": result.load_point.value,
            "drive_model": str(result.drive_model),
            "transport": term.transport.value,
            "role": term.role.value,
            "apart_from_block": term.apart,
            "device_class": result.device_class,
            "ceph_release": term.ceph_release,
            "rotational": term.rotational,
            "simulated": result.simulated,
            "throwaway": result.throwaway,
        },
    }


def of(record_ids: Tuple[str, ...], answer: Mapping[str, object]) -> Pool:
    """The child's answer; what is no number becomes None, no verdict `insufficient data`."""
    try:
        verdict = Verdict(answer.get("verdict"))
    except ValueError:
        verdict = Verdict.INSUFFICIENT
    odd, drives = answer.get("odd_drives"), answer.get("drives")
    return Pool(
        record_ids, verdict, one_line(str(answer.get("why", "")), 500),
        drives if isinstance(drives, int) else len(record_ids),
        number(answer.get("ratio")), number(answer.get("ratio_low")),
        number(answer.get("ratio_high")), number(answer.get("next_low")),
        number(answer.get("next_high")),
        tuple(one_line(str(name), 200) for name in odd[:64]) if isinstance(odd, list) else (),
    )

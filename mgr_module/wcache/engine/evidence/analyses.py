"""Has records analysed in the child, and keeps what came of each and the pools of them.

Keeps the pooled estimate of each drive model up with the results.

Pools are computed by the analysis child and kept in memory: what a mgr takes up after a
failover is computed anew from the stored results, in milliseconds a pool.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
)

from ...core import codec, events
from ...core.codec import one_line
from ...core.drive.proofs import AcceptedProof, AcceptedProofs
from ...core.model import Verdict
from ...core.record import RESULT_FORMAT, RESULT_VERSION, Record
from ...core.verdict.foreign import Evidence
from ...core.verdict.pooling import POOL_DRIVES_MIN, Pool, poolable
from ...core.verdict.recommend import PoolKey, groups
from ...core.verdict.repeated import Standing
from ...core.verdict.result import Result, TrustedModel, TrustedModels, lifted
from ..storing.archive import ACCEPTED_PROOFS, FOREIGN, RECORD, RESULT, TRUSTED, Archive
from .results import BEING_ANALYSED, not_analysed, number, of_record

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
        wanted = {key: poolable(found) for key, found in groups(results).items()}
        wanted = {key: found for key, found in wanted.items() if len(found) >= POOL_DRIVES_MIN}
        with self._lock:
            self._pools = {key: pool for key, pool in self._pools.items() if key in wanted}
            self._asked = {key: asked for key, asked in self._asked.items() if key in wanted}
        for key in sorted(wanted, key=str):
            self._ask(key, wanted[key])

    def _ask(self, key: PoolKey, found: List[Standing]) -> None:
        ids = tuple(result.weighed_id for result in found)
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


def item(result: Result) -> Dict[str, Any]:
    """A result as the child's `pool` takes it: what `experiment` answered, in part.

    What else drives must have in common `groups` and `poolable` have asked.
    """
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
            "load_point": result.load_point.value, "simulated": result.simulated,
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


# How often a record that could not be analysed is tried again.
RETRY_S = 10.0
# How often a pool that failed is tried again.
POOLS_EVERY_S = 60.0

_Answer = Optional[Dict[str, object]]


class Analysis(Protocol):
    """Port: the statistics, in a child process."""

    def start(self, record: Record, done: Answered) -> None:
        """Analyse; calls `done(result, error)` once, from another thread."""

    def pool(self, items: Sequence[Mapping[str, Any]], done: Answered) -> None:
        """Pool results of like drives; calls `done(answer, error)` once, from any thread."""


class Analyses:
    """The results of all records; `error` says why nobody can analyse at the moment.

    Guarded by the engine's lock; `wake` is called when there is something new to look at.
    """

    def __init__(
        self, *, analysis: Analysis, archive: Archive, wake: Callable[[], None],
        log: logging.Logger,
    ) -> None:
        self._analysis = analysis
        self._archive = archive
        self._wake = wake
        self._log = log
        self.pools = Pools(analysis.pool)
        # what admins vouch for: drive models, and what a host has shown of one
        self.trusted: Tuple[TrustedModel, ...] = ()
        self.accepted: Tuple[AcceptedProof, ...] = ()
        self._pools_at_s = 0.0
        self._retry_at_s = 0.0
        self._retries = 0
        # the last look at an experiment under way: how many pairs it saw, and its answer
        self._looks: Dict[str, Tuple[int, Dict[str, object]]] = {}
        self.asked: Set[str] = set()  # ids of records that are with the child
        self._answers: queue.SimpleQueue[Tuple[Record, _Answer, str]] = queue.SimpleQueue()
        self.results: Dict[str, Result] = {}
        # the newest file of each other cluster, by its fsid
        self.foreign: Dict[str, Evidence] = {}
        self.error = ""

    def load(self) -> None:
        """Take up the stored results, and what was imported."""
        self.results.update(self._archive.all(RESULT))
        self.foreign = self._archive.all(FOREIGN)
        self.trusted = (self._archive.get(TRUSTED) or TrustedModels()).items
        self.accepted = (self._archive.get(ACCEPTED_PROOFS) or AcceptedProofs()).items

    def trust_changed(self) -> None:
        """Pool anew: what a drive is flagged for has changed."""
        self.pools.clear()
        self._pools_at_s = 0.0
        self._wake()

    def catch_up(self) -> None:
        """Have every stored record analysed that has no result yet."""
        for record_id in self._archive.names(RECORD):
            known = self.results.get(record_id)
            if known is None or not known.analysed:
                record = self._archive.get(RECORD, record_id)
                if record is not None:
                    self.final(record)

    def tick(self, now_s: float) -> None:
        """Try again what could not be analysed, and pool what has changed."""
        self.hear()
        if self.error and now_s >= self._retry_at_s:
            self._retry(now_s)
        if now_s >= self._pools_at_s:
            self._pools_at_s = now_s + POOLS_EVERY_S
            models = {item.drive_model for item in self.trusted}
            self.pools.refresh([lifted(result, models) for result in self.results.values()])

    def look(self, action: events.AskAnalysis, decided: Callable[[events.Decided], None]) -> None:
        """Look at an experiment under way; `decided` is called from another thread."""

        def done(result: Optional[Dict[str, object]], error: str) -> None:
            self.error = error
            if result is not None:
                self._looks[action.record.record_id] = (len(action.record.pairs), result)
            stop = bool(result and result.get("stop") is True)
            same = bool(result and result.get("seems_same") is True)
            decided(events.Decided(action.token, stop, error, same))

        self._analysis.start(action.record, done)

    def final(self, record: Record) -> None:
        """Have a finished record analysed, or take the look that saw the same pairs."""
        pairs, result = self._looks.pop(record.record_id, (-1, {}))
        if pairs == len(record.pairs):
            self._keep(of_record(record, result))
            return
        self._keep(not_analysed(record, BEING_ANALYSED))
        self.asked.add(record.record_id)

        def done(answer: _Answer, error: str) -> None:
            self._answers.put((record, answer, error))
            self._wake()

        self._analysis.start(record, done)

    def hear(self) -> None:
        """Keep what the child has answered since; one that is lost is analysed again."""
        while True:
            try:
                record, answer, error = self._answers.get_nowait()
            except queue.Empty:
                return
            self.error = error
            self.asked.discard(record.record_id)
            self._keep(not_analysed(record, error) if answer is None else of_record(record, answer))

    def _keep(self, result: Result) -> None:
        self.results[result.record_id] = result
        if result.why != BEING_ANALYSED:
            self._log.info(
                "mgr: %s: %s: %s [%s osd.%d]", result.record_id, result.verdict.value,
                one_line(result.why), result.hostname, result.osd_id,
            )
        self._pools_at_s = 0.0
        self._wake()
        self._archive.put_later(RESULT, result)

    def _retry(self, now_s: float) -> None:
        """Try a record again that nobody could analyse: numpy may have been installed."""
        self._retry_at_s = now_s + RETRY_S
        waiting = sorted(key for key, result in self.results.items() if not result.analysed)
        self._retries += 1
        for offset in range(len(waiting)):
            # a record that fails for a reason of its own must not hold up the others
            record_id = waiting[(self._retries + offset) % len(waiting)]
            record = self._archive.get(RECORD, record_id)
            if record is not None:
                self.final(record)
                return
        self.error = ""  # nothing waits for it any more

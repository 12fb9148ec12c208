"""Measures OSDs from the mgr, in threads: by `osd bench` or the OSD's own counters.

Depth 1 is `osd bench` with count = size: one write, acknowledged when it is committed.
The counters of the OSD's own traffic are read at the edges of a period and in between,
so that a latency past the limit ends the period early.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core.events import LoadRequest, LoadSamples
from ..core.experiment.observed import (
    HISTOGRAM_COMMAND,
    histogram_gained,
    parse_histogram,
)
from ..core.loads import (
    BATCH_WRITES,
    COMMIT_COUNTERS,
    LARGE_BYTES,
    LARGE_WRITES,
    LATENCY_SUM_MAX_S,
    SMALL_BYTES,
    commit_latency,
    spread_at_s,
)
from ..core.model import LoadPoint
from ..core.record import CounterDelta, LatencyHistogram
from ..core.text import grouped
from ..core.verdict.load_profile import WorkCounters, work_counters
from .blocks import ALL, ANSWER_S, COMMITS, CommitLimit
from .command import COMMAND_TIMEOUT_S, CommandFailed, Osds
from .compat import Counters, bench_seconds, commit_counters, counters_in
from .osd_options import bench_capacity

# How often a period of the OSD's own traffic is checked against the latency limit.
CHECK_EVERY_S = 0.5
# It is read outside of what is measured, and is not worth a longer wait in either mode.
HISTOGRAM_TIMEOUT_S = 2.0
# The shortest part of a watch of it: a dump takes some milliseconds of the OSD's one admin thread.
PART_MIN_S = 0.05
# (bytes per write, writes) of one bench call at each load point
_CALLS: Dict[LoadPoint, Tuple[int, int]] = {
    LoadPoint.OSD_BENCH_DEPTH1: (SMALL_BYTES, 1),
    LoadPoint.OSD_BENCH_BATCH: (SMALL_BYTES, BATCH_WRITES),
    LoadPoint.OSD_BENCH_4M: (LARGE_BYTES, LARGE_WRITES),
}

Done = Callable[[LoadSamples, str], None]


@dataclass
class CephLoads:
    """The `LoadRunner` port over a mgr module.

    `clock`: the time of day that does not step, by which what OSDs count is divided.
    """

    osds: Osds
    commits_min: Callable[[], int]
    erasure_coded: Callable[[], bool] = lambda: False
    move_counters: Optional[Callable[[Mapping[str, Any]], Counters]] = None
    clock: Callable[[], float] = time.time
    _cancels: Dict[str, threading.Event] = field(default_factory=dict, init=False)
    _benched_at_s: Dict[int, float] = field(default_factory=dict, init=False)

    def start(self, token: str, request: LoadRequest, done: Done) -> None:
        """Measure in a thread; `done(samples, error)` is called once."""
        cancel = self._cancels[token] = threading.Event()
        threading.Thread(
            target=self._run, args=(token, request, done, cancel), daemon=True,
            name=f"wcache-load-osd.{request.osd_id}",
        ).start()

    def cancel(self, token: str) -> None:
        """The measurement ends after its current call."""
        cancel = self._cancels.get(token)
        if cancel is not None:
            cancel.set()

    def benched_at_s(self, osd_id: int) -> float:
        """When an OSD was last given a bench by us, by the clock given; -inf if never."""
        return self._benched_at_s.get(osd_id, float("-inf"))

    def _run(
        self, token: str, request: LoadRequest, done: Done, cancel: threading.Event
    ) -> None:
        samples, error = self._outcome(request, cancel)
        self._cancels.pop(token, None)
        done(samples, error)

    def _measured(self, request: LoadRequest, cancel: threading.Event) -> LoadSamples:
        if request.load_point is LoadPoint.OSD_TRAFFIC:
            return (self._traffic_parts if request.spread else self._traffic)(request, cancel)
        if request.load_point is LoadPoint.OSD_BENCH_CAPACITY:
            return bench_capacity(self.osds, self._command, request)
        return self._bench(request, cancel)

    def _outcome(
        self, request: LoadRequest, cancel: threading.Event
    ) -> Tuple[LoadSamples, str]:
        try:
            before = self._moves(request)
            samples = self._measured(request, cancel)
            if before:
                samples = replace(samples, moved=_any_gained(before, self._moves(request)))
            return samples, ""
        except CommandFailed as error:
            return LoadSamples(0.0), str(error)
        except Exception as error:
            # a thread's exception would go nowhere, and the campaign wait for ever
            return LoadSamples(0.0), f"measuring osd.{request.osd_id} failed: {error!r}"[:300]

    def _command(
        self, osd_id: int, command: Mapping[str, Any], timeout_s: float = COMMAND_TIMEOUT_S
    ) -> str:
        try:
            return self.osds.ask(osd_id, command, timeout_s)
        finally:
            if command["prefix"] == "bench":
                self._benched_at_s[osd_id] = self.clock()

    def _bench(self, request: LoadRequest, cancel: threading.Event) -> LoadSamples:
        write_bytes, writes = _CALLS[request.load_point]
        others = self._beside(request)
        samples: List[int] = []
        written = 0
        begin = time.monotonic()
        aborted = ""
        began: List[int] = []
        while len(samples) < request.count and not aborted:
            due_s = 0.0
            if request.spread:
                due_s = begin + spread_at_s(request.seconds, request.count, len(samples))
            if cancel.wait(max(0.0, due_s - time.monotonic())):
                raise CommandFailed("stopped")
            began.append(int(1e9 * (time.monotonic() - begin)))
            text = self._command(request.osd_id, {
                "prefix": "bench", "count": writes * write_bytes, "size": write_bytes,
            })
            parsed = bench_seconds(text)
            if parsed is None:
                raise CommandFailed(f"osd.{request.osd_id} refused to bench: {text.strip()[:200]}")
            seconds, done_bytes = parsed
            written += done_bytes
            samples.append(int(1e9 * seconds / writes))
            if 1e3 * seconds / writes > request.latency_limit_ms:
                aborted = (
                    f"osd.{request.osd_id} took {1e3 * seconds / writes:.0f} ms, past the limit "
                    f"of {request.latency_limit_ms:.0f} ms"
                )
        seconds = time.monotonic() - begin
        return LoadSamples(
            seconds, tuple(samples), (), written, aborted, at_ns=tuple(began),
            beside=self._committed([others, self._beside(request)]) if others else None,
        )

    @staticmethod
    def _committed(looks: Sequence[Mapping[int, Counters]]) -> Optional[CounterDelta]:
        return commit_latency(_together(_steady(looks), looks[0], looks[-1]))

    def _beside(self, request: LoadRequest) -> Dict[int, Counters]:
        """The counters of the other OSDs on the drives."""
        return self._answered(request.beside, COMMITS, commit_counters)

    def _moves(self, request: LoadRequest) -> Dict[int, Counters]:
        """What all OSDs on the drives have sent and got of PGs' data."""
        if self.move_counters is None:
            return {}
        return self._answered((request.osd_id, *request.beside), ALL, self.move_counters)

    def _answered(
        self, osd_ids: Sequence[int], command: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], Counters],
    ) -> Dict[int, Counters]:
        """Counters of OSDs that are asked all at once; of those that answer."""
        asked = {
            osd_id: self.osds.put(osd_id, command)
            for osd_id in osd_ids if self.osds.is_up(osd_id)
        }
        until_s = time.monotonic() + ANSWER_S
        found: Dict[int, Counters] = {}
        for osd_id, reply in asked.items():
            if reply.wait(max(0.0, until_s - time.monotonic())):
                counters = counters_in(reply.out, read)
                if counters is not None:
                    found[osd_id] = counters
        return found

    def _all(self, request: LoadRequest) -> Dict[int, Counters]:
        """The counters of the OSD, and of the others on the drives; it must answer."""
        return {request.osd_id: self._dump(request.osd_id), **self._beside(request)}

    def _dump(self, osd_id: int) -> Counters:
        found = counters_in(self._command(osd_id, ALL), commit_counters)
        if found is None:
            raise CommandFailed(f"osd.{osd_id} gave counters that are not JSON")
        return found

    def work(self, osd_id: int) -> Optional[WorkCounters]:
        """What an OSD did since it started; None if it says nothing."""
        if not self.osds.is_up(osd_id):
            return None
        try:
            plain = self.osds.read(osd_id, {"prefix": "perf dump"})
        except CommandFailed:
            return None
        return work_counters(plain, self.clock(), self.erasure_coded()) if plain else None

    def _histogram(self, osd_id: int) -> Optional[LatencyHistogram]:
        """Client writes by latency; None where the OSD does not tell, or not at once."""
        try:
            text = self._command(osd_id, HISTOGRAM_COMMAND, timeout_s=HISTOGRAM_TIMEOUT_S)
        except CommandFailed:
            return None
        return parse_histogram(text)

    def _traffic(self, request: LoadRequest, cancel: threading.Event) -> LoadSamples:
        # one OSD's tail says nothing of what all of them commit
        writes = None if request.beside else self._histogram(request.osd_id)
        first = last = self._all(request)
        limit = CommitLimit(request.latency_limit_ms)
        begin = time.monotonic()
        limit.look(request.osd_id, first[request.osd_id], begin)
        end = begin + request.seconds
        check_every_s = min(CHECK_EVERY_S, request.seconds / 2)  # one in the middle at least
        between: List[Tuple[float, Dict[int, Counters]]] = []
        aborted = ""
        while not aborted:
            left_s = max(0.0, end - time.monotonic())
            if between and not left_s:  # a busy machine may have slept through all of it
                break
            if cancel.wait(min(left_s, check_every_s)):
                raise CommandFailed("stopped")
            asked_s = time.monotonic()
            last = now = self._all(request)
            aborted = limit.look(request.osd_id, now[request.osd_id], asked_s)
            between.append((time.monotonic() - begin, now))
        seconds = time.monotonic() - begin
        middle = _middle(between[:-1], seconds)
        looks = [first, last] if middle is None else [first, middle, last]
        osd_ids = _steady(looks)
        deltas = _together(osd_ids, first, last)
        later = () if middle is None else _together(osd_ids, middle, last)
        commits = max((d.count for d in deltas if d.name in COMMIT_COUNTERS), default=0)
        unusable = ""
        if commits < self.commits_min() and not aborted:
            unusable = (
                f"too little client traffic: {commits} commits in {seconds:.1f} s, "
                f"{self.commits_min()} are needed"
            )
        histogram = None
        if writes is not None and not aborted and not unusable:
            histogram = histogram_gained(writes, self._histogram(request.osd_id))
        return LoadSamples(
            seconds, (), deltas, 0, aborted, unusable,
            later_counters=tuple(_part_of(deltas, later)), histogram=histogram,
        )

    def _traffic_parts(self, request: LoadRequest, cancel: threading.Event) -> LoadSamples:
        """The mean commit latency of each part in which anything was committed."""
        writes = self._histogram(request.osd_id) if request.histogram else None
        last = self._all(request)
        limit = CommitLimit(request.latency_limit_ms)
        begin = last_s = time.monotonic()
        limit.look(request.osd_id, last[request.osd_id], begin)
        samples: List[int] = []
        began: List[int] = []
        aborted = ""
        parts = max(1, min(request.count, int(request.seconds / PART_MIN_S)))
        for part in range(parts):
            end = begin + request.seconds * (part + 1) / parts
            if cancel.wait(max(0.0, end - time.monotonic())):
                raise CommandFailed("stopped")
            asked_s = time.monotonic()
            now = self._all(request)
            commit = self._committed([last, now])
            if commit is not None:
                samples.append(int(1e9 * commit.sum_s / commit.count))
                began.append(int(1e9 * (last_s - begin)))
            aborted = limit.look(request.osd_id, now[request.osd_id], asked_s)
            if aborted:
                break
            last, last_s = now, time.monotonic()
        seconds, histogram = time.monotonic() - begin, None
        if writes is not None:
            histogram = histogram_gained(writes, self._histogram(request.osd_id))
        return LoadSamples(
            seconds, tuple(samples), (), 0, aborted, at_ns=tuple(began), histogram=histogram
        )


def _any_gained(before: Mapping[int, Counters], after: Mapping[int, Counters]) -> bool:
    return any(
        after[osd_id].get(name, (0.0, 0))[1] > count
        for osd_id, counters in before.items() if osd_id in after
        for name, (_, count) in counters.items()
    )


def _gained(before: Counters, after: Counters) -> Tuple[CounterDelta, ...]:
    found = (
        CounterDelta(name, after[name][0] - before[name][0], after[name][1] - before[name][1])
        for name in sorted(before) if name in after
    )
    return tuple(each for each in found if each.count >= 0 and 0 <= each.sum_s <= LATENCY_SUM_MAX_S)


def _part_of(whole: Sequence[CounterDelta], part: Sequence[CounterDelta]) -> List[CounterDelta]:
    """Of a part of a period, the counters that counted in it and no more than in the whole."""
    most = {each.name: each for each in whole}
    return [
        each for each in part
        if each.count > 0 and each.name in most
        and each.count <= most[each.name].count and each.sum_s <= most[each.name].sum_s
    ]


def _steady(looks: Sequence[Mapping[int, Counters]]) -> List[int]:
    """The OSDs that told at each look and were not restarted between; one alone whatever it told.
    """
    alone = len(looks[0]) == 1
    return [
        osd_id for osd_id in looks[0]
        if all(osd_id in look for look in looks) and (alone or all(
            len(_gained(before[osd_id], now[osd_id])) == len(before[osd_id].keys() & now[osd_id])
            for before, now in zip(looks, looks[1:])
        ))
    ]


def _together(
    osd_ids: Sequence[int], before: Mapping[int, Counters], after: Mapping[int, Counters]
) -> Tuple[CounterDelta, ...]:
    """What OSDs gained in sum, by the counters that all of them have."""
    by_name = grouped(
        (delta.name, delta) for osd_id in osd_ids
        for delta in _gained(before[osd_id], after[osd_id])
    )
    return tuple(
        CounterDelta(name, sum(d.sum_s for d in deltas), sum(d.count for d in deltas))
        for name, deltas in by_name.items() if len(deltas) == len(osd_ids)
    )


def _middle(
    between: Sequence[Tuple[float, Dict[int, Counters]]], seconds: float
) -> Optional[Dict[int, Counters]]:
    """The look nearest the middle; None where none lies near it."""
    at_s, middle = min(between, key=lambda item: abs(item[0] - seconds / 2), default=(0.0, None))
    return middle if abs(at_s - seconds / 2) <= seconds / 4 else None

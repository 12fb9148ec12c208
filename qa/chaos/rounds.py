"""One round: work is begun, faults strike, all is healed, and then everything is looked at."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Callable, Dict, Iterator, List, Tuple, Union

from harness import HarnessError
from probes import Wcache

from . import faults, state, work
from .choices import CUT_OFF, ROLLOUT, Fault, Round
from .looks import HELD_MAX_S, GuestWatcher, NativeWatcher
from .memory import rss_kib
from .results import Ledger
from .stage import Stage

STOP_AFTER_S = 70.0
ROUND_MAX_S = 180.0
LEFT_S = 60.0
POLL_S = 0.5
AIM_MAX_S = 15.0
OURS = "wcache"
# A probe that is struck, or cannot keep its journal, restores later.
UNDO_NOTHING = ("kill probe", "stop probe", "full probe", "slow flush")
Watcher = Union[NativeWatcher, GuestWatcher]
# Findings that tell of what has happened, or of drives that are a throwaway cluster's.
TOLD = (
    "WCACHE_UNSAFE_THROWAWAY", "WCACHE_SETUP", "WCACHE_MIXED_MODES",
    "WCACHE_AGENT_SILENT", "WCACHE_CARRYOVER", "WCACHE_NOT_PREPARED", "WCACHE_MEMORY_OVERCOMMIT",
    "WCACHE_CAMPAIGN_ABORTS",  # until one ends well, which the next round begins
)


@dataclass
class Outcome:
    """How a round ended."""

    chosen: Round
    works: List[work.Work] = field(default_factory=list)
    seconds: float = 0.0
    wrong: List[str] = field(default_factory=list)
    looks: int = 0
    kib: Dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        done = " + ".join(map(str, self.works))
        struck = "; ".join(map(str, self.chosen.faults)) or "no fault"
        word = "ok" if not self.wrong else f"LEFT: {self.wrong[0][:160]}"
        return f"round {self.chosen.number}: {done}: {struck}: {self.seconds:.0f} s: {word}"


class Rounds:
    """Plays rounds on a stage, and knows what was there before the first one."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._ledger = Ledger()
        self._watchers: List[Watcher] = [NativeWatcher(stage.native)]
        self._watchers += [GuestWatcher(guest) for guest in stage.guest]
        self._before = state.take(stage)
        self._findings = {each["code"] for each in stage.wcache("status")["findings"]}
        self._crashed: Dict[str, str] = {}
        self._elsewhere = Wcache(stage.another())
        self._ledger.note(self._elsewhere)
        self._take_looks()

    def end(self) -> None:
        """Look no more."""
        for watcher in self._watchers:
            watcher.end()

    def play(self, chosen: Round) -> Outcome:
        """One round, with its verdict."""
        outcome, began_s = Outcome(chosen), time.monotonic()
        try:
            with self._noting():
                self._work(outcome, began_s)
            self._check(outcome)
        except (HarnessError, AssertionError, RuntimeError, OSError) as error:
            outcome.wrong.append(f"{type(error).__name__}: {str(error)[:1500]}")
        outcome.seconds = time.monotonic() - began_s
        if outcome.seconds > ROUND_MAX_S:
            outcome.wrong.append(f"it took {outcome.seconds:.0f} s, at most {ROUND_MAX_S:.0f}")
        return outcome

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Keep what is shown all the time, so that nothing of it may be gone afterwards."""
        over = threading.Event()

        def note() -> None:
            while not over.wait(POLL_S):
                with suppress(HarnessError):  # a mgr that was struck
                    self._ledger.note(self._elsewhere)

        thread = threading.Thread(target=note)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _work(self, outcome: Outcome, began_s: float) -> None:
        """Begin, strike, heal, and end what was begun."""
        stage, wcache, works = self._stage, self._stage.wcache, outcome.works
        for place in range(len(outcome.chosen.works)):
            works.append(work.begin(stage, outcome.chosen, place))
        self._strike(outcome)
        faults.mend(stage, TOLD)
        self._until(
            lambda: all(work.over(wcache, each) for each in works),
            began_s + STOP_AFTER_S - time.monotonic(),
        )

        def ended() -> bool:
            for each in works:
                work.stop(wcache, each)
                work.take_back(wcache, each)
            return not work.still(wcache, works)

        if not self._until(ended, max(LEFT_S, began_s + ROUND_MAX_S - time.monotonic())):
            outcome.wrong += [f"goes on: {line}" for line in work.still(wcache, works)]

    def _strike(self, outcome: Outcome) -> None:
        """Each fault at its moment, and healed at its own."""
        began_s = time.monotonic()
        waiting = sorted(outcome.chosen.faults, key=lambda fault: fault.at_s)
        struck: List[Tuple[float, Fault, Callable[[], None]]] = []
        try:
            while waiting or struck:
                now_s = time.monotonic()
                if waiting and self._aimed(waiting[0], now_s - began_s):
                    fault = waiting.pop(0)
                    heal = faults.strike(self._stage, fault)
                    struck.append((time.monotonic(), fault, heal))
                for each in [one for one in struck if now_s >= one[0] + one[1].for_s]:
                    outcome.wrong += self._held_on(outcome, each[1], each[0])
                    struck.remove(each)
                    each[2]()
                time.sleep(0.05)
        finally:
            for _, _, heal in struck:
                heal()

    def _aimed(self, fault: Fault, now_s: float) -> bool:
        """Whether it is a fault's moment: some wait a while for a drive that is otherwise."""
        if now_s < fault.at_s:
            return False
        host = fault.target if fault.target in self._stage.hosts else ""
        return not fault.aimed or now_s >= fault.at_s + AIM_MAX_S or any(
            name.startswith(host) for watcher in self._watchers for name in watcher.away_s()
        )

    def _until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        end_s = time.monotonic() + timeout_s
        while True:
            try:
                if condition():
                    return True
            except HarnessError:  # a mgr that takes over
                pass
            if time.monotonic() > end_s:
                return False
            time.sleep(POLL_S)

    def _check(self, outcome: Outcome) -> None:
        stage, wcache = self._stage, self._stage.wcache
        found = ["what is set could not be read"]

        def same() -> bool:
            found[:] = state.differences(self._before, state.take(stage))
            return not found

        self._until(same, LEFT_S)
        outcome.wrong += found
        outcome.wrong += self._ledger.wrong(wcache)
        unsafe, outcome.looks = self._take_looks()
        outcome.wrong += unsafe
        outcome.wrong += self._crashes(outcome.chosen)
        outcome.wrong += [
            f"finding {each['code']}: {each['detail']}" for each in wcache("status")["findings"]
            if each["code"] not in (*TOLD, *self._findings)
        ]
        outcome.kib = self._memory()

    def _take_looks(self) -> Tuple[List[str], int]:
        """What the watchers have found since the last call, and in how many looks."""
        found, looks = [], 0
        for watcher in self._watchers:
            found += watcher.taken()
            looks += watcher.looks
            watcher.looks = 0
        return found, looks

    def _held_on(self, outcome: Outcome, fault: Fault, struck_s: float) -> List[str]:
        """Drives that are held since before the mgr was out of reach, for longer than a lease."""
        out_s = time.monotonic() - struck_s
        if fault.kind not in CUT_OFF or out_s < HELD_MAX_S or ROLLOUT in outcome.chosen.works:
            return []
        if any(other.kind in UNDO_NOTHING for other in outcome.chosen.faults):
            return []
        return [
            f"{name} is held {out_s:.0f} s after {fault.kind}"
            for watcher in self._watchers for name, away_s in watcher.away_s().items()
            if name.startswith(fault.target) and away_s >= out_s
        ]

    def _crashes(self, chosen: Round) -> List[str]:
        """What `ceph crash ls` has, and what daemons have left for it to be told of."""
        found = {}
        for meta in (self._stage.cluster.folder / "crash").glob("**/meta"):
            plain = json.loads(meta.read_text(encoding="utf-8"))
            # at each start of a mgr the packages' own modules leave some: their rest is not there
            if plain.get("mgr_module", OURS) == OURS:
                found[str(plain["crash_id"])] = str(plain["entity_name"])
        for each in self._stage.cluster.command("crash ls", target="mgr"):
            found[str(each["crash_id"])] = str(each["entity_name"])
        # a mon whose disk is full ends itself so
        ours = [fault.target for fault in chosen.faults if fault.kind == "full mon"]
        new = {name: who for name, who in found.items() if name not in self._crashed}
        self._crashed.update(new)
        return [f"crash {name} of {who}" for name, who in new.items() if who not in ours]

    def _memory(self) -> Dict[str, int]:
        cluster = self._stage.cluster
        kib = {"mgr": rss_kib(cluster.mgr_pid())}
        for host in self._stage.hosts.values():
            kib[f"probe {host.name}"] = host.rss_kib()
        return kib

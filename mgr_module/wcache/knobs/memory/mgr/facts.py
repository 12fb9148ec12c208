"""Facts about memory, gathered from readings, probes, maps, the config database."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ....ceph.surroundings import CephSurroundings
from ....core.fleet.claims import speaking_for
from ....core.hardware import HostMemory
from ....core.model import Finding
from ....core.text import amount
from ....engine.storing.archive import Archive, StoredKind
from ....engine.world import World
from ..facts import (
    ANSWERS_MAX,
    LABELS,
    OPT_OUT_LABEL,
    PROMISES_MAX,
    Answer,
    Answers,
    Facts,
    HostFacts,
    OsdFacts,
    Promise,
    Promises,
    is_autotuned,
)
from ..findings import findings, outdated
from ..reading import MEMORY, MemoryOptions
from ..single import want_of
from ..trial import TargetTrial
from ..trial_result import TrialResult, TrialResults
from .osds import EVERY_S, READINGS_S, MemoryWatch

ANSWERS = StoredKind("memory/answers", Answers)
PROMISES = StoredKind("memory/promises", Promises)
RESULTS = StoredKind("memory/results", TrialResults)
FINDINGS_EVERY_S = 60.0
RESULTS_MAX = 100
# Answers that are others than those stored wait so long for more of them; new ages wait longer.
STORE_EVERY_S, AGES_EVERY_S = 600.0, 3600.0


class MemoryFacts:
    """Reads what is known and what the watch has read; keeps what plans promise and trials tell."""

    def __init__(
        self, *, watch: MemoryWatch, archive: Archive, surroundings: CephSurroundings,
        wall: Callable[[], float],
    ) -> None:
        self._watch = watch
        self._archive = archive
        self._surroundings = surroundings
        self._wall = wall
        self._of: Tuple[object, ...] = ()
        self._due_s = float("-inf")
        self._lock = threading.Lock()
        # What plans have promised, whatever became of it; replaced under the lock.
        self.promises: Tuple[Promise, ...] = ()
        self.results: Tuple[TrialResult, ...] = ()  # what trials have told
        self.answers: Dict[int, Answer] = {}  # on what OSDs want, the last one of each
        self._stored: Tuple[Answer, ...] = ()  # of them
        self._stored_at_s = float("-inf")
        self.findings: Tuple[Finding, ...] = ()  # as last worked out
        # Hosts that ask for a new division, and can have one now, with their device classes.
        self.to_divide: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()

    def load(self) -> None:
        """Take up what was stored."""
        with self._lock:
            self.promises = (self._archive.get(PROMISES) or Promises()).items
        self.results = (self._archive.get(RESULTS) or TrialResults()).items
        self._stored = (self._archive.get(ANSWERS) or Answers()).items
        self.answers = {item.osd_id: item for item in self._stored}

    def keep(self, trial: TargetTrial, now_s: float) -> None:
        """Keep what a trial has told, once."""
        if all(item.trial_id != trial.trial_id for item in self.results):
            self.results = (*self.results, trial.result(now_s))[-RESULTS_MAX:]
            self._archive.put_later(RESULTS, TrialResults(self.results))

    def promise(self, change: Callable[[Tuple[Promise, ...]], Tuple[Promise, ...]]) -> None:
        """Keep the newest of what `change` makes of them, and store it where it differs."""
        with self._lock:
            promises = change(self.promises)[-PROMISES_MAX:]
            if promises != self.promises:
                self.promises = promises
                self._archive.put_later(PROMISES, Promises(promises))

    def tick(self, world: World) -> None:
        """Work out the findings anew where something was read since."""
        now_s = world.now_s
        of = (self._watch.read_at_s, world.config, self.promises)
        if of != self._of or now_s >= self._due_s:
            self._of, self._due_s = of, now_s + FINDINGS_EVERY_S
            facts, promises = self.gather(world), self.standing(world)
            self.findings = findings(facts, promises) if self._watch.read_at_s else ()
            self.to_divide = outdated(facts, promises) if self._watch.read_at_s else ()
            self._answer(facts)

    def _answer(self, facts: Facts) -> None:
        """Say anew what OSDs want, and store it where it is due; else the last answer stays."""
        if not facts.hosts:
            return  # no map yet
        found: List[Answer] = []
        for host in facts.hosts:
            said = (self._answer_of(facts, item, host.ceiling_bytes) for item in host.osds)
            found += [answer for answer in said if answer is not None]
        self.answers = {item.osd_id: item for item in found}
        items = tuple(sorted(self.answers.values(), key=lambda item: item.osd_id))[:ANSWERS_MAX]
        changed = [_said(item) for item in items] != [_said(item) for item in self._stored]
        due_s = self._stored_at_s + (STORE_EVERY_S if changed else AGES_EVERY_S)
        if items != self._stored and facts.now_s >= due_s:
            self._stored, self._stored_at_s = items, facts.now_s
            self._archive.put_later(ANSWERS, Answers(items))

    def _answer_of(self, facts: Facts, item: OsdFacts, ceiling_bytes: int) -> Optional[Answer]:
        last = self.answers.get(item.osd.osd_id)
        if item.reading is None or item.rates is None:
            return last
        at_s = math.ceil(item.reading.counters.at_s)
        if last is not None and last.at_s == at_s:
            return last
        want = want_of(facts, item, ceiling_bytes)
        return last if want is None else Answer(item.osd.osd_id, want, item.target_bytes, at_s)

    def standing(self, world: World) -> List[Promise]:
        """What plans that were carried out have promised; of several, the last one counts."""
        done = {
            plan.plan_id for plan in world.plans
            if plan.plan_id not in world.open_plans and any(
                c.setting.knob == MEMORY.name for c in plan.touched
            )
        }
        return list({
            (item.host, item.device_class): item
            for item in self.promises if item.plan_id in done
        }.values())

    def gather(self, world: World) -> Facts:
        """Everything that advice follows from."""
        # by the machine of the map that each probe speaks for
        hosts_of = speaking_for(world.reports, world.cluster)
        memory = {
            hosts_of[report.hostname]: report.memory
            for report in world.real_reports if report.memory is not None
        }
        known, now_s, config = self._watch.by_osd(), self._wall(), world.config
        by_host: Dict[str, List[OsdFacts]] = {}
        for osd in world.cluster.osds.values():
            # CRUSH hosts need not be machines; one that was never up has told of no machine
            name = osd.hostname or osd.failure_domain
            seen = known.get(osd.osd_id)
            first_s = EVERY_S if osd.up and self._watch.read_at_s is None else 0.0
            item = OsdFacts(osd, known_in_s=first_s) if seen is None else OsdFacts(
                osd, seen.last, seen.rates, max(0.0, seen.settled_at_s - now_s),
                seen.known_in_s(now_s),
            )
            if (
                seen is not None and world.config_read_at_s is not None
                and item.target_by(config) != item.target_bytes
            ):
                # it was read before it had the target that the mons have
                settles_s = EVERY_S + seen.last.reach_s + READINGS_S
                item = replace(item, rates=None, known_in_s=settles_s)
            by_host.setdefault(name, []).append(item)
        limits = world.options.of(MemoryOptions)
        cephadm = self._surroundings.orchestrator() == "cephadm"
        hosts = tuple(
            HostFacts(
                name, tuple(sorted(items, key=lambda item: item.osd.osd_id)), config, limits,
                memory.get(name),
                tuple(sorted(
                    (kind, count) for kind, count in self._watch.daemons.get(name, {}).items()
                    if kind != "osd"
                )),
                cephadm and config.at(LABELS.format(host=name), OPT_OUT_LABEL) is None
                and any(is_autotuned(config, item.osd) for item in items),
            )
            for name, items in sorted(by_host.items()) if name
        )
        return Facts(hosts, config, limits, self.results, now_s, self.answers)


def _said(item: Answer) -> Tuple[object, ...]:
    """What of an answer is no age."""
    return item.osd_id, item.want, item.target_bytes


# A trial ends where so much of a limit is used, ...
LIMIT_SHARE = 0.9
# ... or where so little of the host's RAM is available.
AVAILABLE_SHARE_MIN = 0.05


def crowded(osd_ids: Sequence[int], high_bytes: int, memory: HostMemory) -> str:
    """Why a trial of these OSDs, all of one host, must end; "" where it may go on.

    `high_bytes` is the larger target.
    """
    for limit in memory.limits:
        mine = sorted(set(limit.osd_ids) & set(osd_ids))
        if not mine:
            continue
        group = f"the control group of osd.{mine[0]}"
        if limit.used_bytes > LIMIT_SHARE * limit.bytes_max:
            return f"{group} uses {amount(limit.used_bytes)} of {amount(limit.bytes_max)}"
        if high_bytes * len(limit.osd_ids) > LIMIT_SHARE * limit.bytes_max:
            return (
                f"the limit of {group} is {amount(limit.bytes_max)} now: too little for the "
                "trial"
            )
    # nothing available at all is not told
    if 0 < memory.available_bytes < AVAILABLE_SHARE_MIN * memory.total_bytes:
        return (
            f"the host of osd.{osd_ids[0]} has {amount(memory.available_bytes)} of "
            f"{amount(memory.total_bytes)} available"
        )
    return ""

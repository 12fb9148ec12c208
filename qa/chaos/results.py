"""What was found out and told: nothing of it may get lost, and nothing be counted twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Dict, List, Set, Tuple

from probes import Wcache

OVER = ("done", "stopped", "aborted", "failed")
HISTORY_LINES = 1000


class Ledger:
    """All results that were ever shown, and the history."""

    def __init__(self) -> None:
        self._results: Dict[str, str] = {}  # by record, what was shown of it
        self._over: Dict[str, str] = {}  # by campaign, how it ended
        self._history: List[str] = []
        self._checked: Set[str] = set()

    def note(self, wcache: Wcache) -> None:
        """Keep what is shown now; for looks in the middle of faults."""
        for campaign in wcache("campaign ls")["campaigns"]:
            campaign_id = str(campaign["campaign_id"])
            if campaign_id in self._over:
                continue
            shown = wcache.campaign(campaign_id)
            self._keep(shown)
            if shown["status"] in OVER:
                self._over[campaign_id] = shown["status"]

    def _keep(self, shown: Dict[str, Any]) -> None:
        for result in results_of(shown):
            if result.get("analysed"):  # else it is weighed yet
                self._results.setdefault(result["record_id"], digest(result))

    def wrong(self, wcache: Wcache) -> List[str]:
        """What is lost, changed or there twice."""
        shown = [
            wcache.campaign(campaign["campaign_id"])
            for campaign in wcache("campaign ls")["campaigns"]
        ]
        found = twice(shown)
        now = {
            result["record_id"]: digest(result) for each in shown for result in results_of(each)
        }
        for record_id, was in self._results.items():
            if record_id not in now:
                found.append(f"result {record_id} was shown, and is lost")
            elif now[record_id] != was:
                found.append(f"result {record_id} was {was}, is {now[record_id]}")
        statuses = {each["campaign_id"]: each["status"] for each in shown}
        for campaign_id, status in self._over.items():
            if statuses.get(campaign_id) != status:
                found.append(f"{campaign_id} was {status}, is {statuses.get(campaign_id)}")
        for record_id in sorted(set(now) - self._checked):
            found += measured_twice(wcache("campaign record", record_id=record_id))
            self._checked.add(record_id)
        found += counted_twice(wcache("recommend")["recommendations"])
        found += self._forgotten(wcache)
        for each in shown:
            self._keep(each)
        self._over.update({k: v for k, v in statuses.items() if v in OVER})
        return found

    def _forgotten(self, wcache: Wcache) -> List[str]:
        lines = [json.dumps(line, sort_keys=True) for line in
                 wcache("history", limit=HISTORY_LINES)["history"]]
        before, self._history = self._history, lines
        # a line is told again where something is repeated; so they are counted
        gone = Counter(before) - Counter(lines)
        full = len(lines) >= HISTORY_LINES
        return [] if full else [f"the history has lost {line[:200]}" for line in gone]


def results_of(shown: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The results of a campaign, of cache modes and of options."""
    return [*shown["results"], *shown.get("option_results", ())]


def digest(result: Dict[str, Any]) -> str:
    """What must stay as it is of a result."""
    kept = ("record_id", "osd_id", "load_point", "verdict", "pairs", "ratio", "ended")
    return json.dumps({name: result.get(name) for name in kept}, sort_keys=True)


def twice(shown: List[Dict[str, Any]]) -> List[str]:
    """Records that are shown twice, and experiments of a campaign that have two results."""
    ids = Counter(r["record_id"] for each in shown for r in results_of(each))
    found = [f"result {record_id} is shown {n} times" for record_id, n in ids.items() if n > 1]
    for each in shown:
        asked: Counter[Tuple[Any, ...]] = Counter(
            tuple(r.get(name) for name in ("hostname", "osd_id", "domain_id", "load_point"))
            for r in results_of(each)
        )
        found += [
            f"{each['campaign_id']}: {n} results of {what}" for what, n in asked.items() if n > 1
        ]
    return found


def measured_twice(record: Dict[str, Any]) -> List[str]:
    """Periods that stand in a record twice."""
    starts = Counter(
        period["started_at_s"]
        for pair in record.get("pairs", ()) for period in pair.values()
        if isinstance(period, dict) and "started_at_s" in period
    )
    name = record.get("record_id", "a record")
    return [f"{name}: a period of {at_s} is there {n} times" for at_s, n in starts.items() if n > 1]


def counted_twice(recommendations: List[Dict[str, Any]]) -> List[str]:
    """Records that a recommendation counts twice."""
    found = []
    for each in recommendations:
        times = Counter(each["record_ids"])
        found += [
            f"{each['device_class']}: record {record_id} counts {n} times"
            for record_id, n in times.items() if n > 1
        ]
    return found

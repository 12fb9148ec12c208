"""What clients feel before, during and after something: a campaign, or a rollout."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Callable, Dict, Optional

from harness import Cluster, CommandError, HarnessError
from probes import Wcache
from wcache.core.text import latency, table

from bench.figures import Latencies, latencies
from bench.running import Inside

POOL = "bench"
DEPTH = 4
WINDOW_S = 15.0
# 48 blocks before the change, 16 to 96 after it; the canary is watched no longer than others.
BLOCK_S = 0.5
CANARY_S = 0.0
# A rollout's part takes less than eight minutes: these, BACK_S twice, and two windows.
BEGIN_S = 60.0
ROLLOUT_S = 200.0
BACK_S = 90.0
LOOK_S = 0.1
Figures = Dict[str, Any]


def around(cluster: Cluster, what: Callable[[], Any]) -> Figures:
    """Latencies of clients' writes in three windows of one run, and their ratios."""
    windows = {
        "before": _window(cluster, lambda: time.sleep(WINDOW_S)),
        "during": _window(cluster, what),
        "after": _window(cluster, lambda: time.sleep(WINDOW_S)),
    }
    before = windows["before"]
    return {
        **{when: asdict(each) for when, each in windows.items()},
        "during_over_before_p99": _over(windows["during"], before),
        "after_over_before_p99": _over(windows["after"], before),
    }


def around_rollout(cluster: Cluster, wcache: Wcache, osd_id: int) -> Figures:
    """A rollout of one OSD's drives, judged by these clients; all of it goes back afterwards.

    Without a recommendation to carry out there is nothing to measure, and why is told.
    """
    wcache.option("gate_block_s", BLOCK_S)  # before the plan, which keeps them
    wcache.option("canary_wait_s", CANARY_S)
    planned = wcache("plan", scope=f"osd.{osd_id}")
    plan_id = str(planned["plan_id"])
    if not plan_id:
        why = "; ".join(planned["left_alone"]) or "nothing is recommended"
        return {"left_out": f"no rollout: {why}"}
    spent: Dict[str, float] = {}
    figures = around(cluster, lambda: _carry_out(wcache, plan_id, spent))
    shown = wcache("rollout show", plan_id=plan_id)
    figures["status"], figures["reason"] = shown["status"], shown["reason"]
    figures["judgement"] = shown["judgement"] and shown["judgement"]["words"]
    wcache("rollback", plan_id=plan_id)
    spent["rollback"] = _back(wcache, plan_id)
    figures["seconds"] = {phase: round(seconds, 1) for phase, seconds in spent.items()}
    return figures


def _carry_out(wcache: Wcache, plan_id: str, spent: Dict[str, float]) -> None:
    """From `apply` to its end, or to its abort where that does not come; `spent` by phase."""
    def begun() -> bool:
        try:
            return bool(wcache("apply", plan_id=plan_id)["changed"])
        except CommandError as refusal:
            if "preconditions not met" not in str(refusal):
                raise
            return False

    began_s = time.monotonic()
    wcache.wait("the plan to begin", begun, BEGIN_S)
    spent["to begin"] = time.monotonic() - began_s
    if _wait_over(wcache, plan_id, ROLLOUT_S, spent) >= ROLLOUT_S:
        wcache("rollout abort", plan_id=plan_id)
        spent["abort"] = _back(wcache, plan_id)


def _back(wcache: Wcache, plan_id: str) -> float:
    """The seconds until all is taken back; raises HarnessError where that does not end."""
    seconds = _wait_over(wcache, plan_id, BACK_S, {})
    if seconds >= BACK_S:
        raise HarnessError(f"{plan_id} is not taken back after {BACK_S:.0f} s")
    return seconds


def _wait_over(
    wcache: Wcache, plan_id: str, limit_s: float, spent: Dict[str, float]
) -> float:
    """Until it is over or paused, or the time is; returns the seconds, and adds them by phase."""
    began_s = now_s = time.monotonic()
    while now_s - began_s < limit_s:
        shown = wcache("rollout show", plan_id=plan_id)
        if shown["status"] not in ("running", "rolling back"):
            break
        time.sleep(LOOK_S)
        phase, then_s = str(shown["step"]["phase"]), now_s
        now_s = time.monotonic()
        spent[phase] = spent.get(phase, 0.0) + now_s - then_s
    return now_s - began_s


def _window(cluster: Cluster, what: Callable[[], Any]) -> Latencies:
    clients = Inside(cluster, "writes", POOL, str(DEPTH))
    what()
    return latencies(clients.end()["writes"])


def _over(one: Latencies, other: Latencies) -> Optional[float]:
    return round(one.p99_us / other.p99_us, 2) if one.p99_us and other.p99_us else None


def plain(figures: Figures, around_what: str) -> str:
    """The windows as a table."""
    if "left_out" in figures:
        return str(figures["left_out"])
    rows = [
        [when, figures[when]["n"], latency(figures[when]["p50_us"]),
         latency(figures[when]["p99_us"]), latency(figures[when]["max_us"])]
        for when in ("before", "during", "after")
    ]
    lines = [
        f"client writes of 4 KiB at depth {DEPTH}, around {around_what}",
        table(("WHEN", "N", "P50", "P99", "MAX"), rows),
        f"p99 during / before: {figures['during_over_before_p99']}, after / before: "
        f"{figures['after_over_before_p99']}",
    ]
    if figures.get("status"):
        said = figures["judgement"] or figures["reason"]
        lines.append(f"the rollout: {figures['status']}; {said}")
        spent = ", ".join(f"{phase} {seconds}" for phase, seconds in figures["seconds"].items())
        lines.append(f"seconds: {spent}")
    return "\n".join(lines)

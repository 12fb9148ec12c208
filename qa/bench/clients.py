"""What clients feel before, during and after something: a campaign, or a rollout."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Callable, Dict, Optional

from harness import Cluster, CommandError
from probes import Wcache
from wcache.core.text import latency, table

from bench.figures import Latencies, latencies
from bench.running import Inside

POOL = "bench"
DEPTH = 4
WINDOW_S = 15.0
BLOCK_S = 1.0
ROLLOUT_S = 600.0
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
    planned = wcache("plan", osd=osd_id)
    plan_id = str(planned["plan_id"])
    if not plan_id:
        why = "; ".join(planned["left_alone"]) or "nothing is recommended"
        return {"left_out": f"no rollout: {why}"}
    wcache.option("gate_block_s", BLOCK_S)
    figures = around(cluster, lambda: _carry_out(wcache, plan_id))
    shown = wcache("rollout show", plan_id=plan_id)
    figures["status"], figures["reason"] = shown["status"], shown["reason"]
    figures["judgement"] = shown["judgement"] and shown["judgement"]["words"]
    wcache("rollback", plan_id=plan_id)
    _wait_over(wcache, plan_id)
    return figures


def _carry_out(wcache: Wcache, plan_id: str) -> None:
    def begun() -> bool:
        try:
            return bool(wcache("apply", plan_id=plan_id)["changed"])
        except CommandError as refusal:
            if "this does not hold" not in str(refusal):
                raise
            return False

    wcache.wait("the plan to begin", begun)
    _wait_over(wcache, plan_id)


def _wait_over(wcache: Wcache, plan_id: str) -> None:
    """Until it is over, or paused."""
    moving = ("running", "rolling back")
    wcache.wait(
        f"the end of {plan_id}",
        lambda: wcache("rollout show", plan_id=plan_id)["status"] not in moving, ROLLOUT_S,
    )


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
    return "\n".join(lines)

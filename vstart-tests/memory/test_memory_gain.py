"""A starved device class gains what was promised, on real OSDs, and all of it goes back."""

from __future__ import annotations

from typing import Any, Dict

import pytest
from starved import IDLE, LOW_BYTES, MIB, STARVED, all_back, leased, reads, starved_cluster, watched
from wcache.core.knobs.memory_target.promise import MISSES_MIN, TOLERANCE

# a trial, a plan and its rollback: some minutes
pytestmark = [pytest.mark.cluster, pytest.mark.long]

HIGH_BYTES = 1536 * MIB
# Neither target keeps all of them in the cache: what is left out is missed at a steady rate.
OBJECTS, READS_PER_S = 12_000, 1000


def test_a_starved_class_gains_what_was_promised_and_the_idle_one_loses_no_more(release: int):
    with starved_cluster(release, "1 2 4 6 8 12 0 0 0 0") as wcache, reads(
        wcache.cluster, "reads", len(STARVED), OBJECTS, READS_PER_S
    ):
        cluster = wcache.cluster

        def starved() -> bool:
            rows = [r for r in watched(wcache) if r["device_class"] == "starved"]
            return bool(rows) and all(r["onode_misses_per_s"] > 50 for r in rows)

        wcache.wait("misses", starved, 60)
        wcache("memory trial start", device_class="starved", target_bytes=HIGH_BYTES, osds=2,
               blocks=2, period_s=12, accept_cost=True)
        wcache.wait("a lease", lambda: set(leased(cluster).values()) > {None}, 60)
        wcache.wait("the end of the trial", lambda: over(wcache), 420)
        assert all_back(cluster)
        (result,) = wcache("memory trial show")["results"]
        print(f"\ntrial: {result}")
        assert result["verdict"] == "gain", result
        # who gets more has it from others
        given = sum(LOW_BYTES["starved"] for _ in STARVED) + sum(LOW_BYTES["idle"] for _ in IDLE)
        wcache.option("memory_budget", given)
        wcache.wait("settled OSDs", lambda: watched(wcache), 120)
        plan = wcache.wait("a plan", lambda: planned(wcache), 120)
        for group in wcache("memory recommend")["groups"]:
            print("\n".join(row["words"] for row in group["classes"]))
        wcache("apply", plan_id=plan["plan_id"])
        wcache.wait("the plan", lambda: ended(wcache, plan["plan_id"]) == "done", 300)
        promised = wcache.wait("what became of it", lambda: judged(wcache), 120)
        print("\n".join(str(row) for row in promised.values()))
        gained = promised["starved"]
        assert gained["outcome"] == "kept", gained
        assert gained["target_bytes"] == HIGH_BYTES
        least, most = gained["low_per_s"] / TOLERANCE, TOLERANCE * gained["high_per_s"]
        assert least - MISSES_MIN <= gained["misses_per_s"] <= most + MISSES_MIN
        assert gained["misses_per_s"] < 0.8 * gained["misses_before_per_s"]
        assert promised["idle"]["outcome"] == "kept", promised["idle"]
        assert promised["idle"]["target_bytes"] < LOW_BYTES["idle"]
        wcache("rollback", plan_id=plan["plan_id"])
        wcache.wait("the way back", lambda: ended(wcache, plan["plan_id"]) == "rolled back", 300)
        assert wcache.wait("targets as before", lambda: watched(wcache), 120)


def over(wcache: Any) -> bool:
    """Whether the trial has ended."""
    return wcache("memory trial show")["trial"]["status"] in ("done", "stopped")


def ended(wcache: Any, plan_id: str) -> str:
    """Where a plan stands; it must not stop on its way."""
    shown = wcache("plan show", plan_id=plan_id)
    assert shown["status"] != "stopped", shown["reason"]
    return str(shown["status"])


def planned(wcache: Any) -> Dict[str, Any]:
    """A plan, once there is something to change."""
    answer: Dict[str, Any] = wcache("plan", knob="memory")
    return answer if answer["plan_id"] else {}


def judged(wcache: Any) -> Dict[str, Any]:
    """The promises by class, once each is known to be kept or broken."""
    rows = {row["device_class"]: row for row in wcache("memory status")["promises"]}
    known = all(row["outcome"] in ("kept", "broken") for row in rows.values())
    return rows if known and len(rows) == 2 else {}

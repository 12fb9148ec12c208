"""A starved device class gains what was promised, on real OSDs, and all of it goes back."""

from __future__ import annotations

from typing import Any, Dict

import pytest
from starved import IDLE, LOW_BYTES, MIB, STARVED, all_back, leased, reads, starved_cluster, watched
from wcache.knobs.memory.findings import OVER_SHARE

# a trial, a plan and its rollback: some minutes
pytestmark = [pytest.mark.cluster, pytest.mark.long]

HIGH_BYTES = 1536 * MIB
# Neither target keeps all of them in the cache: what is left out is missed at a steady rate.
OBJECTS, READS_PER_S = 12_000, 1000


def test_a_starved_class_gains_what_was_promised_and_the_idle_one_loses_no_more(release: int):
    with starved_cluster(release, "1 2 4 6 8 12 0 0 0 0") as wcache, reads(
        wcache.cluster, "reads", STARVED, OBJECTS, READS_PER_S
    ):
        cluster = wcache.cluster

        def starved() -> bool:
            rows = [r for r in watched(wcache) if r["device_class"] == "starved"]
            return bool(rows) and all(r["onode_misses_per_s"] > 50 for r in rows)

        wcache.wait("misses", starved, 60)
        wcache("memory trial start", scope="class:starved", target_bytes=HIGH_BYTES, osds=2,
               blocks=2, period_s=12, accept_cost=True)
        wcache.wait("a lease", lambda: set(leased(cluster).values()) > {None}, 60)
        wcache.wait("the end of the trial", lambda: over(wcache), 420)
        assert all_back(cluster)
        (result,) = wcache("memory trial show")["results"]
        print(f"\ntrial: {result}")
        assert result["verdict"] == "gain", result

        tried_and_ended(wcache)

        # who gets more has it from others
        given = sum(LOW_BYTES["starved"] for _ in STARVED) + sum(LOW_BYTES["idle"] for _ in IDLE)
        plan_id, gained = carried_out(wcache, given, LOW_BYTES)
        assert gained["starved"]["target_bytes"] == HIGH_BYTES
        assert gained["starved"]["misses_per_s"] < 0.8 * gained["starved"]["misses_before_per_s"]
        assert gained["idle"]["target_bytes"] < LOW_BYTES["idle"]
        kept(gained["starved"], gained["idle"])

        wcache("rollback", plan_id=plan_id)
        wcache.wait("the way back", lambda: ended(wcache, plan_id) == "rolled back", 300)
        assert wcache.wait("targets as before", lambda: watched(wcache), 120)


def tried_and_ended(wcache: Any) -> None:
    """A trial of a plan leases the plan's target, and it ends as a plan does."""
    wcache.wait("settled OSDs", lambda: watched(wcache), 120)
    plan_id = wcache.wait("a plan", lambda: planned(wcache), 120)["plan_id"]
    would = wcache("apply", plan_id=plan_id, trial=True, dry_run=True)["would_change"]
    print("\n".join(would))
    assert len(would) == len(STARVED)
    trial_id = wcache("apply", plan_id=plan_id, trial=True)["trial_id"]

    def raised() -> bool:
        return [leased(wcache.cluster)[osd_id] for osd_id in STARVED] == [str(HIGH_BYTES)] * 2

    wcache.wait("the plan's target", raised, 180)
    shown = wcache("rollout show", plan_id=trial_id)["trial"]
    assert (shown["plan_id"], shown["status"]) == (plan_id, "running")
    assert wcache("rollout abort", plan_id=trial_id)["changed"]
    assert all_back(wcache.cluster)
    wcache.wait("the end of the trial", lambda: over(wcache), 60)
    assert wcache("memory trial show")["trial"]["reason"] == "stopped by an admin"
    assert ended(wcache, plan_id) == "planned"


def carried_out(wcache: Any, budget_bytes: int, targets: Dict[str, int]) -> Any:
    """A plan within this budget, from these targets: its id, and what became of its promises."""
    wcache.option("memory_budget", budget_bytes)
    wcache.wait("settled OSDs", lambda: watched(wcache, targets), 120)
    plan_id = wcache.wait("a plan", lambda: planned(wcache), 120)["plan_id"]
    for group in wcache("memory recommend")["groups"]:
        print("\n".join(row["words"] for row in group["classes"]))
    wcache("apply", plan_id=plan_id)
    wcache.wait("the plan", lambda: ended(wcache, plan_id) == "done", 300)
    promised = wcache.wait("what became of it", lambda: judged(wcache), 120)
    print("\n".join(str(row) for row in promised.values()))
    for row in wcache("memory status")["osds"]:
        # the OSD has it, its tuner goes by it, and what it uses follows
        assert row["target_bytes"] == promised[row["device_class"]]["target_bytes"], row
        assert row["followed_bytes"] == row["target_bytes"], row
        assert row["mapped_bytes"] <= OVER_SHARE * row["target_bytes"], row
    return plan_id, promised


def kept(starved: Dict[str, Any], idle: Dict[str, Any]) -> None:
    """Both miss what was promised; to miss less than that is no harm to the class that gives."""
    assert starved["outcome"] == "kept", starved
    assert starved["low_per_s"] <= starved["misses_per_s"] <= starved["high_per_s"]
    assert idle["outcome"] == "kept", idle
    assert idle["misses_per_s"] <= idle["high_per_s"]


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

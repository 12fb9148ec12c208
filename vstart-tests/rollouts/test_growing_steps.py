"""Steps that grow, on a real cluster of three hosts, judged by its clients beside the rest."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Tuple

import pytest
from rollouts.hosts import CLASS, THROUGH, Hosts, hosts_started
from rollouts.rig import OPTIONS

# minutes each: 96 to 256 blocks before the canary, 8 to 384 after each step
pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

THREES = {"h1": (0, 1, 2), "h2": (3, 4, 5), "h3": (6, 7, 8)}
# the gate's blocks are to find what is slow, and not the latency limit
GATED = {**OPTIONS, "gate_block_s": 1.0, "latency_limit_ms": 60_000}
DEPTH = 16
# Writes per second of a drive that is far slower than its neighbours, and still gets on.
SLOW, SLOW_IOPS = 4, 40
PATIENCE_S = 1500.0
# A busy machine may leave a step undecided; an admin then has it watched again.
RESUMED_MAX = 3

Steps = Dict[Tuple[int, ...], int]


@pytest.fixture(scope="module")
def rig(release: int) -> Iterator[Hosts]:
    """Nine OSDs."""
    with hosts_started(release, THREES, GATED) as hosts:
        yield hosts


def planned(rig: Hosts) -> str:
    """A plan of all drives, once the mgr knows that all may be changed."""
    def all_there() -> bool:
        would = rig.wcache("plan", scope=f"class:{CLASS}", dry_run=True)["changes"]
        return len(would) == sum(map(len, THREES.values()))

    rig.wcache.wait("a plan of all drives", all_there, PATIENCE_S)
    return rig.begin(rig.plan(scope=f"class:{CLASS}"))


def followed(rig: Hosts, plan_id: str, meanwhile: Callable[[Dict[str, Any]], Any]) -> Steps:
    """Until it is over; by the OSDs of each step that was judged, how many controls it had."""
    steps: Steps = {}

    def look() -> None:
        shown = rig.shown(plan_id)
        step = shown["step"]
        if step["phase"] == "blocks after":
            steps[tuple(step["osds"])] = len(step["controls"])
        meanwhile(shown)

    for _ in range(RESUMED_MAX):
        shown = rig.end(plan_id, PATIENCE_S, look)
        if shown["status"] != "paused" or shown["applied"] >= 6:
            break
        print(f"\n{shown['reason']}")
        rig.wcache("rollout resume", plan_id=plan_id)
    print(f"\n{shown['status']}: {shown['reason']}\nsteps: {steps}\nso far: {shown['evidence']}")
    return steps


def test_steps_grow_with_what_is_proven_one_host_after_another(rig: Hosts, tidy: None):
    with rig.clients(DEPTH):
        plan_id = planned(rig)

        def enough(shown: Dict[str, Any]) -> None:
            # beside the third host's OSDs the others can be judged, and it beside none
            if shown["applied"] >= 6 and shown["status"] == "running":
                rig.wcache("rollout pause", plan_id=plan_id)

        steps = followed(rig, plan_id, enough)
    shown = rig.shown(plan_id)
    assert shown["applied"] >= 6, shown
    # what one host has shown counts half on the next
    assert [*steps][:4] == [(0,), (1, 2), (3, 4), (5,)]
    assert [*steps.values()][:4] == [8, 6, 4, 3]
    assert shown["evidence"][0]["drives"] == 6
    assert rig.changed() >= {0, 1, 2, 3, 4, 5}


def test_a_later_step_with_a_slow_drive_goes_back_by_itself(
    rig: Hosts, tidy: None, throttle: Callable[[int, str, int], None]
):
    throttled = []
    with rig.clients(DEPTH):
        plan_id = planned(rig)

        def slows(_: Dict[str, Any]) -> None:
            if not throttled and rig.mode(SLOW) == THROUGH:
                throttled.append(SLOW)
                throttle(SLOW, "write_iops", SLOW_IOPS)

        steps = followed(rig, plan_id, slows)
    shown = rig.shown(plan_id)
    assert [*steps] == [(0,), (1, 2), (3, 4)], shown
    assert (shown["status"], shown["applied"]) == ("stopped", 3), shown
    assert shown["judgement"]["verdict"] == "worse"
    # what was judged before it stays
    assert rig.changed() == {0, 1, 2}
    assert shown["reason"].startswith("worse: commit latency")

"""Whatever is lost in the middle of a trial of more memory, every target is back."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
from harness import Cluster
from probes import Wcache
from starved import MIB, STARVED, all_back, leased, starved_cluster, watched

# all of them take some minutes
pytestmark = [pytest.mark.cluster, pytest.mark.long]

HIGH_BYTES = 1280 * MIB
PERIOD_S = 3
TRIES = 3


@pytest.fixture(scope="module")
def starved(release: int) -> Iterator[Wcache]:
    with starved_cluster(release, "1 0 0 0 0 0 0 0 0 0", standby_mgrs=1) as wcache:
        yield wcache


def first_period(trial: Any, held: int) -> bool:
    return not trial["periods"] and not held


def raised(trial: Any, held: int) -> bool:
    return len(trial["periods"]) in (1, 2) and held == HIGH_BYTES


def on_the_way_down(trial: Any, held: int) -> bool:
    return len(trial["periods"]) == 3 and 0 < held < HIGH_BYTES


def last_period(trial: Any, held: int) -> bool:
    return len(trial["periods"]) == 3 and not held


STATES = {f.__name__: f for f in (first_period, raised, on_the_way_down, last_period)}


def kill_mgr(cluster: Cluster) -> None:
    cluster.restart_mgr(kill=True)


def fail_over(cluster: Cluster) -> None:
    cluster.fail_mgr()


def turn_off_and_on(cluster: Cluster) -> None:
    cluster.disable_module("wcache")
    cluster.enable_module("wcache")


def kill_osd(cluster: Cluster) -> None:
    cluster.stop_osd(STARVED[0], kill=True)
    cluster.start_osd(STARVED[0])


STRIKES = {f.__name__: f for f in (kill_mgr, fail_over, turn_off_and_on, kill_osd)}


def begin(starved: Wcache) -> str:
    """Start a trial of both starved OSDs, once the cluster is fit for it; its id."""
    starved.cluster.wait_healthy(120, ignoring=["RECENT_CRASH"])
    # an OSD that was started anew is to be read twice
    answer = starved.wait("a trial", lambda: watched(starved) and starved(
        "memory trial start", scope="class:starved", target_bytes=HIGH_BYTES, osds=2,
        period_s=PERIOD_S, accept_cost=True,
    ), 300)
    return str(answer["trial_id"])


def reached(starved: Wcache, state: str) -> bool:
    """Whether the trial is in this state now; not where a stall of the machine has ended it."""

    def seen() -> Any:
        trial = starved("memory trial show")["trial"]
        if trial["status"] != "running":
            return trial["status"]
        held = int(leased(starved.cluster)[STARVED[1]] or 0)
        return STATES[state](trial, held) and "running"

    return bool(starved.wait(f"the trial in {state}", seen, 120) == "running")


def outcome(starved: Wcache, trial_id: str) -> str:
    """How a trial has ended, once nothing is owed any more.

    A mgr that is killed before the mons have stored it has changed nothing, and it is forgotten.
    """

    def over() -> str:
        trial = starved("memory trial show")["trial"]
        if trial is None or trial["trial_id"] != trial_id:
            return "forgotten"
        return str(trial["status"]) if trial["status"] in ("done", "stopped") else ""

    return str(starved.wait("the end of the trial", over, 90))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("strike", STRIKES)
def test_every_target_is_back(starved: Wcache, strike: str, state: str):
    cluster: Any = starved.cluster
    for _ in range(TRIES):
        trial_id = begin(starved)
        if not reached(starved, state):
            continue
        STRIKES[strike](cluster)
        assert all_back(cluster), leased(cluster)
        # one that was at its end before it was struck proves nothing, nor one that is forgotten
        if outcome(starved, trial_id) == "stopped":
            return
    raise AssertionError(f"no trial was struck in {state}")

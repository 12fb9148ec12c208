"""A canary that stalls under clients' load goes back within the promised time; a control does not.

It stalls in two ways.  Its process is stopped: it answers nothing, also not what it counts.  Or
its drive takes hardly a write: it answers, and commits nothing for seconds.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable, Dict, Iterator, Set

import pytest
from rollouts.rig import Rig
from wcache.core.loads import TRANSACTION_COUNTERS

# minutes each: 48 blocks before a step, and up to 96 after it
pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

BLOCK_S = 1.0
DEPTH = 8
# Clients of this machine wait for less, also beside other tests.
LIMIT_S = 4.0
PROMISED_S = 2.0
# `rollout show` is asked again and again, of a mgr on a busy machine.
TOLD_S = 1.0
ALONE = 1  # where nothing else is planned
Stall = Callable[[int], None]


@pytest.fixture(autouse=True)
def options(rig: Rig) -> Iterator[None]:
    """Short blocks, and a limit that is on."""
    with rig.options(gate_block_s=BLOCK_S, latency_limit_ms=LIMIT_S * 1000):
        yield


@pytest.fixture
def stopped(rig: Rig) -> Iterator[Stall]:
    """Stops the process of an OSD; afterwards it goes on."""
    pids: Set[int] = set()

    def stop(osd_id: int) -> None:
        pid = rig.cluster.osd_pid(osd_id)
        pids.add(pid)
        os.kill(pid, signal.SIGSTOP)

    yield stop
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    rig.wcache.wait("all OSDs", lambda: rig.cluster.osds_up() == set(rig.osd_ids))


@pytest.fixture
def starved(rig: Rig, throttle: Callable[[int, str, int], None]) -> Stall:
    """Leaves the drive of an OSD one write in a second: a commit takes several of them."""
    return lambda osd_id: throttle(osd_id, "write_iops", 1)


@pytest.fixture(params=["stopped", "starved"])
def stall(request: pytest.FixtureRequest) -> Stall:
    """Each way to stall."""
    found: Stall = request.getfixturevalue(request.param)
    return found


class LastCommit:
    """When an OSD has committed last, where it tells: a starved one may go on for a moment."""

    def __init__(self, rig: Rig, osd_id: int, tells: bool) -> None:
        self._rig = rig
        self._osd_id = osd_id
        self._tells = tells
        self._count = -1
        self.at_s = time.monotonic()

    def look(self) -> None:
        """Look at its counter."""
        if not self._tells:
            return
        told = self._rig.cluster.command("perf dump", target=self._osd_id)["bluestore"]
        count = next(told[name]["avgcount"] for name in TRANSACTION_COUNTERS if name in told)
        if count != self._count:
            self._count, self.at_s = count, time.monotonic()


def test_a_canary_that_stalls_is_noticed_in_time_goes_back_and_nothing_else_is_touched(
    rig: Rig, tidy: None, stall: Stall, request: pytest.FixtureRequest
):
    touched: Set[int] = set()

    def seen() -> bool:
        touched.update(rig.changed())
        last.look()
        return bool(rig.shown(plan_id)["status"] != "running")

    with rig.clients(DEPTH):
        plan_id = rig.begin(rig.plan(scope="class:hdd"))
        canary = int(rig.changes(plan_id)[0]["osd_id"])
        rig.wait_phase(plan_id, "blocks after")
        assert len(rig.shown(plan_id)["step"]["controls"]) >= 3
        last = LastCommit(rig, canary, "starved" in request.node.name)
        stall(canary)
        rig.wcache.wait("the stall to be seen", seen, 60)
        noticed_s = time.monotonic() - last.at_s
        shown = rig.end(plan_id)
        back_s = time.monotonic() - last.at_s
        mode = rig.mode(canary)
    print(f"\nnoticed after {noticed_s:.1f} s, back after {back_s:.1f} s: {shown['reason']}")
    assert shown["status"] == "rolled back", shown
    assert shown["reason"].startswith(f"osd.{canary} "), shown
    assert "past the limit of 4000 ms" in shown["reason"]
    assert noticed_s <= LIMIT_S + PROMISED_S + TOLD_S
    # while it still stalls
    assert mode == "write back"
    assert touched == {canary}
    assert rig.changed() == set()
    if "starved" in request.node.name:
        assert rig.wcache.advice("hdd")["went_back"]["plan_id"] == plan_id
    else:  # that a process does not answer says nothing of its drive model
        assert not rig.wcache.advice("hdd")["went_back"]


def test_a_control_whose_drive_stalls_is_left_out_or_the_rollout_pauses(
    rig: Rig, tidy: None, starved: Stall
):
    with rig.clients(DEPTH):
        plan_id = rig.begin(rig.plan(scope=f"osd.{ALONE}"))
        rig.wait_phase(plan_id, "blocks after")
        controls = rig.shown(plan_id)["step"]["controls"]
        starved(controls[-1])
        shown: Dict[str, Any] = rig.end(plan_id)
    told = shown["judgement"] or {}
    print(f"\n{shown['status']}: {shown['reason'] or told.get('words')}")
    assert shown["status"] in ("done", "paused"), shown
    assert rig.changed() == {ALONE}  # a pause keeps it, and nothing makes it last
    if shown["status"] == "done":
        assert told["verdict"] in ("no worse", "better")
        assert told["controls"] == len(controls) - 1, "beside the one that stalls"


def test_a_step_is_held_while_a_control_is_stopped(rig: Rig, tidy: None, stopped: Stall):
    """It is marked down, and of so few OSDs all miss a copy then."""
    with rig.clients(DEPTH):
        plan_id = rig.begin(rig.plan(scope=f"osd.{ALONE}"))
        rig.wait_phase(plan_id, "blocks after")
        control = rig.shown(plan_id)["step"]["controls"][-1]
        stopped(control)
        rig.wait_phase(plan_id, "held")
        assert rig.changed() == {ALONE}
        os.kill(rig.cluster.osd_pid(control), signal.SIGCONT)
        shown = rig.end(plan_id)
    assert shown["status"] == "done", shown
    assert shown["judgement"]["verdict"] in ("no worse", "better")

"""The gate on a real cluster, with clients that write: what is worse goes back, and is marked."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set, Tuple

import pytest
from bench.figures import cpu_seconds
from rollouts.rig import OSDS, Rig
from wcache.core.change.gate.judge import Effect, judge
from wcache.core.loads import Block, OsdBlock

# minutes each: 96 to 256 blocks before a step and 8 to 384 after it
pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

BLOCK_S = 1.0
# Writes per second of a drive that is far slower than its neighbours, and still gets on.
SLOW_IOPS = 40
# Enough in flight that the other OSDs still have work while most of it waits for the slow one.
DEPTH = 16
LOOK_S = 4.0
# The gate may have judged after eight; the test compares more.
BLOCKS = 24
CPU = Path("/sys/fs/cgroup/cpu")
# What a neighbour on the hosts leaves to the OSDs, of the processor time that they used.
LEFT_SHARE = 1 / 5
NEIGHBOURS_DEPTH = 128
PERIOD_US = 100_000  # the kernel's own


@pytest.fixture(scope="module", autouse=True)
def options(rig: Rig) -> Iterator[None]:
    """Short blocks."""
    with rig.options(gate_block_s=BLOCK_S):
        yield


@pytest.fixture
def patient(rig: Rig) -> Iterator[None]:
    """The gate's blocks are to find what is slow, and not the latency limit."""
    with rig.options(latency_limit_ms=60_000):
        yield


@pytest.fixture
def neighbour(rig: Rig) -> Iterator[Callable[[], None]]:
    """Comes to the hosts of all OSDs, and leaves them a part of the time that they now use."""
    if not (CPU / "cpu.cfs_quota_us").exists():
        pytest.skip("this kernel has no cpu controller of cgroup v1")
    group = CPU / f"wcache-{os.getpid()}"
    group.mkdir()

    def comes() -> None:
        pids = [rig.cluster.osd_pid(osd_id) for osd_id in range(OSDS)]
        began_s, used_s = time.monotonic(), sum(map(cpu_seconds, pids))
        time.sleep(LOOK_S)
        used = (sum(map(cpu_seconds, pids)) - used_s) / (time.monotonic() - began_s)
        left_us = max(1000, round(LEFT_SHARE * used * PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(left_us))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))

    yield comes
    for pid in (group / "cgroup.procs").read_text().split():
        (CPU / "cgroup.procs").write_text(pid)
    group.rmdir()


def canary_of(rig: Rig, plan_id: str, meanwhile: Callable[[], Any] = bool) -> int:
    """Waits until the canary of a plan is changed; returns its OSD."""
    osd_id = int(rig.wcache("plan show", plan_id=plan_id)["changes"][0]["osd_id"])

    def made() -> bool:
        meanwhile()
        return rig.mode(osd_id) == "write through"

    rig.wcache.wait("the canary", made, 300)
    return osd_id


class Record:
    """Blocks of some OSDs' commits, taken by the test itself while it waits."""

    def __init__(self, rig: Rig, osd_ids: Sequence[int]) -> None:
        self._rig = rig
        self._osd_ids = osd_ids
        self._read: Dict[int, Tuple[float, int]] = {}
        self._at_s = 0.0
        self.blocks: List[Block] = []

    def take(self) -> None:
        """A block, where its time is over."""
        now_s = time.monotonic()
        if now_s - self._at_s < BLOCK_S:
            return
        told = {osd_id: self._commits(osd_id) for osd_id in self._osd_ids}
        found = []
        for osd_id, (sum_s, count) in told.items():
            was_s, was = self._read.get(osd_id, (0.0, count))
            if count > was:
                mean_us = 1e6 * (sum_s - was_s) / (count - was)
                found.append(OsdBlock(osd_id, mean_us, count - was))
        if self._read:
            self.blocks.append(Block(now_s - self._at_s, tuple(found)))
        self._read, self._at_s = told, now_s

    def _commits(self, osd_id: int) -> Tuple[float, int]:
        told = self._rig.cluster.command("perf dump", target=osd_id)["bluestore"]["txc_commit_lat"]
        return float(told["sum"]), int(told["avgcount"])


def test_a_neighbours_load_in_a_wave_fools_before_and_after_and_not_the_gate(
    rig: Rig, tidy: None, patient: None, neighbour: Callable[[], None]
):
    before, after = (Record(rig, range(OSDS)) for _ in range(2))
    with rig.clients(DEPTH):
        plan_id = rig.begin(rig.plan(scope="osd.1"))
        assert canary_of(rig, plan_id, before.take) == 1
        neighbour()
        with rig.clients(NEIGHBOURS_DEPTH):
            shown = rig.end(plan_id, meanwhile=after.take)
            rig.wcache.wait("blocks", lambda: after.take() or len(after.blocks) >= BLOCKS, 120)
    judgement, controls = shown["judgement"], shown["judgement"]["controls"]
    alone = judge(before.blocks, after.blocks, (1,), ())
    beside = judge(before.blocks, after.blocks, (1,), [i for i in range(OSDS) if i != 1])
    print(f"\nthe gate: {judgement['words']}\nthe test: {beside.words}\nalone: {alone.words}")
    assert alone.verdict is Effect.WORSE
    assert beside.verdict is not Effect.WORSE
    assert judgement["verdict"] in ("no worse", "better"), shown
    assert controls >= 3
    assert shown["status"] == "done"


def test_what_is_better_in_the_bench_and_worse_for_clients_goes_back_at_the_canary(
    rig: Rig, tidy: None, patient: None, throttle: Callable[[int, str, int], None]
):
    touched: Set[int] = set()
    with rig.clients(DEPTH):
        plan_id = rig.begin(rig.plan(scope="class:hdd"))
        canary = canary_of(rig, plan_id)
        throttle(canary, "write_iops", SLOW_IOPS)
        shown = rig.end(plan_id, meanwhile=lambda: touched.update(rig.changed()))
    print(f"\nworse: {shown['reason']}")
    assert shown["status"] == "rolled back", shown
    assert shown["judgement"], shown
    assert shown["judgement"]["verdict"] == "worse"
    assert shown["judgement"]["controls"] >= 3
    assert shown["judgement"]["ratio"] > 1.3
    # nothing but the canary was touched, and it is as it was
    assert touched == {canary}
    assert rig.changed() == set()
    # its drive model is marked, and the way to settle it is shown
    advice = rig.wcache.advice("hdd")
    assert advice["mode"] == "write through"
    assert (advice["went_back"]["plan_id"], advice["went_back"]["why"]) == (
        plan_id, shown["reason"])
    text = rig.cluster.ceph("wcache", "recommend").stdout
    way = "next: ceph wcache campaign start --loads=traffic --dry-run  # while clients write"
    assert way in text

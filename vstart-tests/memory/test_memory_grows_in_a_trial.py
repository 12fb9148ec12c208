"""Memory that grows in the control group of an OSD ends a trial before the kernel kills."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import Any, Iterator, Tuple

import pytest
from control_group import ControlGroup, control_group
from probes import Wcache
from starved import MIB, STARVED, all_back, leased, starved_cluster, watched

pytestmark = [pytest.mark.cluster, pytest.mark.long]

HIGH_BYTES = 1280 * MIB
LIMIT_BYTES = 2048 * MIB
PERIOD_S = 15
# What leaks: most of what is left at once, then 16 MiB each half second until it is killed.
LEAK = """
import sys, time
kept = [b"x" * (int(sys.argv[1]) << 20)]
while True:
    kept.append(b"x" * (16 << 20))
    time.sleep(0.5)
"""


@pytest.fixture(scope="module")
def limited(release: int) -> Iterator[Tuple[Wcache, ControlGroup]]:
    """The cluster, whose first starved OSD runs in a control group with a limit."""
    with control_group() as group:
        group.limit(LIMIT_BYTES)
        with starved_cluster(release, "1 0 0 0 0 0 0 0 0 0") as wcache:
            cluster: Any = wcache.cluster
            with group.joined():
                cluster.stop_osd(STARVED[0])
                cluster.start_osd(STARVED[0])
            yield wcache, group


def raised(wcache: Wcache) -> str:
    """Begin a trial, and wait until OSDs have the larger target; its id."""
    wcache.cluster.wait_healthy(120)
    # an OSD that was started anew is to be read twice
    answer = wcache.wait("a trial", lambda: watched(wcache) and wcache(
        "memory trial start", scope="class:starved", target_bytes=HIGH_BYTES, osds=2,
        period_s=PERIOD_S, blocks=2, accept_cost=True,
    ), 300)
    wcache.wait("leases", lambda: leased(wcache.cluster)[STARVED[0]] == str(HIGH_BYTES), 90)
    return str(answer["trial_id"])


def stopped(wcache: Wcache, trial_id: str) -> str:
    """Why the trial was ended, once all is taken back."""

    def seen() -> str:
        trial = wcache("memory trial show")["trial"]
        assert trial["trial_id"] == trial_id
        assert trial["status"] != "done", "nobody has ended it"
        return str(trial["reason"]) if trial["status"] == "stopped" else ""

    return str(wcache.wait("the end of the trial", seen, 90))


@contextmanager
def leaking(group: ControlGroup, first_mib: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the group whose memory grows, and which the kernel kills first."""
    with group.joined():
        process = subprocess.Popen([sys.executable, "-c", LEAK, str(first_mib)])
    try:
        with open(f"/proc/{process.pid}/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_leak_ends_the_trial_before_the_kernel_kills_anything(
    limited: Tuple[Wcache, ControlGroup]
):
    wcache, group = limited
    cluster: Any = wcache.cluster
    pid = cluster.osd_pid(STARVED[0])
    trial_id = raised(wcache)
    left_mib = (int(0.75 * LIMIT_BYTES) - group.used_bytes) // MIB
    with leaking(group, left_mib) as process:
        reason = stopped(wcache, trial_id)
        print(f"\n{reason}; by now {group.used_bytes // MIB} MiB, {group.kills} kills")
        assert f"the control group of osd.{STARVED[0]} uses" in reason
        assert group.kills == 0
        assert group.used_bytes < LIMIT_BYTES
        assert all_back(cluster)
        # the limit is a real one: what goes on to grow is killed
        assert process.wait(timeout=60) == -9
    assert group.kills > 0
    assert cluster.osd_pid(STARVED[0]) == pid


def test_a_limit_that_is_lowered_ends_the_trial(limited: Tuple[Wcache, ControlGroup]):
    wcache, group = limited
    trial_id, kills = raised(wcache), group.kills
    group.limit(HIGH_BYTES)
    reason = stopped(wcache, trial_id)
    print(f"\n{reason}")
    assert f"the limit of the control group of osd.{STARVED[0]} is 1.2 GiB now" in reason
    assert all_back(wcache.cluster)
    assert group.kills == kills

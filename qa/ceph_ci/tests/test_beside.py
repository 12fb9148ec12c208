"""Ceph's own tests of its mgr modules come to the same with wcache enabled as without it.

It prints a table.  RELEASE chooses the release.  Both clusters run a test at the same time: most of
one is waiting.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, ContextManager, Dict, Iterator, List

import pytest
from ceph_ci import suite
from ceph_ci.edits import edits_of
from ceph_ci.place import TREE, Place
from ceph_ci.source import install, lay_out

pytestmark = [pytest.mark.ceph_ci, pytest.mark.long]
RELEASE = int(os.environ.get("RELEASE", "20"))
UNITS = (
    "failover", "crash", "insights", "cli", "prometheus", "devicehealth", "module_selftest",
    "progress",
)
# The cluster of Ceph's qa/suites/rados/mgr/clusters/2-node-mgr.yaml: test_prometheus skips itself
# where there are fewer mgrs, test_progress where there are fewer OSDs.
MGRS = 3
OSDS = 4
RECOVERY = ("-o", "osd mclock profile = high_recovery_ops")
# test_progress writes for 30 s, however much that is: 5 GB and more a test where loopback is as
# fast as it can be.
NETWORK = "tc qdisc add dev lo root tbf rate 800mbit burst 1m latency 1s"
# On a busy machine one side may miss a limit of Ceph's, as the 20 seconds for three mgrs to start;
# a difference that is ours comes again.
ATTEMPTS = 2
OURS = "test_wcache"  # what the series adds to test_module_selftest.py
# MgrTestCase disables all modules but these before each class of tests.
KEPT = ('set(loaded) - {"cephadm"', 'set(loaded) - {"wcache", "cephadm"')


@pytest.fixture(scope="module")
def without(open_place: Callable[[int], ContextManager[Place]]) -> Iterator[Place]:
    """A cluster as Ceph's CI has it today."""
    with open_place(RELEASE) as place:
        lay_out(place)
        _start(place)
        yield place


@pytest.fixture(scope="module")
def beside(open_place: Callable[[int], ContextManager[Place]]) -> Iterator[Place]:
    """A cluster with wcache, enabled, which Ceph's tests leave enabled."""
    with open_place(RELEASE) as place:
        install(place)
        _keep_enabled(place)
        _start(place)
        suite.enable(place)
        yield place


@pytest.mark.parametrize("unit", UNITS)
def test_cephs_own_tests_come_to_the_same(
    without: Place, beside: Place, unit: str, capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(ATTEMPTS):
        expected, done = run_both([without, beside], f"tasks.mgr.test_{unit}")
        suite.wait(beside, "bin/ceph wcache status")  # it was there to the end
        with capsys.disabled():
            print("\n" + table(expected.results, done.results))
        ours = {test: word for test, word in done.results.items() if test.endswith(OURS)}
        theirs = {test: word for test, word in done.results.items() if test not in ours}
        if theirs == expected.results:
            break
    assert theirs == expected.results, done.said[-6000:]
    assert "ok" in theirs.values(), expected.said[-6000:]
    assert set(ours.values()) == ({"ok"} if unit == "module_selftest" else set())


def run_both(places: List[Place], name: str) -> List[suite.Outcome]:
    """Run tests in each place at once, those after one that fails too."""
    with ThreadPoolExecutor(len(places)) as pool:
        return list(pool.map(
            lambda place: suite.run_named(place, name, options=["--run-all-tests"]), places
        ))


def table(without: Dict[str, str], enabled: Dict[str, str]) -> str:
    """A line for each test, with what it came to."""
    lines = [f"{'on release ' + str(RELEASE):64} {'without':9} with wcache"]
    for test in sorted({*without, *enabled}):
        short = test.partition("tasks.mgr.")[2]
        lines.append(f"{short:64} {without.get(test, '-'):9} {enabled.get(test, '-')}")
    return "\n".join(lines)


def _start(place: Place) -> None:
    place.check(NETWORK.split())
    suite.start(place, *RECOVERY, osds=OSDS, mgrs=MGRS)


def _keep_enabled(place: Place) -> None:
    case = place.outside(f"{TREE}/qa/tasks/mgr/mgr_test_case.py")
    text = case.read_text(encoding="utf-8")
    assert text.count(KEPT[0]) == 1
    case.write_text(text.replace(*KEPT), encoding="utf-8")
    for edit in edits_of("qa"):
        path = place.outside(f"{TREE}/{edit.path}")
        path.write_text(edit.made(path.read_text(encoding="utf-8")), encoding="utf-8")

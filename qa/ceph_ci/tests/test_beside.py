"""Ceph's own tests of its mgr modules come to the same with wcache enabled as without it.

It prints a table.  RELEASE chooses the release.
"""

from __future__ import annotations

import os
from typing import Callable, ContextManager, Dict, Iterator

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
MGRS = 3  # test_prometheus skips itself where there are fewer
OURS = "test_wcache"  # what the series adds to test_module_selftest.py
# MgrTestCase disables all modules but these before each class of tests.
KEPT = ('set(loaded) - {"cephadm"', 'set(loaded) - {"wcache", "cephadm"')


@pytest.fixture(scope="module")
def without(open_place: Callable[[int], ContextManager[Place]]) -> Iterator[Place]:
    """A cluster as Ceph's CI has it today."""
    with open_place(RELEASE) as place:
        lay_out(place)
        suite.start(place, mgrs=MGRS)
        yield place


@pytest.fixture(scope="module")
def beside(open_place: Callable[[int], ContextManager[Place]]) -> Iterator[Place]:
    """A cluster with wcache, enabled, which Ceph's tests leave enabled."""
    with open_place(RELEASE) as place:
        install(place)
        _keep_enabled(place)
        suite.start(place, mgrs=MGRS)
        suite.enable(place)
        yield place


@pytest.mark.parametrize("unit", UNITS)
def test_cephs_own_tests_come_to_the_same(
    without: Place, beside: Place, unit: str, capsys: pytest.CaptureFixture[str],
) -> None:
    name = f"tasks.mgr.test_{unit}"
    expected = suite.run_named(without, name)
    done = suite.run_named(beside, name)
    suite.wait(beside, "bin/ceph wcache status")  # it was there to the end
    with capsys.disabled():
        print("\n" + table(expected.results, done.results))
    assert "ok" in expected.results.values(), expected.said[-6000:]
    ours = {test: word for test, word in done.results.items() if test.endswith(OURS)}
    assert set(ours.values()) == ({"ok"} if unit == "module_selftest" else set())
    theirs = {test: word for test, word in done.results.items() if test not in ours}
    assert theirs == expected.results, done.said[-6000:]


def table(without: Dict[str, str], enabled: Dict[str, str]) -> str:
    """A line for each test, with what it came to."""
    lines = [f"{'on release ' + str(RELEASE):64} {'without':9} with wcache"]
    for test in sorted({*without, *enabled}):
        short = test.partition("tasks.mgr.")[2]
        lines.append(f"{short:64} {without.get(test, '-'):9} {enabled.get(test, '-')}")
    return "\n".join(lines)


def _keep_enabled(place: Place) -> None:
    case = place.outside(f"{TREE}/qa/tasks/mgr/mgr_test_case.py")
    text = case.read_text(encoding="utf-8")
    assert text.count(KEPT[0]) == 1
    case.write_text(text.replace(*KEPT), encoding="utf-8")
    for edit in edits_of("qa"):
        path = place.outside(f"{TREE}/{edit.path}")
        path.write_text(edit.made(path.read_text(encoding="utf-8")), encoding="utf-8")

"""The files for Ceph's own CI pass under Ceph's own vstart.sh and runner, and fail where they must.

RELEASE chooses the release.  Each test has a cluster of its own: a host whose probe has lost its
state is another one to the mgr, which takes its word only after a while.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Callable, ContextManager, Iterator, NamedTuple

import pytest
from ceph_ci import suite
from ceph_ci.place import BUILD, Place
from ceph_ci.source import PROJECT, install, leave_out_modules

pytestmark = pytest.mark.ceph_ci
RELEASE = int(os.environ.get("RELEASE", "20"))
UNIT = "tasks.mgr.test_wcache"
MAIN_JOB = f"{UNIT}.TestWcache.test_main_job"
YAML = "qa/suites/rados/mgr/tasks/4-units/wcache.yaml"
# As Ceph's workunits.yaml has it.  Raising limits takes more than root has in a container.
WORKUNIT = """
tasks:
- workunit:
    branch: main
    no_coverage_and_limits: true
    clients:
      client.0: [mgr/test_wcache.sh]
"""
FAILOVER = f"{UNIT}.TestWcache.test_failover_resumes_and_restores"
SELF_TEST = f"{UNIT}.TestWcache.test_self_test"


class Break(NamedTuple):
    """Text that stands once in the module, what takes its place, and how the suite fails then."""

    found: str
    becomes: str
    test: str
    said: str  # by the runner, of what has failed


BREAKS = {
    "an apply that changes nothing": Break(
        "orders.feed(plan_id, Begin())", "rollout.status", MAIN_JOB, "in _wait_plan",
    ),
    "a lease not restored at a failover": Break(
        "FREEZE)\n            self.feed(owner, events.Begin())",
        "FREEZE)", FAILOVER, "in _wait_over",
    ),
    "a command that raises": Break(
        "views.recommended.answer(world", "views.recommended.nowhere(world", MAIN_JOB,
        "self._wcache('recommend')",
    ),
    "a module that does not load": Break(
        "import MgrModule, MgrStandbyModule\n", "import MgrModule, MgrStandbyModule, Nowhere\n",
        MAIN_JOB, "cannot import name 'Nowhere'",
    ),
    "an option without a default": Break(
        '"default": item.default,', "", SELF_TEST, "self.assertEqual(without, [])",
    ),
}


def raised_in(place: Place) -> set:
    """The module's own health checks that the cluster's log has: teuthology fails at each."""
    log = place.outside(f"{BUILD}/out/cluster.mon.a.log").read_text(encoding="utf-8")
    return set(re.findall(r"\((WCACHE_\w+)\)", log))


@pytest.fixture(scope="module")
def place(open_place: Callable[[int], ContextManager[Place]]) -> Iterator[Place]:
    with open_place(RELEASE) as made:
        leave_out_modules(made)
        yield made


@pytest.fixture
def fresh(place: Place) -> Iterator[Place]:
    """A cluster of vstart.sh with two mgrs, the module installed and not enabled."""
    install(place)
    suite.start(place)
    yield place
    suite.stop(place)


def test_the_main_job_passes_by_its_name(fresh: Place) -> None:
    done = suite.run_named(fresh, MAIN_JOB)
    assert (done.code, list(done.results.values())) == (0, ["ok"]), done.said[-6000:]
    assert not raised_in(fresh)


@pytest.mark.long
def test_the_unit_passes_by_its_name(fresh: Place) -> None:
    done = suite.run_named(fresh, UNIT)
    assert (done.code, list(done.results.values())) == (0, ["ok"] * 4), done.said[-6000:]
    ignored = re.findall(r"\\\((WCACHE_\w*)", (PROJECT / YAML).read_text())
    assert raised_in(fresh) == set(ignored), "the suite ignores what its tests are about"


@pytest.mark.long
def test_the_suites_yaml_passes_by_teuthologys_run_tasks(fresh: Place) -> None:
    done = suite.run_yaml(fresh, (PROJECT / YAML).read_text())
    assert done.code == 0, done.said[-6000:]
    assert "Ran 4 tests" in done.said


@pytest.mark.long
def test_the_workunit_passes_by_teuthologys_task(fresh: Place) -> None:
    suite.make_repository(fresh)
    done = suite.run_yaml(fresh, WORKUNIT)
    assert done.code == 0, done.said[-6000:]
    assert "Running workunit mgr/test_wcache.sh" in done.said


@pytest.mark.long
@pytest.mark.parametrize("what", BREAKS)
def test_a_module_broken_by_hand_fails(fresh: Place, tmp_path: Path, what: str) -> None:
    if RELEASE != 20:
        pytest.skip("one release is enough")
    module = tmp_path / "wcache"
    shutil.copytree(
        PROJECT / "mgr_module/wcache", module, ignore=shutil.ignore_patterns("__pycache__")
    )
    broken = BREAKS[what]
    (file,) = [path for path in module.rglob("*.py") if broken.found in path.read_text()]
    file.write_text(file.read_text().replace(broken.found, broken.becomes))
    install(fresh, module)
    done = suite.run_named(fresh, broken.test)
    assert done.code != 0
    assert list(done.results) == [broken.test], done.said[-6000:]
    assert done.results[broken.test] in ("FAIL", "ERROR"), done.said[-6000:]
    assert broken.said in done.said, done.said[-6000:]

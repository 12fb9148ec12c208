"""The files for Ceph's own CI pass under Ceph's own vstart.sh and runner, and fail where they must.

RELEASE chooses the release.  Each test has a cluster of its own: a host whose probe has lost its
state is another one to the mgr, which takes its word only after a while.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Iterator

import pytest
from ceph_ci import suite
from ceph_ci.place import Place
from ceph_ci.source import PROJECT, install, source_of

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
# What is broken by hand: the text that stands once in the module, what takes its place, and the
# test that must fail.
BREAKS = {
    "an apply that changes nothing": ("engine.begin(plan_id)", "pass", MAIN_JOB),
    "a lease not restored at a failover": (
        "(FROZEN_BY_ADMIN))\n                self.feed(owner, events.Begin())",
        "(FROZEN_BY_ADMIN))", FAILOVER,
    ),
    "a command that raises": ("v.plans.recommendations(a.get", "v.plans.nowhere(a.get", MAIN_JOB),
    "a module that does not load": (
        "from mgr_module import MgrModule\n", "from mgr_module import MgrModule, Nowhere\n",
        MAIN_JOB,
    ),
    "an option without a default": ('"default": item.default,', "", SELF_TEST),
}


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with Place(RELEASE, source_of(RELEASE)) as made:
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


@pytest.mark.long
def test_the_unit_passes_by_its_name(fresh: Place) -> None:
    done = suite.run_named(fresh, UNIT)
    assert (done.code, list(done.results.values())) == (0, ["ok"] * 4), done.said[-6000:]


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
    found, broken, test = BREAKS[what]
    files = [path for path in module.rglob("*.py") if found in path.read_text()]
    assert len(files) == 1, files
    files[0].write_text(files[0].read_text().replace(found, broken))
    install(fresh, module)
    done = suite.run_named(fresh, test)
    assert done.code != 0
    assert "Starting test: " in done.said, done.said[-6000:]

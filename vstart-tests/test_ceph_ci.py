"""The files for Ceph's own CI pass on real clusters, and fail where the module is broken."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Iterator

import pytest
from ceph_ci.runner import run_unit, run_workunit
from harness import Cluster, ClusterPlan, start_cluster
from probes import MODULE

pytestmark = pytest.mark.cluster
MGRS = ("x", "y")
UNIT = "test_wcache"
MAIN_JOB = "TestWcache.test_main_job"
# What `make test` does on each release; the whole unit restarts the mgrs twice as often.
ON_EACH = (MAIN_JOB, "TestWcache.test_failover_resumes_and_restores")
WHOLE_ON = 20


def ci_cluster(release: int, module: Path = MODULE) -> Cluster:
    """A cluster as Ceph's CI has it: two mgrs, the module installed and not enabled."""
    if release < 18:
        pytest.skip("Ceph's CI of today is for newer releases")
    return start_cluster(
        ClusterPlan(
            release=release, standby_mgrs=1, own_modules=(module,), packaged_modules=("selftest",)
        )
    )


@pytest.fixture(scope="module")
def two_mgrs(release: int) -> Iterator[Cluster]:
    cluster = ci_cluster(release)
    yield cluster
    cluster.stop()


@pytest.mark.one_release
def test_the_unit_of_the_rados_mgr_suite_passes(two_mgrs: Cluster) -> None:
    ran, failed, said = run_unit(UNIT, two_mgrs, MGRS)
    assert (ran, failed) == (4, []), said


def test_the_units_main_job_and_its_failover_pass(release: int, two_mgrs: Cluster) -> None:
    if release == WHOLE_ON:
        pytest.skip("the whole unit is run on this release")
    ran, failed, said = run_unit(UNIT, two_mgrs, MGRS, ON_EACH)
    assert (ran, failed) == (len(ON_EACH), []), said


def test_the_workunit_passes(two_mgrs: Cluster) -> None:
    assert run_workunit("test_wcache.sh", two_mgrs).endswith("OK\n")


# What is broken by hand: the text that stands somewhere in the module, and what takes its place.
BREAKS = {
    "an apply that changes nothing": ("engine.begin(plan_id)", "pass"),
    "a recommend that is always write back": (
        "first.drive_model, verdict, verdict.mode,",
        "first.drive_model, verdict, CacheMode.WRITE_BACK,",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("what", BREAKS)
def test_a_module_broken_by_hand_fails(release: int, tmp_path: Path, what: str) -> None:
    module = tmp_path / "wcache"
    shutil.copytree(MODULE, module, ignore=shutil.ignore_patterns("__pycache__"))
    found, broken = BREAKS[what]
    files = [path for path in module.rglob("*.py") if found in path.read_text()]
    assert len(files) == 1, files
    files[0].write_text(files[0].read_text().replace(found, broken))
    cluster = ci_cluster(release, module)
    try:
        ran, failed, said = run_unit(UNIT, cluster, MGRS, [MAIN_JOB])
    finally:
        cluster.stop()
    assert (ran, failed) == (1, ["test_main_job"]), said
    # by what it looks at, and not since nothing works
    assert "AssertionError" in said or "Timed out" in said, said

"""The series of patches goes onto a clean tree of Ceph's, and every file of ours is in it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ceph_ci.series import CORE, MODULE, PROBE, Repository, write_series
from ceph_ci.source import source_of

pytestmark = [pytest.mark.ceph_ci, pytest.mark.long]
RELEASE = 20
KIB_MAX = 300  # what somebody reads in one go


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean tree with the series on it."""
    home = tmp_path_factory.mktemp("series")
    written = write_series(source_of(RELEASE), home / "made", home / "out")
    clean = Repository(home / "clean", source_of(RELEASE))
    clean.git("am", "--quiet", *map(str, written))
    assert clean.git("diff", "--stat", "base", "HEAD")
    assert not clean.git("status", "--porcelain")
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert "Signed-off-by: " in text
        assert len(text) < KIB_MAX * 1024, path.name
    return clean.folder


def test_module_probe_and_what_both_share_are_there(series: Path) -> None:
    for path in (f"{CORE}/model.py", f"{MODULE}/module.py", f"{PROBE}/wcache_probe/main.py"):
        assert "wcache.core" not in (series / path).read_text()
    assert "wcache)" in (series / "src/pybind/mgr/CMakeLists.txt").read_text()
    assert "WCACHE_UNSAFE\n" in (series / "doc/rados/operations/health-checks.rst").read_text()


def test_flake8_as_ceph_sets_it_finds_nothing(series: Path) -> None:
    import subprocess

    for folder, words in (
        ("src/pybind/mgr", ["--config=tox.ini", "wcache"]),
        ("src/python-common", ["--config=tox.ini", "ceph/wcache"]),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "flake8", *words], cwd=series / folder, check=False,
            capture_output=True, text=True,
        )
        assert done.returncode == 0, done.stdout


def test_ours_pass_beside_cephs_own_stand_ins(series: Path) -> None:
    import subprocess

    mgr = series / "src/pybind/mgr"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "wcache/tests/ceph",
         "wcache/tests/commands"],
        cwd=mgr, check=False, capture_output=True, text=True,
        env={"UNITTEST": "true", "PYTHONPATH": f"{mgr}:{mgr}/..:{series}/src/python-common",
             "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stdout[-3000:]

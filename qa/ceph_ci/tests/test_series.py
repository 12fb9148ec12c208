"""The series of patches goes onto a clean tree of Ceph's, and every file of ours is in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ceph_ci.series import CORE, MODULE, PROBE, Repository, write_series
from ceph_ci.source import source_of

pytestmark = [pytest.mark.ceph_ci, pytest.mark.long]
RELEASE = 20
TESTS_MIN = 2000  # of the module alone


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
    return clean.folder


def test_module_probe_and_what_both_share_are_there(series: Path) -> None:
    for path in (f"{CORE}/model.py", f"{MODULE}/module.py", f"{PROBE}/wcache_probe/main.py"):
        assert "wcache.core" not in (series / path).read_text()
    assert "wcache)" in (series / "src/pybind/mgr/CMakeLists.txt").read_text()
    assert "WCACHE_UNSAFE\n" in (series / "doc/rados/operations/health-checks.rst").read_text()


def test_flake8_as_ceph_sets_it_finds_nothing(series: Path) -> None:
    for folder, words in (
        ("src/pybind/mgr", ["--config=tox.ini", "wcache"]),
        ("src/python-common", ["--config=tox.ini", "ceph/wcache"]),
        ("src/pybind/mgr", ["--config=tox.ini", "--select=F,E9", f"{series}/qa/tasks/mgr"]),
    ):
        done = _run(series / folder, "flake8", *words)
        assert done.returncode == 0, done.stdout


def test_mypy_as_ceph_sets_it_finds_nothing(series: Path) -> None:
    for folder, package, ours in (
        ("src/pybind/mgr", "wcache", "wcache/"),
        ("src/python-common", "ceph.wcache", "ceph/wcache/"),
    ):
        # Ceph's tox installs the annotations of PyYAML
        words = ["-p", package, "--disable-error-code=import-untyped"]
        settings = "--config-file=" + os.path.relpath(series / "src/mypy.ini", series / folder)
        done = _run(series / folder, "mypy", settings, *words)
        told = done.stdout.splitlines()
        assert "source file" in told[-1], done.stdout + done.stderr
        assert [line for line in told if line.startswith(ours) and ": error:" in line] == []


def test_ours_pass_beside_cephs_own_stand_ins(series: Path) -> None:
    words = ["-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider", "wcache/tests"]
    done = _run(series / "src/pybind/mgr", "pytest", *words)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(done.stdout.splitlines()[-1].split()[0]) > TESTS_MIN, done.stdout[-200:]


def _run(folder: Path, tool: str, *words: str) -> subprocess.CompletedProcess[str]:
    source = next(each for each in folder.parents if each.name == "src")
    mgr, common = source / "pybind/mgr", source / "python-common"
    return subprocess.run(
        [sys.executable, "-m", tool, *words], cwd=folder, check=False, capture_output=True,
        text=True, timeout=1200,
        env={"UNITTEST": "true", "PATH": "/usr/bin:/bin", "MYPYPATH": f"{mgr}/..:{common}",
             "PYTHONPATH": f"{mgr}:{mgr}/..:{common}"},
    )

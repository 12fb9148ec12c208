"""The series of patches goes onto a clean tree of Ceph's, and every file of ours is in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ceph_ci.series import CORE, MODULE, PROBE, Repository, write_series
from ceph_ci.source import source_of
from harness.releases import run

pytestmark = [pytest.mark.ceph_ci, pytest.mark.long]
RELEASE = 20
TESTS_MIN = 2000  # of the module alone
# tox's environments that read code, by the folder of their tox.ini.
LINTS = (
    ("src/pybind/mgr", "flake8"), ("src/pybind/mgr", "mypy"), ("src/python-common", "lint"),
    ("src/python-common", "mypy"),
)


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


@pytest.fixture(scope="module")
def tox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tox, as Ceph's run-tox.sh installs it."""
    home = tmp_path_factory.mktemp("tox")
    run([sys.executable, "-m", "venv", str(home)], "an environment for tox")
    run([str(home / "bin/pip"), "--quiet", "install", "tox"], "tox")
    return home / "bin/tox"


@pytest.mark.parametrize(("folder", "checks"), LINTS)
def test_cephs_tox_finds_nothing_in_ours(series: Path, tox: Path, folder: str, checks: str) -> None:
    """Ceph's own errors are not ours: mypy finds some where a submodule of git's is missing."""
    done = subprocess.run(
        [str(tox), "-e", checks], cwd=series / folder, capture_output=True, text=True,
        timeout=1800, check=False,
    )
    assert f"{checks}: commands[0]" in done.stdout, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if re.search(r":\d+:", line)]
    assert [line for line in told if "/wcache/" in f"/{line.partition(':')[0]}"] == []
    if checks != "mypy":
        assert done.returncode == 0, done.stdout


def test_ours_pass_beside_cephs_own_stand_ins(series: Path) -> None:
    words = ["-q", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider", "wcache/tests"]
    mgr, common = series / "src/pybind/mgr", series / "src/python-common"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=mgr, check=False, capture_output=True,
        text=True, timeout=1200,
        env={"UNITTEST": "true", "PATH": "/usr/bin:/bin",
             "PYTHONPATH": f"{mgr}:{mgr.parent}:{common}"},
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(done.stdout.splitlines()[-1].split()[0]) > TESTS_MIN, done.stdout[-200:]

"""The series of patches goes onto a clean tree of Ceph's, and every file of ours is in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ceph_ci.series import CORE, MODULE, PROBE, Repository, write_series
from ceph_ci.source import PROJECT, source_of
from harness.releases import run

pytestmark = pytest.mark.ceph_ci
long = pytest.mark.long
RELEASE = 20
# tox's environments that read code, by the folder of their tox.ini.
LINTS = (
    ("src/pybind/mgr", "flake8"), ("src/pybind/mgr", "mypy"), ("src/python-common", "lint"),
    ("src/python-common", "mypy"),
)
# tox's py3, by the folder: which tests, Ceph's own among them, and how many pass at least.  The
# rest of Ceph's would ask for a submodule of git's (rook_client) that no package has.
TESTS = {
    "src/pybind/mgr": (("wcache/tests", "tests"), 2000),
    "src/wcache-probe": (("tests",), 1000),
}


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


@long
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


def test_the_mypy_that_ceph_pins_finds_nothing_in_ours(tmp_path: Path) -> None:
    """An older mypy than ours, beside Ceph's own modules, finds what ours does not.

    tox does the same below, on the whole series and for a minute longer.
    """
    ceph = source_of(RELEASE) / "src"
    home = tmp_path / "mypy"
    run([sys.executable, "-m", "venv", str(home)], "an environment for mypy")
    run(
        [str(home / "bin/pip"), "--quiet", "install", "-c", str(ceph / "mypy-constrains.txt"),
         "mypy", "types-PyYAML", "jinja2", "cheroot"], "Ceph's mypy",
    )
    done = subprocess.run(
        [str(home / "bin/mypy"), f"--config-file={ceph}/mypy.ini", f"--cache-dir={home}/cache",
         "-m", "wcache"],
        cwd=PROJECT / "mgr_module", capture_output=True, text=True, timeout=600, check=False,
        env={"MYPYPATH": f"{ceph}/pybind/mgr:{ceph}/pybind:{ceph}/python-common"},
    )
    assert "errors in" in done.stdout or "no issues" in done.stdout, done.stdout + done.stderr
    ours = [line for line in done.stdout.splitlines() if re.match(r"wcache/.*: error: ", line)]
    assert ours == []


@long
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


@long
@pytest.mark.parametrize("folder", TESTS)
def test_ours_pass_in_cephs_tox_beside_cephs_own(series: Path, tox: Path, folder: str) -> None:
    wanted, passed_min = TESTS[folder]
    done = subprocess.run(
        [str(tox), "-e", "py3", "--", "-q", "-p", "no:cacheprovider", *wanted],
        cwd=series / folder, check=False, capture_output=True, text=True, timeout=1800,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = re.findall(r"^(\d+) passed", done.stdout, re.M)
    assert passed, done.stdout[-500:]
    assert int(passed[0]) > passed_min, done.stdout[-500:]

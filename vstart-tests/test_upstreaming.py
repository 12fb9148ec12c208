"""What doc/upstreaming.md says of Ceph's source is so, and the module passes Ceph's own checks."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List, NamedTuple

import pytest
from harness import Cluster
from harness.releases import ensure_release
from harness.sources import ensure_source

# the source is a quarter of a gigabyte to fetch
pytestmark = [pytest.mark.cluster, pytest.mark.long]

RELEASE = 20
PROJECT = Cluster.project
PAGE = (PROJECT / "doc/upstreaming.md").read_text(encoding="utf-8")
PACKAGED = "debian/ceph-mgr-modules-core.install"
SPAN = re.compile("`([^`]+)`")
WANTED = (
    "ceph.spec.in", "PendingReleaseNotes", ".github/*", "doc/mgr/*.rst",
    "doc/rados/operations/health-checks.rst", "qa/suites/rados/mgr/*", "qa/tasks/mgr/*.py",
    "qa/tasks/ceph_test_case.py", "src/mypy.ini", "src/CMakeLists.txt", "src/pybind/*.py",
    "src/pybind/mgr/CMakeLists.txt", "src/pybind/mgr/tox.ini", "src/pybind/mgr/requirements*.txt",
    "src/pybind/mgr/*.pyi", "src/python-common/ceph/*", "src/ceph-node-proxy/*",
    "src/cephadm/cephadmlib/daemons/node_proxy.py",
)


class Edit(NamedTuple):
    """A line of a file of Ceph's, and the lines that take its place."""

    path: str
    line: str
    becomes: List[str]


def items(title: str) -> List[List[str]]:
    """What stands between backticks in each item of the list under a title."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0].partition("\n\n")[0]
    return [SPAN.findall(item) for item in ("\n" + section).split("\n- ")[1:]]


EDITS = [Edit(path, line, becomes) for path, line, *becomes in items("Changed lines")]


@pytest.fixture(scope="module")
def source(release: int) -> Path:
    if release != RELEASE:
        pytest.skip(f"a pull request is against the newest source: RELEASE={RELEASE}")
    return ensure_source(RELEASE, WANTED)


def made(text: str, edit: Edit) -> str:
    """A file with an edit made; the line has to be there once."""
    lines = text.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.strip() == edit.line]
    margin = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines[at : at + 1] = [margin + line for line in edit.becomes]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def changed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of Ceph's source with every change of the page made."""
    tree = tmp_path_factory.mktemp("upstream") / "ceph"
    shutil.copytree(source, tree, symlinks=True)
    for edit in EDITS:
        if edit.path != PACKAGED:
            (tree / edit.path).write_text(made((tree / edit.path).read_text(), edit))
    shutil.copytree(
        PROJECT / "mgr_module/wcache", tree / "src/pybind/mgr/wcache",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tree


def test_no_line_is_there_yet(source: Path) -> None:
    for edit in EDITS:
        assert any("wcache" in line for line in edit.becomes), edit
        if edit.path != PACKAGED:
            assert "wcache" not in (source / edit.path).read_text(), edit


def test_the_modules_of_the_debian_package_are_in_that_folder(source: Path) -> None:
    root = ensure_release(RELEASE, native_allowed=False)
    listed = root.inside("/var/lib/dpkg/info/ceph-mgr-modules-core.list")
    files = listed.read_text().splitlines()
    (edit,) = [each for each in EDITS if each.path == PACKAGED]
    assert f"/{edit.line}" in files


def test_the_module_is_installed_checked_and_documented(changed: Path) -> None:
    cmake = (changed / "src/pybind/mgr/CMakeLists.txt").read_text()
    listed = cmake.partition("set(mgr_modules\n")[2].partition("\n\n")[0]
    assert listed.endswith("  volumes\n  wcache)")
    assert "install(DIRECTORY ${mgr_modules}\n" in cmake
    tox = (changed / "src/pybind/mgr/tox.ini").read_text()
    assert "-m volumes \\\n           -m wcache\n" in tox
    assert "    smb \\\n    wcache\n" in tox


def test_each_new_file_is_here_and_not_there(source: Path) -> None:
    for there, here, *_ in items("New files"):
        assert (PROJECT / here).exists(), here
        assert not (source / there).exists(), there


def test_what_else_the_page_names_is_in_the_source(source: Path) -> None:
    rest = PAGE.partition("## Text to write")[2].partition("## What is open")[0]
    named = [span for span in SPAN.findall(rest) if "/" in span and "*" not in span]
    files = [span for span in named if not span.startswith("debian/")]
    assert len(files) >= 6
    for path in files:
        assert (source / path).exists(), path
    spec = (source / "ceph.spec.in").read_text()
    assert "%package node-proxy\n" in spec
    assert "%files node-proxy\n" in spec
    assert "MGR_MODULE_ERROR\n" in (source / "doc/rados/operations/health-checks.rst").read_text()
    ini = (source / "src/mypy.ini").read_text()
    assert "[mypy-numpy.*]\nignore_missing_imports = True" in ini
    assert "[mypy-scipy.*]\nignore_missing_imports = True" in ini
    required = (source / "src/pybind/mgr/requirements-required.txt").read_text()
    assert "scipy\n" in required


def test_flake8_as_ceph_sets_it_finds_nothing(changed: Path) -> None:
    mgr = changed / "src/pybind/mgr"
    done = _run([sys.executable, "-m", "flake8", "--config=tox.ini", "wcache"], mgr)
    assert (done.returncode, done.stdout) == (0, "")
    tests = PROJECT / "qa/tasks"
    done = _run([sys.executable, "-m", "flake8", "--select=F,E9", str(tests)], mgr)
    assert (done.returncode, done.stdout) == (0, "")


def test_mypy_as_ceph_sets_it_finds_nothing_in_the_module(changed: Path) -> None:
    mgr = changed / "src/pybind/mgr"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=../../mypy.ini", "-p", "wcache",
         # Ceph's tox installs the annotations of PyYAML
         "--disable-error-code=import-untyped"],
        cwd=mgr, capture_output=True, text=True, timeout=600, check=False,
        env={"MYPYPATH": f"{mgr}/..:{changed}/src/python-common", "PATH": "/usr/bin:/bin"},
    )
    told = done.stdout.splitlines()
    assert "source file" in told[-1], done.stdout + done.stderr
    ours = [line for line in told if line.startswith("wcache/") and ": error:" in line]
    assert ours == []


def _run(argv: List[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )

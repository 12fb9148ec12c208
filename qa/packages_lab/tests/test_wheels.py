"""The wheels: the same bytes from the same commit, and programs that work where nothing else is.

What is built is the commit that is checked out, in copies of the tree: building leaves files
beside the sources.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from harness.access import PROJECT
from sim_drives import DRIVES
from wcache.core import VERSION

pytestmark = [pytest.mark.packages, pytest.mark.long]  # pip fetches what builds a wheel

BUILD_S = 600.0


def said(*argv, cwd, timeout_s=120.0, env=None):
    done = subprocess.run(
        [str(word) for word in argv], cwd=cwd, env=env, capture_output=True, text=True,
        timeout=timeout_s, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path) -> Path:
    """The wheel that `make wheels` makes of a fresh copy of the tree."""
    said("git", "clone", "--quiet", "--no-hardlinks", PROJECT, folder, cwd="/")
    said("make", "--no-print-directory", "wheels", cwd=folder, timeout_s=BUILD_S)
    (wheel,) = (folder / "out").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("wheel") / "tree")


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The programs' folder of a Python environment that holds the wheel alone."""
    folder = tmp_path_factory.mktemp("environment")
    said(sys.executable, "-m", "venv", folder, cwd="/", timeout_s=BUILD_S)
    said(
        folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        wheel, cwd="/", timeout_s=BUILD_S,
    )
    return folder / "bin"


def test_the_same_commit_gives_the_same_bytes_in_another_folder(wheel, tmp_path):
    again = built(tmp_path / "elsewhere" / "tree")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_a_wheel_holds_the_three_packages_and_what_they_read(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"wcache", "wcache_probe", "wcache_cli"}
    templates = {path.name for path in (PROJECT / "templates").glob("*.j2")}
    inside = {Path(name).name for name in names if name.startswith("wcache_cli/templates/")}
    assert templates == inside != set()
    for folder in ("wcache/web/templates", "wcache/deployment"):
        templates = {path.name for path in (PROJECT / "mgr_module" / folder).glob("*.j2")}
        inside = {Path(name).name for name in names if name.startswith(f"{folder}/")}
        assert templates == {name for name in inside if name.endswith(".j2")} != set()


@pytest.mark.parametrize("program", ["wcache", "wcache-probe"])
def test_an_installed_program_says_its_version(installed, program, tmp_path):
    told = said(installed / program, "--version", cwd=tmp_path, env={})
    assert told == f"{program} {VERSION}\n"


def test_the_installed_probe_looks_at_simulated_drives(installed, tmp_path):
    (tmp_path / "drives.toml").write_text(DRIVES)
    told = said(
        installed / "python", PROJECT / "qa/wcache_sim", "drives.toml", "look", "--state-dir",
        "none", cwd=tmp_path, env={},
    )
    assert "CAUTIOUS" in told
    imported = said(
        installed / "python", "-c", "import wcache_probe; print(wcache_probe.__file__)",
        cwd=tmp_path, env={},
    )
    assert imported.startswith(str(installed.parent)), "and not out of the tree"

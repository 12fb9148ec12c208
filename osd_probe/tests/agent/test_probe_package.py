"""The probe as it is installed: one file, the same bytes each time, nothing of the mgr in it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import zipapps
from harness.access import PROJECT
from harness.roots import RIG_FILE
from loop_devices import loop_on
from sim_drives import DRIVES
from wcache_probe.linux.block.foreign import RIG_FILE_SHA256
from wcache_probe.matrix.scratch import MIB


@pytest.mark.slow
def test_the_zipapp_works_anywhere_and_holds_core_and_probe_only(tmp_path: Path):
    app = zipapps.build("wcache-probe", tmp_path)
    (tmp_path / "drives.toml").write_text(DRIVES)
    words = [sys.executable, str(app), "--version"]
    assert subprocess.run(words, env={}, timeout=30, check=False).returncode == 0
    look = subprocess.run(
        [sys.executable, PROJECT / "qa/wcache_sim", "drives.toml", "look", "--state-dir", "none"],
        cwd=tmp_path, capture_output=True, text=True, env={"PATH": str(tmp_path)}, timeout=30,
        check=False,
    )
    assert look.returncode == 0, look.stderr
    assert "CAUTIOUS" in look.stdout
    with zipfile.ZipFile(app) as archive:
        names = archive.namelist()
    assert "wcache_probe/agent.py" in names
    outside = [
        name for name in names
        if not name.startswith(("wcache/core/", "wcache_probe/"))
    ]
    assert sorted(outside) == ["__main__.py", "wcache/__init__.py"]


@pytest.mark.slow
def test_the_same_tree_gives_the_same_bytes(tmp_path: Path):
    for name in zipapps.APPS:
        first, second = (zipapps.build(name, tmp_path / n).read_bytes() for n in ("a", "b"))
        assert first == second


@pytest.mark.slow
def test_bench_of_a_blank_device_needs_nothing_else_of_ours(tmp_path: Path):
    app = zipapps.build("wcache-probe", tmp_path)
    with loop_on(tmp_path / "blank.img", 24 * MIB) as name:
        words = ["bench", f"/dev/{name}", "--hostname", "h1", "--osd-data", "osds/*",
                 "--state-dir", "state", "--run-dir", "run"]
        done = subprocess.run(
            [sys.executable, "-I", str(app), *words], cwd=tmp_path, capture_output=True, text=True,
            env={"PATH": "/usr/bin:/bin:/usr/sbin"}, timeout=60, check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert "score" in done.stdout


def test_nothing_that_is_shipped_has_the_name_of_a_rigs_file():
    name = Path(RIG_FILE).name
    assert hashlib.sha256(name.encode()).hexdigest() == RIG_FILE_SHA256
    folders = ("mgr_module", "osd_probe", "cli", "templates", "packaging", "doc")
    paths = [path for folder in folders for path in (PROJECT / folder).rglob("*")]
    files = [path for path in (*paths, *PROJECT.glob("*.md")) if path.is_file()]
    assert len(files) > 500
    assert [str(path) for path in files if name.encode() in path.read_bytes()] == []

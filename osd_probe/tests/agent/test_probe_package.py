"""The probe as it is installed: one file, the same bytes each time, nothing of the mgr in it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import zipapps
from sim_drives import DRIVES


@pytest.mark.slow
def test_the_zipapp_works_anywhere_and_holds_core_and_probe_only(tmp_path: Path):
    app = zipapps.build("wcache-probe", tmp_path)
    (tmp_path / "drives.toml").write_text(DRIVES)
    look = subprocess.run(
        [sys.executable, str(app), "look", "--sim", "drives.toml", "--state-dir", "none"],
        cwd=tmp_path, capture_output=True, text=True, env={}, timeout=30, check=False,
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


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path):
    for name in zipapps.APPS:
        first, second = (zipapps.build(name, tmp_path / n).read_bytes() for n in ("a", "b"))
        assert first == second

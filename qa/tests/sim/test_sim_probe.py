"""The probe is started on simulated drives by one command, which needs no more than the tree."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

DRIVES = """
schema = 1
[[drive]]
name = "one"
model = "ONLY-ONE"
[drive.latency]
fua_write = { median_us = 300 }
dirty_flush = { median_us = 12000 }
"""


def started(folder: Path, file: str, *words: str) -> subprocess.CompletedProcess:
    program = Path(__file__).resolve().parents[2] / "sim_probe"
    folders = ["--state-dir", "state", "--run-dir", "run"]
    return subprocess.run(
        [program, file, *words, *folders], cwd=folder, env={"PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60, check=False,
    )


@pytest.mark.slow
def test_sim_probe_looks_at_the_drives_of_a_file(tmp_path):
    (tmp_path / "drives.toml").write_text(DRIVES)
    done = started(tmp_path, "drives.toml", "look", "--hostname", "sim1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "SIM ONLY-ONE" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("text", "said"), [
    (None, "there is no file 'drives.toml'"),
    ("schema = 7", "drives.toml.schema: is 7"),
])
def test_a_file_of_no_use_is_one_line_and_exit_code_2(tmp_path, text, said):
    if text is not None:
        (tmp_path / "drives.toml").write_text(text)
    done = started(tmp_path, "drives.toml", "look")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1

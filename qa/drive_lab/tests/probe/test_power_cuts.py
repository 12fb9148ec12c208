"""Power cuts in the middle of what wcache does: `make powercuts`, a few of them."""

import os
import subprocess
import sys

import pytest
from drive_lab.lab import PROJECT

pytestmark = pytest.mark.lab
ROUNDS = 9
TIMEOUT_S = 900


def test_power_cuts_lose_nothing_acknowledged_and_the_control_does(release):
    paths = (
        "qa", "osd_probe", "mgr_module", "qa/drive_lab/tests/worlds", "osd_probe/tests/worlds",
    )
    done = subprocess.run(
        [
            sys.executable, "-m", "drive_lab.powercuts", "--rounds", str(ROUNDS), "--seed", "6",
            "--release", str(release),
        ],
        env={**os.environ, "PYTHONPATH": ":".join(str(PROJECT / path) for path in paths)},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{ROUNDS} power cuts" in done.stdout

"""Drives go with the lab that started them, unless it leaves them running."""

import os
import subprocess
import sys
import time

import pytest
from drive_lab.drives.backend import BackendSpec
from drive_lab.images.artefacts import install_host_packages
from drive_lab.lab import NBD_PLUGIN, PROJECT
from drive_lab.processes import connect, kill_recorded

pytestmark = pytest.mark.lab
GONE_S = 20.0

STARTER = """
import sys, time
from pathlib import Path
from drive_lab.processes import Children, wait_for
folder, keep = Path(sys.argv[1]), sys.argv[2] == "keep"
children = Children(folder, {"WCACHE_KEPT": "1"} if keep else None)
child = children.start("nbdkit-kept", sys.argv[3:])
wait_for("the drive", folder / "kept.nbd", child, 20.0)
"""


@pytest.mark.parametrize("keep", [True, False])
def test_a_drive_outlives_its_starter_only_where_it_is_to_be_kept(tmp_path, keep):
    install_host_packages()
    spec, control = tmp_path / "kept.json", tmp_path / "kept.control"
    BackendSpec(
        drive_file=str(PROJECT / "qa/drive_lab/tests/drives.toml"), model_name="scsi", index=0,
        seed=1, backing=str(tmp_path / "kept.img"), counters=str(tmp_path / "kept.counters"),
        outlives_parent=keep,
    ).write(spec)  # fmt: skip
    argv = [
        "nbdkit", "--foreground", "--unix", str(tmp_path / "kept.nbd"), "python",
        str(NBD_PLUGIN), f"spec={spec}", f"control={control}",
    ]  # fmt: skip
    paths = ":".join(str(PROJECT / path) for path in ("qa", "osd_probe", "mgr_module"))
    subprocess.run(
        [sys.executable, "-c", STARTER, str(tmp_path), "keep" if keep else "", *argv],
        env={**os.environ, "PYTHONPATH": paths}, check=True, timeout=600,
    )  # fmt: skip
    pid = int((tmp_path / "nbdkit-kept.pid").read_text())
    try:
        if keep:
            time.sleep(1.0)  # a signal of its parent's death would be there long before
            with connect(control, 5.0) as asked:
                asked.sendall(b"cut")
                assert asked.recv(64) == b"0"
        else:
            deadline = time.monotonic() + GONE_S
            while runs(pid):
                assert time.monotonic() < deadline, "it runs on"
                time.sleep(0.05)
    finally:
        kill_recorded(tmp_path)


def runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

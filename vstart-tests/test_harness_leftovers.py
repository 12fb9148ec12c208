"""A cluster is removed without a trace, however its starter ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, List

import pytest
from harness import Cluster, HarnessError, loops, processes
from harness.processes import wait_until
from harness.releases import cache_folder

pytestmark = [pytest.mark.cluster, pytest.mark.one_release, pytest.mark.long]

COMMAND = Path(__file__).with_name("cluster")

# What a start has got to when it is interrupted: a file or a link in the cluster's folder.
STAGES = ("osd.1/block", "mon.a.pid", "osd.0/whoami")


def _traces(folder: Path) -> List[str]:
    root = str(cache_folder() / "root-")
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    found = [f"process {pid}" for pid in processes.pids_of(folder)]
    found += loops.attached_under(folder)
    found += [line for line in mounts.splitlines() if str(folder) in line or root in line]
    return found + ([str(folder)] if folder.exists() else [])


def _begin_start(folder: Path, release: int) -> subprocess.Popen[bytes]:
    # a job that a shell runs in the background, as CI may, is begun with SIGINT ignored
    heeding = ["env", "--default-signal=INT"]
    return subprocess.Popen(
        [*heeding, str(COMMAND), "start", "--release", str(release), "--dir", str(folder)],
        env={**os.environ, "PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _stop(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), "stop", "--dir", str(folder)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _interrupted(folder: Path, release: int, stage: str, number: signal.Signals) -> int:
    """Start a cluster, send the starter a signal at that stage, return its exit code."""
    starter = _begin_start(folder, release)
    try:
        assert wait_until(lambda: os.path.lexists(folder / stage), 120, 0.01)
        assert _traces(folder)
        starter.send_signal(number)
        return starter.wait(timeout=60)
    finally:
        starter.kill()
        starter.wait()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a second cluster; whatever a failed test leaves there is removed."""
    path = Path(tempfile.mkdtemp(prefix="wc.", dir="/tmp"))
    yield path
    if (path / "cluster.json").exists():
        Cluster.attach(path).stop()
    elif path.exists():
        path.rmdir()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_nothing(
    folder: Path, release: int, stage: str, number: signal.Signals
) -> None:
    assert _interrupted(folder, release, stage, number) == 128 + number
    assert _traces(folder) == []


@pytest.mark.parametrize("stage", STAGES)
def test_stop_removes_what_a_killed_starter_left(folder: Path, release: int, stage: str) -> None:
    _interrupted(folder, release, stage, signal.SIGKILL)
    stopped = _stop(folder)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert _traces(folder) == []


def test_a_whole_cluster_beside_another_is_removed_and_the_other_stays(
    own_cluster: Cluster, folder: Path
) -> None:
    assert _begin_start(folder, own_cluster.release).wait(timeout=120) == 0
    other = Cluster.attach(folder)
    other.wait_healthy()
    held = len(loops.attached_under(own_cluster.folder))
    other.popen_inside(["sleep", "600"], start_new_session=True)
    stopped = _stop(folder)
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert _traces(folder) == []
    assert len(loops.attached_under(own_cluster.folder)) == held
    own_cluster.wait_healthy()


def test_the_write_cache_of_a_detached_loop_device_is_the_default_again(folder: Path) -> None:
    device = loops.attach(folder / "drive.img", 1 << 20)
    mode = Path("/sys/block") / device.rpartition("/")[2] / "queue/write_cache"
    loops.set_queue(device, "write_cache", "write through")
    assert mode.read_text().strip() == "write through"
    loops.detach_all(folder)
    (folder / "drive.img").unlink()
    device = loops.attach(folder / "drive.img", 1 << 20)
    mode = Path("/sys/block") / device.rpartition("/")[2] / "queue/write_cache"
    try:
        assert mode.read_text().strip() == "write back"
    finally:
        loops.detach_all(folder)
        (folder / "drive.img").unlink()


def test_stop_refuses_a_folder_that_is_no_cluster(folder: Path) -> None:
    (folder / "precious").write_text("")
    stopped = _stop(folder)
    assert stopped.returncode == 1
    assert "holds no cluster of ours" in stopped.stderr
    assert len(stopped.stderr.splitlines()) == 1
    (folder / "precious").unlink()


def test_start_refuses_a_folder_in_use(own_cluster: Cluster) -> None:
    with pytest.raises(HarnessError, match="not empty"):
        Cluster.create(own_cluster.folder, own_cluster.root, ["x"])
    assert own_cluster.ceph("health").rc == 0

"""A rig goes without a trace, however its starter ends."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator, List

import pytest
from cephadm_rig.cluster import PREFIX, remove_forgotten
from cephadm_rig.images import ensure_images
from cephadm_rig.keeper import FIRST_PID_FILE, control_group, keeper_of, remove
from harness import loops
from harness.processes import is_alive, pid_from_file, wait_until

pytestmark = [pytest.mark.cephadm]

RIG = Path(__file__).resolve().parents[1] / "cephadm_rig" / "rig"
UP = b"machines are up"
GONE_S = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
    yield path
    remove(path)


def started(folder: Path) -> subprocess.Popen:
    """A start that has come as far as machines that run."""
    ensure_images(20)
    process = subprocess.Popen(
        # whoever starts the tests in the background makes children that ignore Ctrl-C
        ["env", "--default-signal=INT", str(RIG), "start", "--dir", str(folder)],
        stderr=subprocess.PIPE, start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if UP in line:
            return process
    raise AssertionError("it ended before its machines were up")


def in_its_namespace(first_pid: int) -> List[int]:
    """The processes of the rig and its machines: all see the rig's network or one of theirs."""
    try:
        own = os.readlink(f"/proc/{first_pid}/ns/pid")
    except OSError:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "ns" / "pid") == own:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def left(folder: Path, pids: List[int]) -> List[str]:
    found = [f"process {pid}" for pid in pids if is_alive(pid)]
    found += loops.attached_under(folder)
    found += [str(path) for path in (folder, control_group(folder)) if path.exists()]
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    return [*found, *[line for line in mounts.splitlines() if str(folder) in line]]


def what_runs(folder: Path) -> List[int]:
    first = pid_from_file(folder / FIRST_PID_FILE)
    assert first is not None
    machines = [pid_from_file(folder / name / "pid") or 0 for name in ("h1", "h2")]
    pids = [*in_its_namespace(first), *machines]
    assert all(is_alive(pid) for pid in pids), pids
    assert loops.attached_under(folder)
    return pids


@pytest.mark.long
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_where_a_start_is_ended_by(folder: Path, by: signal.Signals):
    process = started(folder)
    pids = what_runs(folder)
    process.send_signal(by)
    process.wait(GONE_S)
    assert wait_until(lambda: not left(folder, pids), GONE_S, 0.2), left(folder, pids)


@pytest.mark.long
def test_where_the_keeper_is_killed_too_all_ends_and_the_next_start_removes_the_rest(folder: Path):
    process = started(folder)
    pids, keeper = what_runs(folder), keeper_of(folder)
    assert keeper
    process.kill()
    os.kill(keeper, signal.SIGKILL)
    process.wait(GONE_S)
    assert wait_until(lambda: not [pid for pid in pids if is_alive(pid)], GONE_S, 0.2)
    os.utime(folder, (0, 0))  # so old that nobody can be about to start it
    remove_forgotten()
    assert left(folder, pids) == []


@pytest.mark.parametrize("right", ["sys_admin", "net_admin"])
def test_where_namespaces_are_refused_a_start_says_so_in_one_line(folder: Path, right: str):
    done = subprocess.run(
        ["setpriv", f"--bounding-set=-{right}", str(RIG), "start", "--dir", str(folder)],
        capture_output=True, text=True, timeout=60, check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("rig: no machines in namespaces here: ")
    assert list(folder.iterdir()) == []
    assert not control_group(folder).exists()

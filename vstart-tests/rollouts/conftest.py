"""The cluster that these tests share, one after the other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict, Iterator

import pytest
from rollouts.rig import Rig, started

BLKIO = Path("/sys/fs/cgroup/blkio")


@pytest.fixture(scope="package")
def rig(release: int) -> Iterator[Rig]:
    """Five OSDs of one drive model."""
    with started(release) as rig:
        yield rig


@pytest.fixture
def tidy(rig: Rig) -> Iterator[None]:
    """All goes back after each test, and a test that failed does not spoil the next one."""
    yield
    rig.all_back()
    rig.cluster.wait_healthy(180)


@pytest.fixture
def throttle(rig: Rig) -> Iterator[Callable[[int, str, int], None]]:
    """Limits the writes of an OSD to its device, by the kernel's own block I/O controller.

    What the OSD has in flight waits in the kernel, as it does before a drive that is slow.
    """
    if not (BLKIO / "blkio.throttle.write_iops_device").exists():
        pytest.skip("this kernel has no blkio controller of cgroup v1")
    group = BLKIO / f"wcache-{os.getpid()}"
    group.mkdir()
    limited: Dict[str, Path] = {}

    def to(osd_id: int, limit: str, value: int) -> None:
        device = Path(f"/sys/block/{rig.device(osd_id).name}/dev").read_text().strip()
        limited[device] = group / f"blkio.throttle.{limit}_device"
        limited[device].write_text(f"{device} {value}")
        (group / "cgroup.procs").write_text(str(rig.cluster.osd_pid(osd_id)))

    yield to
    for device, file in limited.items():
        file.write_text(f"{device} 0")
    for pid in (group / "cgroup.procs").read_text().split():
        (BLKIO / "cgroup.procs").write_text(pid)
    group.rmdir()

"""A control group of the memory controller, of version 1 or 2, for a test's processes."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

ROOT = Path("/sys/fs/cgroup")


class ControlGroup:
    """One with a limit; whatever is started inside of `joined` is in it."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder = folder
        self.version = version

    def limit(self, size: int) -> None:
        """Set the limit of its memory."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        (self.folder / name).write_text(str(size))

    @property
    def used_bytes(self) -> int:
        """What its processes use, page cache included."""
        name = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        return int((self.folder / name).read_text())

    @property
    def kills(self) -> int:
        """How often the kernel's OOM killer has killed in it."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        lines = (self.folder / name).read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    @contextmanager
    def joined(self) -> Iterator[None]:
        """This process and what it starts meanwhile are in it."""
        before = _of_this_process(self.version)
        _move(self.folder)
        try:
            yield
        finally:
            _move(before)


def _move(folder: Path) -> None:
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def _of_this_process(version: int) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if version == 2 and number == "0":
            return ROOT / path.strip("/")
        if version == 1 and "memory" in controllers.split(","):
            return ROOT / "memory" / path.strip("/")
    pytest.skip("this process is in no control group of the memory controller")


@contextmanager
def control_group() -> Iterator[ControlGroup]:
    """A new one without a limit; the test is skipped where none can be made."""
    version = 1 if (ROOT / "memory").is_dir() else 2
    parent = _of_this_process(1) if version == 1 else ROOT
    folder = parent / f"wcache-{uuid.uuid4().hex[:8]}"
    try:
        if version == 2:
            (ROOT / "cgroup.subtree_control").write_text("+memory")
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        yield ControlGroup(folder, version)
    finally:
        for pid in (folder / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)
        folder.rmdir()

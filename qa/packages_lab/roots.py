"""A fresh host of a Debian suite: a cached root below, what a test changes above it.

What is above lies in a temporary folder and goes with it.  The mounts are in a namespace of
this process, so that a kill -9 leaves none behind.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import List, Optional, Type

from harness.errors import HarnessError
from harness.processes import kill_all
from harness.releases import (
    CEPH_PACKAGES,
    EXCLUDED_PATHS,
    ROOT_PACKAGES,
    ensure_root,
    find_release,
    install_packages,
)
from harness.roots import Root

# What an admin's host has beside Ceph.  There is no systemd to run in a root: `systemctl` is
# Debian's stand-in for it, which starts and stops what units say.
HOST_PACKAGES = ("apt", "bash", "python3-yaml", "systemctl", "udev")
BUILD_PACKAGES = (
    "debhelper", "dh-python", "dpkg-dev", "lintian", "python3-all", "python3-shtab", "rpm",
)
CLONE_NEWNS = 0x00020000  # linux/sched.h
MANUALS = ("/usr/share/man/*",)


def recipe(release: int) -> List[str]:
    """The command that builds the root; the cache's key."""
    words = [
        "mmdebstrap",
        "--variant=essential",
        "--skip=check/empty",
        '--aptopt=Acquire::Check-Valid-Until "false"',
        '--aptopt=Acquire::Languages "none"',
    ]
    kept = [each for each in EXCLUDED_PATHS if each not in MANUALS]
    words += [f"--dpkgopt=path-exclude={each}" for each in kept]
    words += [f"--include={','.join(CEPH_PACKAGES + ROOT_PACKAGES + HOST_PACKAGES)}"]
    return [*words, find_release(release).suite]


def ensure(release: int) -> Path:
    """The cached root; a minute or two where it is not there yet."""
    return ensure_root(f"packages-{release}", recipe(release))


def ensure_build_tools() -> None:
    """Install what building packages needs on this machine."""
    install_packages(BUILD_PACKAGES)


def enter_private_mounts() -> None:
    """From here on what this process mounts is seen by its children only."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        why = os.strerror(ctypes.get_errno())
        raise HarnessError(f"no mount namespace: {why}; run it as root")
    _mount("--make-rslave", "/")


class FreshRoot:
    """A root as it comes from the cache; whatever is changed in it is forgotten at the end."""

    def __init__(self, release: int) -> None:
        self._below = ensure(release)
        self.folder = Path(tempfile.mkdtemp(prefix="wcpk.", dir="/tmp"))
        self.root = Root(release, self.folder / "root")

    def __enter__(self) -> FreshRoot:
        parts = [self.folder / name for name in ("upper", "work", "root")]
        for part in parts:
            part.mkdir()
        upper, work, root = parts
        options = f"lowerdir={self._below},upperdir={upper},workdir={work}"
        _mount("-t", "overlay", "overlay", "-o", options, str(root))
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # a service that was started there and not stopped
        kill_all(self.folder)
        subprocess.run(["umount", "--lazy", str(self.folder / "root")], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"mount {' '.join(words)}: {done.stderr.strip()}")

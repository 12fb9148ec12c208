"""Real loop devices for tests."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def loop_on(backing, size_bytes):
    """Name of a real loop device over a new sparse file; skips where none can be made."""
    with open(backing, "wb") as file:
        file.truncate(size_bytes)
    try:
        done = subprocess.run(
            ["/usr/sbin/losetup", "--find", "--show", str(backing)],
            capture_output=True, text=True, timeout=30, check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no losetup here")
    device = done.stdout.strip()
    if done.returncode != 0 or not device:
        pytest.skip(f"no loop device can be made here: {done.stderr.strip()[:80]}")
    cache = Path("/sys/block") / os.path.basename(device) / "queue/write_cache"
    try:
        cache.write_text("write back")
        yield os.path.basename(device)
    finally:
        cache.write_text("write back")  # outlives the detaching
        subprocess.run(["/usr/sbin/losetup", "--detach", device], timeout=30, check=False)

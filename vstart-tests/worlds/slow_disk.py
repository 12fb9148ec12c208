"""A disk whose flush takes as long as a test says, with an ext4 on it: for a state folder.

nbdkit serves a file by a Python plugin that sleeps in flush, nbdfuse shows that as a file until it
is ended, and a loop device is above it.  So fsync(2) hangs in the kernel, as above a real disk.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator, List

from harness.processes import wait_until
from harness.releases import install_packages

PACKAGES = ["nbdkit", "nbdkit-plugin-python", "libnbd-bin", "e2fsprogs"]
BYTES = 256 << 20
# Asks anew all the time, so that a test can end a flush that hangs.
PLUGIN = """\
import builtins, os, time, nbdkit
API_VERSION = 2
GIVEN = {}
def config(key, value): GIVEN[key] = value
def thread_model(): return nbdkit.THREAD_MODEL_PARALLEL
def open(readonly): return os.open(GIVEN["backing"], os.O_RDWR)
def get_size(fd): return os.fstat(fd).st_size
def can_flush(fd): return True
def can_fua(fd): return nbdkit.FUA_EMULATE
def pread(fd, buffer, offset, flags):
    read = os.pread(fd, len(buffer), offset)
    buffer[: len(read)] = read
def pwrite(fd, buffer, offset, flags): os.pwrite(fd, bytes(buffer), offset)
def flush(fd, flags):
    began_s = time.monotonic()
    while time.monotonic() < began_s + float(builtins.open(GIVEN["seconds"]).read() or 0):
        time.sleep(0.05)
"""


class SlowDisk:
    """The mounted disk; `mount` is where."""

    def __init__(self, folder: Path) -> None:
        self.mount = folder / "mnt"
        self.seconds = folder / "seconds"

    def flush_takes(self, seconds: float) -> None:
        """From now on, and for a flush that goes on as well."""
        self.seconds.write_text(str(seconds), encoding="ascii")


@contextmanager
def slow_disk(folder: Path) -> Iterator[SlowDisk]:
    """Make one in a new folder; it is fast at first, and nothing of it is left afterwards."""
    install_packages(PACKAGES)
    disk, shown, backing = SlowDisk(folder), folder / "disk.img", folder / "backing.img"
    disk.mount.mkdir(parents=True)
    disk.flush_takes(0)
    shown.touch()
    (folder / "plugin.py").write_text(PLUGIN, encoding="ascii")
    with open(backing, "wb") as file:
        file.truncate(BYTES)
    with ExitStack() as undone:
        undone.callback(shutil.rmtree, folder)
        socket = folder / "nbd.sock"
        _serve(undone, [
            "nbdkit", "-f", "-U", str(socket), "python", str(folder / "plugin.py"),
            f"backing={backing}", f"seconds={disk.seconds}",
        ])
        assert wait_until(socket.exists, 20)
        _serve(undone, ["nbdfuse", str(shown), f"nbd+unix:///?socket={socket}"])
        assert wait_until(lambda: shown.stat().st_size == BYTES, 20)
        loop = _run("losetup", "--find", "--show", str(shown))
        undone.callback(_detach, loop)
        _run("mkfs.ext4", "-q", loop)
        # Shared, so that what is unmounted here goes in each namespace that copied it meanwhile:
        # every program of a cluster in a chroot has one.
        _run("mount", "--bind", "--make-shared", str(folder), str(folder))
        undone.callback(_unmount, folder)
        _run("mount", loop, str(disk.mount))
        undone.callback(_unmount, disk.mount)
        undone.callback(disk.flush_takes, 0)
        yield disk


def _run(*words: str) -> str:
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout.strip()


def _unmount(place: Path) -> None:
    if not wait_until(lambda: subprocess.run(["umount", place], check=False).returncode == 0, 20):
        _run("umount", "--lazy", str(place))  # it goes with whoever still uses it
        raise AssertionError(f"{place} was still in use")


def _serve(undone: ExitStack, words: List[str]) -> None:
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)

    def end() -> None:
        process.terminate()
        process.wait(timeout=20)

    undone.callback(end)


def _detach(loop: str) -> None:
    _run("losetup", "--detach", loop)
    backing = Path(f"/sys/block/{os.path.basename(loop)}/loop/backing_file")
    assert wait_until(lambda: not backing.exists(), 20), f"{loop} is still in use"

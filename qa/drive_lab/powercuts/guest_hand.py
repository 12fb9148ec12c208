"""In the guest: does what a round needs, in one process that stays.

Each program that is started costs a guest without KVM a tenth of a second of processor time.
An order is a file ``N.order`` on the shared folder, what came of it ``N.end``.  Writers are
processes of their own, see `guest_writer.py`.  The shared folder is not cached (9p).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import shutil
import struct
import sys
import time
from pathlib import Path
from typing import Any, Callable

from drive_lab.powercuts import guest_writer
from drive_lab.powercuts.blocks import BASE_BYTES, REGION_BYTES

# each look goes to the host, and costs a millisecond
POLL_S = 0.03
UDEV_IDLE_S = 300.0
# linux/nvme_ioctl.h: NVME_IOCTL_ADMIN_CMD and struct nvme_admin_cmd
NVME_ADMIN = 0xC0484E41
NVME_COMMAND = struct.Struct("<BBHIIIQQII6III")
SET_FEATURES = 0x09
VOLATILE_WRITE_CACHE = 0x06


def serve(folder: Path) -> None:
    """Do orders in the order of their numbers, for ever."""
    number = 1
    (folder / "ready").write_text(str(os.getpid()))
    while True:
        path = folder / f"{number}.order"
        if path.exists():
            order = json.loads(path.read_text())
            if order["do"] == "write":
                if os.fork() == 0:
                    guest_writer.run(folder, number, order)
            else:
                put(folder / f"{number}.end", obey(order))
            number += 1
            continue
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(POLL_S)


def obey(order: dict[str, Any]) -> str:
    """Do it; what it gives, or its ``error``, as JSON."""
    try:
        return json.dumps({"gives": ORDERS[order["do"]](order)})
    except Exception as error:
        return json.dumps({"error": repr(error)})


def begin(order: dict[str, Any]) -> list[str]:
    """Bring a drive into its prior mode and forget the round before; gives its views.

    It stays on where a volume on it drops flushes: that has to be made anew.
    """
    for path in order["remove"]:
        shutil.rmtree(path, ignore_errors=True)
    for name, text in order["files"].items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    link = Path(order["link"])
    link.symlink_to(order["device"])
    sync(link.parent)
    set_mode(order["disk"], on=True)
    wait_for_udev()
    found = views(order)
    if not order["on"] and "write through" not in found:
        set_mode(order["disk"], on=False)
        wait_for_udev()
        found = views(order)
    return found


def views(order: dict[str, Any]) -> list[str]:
    """The kernel's view of the disk, then of each layer above it."""
    found = []
    todo = [Path("/sys/block") / order["disk"]]
    while todo:
        device = todo.pop(0)
        found.append((device / "queue/write_cache").read_text().strip())
        todo += sorted((device / "holders").iterdir())
    return found


def find(_order: dict[str, Any]) -> dict[str, list[str]]:
    """The words that every disk is known by."""
    found = {}
    for disk in Path("/sys/block").iterdir():
        words: list[str] = []
        for name in ("wwid", "serial"):
            with contextlib.suppress(OSError):
                words += (disk / "device" / name).read_text().removeprefix("naa.").split()
        found[disk.name] = words
    return found


def lower(order: dict[str, Any]) -> list[str]:
    """Tell the kernel by hand that a drive needs no flush; gives its views."""
    disk = order["disk"]
    if disk.startswith("nvme"):
        Path(f"/sys/block/{disk}/queue/write_cache").write_text("write through")
    else:
        cache_type(disk).write_text("temporary write through")
    return views(order)


def set_mode(disk: str, *, on: bool) -> None:
    """Set drive and kernel, with no override."""
    if not disk.startswith("nvme"):
        cache_type(disk).write_text("write back" if on else "write through")
        return
    command = NVME_COMMAND.pack(
        SET_FEATURES, 0, 0, 0, 0, 0, 0, 0, 0, 0, VOLATILE_WRITE_CACHE, int(on), 0, 0, 0, 0, 0, 0
    )
    # the feature is the controller's
    fd = os.open(f"/dev/{disk.rpartition('n')[0]}", os.O_RDONLY)
    try:
        status = fcntl.ioctl(fd, NVME_ADMIN, bytearray(command))
    finally:
        os.close(fd)
    if status != 0:
        raise OSError(f"{disk} answers Set Features with status {status:#x}")
    Path(f"/sys/block/{disk}/queue/write_cache").write_text("write back")


def cache_type(disk: str) -> Path:
    """The switch of the SCSI disk driver."""
    (path,) = Path(f"/sys/block/{disk}/device/scsi_disk").glob("*/cache_type")
    return path


def wait_for_udev() -> None:
    """Wait until it has done all events, as ``udevadm settle`` does."""
    deadline = time.monotonic() + UDEV_IDLE_S
    idle = 0
    while idle < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
        idle = 0 if os.path.exists("/run/udev/queue") else idle + 1


def sync(folder: Path) -> None:
    """What the rig itself needs after a cut of the machine; the probe looks after its own."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read(order: dict[str, Any]) -> None:
    """Copy the region of a volume to the shared folder.

    With O_DIRECT, or the page cache would tell what was written and not what is there.
    """
    page = mmap.mmap(-1, REGION_BYTES)
    fd = os.open(order["device"], os.O_RDONLY | os.O_DIRECT)
    try:
        done = os.preadv(fd, [page], BASE_BYTES)
    finally:
        os.close(fd)
    if done != REGION_BYTES:
        raise OSError(f"{done} bytes were read of {REGION_BYTES}")
    Path(order["to"]).write_bytes(page)


def put(path: Path, text: str) -> None:
    """Write a file whole."""
    part = path.with_suffix(".part")
    part.write_text(text)
    os.rename(part, path)


ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "begin": begin, "find": find, "lower": lower, "read": read, "views": views,
}  # fmt: skip


if __name__ == "__main__":
    serve(Path(sys.argv[1]))

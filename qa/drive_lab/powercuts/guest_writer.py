"""In the guest: writes to a volume as an OSD would, and tells what fdatasync acknowledged.

To the probe it is the OSD: its name is ceph-osd, and it has the ``fsid`` of the OSD's data
folder and the volume open.  Of order N, what is acknowledged is appended to ``N.acks``,
``N.stop`` ends it, ``N.end`` says how it ended.  The shared folder is not cached (9p), so a
record that was written is in the host's file.
"""

from __future__ import annotations

import mmap
import os
import random
import time
from pathlib import Path
from typing import Any

from drive_lab.powercuts.blocks import (
    BASE_BYTES,
    BLOCK_BYTES,
    BLOCKS,
    Written,
    encode,
    encode_ack,
)

# each look goes to the host, and costs a guest without KVM a millisecond
LOOK_S = 0.1


def run(folder: Path, number: int, order: dict[str, Any]) -> None:
    """Be one writer; does not return."""
    said = "stopped"
    try:
        Path("/proc/self/comm").write_text("ceph-osd")
        write(folder, number, order)
    except OSError as error:
        said = f"{error.strerror} (errno {error.errno})"
    except BaseException as error:
        said = repr(error)
    part = folder / f"{number}.part"
    part.write_text(said)
    os.rename(part, folder / f"{number}.end")
    os._exit(0)


def write(folder: Path, number: int, order: dict[str, Any]) -> None:
    """Write until told to stop."""
    # closed by the end of this function: a volume that is still open cannot be taken down
    fsid = os.open(order["fsid"], os.O_RDWR)
    acks = os.open(folder / f"{number}.acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    volume = os.open(order["path"], os.O_RDWR | (os.O_DIRECT if order["direct"] else 0))
    page = mmap.mmap(-1, BLOCK_BYTES)  # aligned, as O_DIRECT wants it
    chance = random.Random(order["seed"])
    count = order["first"]
    stop = folder / f"{number}.stop"
    look_at = time.monotonic() + LOOK_S
    try:
        while True:
            if time.monotonic() > look_at:
                if stop.exists():
                    return
                look_at = time.monotonic() + LOOK_S
            told = b""
            for block in chance.sample(range(BLOCKS), chance.randint(1, order["batch_max"])):
                page[:] = encode(Written(order["tag"], count, block))
                os.pwrite(volume, page, BASE_BYTES + block * BLOCK_BYTES)
                told += encode_ack(count, block)
                count += 1
            os.fdatasync(volume)
            os.write(acks, told)
            time.sleep(order["pause_s"])
    finally:
        for fd in (volume, acks, fsid):
            os.close(fd)


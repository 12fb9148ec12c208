"""Loop devices over sparse files: the drives of a test cluster."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import List

from .errors import HarnessError
from .processes import wait_until

ATTACH_ATTEMPTS = 20
_SYS_BLOCK = Path("/sys/block")


def attach(backing: Path, size_bytes: int) -> str:
    """Make a sparse file and a loop device over it; returns the device ("/dev/loop3").

    A free device is chosen by the kernel, and another process may take it between the
    choice and the use, so the attempt is repeated.  Raises HarnessError.
    """
    with open(backing, "wb") as file:
        file.truncate(size_bytes)
    for _ in range(ATTACH_ATTEMPTS):
        done = subprocess.run(
            ["/usr/sbin/losetup", "--find", "--show", str(backing)],
            capture_output=True,
            timeout=30,
            check=False,
            text=True,
        )
        device = done.stdout.strip()
        if done.returncode == 0 and device:
            set_queue(device, "write_cache", "write back")
            return device
        time.sleep(0.1)
    raise HarnessError(f"no loop device for {backing}: {done.stderr.strip()}")


def attached_under(folder: Path) -> List[str]:
    """The loop devices whose backing file lies in a folder, even one deleted meanwhile."""
    devices = []
    for backing in _SYS_BLOCK.glob("loop*/loop/backing_file"):
        try:
            path = backing.read_text(encoding="utf-8").rstrip("\n")
        except OSError:
            continue
        if path.startswith(f"{folder}/"):
            devices.append(f"/dev/{backing.parent.parent.name}")
    return sorted(devices)


def detach_all(folder: Path, timeout_s: float = 10.0) -> List[str]:
    """Detach every loop device of a folder; returns those that something still holds.

    A device in use is only marked for detaching, so what counts is that it is gone.
    """
    for device in attached_under(folder):
        # These outlive the detaching, and the next user of the device would inherit them.
        set_queue(device, "write_cache", "write back")
        set_queue(device, "rotational", "0")
        subprocess.run(
            ["/usr/sbin/losetup", "--detach", device],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
    wait_until(lambda: not attached_under(folder), timeout_s)
    return attached_under(folder)


def set_queue(device: str, attribute: str, value: str) -> None:
    """Write an attribute of a device's queue ("rotational", "write_cache")."""
    path = _SYS_BLOCK / os.path.basename(device) / "queue" / attribute
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(value)
    except OSError as error:
        raise HarnessError(f"{path} does not take {value!r}: {error.strerror}") from error

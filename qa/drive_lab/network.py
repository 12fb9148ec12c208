"""A network of the lab's own: mon, mgr and clients on the host side, OSDs in the guest.

The calling process moves into a network namespace that dies with its last process, so there
is nothing to remove, and no address or port of the machine can clash with the lab's.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading

from .processes import LabError

TAP = "wcache0"
HOST = "10.77.0.1"
GUEST = "10.77.0.2"
PREFIX_BITS = 24
CLONE_NEWNET = 0x40000000  # linux/sched.h


def enter_private_network() -> None:
    """Leave the machine's network for good; build and install everything before.

    Only the calling thread and what it starts afterwards are in the new one, so call it
    before there are threads.  Raises LabError without the right to (root has it).
    """
    if threading.active_count() != 1:
        raise LabError("the private network needs a process without threads")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        why = os.strerror(ctypes.get_errno())
        raise LabError(f"no network namespace: {why}; run it as root")
    for words in (
        "link set lo up",
        f"tuntap add dev {TAP} mode tap",
        f"address add {HOST}/{PREFIX_BITS} dev {TAP}",
        f"link set {TAP} up",
    ):
        done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"ip {words}: {done.stderr.strip()}")

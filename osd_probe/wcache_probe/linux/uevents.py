"""The kernel's uevents about drives: what was added, removed or changed, as it happens.

The kernel sends each event to the listeners of every network namespace that belongs to the
host's user namespace (lib/kobject_uevent.c, uevent_net_init()).  In a container with a user
namespace of its own none come; `glance.py` then is all there is.  udev has a disk send
`change` when a program that had it open for writing closes it (udev(7), OPTIONS+="watch"), so
what `sdparm --set=WCE` did is told too.
"""

from __future__ import annotations

import errno
import socket
from typing import Optional

# include/uapi/linux/netlink.h; group 1 is the kernel's, group 2 is what udev makes of it
NETLINK_KOBJECT_UEVENT = 15
KERNEL_GROUP = 1
EVENT_BYTES_MAX = 16_384  # UEVENT_BUFFER_SIZE is 2048 and an event has a header before it
EVENTS_AT_ONCE = 256
_OF_DRIVES = (b"SUBSYSTEM=block", b"SUBSYSTEM=scsi_disk", b"SUBSYSTEM=nvme")


class Uevents:
    """A socket that never blocks; `fd` is -1 where the kernel gives none."""

    def __init__(self, made: Optional[socket.socket] = None) -> None:
        self._socket = made if made is not None else _listen()
        self.fd = self._socket.fileno() if self._socket is not None else -1

    def drain(self) -> bool:
        """Whether something came about drives; takes all there is, up to a bound."""
        found, door = False, self._socket
        for _ in range(EVENTS_AT_ONCE):
            if door is None:
                break
            try:
                event, sender = door.recvfrom(EVENT_BYTES_MAX)
            except OSError as error:
                # more than the buffer holds: nobody knows what was lost
                return found or error.errno == errno.ENOBUFS
            # only the kernel has the port 0
            from_kernel = not isinstance(sender, tuple) or sender[0] == 0
            found = found or (from_kernel and is_of_drives(event))
        return found


def is_of_drives(event: bytes) -> bool:
    """Whether an event ("ACTION@DEVPATH" and NAME=VALUE fields between zeros) is about a drive."""
    return any(field in _OF_DRIVES for field in event.split(b"\0")[1:64])


def _listen() -> Optional[socket.socket]:
    try:
        made = socket.socket(
            socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC,
            NETLINK_KOBJECT_UEVENT,
        )
    except OSError:
        return None
    try:
        made.bind((0, KERNEL_GROUP))
    except OSError:
        made.close()
        return None
    return made

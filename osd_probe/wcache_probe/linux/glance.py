"""Cheap looks at what a report would tell: what the kernel believes, files that decide, uevents.

No drive is asked for anything.  It sees what no event tells: a kernel view that was written, a
boot rule, an initramfs image, an entry of the journal.  What only the drive knows (a cache that
was switched beneath a pin, without a write) is seen at the next look at all drives.

The kernel sends each uevent to the listeners of every network namespace that belongs to the
host's user namespace (lib/kobject_uevent.c, uevent_net_init()).  In a container with a user
namespace of its own none come; glances then are all there is.  udev has a disk send
`change` when a program that had it open for writing closes it (udev(7), OPTIONS+="watch"), so
what `sdparm --set=WCE` did is told too.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import List, Optional, Sequence, Tuple

from .block.host_files import entries, read_text
from .persistence.images import find_images, find_kernels

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


DISKS_MAX = 4096
Seen = Tuple[object, ...]


def glance(sys: str, root: str, paths: Sequence[str]) -> Seen:
    """Something that differs where one of these has changed; compare it, and no more.

    `root` is that of the host, with its images and kernels; `paths` are files and folders.
    """
    boots = (find_images(root), find_kernels(root))
    return (_views(os.path.join(sys, "block")), boots, stamps(paths))


def stamps(paths: Sequence[str]) -> Seen:
    """The same of files and folders alone."""
    return tuple(map(_stat, paths))


def _views(folder: str) -> Tuple[Tuple[Optional[str], ...], ...]:
    found: List[Tuple[Optional[str], ...]] = []
    for name in sorted(entries(folder))[:DISKS_MAX]:
        disk = os.path.join(folder, name)
        scsi = os.path.join(disk, "device/scsi_disk")
        types = [os.path.join(scsi, one, "cache_type") for one in sorted(entries(scsi))]
        views = [os.path.join(disk, "queue/write_cache"), *types]
        found.append((name, *(read_text(path) for path in views)))
    return tuple(found)


def _stat(path: str) -> Optional[Tuple[int, int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns

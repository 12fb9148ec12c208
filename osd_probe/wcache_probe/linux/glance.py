"""A cheap look at what a report would tell: what the kernel believes, and files that decide.

No drive is asked for anything.  It sees what no event tells: a kernel view that was written, a
boot rule, an initramfs image, an entry of the journal.  What only the drive knows (a cache that
was switched beneath a pin, without a write) is seen at the next look at all drives.
"""

from __future__ import annotations

import os
from typing import List, Optional, Sequence, Tuple

from .block.host_files import entries, read_text
from .persistence.images import find_images, find_kernels

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

"""Mounted file systems, by /proc/self/mountinfo: what a path lies on, and what a boot leaves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import List, Optional, Tuple

from .host_files import HostFiles, read_table, unescape

# the root of an initramfs that was never left is called rootfs
IN_RAM = ("tmpfs", "ramfs", "rootfs")
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "ceph")
OVERLAYS_MAX = 4
# An overlay names its folders as its mounter saw them: for the root's, that is the initramfs
# of dracut, of initramfs-tools or of mkinitcpio, with the root below one of these.
_ROOT_IN_INITRAMFS = ("", "sysroot", "root", "new_root")


@dataclass(frozen=True)
class Mount:
    """One line of the table; `options` are those of the file system itself."""

    number: str
    point: str
    kind: str
    options: Tuple[str, ...]
    source: str


def mounts(proc: str, process: str = "self") -> List[Mount]:
    """What is mounted for a process, the later of two on one point last (proc(5))."""
    found = []
    for line in read_table(os.path.join(proc, process, "mountinfo")):
        fields = line.split(" ")
        if len(fields) < 10 or "-" not in fields[6:-3]:
            continue
        kind, source, options = fields[fields.index("-", 6) + 1 :][:3]
        point, of_kind = unescape(fields[4]), tuple(options.split(","))
        found.append(Mount(fields[2], point, kind, of_kind, unescape(source)))
    return found


def file_system_of(files: HostFiles, number: str) -> str:
    """The type of the mounted file system with a device number; empty where none is."""
    return next((mount.kind for mount in mounts(files.proc) if mount.number == number), "")


def mount_of(table: List[Mount], path: str) -> Optional[Mount]:
    """The mount that a path lies on, where the table has one."""
    return _mount_of(table, os.path.realpath(path))


def _mount_of(table: List[Mount], real: str) -> Optional[Mount]:
    found = None
    for mount in table:
        around = f"{real}/".startswith(mount.point.rstrip("/") + "/")
        # of two on one point the later one covers the other
        if around and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def kept_in_ram(files: HostFiles, path: str, root: str = "/") -> str:
    """What in RAM keeps a path: "tmpfs", or "an overlay over tmpfs"; empty where a disk may.

    Empty too for an overlay whose folder cannot be found: nothing then says that it is in RAM.
    `root` is where the host's own root is.  In a container that sees the host's processes, the
    host's first one knows where the folder is.
    """
    table, real, over = mounts(files.proc), os.path.realpath(path), ""
    first = os.path.join(files.proc, "1", "root")
    for _ in range(OVERLAYS_MAX):
        mount = _mount_of(table, real)
        if mount is None:
            return ""
        if mount.kind in IN_RAM:
            return over + mount.kind
        if mount.kind != "overlay":
            return ""
        upper = _upper(mount, root)
        if not upper and root != first:
            table, root = mounts(files.proc, "1"), first
            upper = _upper(mount, root)
        if not upper:
            return ""
        # /proc/1/root is a link that would be followed back to our own root
        real = f"/{upper}" if root == first else os.path.realpath(os.path.join(root, upper))
        over = "an overlay over "
    return ""


def _upper(mount: Mount, root: str) -> str:
    """The folder below `root` that takes what is written to an overlay, where there is one."""
    named = [text[len("upperdir="):] for text in mount.options if text.startswith("upperdir=")]
    for folder in named:
        for prefix in _ROOT_IN_INITRAMFS:
            inside = folder.lstrip("/")
            if prefix and not inside.startswith(f"{prefix}/"):
                continue
            found = inside[len(prefix):].lstrip("/")
            if found and os.path.isdir(os.path.join(root, found)):
                return found
    return ""

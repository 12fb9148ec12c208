"""The host's /sys, /dev, /proc, /run, /etc: bounded reads; device nodes that are what they say.

A device is opened read-only and never exclusively (its OSD holds it), and only used
when the file descriptor is the device number that sysfs gave: a name such as sda can
belong to another drive after a hot plug.

What a path lies on, and what a boot leaves of it, is said by /proc/self/mountinfo.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from typing import Callable, List, Optional, Tuple

from wcache.core.errors import NotFoundError, RefusedError

from ... import safe_files
from ...safe_files import TEXT_BYTES_MAX, failure, read_bytes

TABLE_BYTES_MAX = 4_000_000
ENTRIES_MAX = 8192
PROCESSES_MAX = FDS_MAX = 65536

_NUMBER = re.compile(r"[0-9]{1,4}:[0-9]{1,7}")


@dataclass(frozen=True)
class HostFiles:
    """Where these are; fake trees put them elsewhere, and a container its host's /etc.

    `at` hears which device is opened.
    """

    sys: str = "/sys"
    dev: str = "/dev"
    proc: str = "/proc"
    run: str = "/run"
    etc: str = "/etc"
    at: Callable[[str], None] = field(default=lambda what: None, compare=False)

    def number_of_fd(self, fd: int) -> Optional[str]:
        """"MAJ:MIN" of the block device that an open file is, else None."""
        return _number(os.fstat(fd))

    def number_of_path(self, path: str) -> Optional[str]:
        """"MAJ:MIN" of the block device at a path, links followed, else None."""
        try:
            return _number(os.stat(path))
        except (OSError, ValueError):
            return None

    def number_of_word(self, path: Optional[str]) -> Optional[str]:
        """"MAJ:MIN" of what a mount, a swap or an export says it lies on, where that is in /dev.

        Any user writes what he likes as the source of a mount in a namespace of his own, so
        only names that root has made are followed.
        """
        if path is None or not path.startswith("/dev/"):
            return None
        try:
            inside = os.path.join(self.dev, path[len("/dev/") :].lstrip("/"))
            handle = safe_files.find(inside, safe_files.own_users(), given_away=True)
        except (OSError, ValueError):
            return None
        with safe_files.closing_fd(handle):
            return self.number_of_fd(handle)

    def node_of(self, number: str) -> Optional[os.stat_result]:
        """What the host's own node of a block device says of who may open it; None without one.

        An access list lets others in whom the mode does not name: then it has no node that counts.
        """
        folder = os.path.realpath(os.path.join(self.sys, "dev/block", number))
        path = os.path.join(self.dev, os.path.basename(folder).replace("!", "/"))
        try:
            status = os.lstat(path)
            found = _number(status) == number and not safe_files.has_acl(path)
        except OSError:
            return None
        return status if found else None

    @property
    def boot_id(self) -> str:
        """Which boot of the host this is; empty where the kernel does not say."""
        return printable(read_text(os.path.join(self.proc, "sys/kernel/random/boot_id")) or "")

    def open_device(self, name: str, number: str) -> int:
        """A read-only descriptor of block device `name`; the caller closes it.

        Raises NotFoundError where there is no such node, RefusedError where the node is
        another device than `number`.
        """
        path = os.path.join(self.dev, name)
        self.at(f"{path} is opened, or asked something")
        needs = "the probe needs the host's /dev and must run as root"
        with failure(f"{path} cannot be opened", needs, NotFoundError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        found = self.number_of_fd(fd)
        if found != number:
            os.close(fd)
            raise RefusedError(f"{path} is device {found}, not {number} as sysfs says")
        return fd


def _number(status: os.stat_result) -> Optional[str]:
    if not stat.S_ISBLK(status.st_mode):
        return None
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def read_text(path: str, bytes_max: int = TEXT_BYTES_MAX) -> Optional[str]:
    """A small text file without the white space around it; None where it cannot be read."""
    data = read_bytes(path, bytes_max)
    if data is None:
        return None
    return data.decode("utf-8", "replace").strip("\0 \t\r\n")


def read_table(path: str) -> List[str]:
    """The lines of a table such as /proc/swaps; none where it cannot be read."""
    data = read_bytes(path, TABLE_BYTES_MAX) or b""
    return data.decode("utf-8", "replace").splitlines()


def read_number(path: str) -> Optional[int]:
    """A whole number in a file; None where there is none."""
    text = read_text(path)
    if text is None or not re.fullmatch(r"-?[0-9]{1,19}", text):
        return None
    return int(text)


def read_device_number(path: str) -> Optional[str]:
    """"MAJ:MIN" in a sysfs file `dev`; None where there is none."""
    text = read_text(path)
    return text if text is not None and _NUMBER.fullmatch(text) else None


def write_attribute(path: str, value: str) -> None:
    """Write a sysfs attribute in one call; raises StorageError with the kernel's reason."""
    needs = "the probe must run as root and see a writable /sys"
    with failure(f"{path} does not take {value!r}", needs), safe_files.closing_fd(
        os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    ) as fd:
        os.write(fd, value.encode("ascii"))


def entries(path: str, count_max: int = ENTRIES_MAX) -> List[str]:
    """Sorted names in a folder, bounded; none where it cannot be read."""
    try:
        return sorted(os.listdir(path))[:count_max]
    except (OSError, ValueError):
        return []


def unescape(text: str) -> str:
    """Undo the octal escapes of /proc tables (fs/seq_file.c, mangle_path())."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def printable(text: str, chars_max: int = 128) -> str:
    """Text from a device or a path, fit for one line of output."""
    return "".join(c if c.isprintable() else "?" for c in text)[:chars_max].strip()


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


def mount_of(table: List[Mount], real: str) -> Optional[Mount]:
    """The mount that a path without links lies on, where the table has one."""
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
        mount = mount_of(table, real)
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

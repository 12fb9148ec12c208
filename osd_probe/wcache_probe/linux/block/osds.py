"""The OSDs of this host, with the devices of their roles.

A running OSD is a process that calls itself ceph-osd, runs as root or as the ceph user and has
the `fsid` of a data folder open, where either
  - it holds a block device open that root and the ceph user alone may open, by the host's own
    node of that device; ceph-volume and udev's rules of LVM's and Ceph's packages give the node
    of an OSD's device to the ceph user, or
  - nobody but these users may change a name in its data folder or above it.
What calls itself so and is not like that is a stranger, as any program: what it holds open is
used by others.  Its name and its paths only say where to look.  In that folder nothing but
regular files is opened, by descriptors from the root of the process on, so this works for an OSD
in a container, and leads nowhere else.

A data folder by itself (given as globs) names the devices of an OSD that is stopped, on the
second of these conditions.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from dataclasses import dataclass, field, replace
from typing import Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple, Union

from wcache.core.model import Role

from ... import safe_files
from ...safe_files import Trusted, UntrustedError
from .host_files import FDS_MAX, PROCESSES_MAX, HostFiles, entries, printable, read_table, read_text

# Packages, cephadm, Rook; a test cluster gives its own.
DEFAULT_DATA_GLOBS = (
    "/var/lib/ceph/osd/*",
    "/var/lib/ceph/*/osd.*",
    "/var/lib/rook/*/*",
)
OSD_ID_MAX = 2**31 - 1
FOLDERS_MAX = 4096
FOLDERS_OF_ONE_MAX = 16

# BlueStore.cc, BlueStore::_minimal_open_bluefs: the names of the links in the data folder
ROLE_LINKS = ((Role.BLOCK, "block"), (Role.DB, "block.db"), (Role.WAL, "block.wal"))
# the ceph user of Debian's packages and of Red Hat's, which is that of Ceph's containers too
# (debian/ceph-common.postinst, ceph.spec.in); the same numbers are its group's
CEPH_IDS = (64045, 167)


@dataclass(frozen=True)
class OsdDevices:
    """One OSD: its cluster, and its devices by role and number ("8:1").

    `pid` is the process that runs it; 0 where none does.  `unresolved` are the links of roles
    that lead to no block device here (a file as backing, or a stale link), or to none that the
    process holds.  `rivals` are other processes that say they are this OSD.
    """

    osd_id: int
    cluster_fsid: str
    devices: Tuple[Tuple[Role, str], ...]
    pid: int = 0
    unresolved: Tuple[str, ...] = ()
    rivals: Tuple[int, ...] = ()
    folder_id: Tuple[int, int] = (0, 0)  # device and inode of the data folder


def discover(
    files: HostFiles, data_globs: Sequence[str] = DEFAULT_DATA_GLOBS,
    say: Callable[[str], None] = lambda _why: None,
) -> Tuple[OsdDevices, ...]:
    """Every OSD of the host, running ones first to be believed; sorted by cluster and id.

    `say` hears what looks like one and is not believed, and why.
    """
    trust = trust_of(files)
    found: Dict[Tuple[str, int], List[OsdDevices]] = {}
    folders = set()
    for name in entries(files.proc, PROCESSES_MAX):
        if not name.isdigit() or _text(files.proc, name, "comm") != "ceph-osd":
            continue
        try:
            osd = _from_process(files, name, trust)
        except StrangerError as error:
            say(f"process {name} is called ceph-osd and is not taken for an OSD: {error}")
            continue
        except OSError:
            continue  # it has ended
        if osd is not None:
            found.setdefault((osd.cluster_fsid, osd.osd_id), []).append(osd)
            folders.add(osd.folder_id)
    for pattern in data_globs:
        for path in sorted(glob.glob(pattern))[:FOLDERS_MAX]:
            # cephadm.py, make_data_dir_base: what is above it belongs to the user of whatever was
            # deployed last, which says nothing against an OSD that runs
            if _folder_id(path) in folders:
                continue
            try:
                stopped = _from_folder(files, "/", os.path.abspath(path), trust.users)
            except UntrustedError as error:
                say(f"{path} is not taken for the folder of an OSD: {error.strerror}")
                continue
            if stopped is None:
                continue
            known = found.setdefault((stopped.cluster_fsid, stopped.osd_id), [])
            # one that says it runs and has none of the devices hides none of them
            if not any(osd.devices for osd in known):
                known[:] = [stopped]
    return tuple(osd for key in sorted(found) for osd in _of_one_name(found[key]))


@dataclass
class RunningOsds:
    """Which processes are OSDs that have opened their folder and a device.

    A host that boots starts probe and OSDs at once.  While ceph-volume activates an OSD, its
    folder has no links to its devices (ceph_volume/objectstore/bluestore.py, unlink_bs_symlinks),
    and a report knows nothing of it.  So one must follow when it runs.
    """

    files: HostFiles = field(default_factory=HostFiles)
    _known: FrozenSet[str] = frozenset()  # their files are not looked at again

    def now(self) -> FrozenSet[str]:
        """Numbers of these processes; of a stranger that is called so none."""
        users = trust_of(self.files).users
        self._known = frozenset(
            name for name in entries(self.files.proc, PROCESSES_MAX)
            if name.isdigit() and _text(self.files.proc, name, "comm") == "ceph-osd"
            and (name in self._known or self._has_opened(name, users))
        )
        return self._known

    def _has_opened(self, name: str, users: FrozenSet[int]) -> bool:
        process = os.path.join(self.files.proc, name)
        try:
            _check_users(process, users)
            return all(_opened(self.files, process))
        except (StrangerError, OSError):
            return False


def _of_one_name(osds: Sequence[OsdDevices]) -> Sequence[OsdDevices]:
    """What says it is one OSD: those with devices, each with the processes of the others."""
    held = [osd for osd in osds if osd.devices] or osds[:1]
    pids = {osd.pid for osd in held}
    return [replace(osd, rivals=tuple(sorted(pids - {osd.pid}))) for osd in held]


# ---- whom we believe


class StrangerError(Exception):
    """Why a process that is called ceph-osd is not taken for an OSD."""


@dataclass(frozen=True)
class Trust:
    """Users, and groups for device nodes, that may do with an OSD's devices what they like."""

    users: FrozenSet[int]
    groups: FrozenSet[int]

    def guarded(self, files: HostFiles, number: str) -> bool:
        """Whether nobody else may open a block device."""
        found = files.node_of(number)
        if found is None or found.st_uid not in self.users or found.st_mode & stat.S_IRWXO:
            return False
        return found.st_gid in self.groups or not found.st_mode & stat.S_IRWXG


def trust_of(files: HostFiles) -> Trust:
    """Root, we ourselves and the ceph user; the group `disk`, which is as good as root."""
    return Trust(
        safe_files.own_users() | _ids(files, "passwd", "ceph", CEPH_IDS),
        _ids(files, "group", "ceph", CEPH_IDS) | _ids(files, "group", "disk") | {0},
    )


def _ids(files: HostFiles, table: str, name: str, usual: Sequence[int] = ()) -> FrozenSet[int]:
    """The ids that /etc/passwd or /etc/group gives to a name, and those that it usually has.

    An OSD in a container has the latter whatever the host's tables say; where those give one to
    somebody else, it is his.
    """
    known: Dict[int, str] = {}
    for line in read_table(os.path.join(files.etc, table)):
        fields = line.split(":")
        if len(fields) > 2 and re.fullmatch("[0-9]{1,10}", fields[2]):
            known[int(fields[2])] = fields[0]
    usually = {number for number in usual if known.get(number, name) == name}
    return frozenset(usually | {number for number, owner in known.items() if owner == name})


# ---- running


def _from_process(files: HostFiles, pid: str, trust: Trust) -> Optional[OsdDevices]:
    """The OSD of a ceph-osd process; None where it is still starting.

    Raises StrangerError, and OSError where it has ended.
    """
    # held open, so that all that is read is of this process and of no later one
    handle = os.open(os.path.join(files.proc, pid), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        process = f"/proc/self/fd/{handle}"
        _check_users(process, trust.users)
        held, folders = _opened(files, process)
        believed = any(trust.guarded(files, number) for number in held)
        for folder in folders:
            osd = _from_folder(
                files, os.path.join(process, "root"), folder, None if believed else trust.users,
                held, int(pid),
            )
            if osd is not None:
                return osd
    except UntrustedError as error:
        raise StrangerError(printable(str(error.strerror), 256)) from None
    finally:
        os.close(handle)
    return None


def _opened(files: HostFiles, process: str) -> Tuple[FrozenSet[str], List[str]]:
    """Numbers of the block devices that a process has open, and folders of its `fsid` files."""
    held = set()
    folders: List[str] = []
    for name in entries(os.path.join(process, "fd"), FDS_MAX):
        link = os.path.join(process, "fd", name)
        try:
            target = os.readlink(link)
        except OSError:
            continue
        # both: vstart.sh keeps its data folders in build/dev (src/vstart.sh, CEPH_DEV_DIR)
        if "/dev/" in target:
            number = files.number_of_path(link)
            held.update([number] if number else [])
        if target.endswith("/fsid") and len(folders) < FOLDERS_OF_ONE_MAX:
            folders.append(_below(os.path.join(process, "root"), os.path.dirname(target)))
    return frozenset(held), folders


def _check_users(process: str, users: FrozenSet[int]) -> None:
    """Raise where one of its user ids is another: a set-uid program keeps its caller's."""
    found = re.search(r"^Uid:((?:\s+[0-9]{1,10}){4})$", _text(process, "status"), re.MULTILINE)
    others = {int(number) for number in found[1].split()} - users if found else {-1}
    if others:
        raise StrangerError(f"it runs as user {min(others)}, which is neither root nor ceph")


def _below(root: str, folder: str) -> str:
    """A folder as a process with that root names it.

    /proc shows paths from the root of the mount namespace: for a container that is its own
    root, for a process that chroot() has moved there is more in front.
    """
    prefix = os.readlink(root)
    if prefix != "/" and folder.startswith(prefix + "/"):
        return folder[len(prefix) :]
    return folder


# ---- a data folder


def _from_folder(
    files: HostFiles, root: str, folder: str, trusted: Trusted,
    held: Optional[FrozenSet[str]] = None, pid: int = 0,
) -> Optional[OsdDevices]:
    """What a data folder says; None where it is none.  Raises UntrustedError."""
    osd_id = _osd_id(safe_files.read_of(f"{folder}/whoami", 32, trusted, root))
    if osd_id is None:
        return None
    devices = []
    unresolved = []
    for role, link in ROLE_LINKS:
        there, number = _device_of(files, f"{folder}/{link}", trusted, root)
        if number is not None and (held is None or number in held):
            devices.append((role, number))
        elif there:
            unresolved.append(link)
    if not devices and not unresolved:
        return None
    with safe_files.closing_fd(safe_files.find(folder, trusted, root)) as handle:
        folder_id = _folder_id(handle)
    fsid = (safe_files.read_of(f"{folder}/ceph_fsid", 64, trusted, root) or b"").strip()
    return OsdDevices(
        osd_id,
        fsid.decode("ascii") if re.fullmatch(rb"[0-9a-f-]{36}", fsid) else "",
        tuple(devices),
        pid,
        tuple(unresolved),
        folder_id=folder_id,
    )


def _folder_id(folder: Union[str, int]) -> Tuple[int, int]:
    """Device and inode of a folder; zeros where it is gone."""
    try:
        status = os.stat(folder)
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def _device_of(
    files: HostFiles, path: str, trusted: Trusted, root: str
) -> Tuple[bool, Optional[str]]:
    """Whether a name is there, and the block device that it leads to, which is not opened."""
    try:
        handle = safe_files.find(path, trusted, root)
    except FileNotFoundError:
        return safe_files.is_there(path, trusted, root), None
    except OSError:
        return True, None
    with safe_files.closing_fd(handle):
        return True, files.number_of_fd(handle)


def _osd_id(data: Optional[bytes]) -> Optional[int]:
    text = (data or b"").strip()
    if not re.fullmatch(rb"[0-9]{1,10}", text) or int(text) > OSD_ID_MAX:
        return None
    return int(text)


def _text(*path: str) -> str:
    return read_text(os.path.join(*path)) or ""

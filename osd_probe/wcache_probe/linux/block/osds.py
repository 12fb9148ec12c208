"""The OSDs of this host and the devices of their roles.

Two witnesses.  A running ceph-osd holds `fsid` in its data folder and its block devices
open, so /proc says where both are, also for an OSD in a container.  A data folder by
itself (given as globs) names the devices of an OSD that is stopped.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from typing import Dict, FrozenSet, List, Optional, Sequence, Tuple

from wcache.core.model import Role

from .host_files import HostFiles, entries, read_bytes, read_text, resolve_below

# Packages, cephadm, Rook; a test cluster gives its own.
DEFAULT_DATA_GLOBS = (
    "/var/lib/ceph/osd/*",
    "/var/lib/ceph/*/osd.*",
    "/var/lib/rook/*/*",
)
OSD_ID_MAX = 2**31 - 1
PROCESSES_MAX = 65536
FDS_MAX = 65536

# BlueStore.cc, BlueStore::_minimal_open_bluefs: the names of the links in the data folder
ROLE_LINKS = ((Role.BLOCK, "block"), (Role.DB, "block.db"), (Role.WAL, "block.wal"))


@dataclass(frozen=True)
class OsdDevices:
    """One OSD: its cluster, its data folder (as this process reaches it), its devices.

    `devices` are role and number ("8:1").  `held` are the block devices that the running
    daemon, process `pid`, has open; empty and 0 where it does not run.  `unresolved` are the
    links of roles that lead to no block device here (a file as backing, or a stale link).
    """

    osd_id: int
    cluster_fsid: str
    folder: str
    devices: Tuple[Tuple[Role, str], ...]
    held: FrozenSet[str] = frozenset()
    pid: int = 0
    unresolved: Tuple[str, ...] = ()


def discover(
    files: HostFiles, data_globs: Sequence[str] = DEFAULT_DATA_GLOBS
) -> Tuple[OsdDevices, ...]:
    """Every OSD of the host, running ones first to be believed; sorted by cluster and id."""
    found: Dict[Tuple[str, int], OsdDevices] = {}
    for osd in _running(files):
        found[(osd.cluster_fsid, osd.osd_id)] = osd
    for pattern in data_globs:
        for folder in sorted(glob.glob(pattern))[:4096]:
            stopped = _from_folder(files, "/", os.path.abspath(folder))
            if stopped is not None:
                found.setdefault((stopped.cluster_fsid, stopped.osd_id), stopped)
    return tuple(found[key] for key in sorted(found))


def _running(files: HostFiles) -> List[OsdDevices]:
    found = []
    for name in entries(files.proc, PROCESSES_MAX):
        if name.isdigit() and read_text(os.path.join(files.proc, name, "comm")) == "ceph-osd":
            osd = _from_process(files, name)
            found += [osd] if osd else []
    return found


def _from_process(files: HostFiles, pid: str) -> Optional[OsdDevices]:
    """The OSD of a ceph-osd process; None where it is still starting or has gone."""
    process = os.path.join(files.proc, pid)
    held = set()
    folders: List[Tuple[str, str]] = []
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
        if target.endswith("/fsid"):
            root = "/" if _same_file(link, target) else os.path.join(process, "root")
            folders.append((root, _below(root, os.path.dirname(target))))
    for root, folder in folders:
        osd = _from_folder(files, root, folder, frozenset(held), int(pid))
        if osd is not None:
            return osd
    return None


def _below(root: str, folder: str) -> str:
    """A folder as a process with that root names it.

    /proc shows paths from the root of the mount namespace: for a container that is its own
    root, for a process that chroot() has moved there is more in front.
    """
    try:
        prefix = os.readlink(root)
    except OSError:  # "/" is no link
        return folder
    if prefix != "/" and folder.startswith(prefix + "/"):
        return folder[len(prefix) :]
    return folder


def _same_file(link: str, target: str) -> bool:
    """Whether a descriptor's path means the same file here: not so for a container's."""
    try:
        return os.path.samefile(link, target)
    except OSError:
        return False


def _from_folder(
    files: HostFiles, root: str, folder: str, held: Optional[FrozenSet[str]] = None,
    pid: int = 0,
) -> Optional[OsdDevices]:
    here = f"{root.rstrip('/')}{folder}"
    osd_id = _osd_id(os.path.join(here, "whoami"))
    if osd_id is None:
        return None
    devices = []
    unresolved = []
    for role, link in ROLE_LINKS:
        if not os.path.lexists(os.path.join(here, link)):
            continue
        number = files.number_of_path(resolve_below(root, os.path.join(folder, link)))
        if number is not None and (held is None or number in held):
            devices.append((role, number))
        else:
            unresolved.append(link)
    if not devices and not unresolved:
        return None
    fsid = read_text(os.path.join(here, "ceph_fsid")) or ""
    return OsdDevices(
        osd_id,
        fsid if re.fullmatch(r"[0-9a-f-]{36}", fsid) else "",
        here,
        tuple(devices),
        held or frozenset(),
        pid,
        tuple(unresolved),
    )


def _osd_id(path: str) -> Optional[int]:
    text = (read_bytes(path, 32) or b"").strip()
    if not re.fullmatch(rb"[0-9]{1,10}", text) or int(text) > OSD_ID_MAX:
        return None
    return int(text)

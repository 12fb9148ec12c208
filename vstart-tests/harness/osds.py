"""OSDs of a test cluster: their devices, their stores, and one that comes later."""

from __future__ import annotations

import subprocess
import uuid
from dataclasses import dataclass
from typing import Callable, Tuple

from . import config, loops
from .cluster import HOSTNAME_FILE, Cluster
from .errors import HarnessError

GIB = 1 << 30
BLOCK_BYTES = 4 * GIB
# Smaller ones spill over to the block device and the cluster never gets healthy.
DB_BYTES = GIB
WAL_BYTES = GIB
MKFS_TIMEOUT_S = 120

# The classes that follow from a device's `rotational`; any other is told to the OSD.
_CLASS_BY_ROTATIONAL = {"hdd": True, "ssd": False}


@dataclass(frozen=True)
class OsdLayout:
    """One OSD: the roles that have devices of their own, its device class, and its host.

    With a `hostname` it runs as on a host of that name: in Ceph's maps and in its metadata.
    """

    roles: Tuple[str, ...] = ("block",)
    device_class: str = "ssd"
    hostname: str = ""


def attach_devices(cluster: Cluster, osd_id: int, layout: OsdLayout) -> None:
    """Give an OSD, whose folder exists, its loop devices."""
    home = cluster.folder / f"osd.{osd_id}"
    for role in layout.roles:
        size = {"block": BLOCK_BYTES, "db": DB_BYTES, "wal": WAL_BYTES}[role]
        name = role if role == "block" else f"block.{role}"
        device = loops.attach(home / f"{role}.img", size)
        # DB and WAL go to flash, as everywhere.
        spins = role == "block" and _CLASS_BY_ROTATIONAL.get(layout.device_class, False)
        cluster.set_rotational(device, spins)
        (home / name).symlink_to(device)
    if layout.device_class not in _CLASS_BY_ROTATIONAL:
        # OSD::update_crush_device_class reads this before asking the store.
        (home / "crush_device_class").write_text(f"{layout.device_class}\n")
    if layout.hostname:
        (home / HOSTNAME_FILE).write_text(layout.hostname)


def making_store(cluster: Cluster, osd_id: int, osd_uuid: str) -> subprocess.Popen[bytes]:
    """`ceph-osd --mkfs` under way, for the UUID that `osd new` gets.

    Without that one the OSD would never come up, and not say why.
    """
    argv = ["ceph-osd", "--mkfs", "--no-mon-config", "-i", str(osd_id)]
    argv += ["--osd-uuid", osd_uuid, "-c", str(cluster.conf)]
    with open(cluster.folder / "log" / f"osd.{osd_id}.out", "ab") as out:
        return cluster.popen_inside(
            argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )


def start_made(cluster: Cluster, osd_id: int, store: subprocess.Popen[bytes]) -> None:
    """Start an OSD once its store is made."""
    if store.wait(timeout=MKFS_TIMEOUT_S) != 0:
        said = cluster.log_tail(f"osd.{osd_id}")
        raise HarnessError(f"ceph-osd --mkfs for osd.{osd_id} failed:\n{said}")
    cluster.start_daemon(f"osd.{osd_id}")


def add_osd(
    cluster: Cluster, layout: OsdLayout, prepared: Callable[[int], None] = lambda _: None
) -> int:
    """Add an OSD to a running cluster and wait until it is up; returns its id.

    `prepared` is called with the id when it has its devices and does not run yet.
    """
    osd_uuid = str(uuid.uuid4())
    osd_id = int(cluster.command("osd new", uuid=osd_uuid)["osdid"])
    (cluster.folder / f"osd.{osd_id}").mkdir()
    made = cluster.auth_key(f"osd.{osd_id}", **config.OSD_CAPS)
    made.rename(cluster.folder / f"osd.{osd_id}" / "keyring")
    attach_devices(cluster, osd_id, layout)
    prepared(osd_id)
    start_made(cluster, osd_id, making_store(cluster, osd_id, osd_uuid))
    cluster.wait_osd_up(osd_id)
    return osd_id

"""A running cluster goes to its next release: the mon and the mgr here, its OSDs by the caller.

Releases are taken as Ceph allows it: at most two further at once (16, 18, 20).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Sequence

from .cluster import Cluster
from .errors import HarnessError
from .modules import fill_module_folder
from .releases import ensure_release, find_release

# What `ceph osd require-osd-release` calls them.
NAMES = {18: "reef", 20: "tentacle"}


def upgrade_mon_and_mgr(cluster: Cluster, number: int, own_modules: Sequence[Path]) -> None:
    """Stop the mon and the mgr, and start them on their data with the programs of a release."""
    # a newer mon's list of modules makes a mgr start itself anew at a time of its own choice
    gid, mgr = cluster.active_gid(), f"mgr.{cluster.active_mgr()}"
    cluster.stop_daemon(mgr, kill=False)
    cluster.stop_daemon("mon.a", kill=False)
    cluster.root, cluster.release = ensure_release(number), number
    cluster.close_console()
    cluster.start_daemon("mon.a")
    shutil.rmtree(cluster.module_folder)
    fill_module_folder(
        cluster.module_folder, cluster.root, own_modules,
        with_bcrypt=find_release(number).bcrypt_breaks_modules,
    )
    cluster.start_daemon(mgr)
    cluster.wait_new_mgr(gid)


def end_upgrade(cluster: Cluster, number: int) -> None:
    """Require the release of all OSDs.  Raises HarnessError where a daemon has another one."""
    cluster.ceph("osd", "require-osd-release", NAMES[number], "--yes-i-really-mean-it")
    versions = list(cluster.command("versions")["overall"])
    if len(versions) != 1 or f" {number}." not in versions[0]:
        raise HarnessError(f"not all daemons are of release {number}: {versions}")

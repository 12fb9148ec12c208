"""Ceph's source as its CI has it, with this module where a pull request would put it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from harness import Cluster
from harness.modules import ALWAYS_ON, BCRYPT
from harness.releases import find_release
from harness.sources import ensure_source

from .place import BUILD, TREE, Place

PROJECT = Cluster.project
# Enough to run clusters, Ceph's checks of modules and its documentation.  The dashboard's
# frontend is half of the source.
WANTED = (
    ".github/*", "COPYING*", "PendingReleaseNotes", "admin/*", "ceph.spec.in", "doc/*", "qa/*",
    "src/CMakeLists.txt", "src/ceph-node-proxy/*", "src/ceph-run", "src/ceph_release",
    "src/cephadm/*", "src/common/options/*", "src/init-ceph.in", "src/mgr/MgrCommands.h",
    "src/mon/MonCommands.h", "src/mypy*", "src/osd/PeeringState.*", "src/pybind/*",
    "src/python-common/*", "src/stop.sh", "src/vstart.sh",
)
WITHOUT = ("src/pybind/mgr/dashboard/frontend",)

# Modules: always on, enabled in each new cluster, and asked for by our suite.
NEEDED = ALWAYS_ON | {"iostat", "nfs", "selftest", "wcache"}

_CMAKE_CACHE = f"""\
ceph_SOURCE_DIR:STATIC={TREE}
WITH_MGR_DASHBOARD_FRONTEND:BOOL=OFF
WITH_RBD:BOOL=ON
"""
# Links to the packages' programs and plug-ins, where a build would have made them.
_LINKS = f"""
set -e
mkdir -p {BUILD}/bin {BUILD}/lib {BUILD}/out
cd {BUILD}/bin
for each in /usr/bin/ceph* /usr/sbin/ceph* /usr/bin/*maptool /usr/bin/crushtool /usr/bin/rados \
    /usr/bin/rbd /usr/bin/librados-config; do
    test -e "$each" && ln -sf "$each" .
done
ln -sf {TREE}/src/init-ceph.in init-ceph
cd {BUILD}/lib
for folder in /usr/lib/*/ceph /usr/lib/*/rados-classes; do
    for each in "$folder"/erasure-code/*.so "$folder"/*.so "$folder"/compressor \
        "$folder"/crypto "$folder"/extblkdev; do
        test -e "$each" && ln -sf "$each" .
    done
done
ln -sf /teuthology/lib/python3*/site-packages/teuthology/task/install/bin/* /usr/local/bin/
"""


def source_of(release: int) -> Path:
    """Ceph's source, unchanged; it belongs to the cache."""
    return ensure_source(release, WANTED, WITHOUT)


def install(place: Place, module: Path = PROJECT / "mgr_module/wcache") -> None:
    """Lay a build folder out, and put the module, its tests for Ceph's CI and the probe there."""
    sys.path.insert(0, str(PROJECT / "packaging"))
    import zipapps

    shutil.copytree(
        module, place.outside(f"{TREE}/src/pybind/mgr/wcache"), dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for folder in ("suites", "tasks", "workunits"):
        shutil.copytree(
            PROJECT / "qa" / folder, place.outside(f"{TREE}/qa/{folder}"), dirs_exist_ok=True
        )
    shutil.copytree(
        PROJECT / "qa/wcache_sim", place.outside(f"{TREE}/qa/workunits/mgr/wcache_sim"),
        dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"),
    )
    zipapps.build("wcache-probe", place.outside("/usr/bin"))
    lay_out(place)


def leave_out_modules(place: Place) -> None:
    """Remove modules that our suite needs nothing of.

    The mgr imports each at every start, enabled or not, and MgrTestCase gives it 20 seconds.
    """
    for entry in place.outside(f"{TREE}/src/pybind/mgr").iterdir():
        if (entry / "module.py").is_file() and entry.name not in NEEDED:
            shutil.rmtree(entry)


def lay_out(place: Place) -> None:
    """Make what a build of Ceph would have left in the build folder."""
    if find_release(place.release).bcrypt_breaks_modules:
        shutil.copyfile(BCRYPT, place.outside(f"{TREE}/src/pybind/mgr/bcrypt.py"))
    place.outside(f"{BUILD}/CMakeCache.txt").write_text(_CMAKE_CACHE)
    place.check(["sh", "-c", _LINKS])

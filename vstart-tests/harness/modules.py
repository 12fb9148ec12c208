"""The folder that a test mgr loads its modules from.

`mgr module path` is one directory, and the mgr imports every module in it at each start,
wanted or not.  Ours holds links to the release's modules that cannot be turned off, and to
the project's own, so that a mgr restart takes as little time as it can.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Iterable, Sequence

from .errors import HarnessError
from .roots import Root

PACKAGED = "/usr/share/ceph/mgr"
BCRYPT = Path(__file__).with_name("stand_ins") / "bcrypt.py"

# The mon calls a cluster unhealthy in which one of these is missing
# (`always_on_modules` in Ceph's src/mon/MgrMonitor.cc).
ALWAYS_ON = frozenset(
    {
        "balancer",
        "crash",
        "devicehealth",
        "orchestrator",
        "pg_autoscaler",
        "progress",
        "rbd_support",
        "status",
        "telemetry",
        "volumes",
    }
)


def fill_module_folder(
    folder: Path,
    root: Root,
    own: Iterable[Path],
    *,
    packaged_too: Sequence[str] = (),
    with_bcrypt: bool = False,
) -> None:
    """Make the module folder.

    `own` are module folders to link in; `packaged_too` names further modules of the
    release ("prometheus").  Links point to paths as they are seen inside the release.
    Raises HarnessError where a named module does not exist.
    """
    folder.mkdir()
    wanted = ALWAYS_ON | set(packaged_too)
    outside = root.inside(PACKAGED)
    for name in packaged_too:
        if not (outside / name / "module.py").is_file():
            raise HarnessError(f"Ceph {root.release} has no mgr module {name!r} in its packages")
    for entry in outside.iterdir():
        # Files and folders that are not modules are what the modules import.
        needed = entry.name in wanted or not (entry / "module.py").is_file()
        if needed and entry.name != "__pycache__":
            (folder / entry.name).symlink_to(f"{PACKAGED}/{entry.name}")
    for module in own:
        link_module(folder, module)
    if with_bcrypt:
        shutil.copyfile(BCRYPT, folder / "bcrypt.py")


def link_module(folder: Path, module: Path) -> None:
    """Link one module folder in, replacing a link of the same name."""
    if not (module / "module.py").is_file():
        raise HarnessError(f"{module} is no mgr module: it has no module.py")
    link = folder / module.name
    if link.is_symlink():
        link.unlink()
    link.symlink_to(module.resolve())

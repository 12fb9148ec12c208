"""Build `out/wcache` and `out/wcache-probe`: one executable file each, with all they import.

They need Python 3.9; the probe also Ceph's `rados` bindings, a report jinja2, and
`wcache analyze` numpy and scipy: these belong to the host's distribution.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipapp
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
APPS = {
    "wcache": ("wcache_cli.main:main", ("mgr_module/wcache", "cli/wcache_cli")),
    "wcache-probe": ("wcache_probe.main:main", ("mgr_module/wcache", "osd_probe/wcache_probe")),
}
KEPT = (".py", ".j2")


def build(name: str, folder: Path) -> Path:
    """Build one of APPS in a folder; returns the file."""
    main, packages = APPS[name]
    module, _, function = main.partition(":")
    with tempfile.TemporaryDirectory() as staged:
        for package in packages:
            source = PROJECT / package
            # links are followed: templates are one
            shutil.copytree(source, Path(staged) / source.name, ignore=_ignored)
        # unlike zipapp's own, this one passes the exit code on
        starter = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        (Path(staged) / "__main__.py").write_text(starter, encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / name
        zipapp.create_archive(staged, target, interpreter="/usr/bin/env python3", compressed=True)
    return target


def _ignored(folder: str, names: list[str]) -> list[str]:
    return [
        name for name in names
        if name == "__pycache__"
        or not ((Path(folder) / name).is_dir() or Path(name).suffix in KEPT)
    ]


if __name__ == "__main__":
    for app in APPS:
        print(build(app, Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / "out"))

"""Build `out/wcache` and `out/wcache-probe`: one executable file each, with all they import.

The same tree gives the same bytes: names are sorted, times are fixed.

They need Python 3.9; the probe also Ceph's `rados` bindings, a report jinja2, and
`wcache analyze` numpy and scipy: these belong to the host's distribution.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path
from typing import Dict, Iterator

PROJECT = Path(__file__).resolve().parents[1]
# name: (function, what is taken of the tree: where its packages are, and which of them)
APPS = {
    "wcache": (
        "wcache_cli.main:main",
        (
            ("mgr_module", "wcache/__init__.py"), ("mgr_module", "wcache/core"),
            ("mgr_module", "wcache/analysis"), ("cli", "wcache_cli"),
        ),
    ),
    "wcache-probe": (
        "wcache_probe.main:main",
        (
            ("mgr_module", "wcache/__init__.py"), ("mgr_module", "wcache/core"),
            ("osd_probe", "wcache_probe"),
        ),
    ),
}
# Python 3.8 and older cannot read what follows: they say so in one line.
OLD_PYTHON = """import sys
if not hasattr(str, "removeprefix"):
    sys.exit(
        "%s needs Python 3.9 or newer, and this is %s: name one, as in `python3.9 %s`"
        % (sys.argv[0].rpartition("/")[2], sys.version.split()[0], sys.argv[0])
    )
"""
KEPT = (".py", ".j2")
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file can say


def contents(name: str) -> Dict[str, bytes]:
    """What one of APPS consists of: a folder or archive with these files can be run."""
    main, parts = APPS[name]
    module, _, function = main.partition(":")
    # unlike zipapp's own, this one passes the exit code on
    starter = OLD_PYTHON + f"from {module} import {function}\nsys.exit({function}())\n"
    files = {"__main__.py": starter.encode()}
    for root, part in parts:
        source = PROJECT / root / part
        for path in [source] if source.is_file() else files_of(source):
            files[path.relative_to(PROJECT / root).as_posix()] = path.read_bytes()
    return files


def build(name: str, folder: Path) -> Path:
    """Build one of APPS in a folder; returns the file."""
    files = contents(name)
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    with open(target, "wb") as file:
        file.write(b"#!/usr/bin/python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for inside in sorted(files):
                entry = zipfile.ZipInfo(inside, FIXED_TIME)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, files[inside])
    target.chmod(0o755)
    return target


def files_of(folder: Path) -> Iterator[Path]:
    """The files of a package; links are followed: templates are one."""
    for place, folders, names in os.walk(folder, followlinks=True):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        yield from (Path(place) / name for name in names if Path(name).suffix in KEPT)


if __name__ == "__main__":
    for app in APPS:
        print(build(app, Path(sys.argv[1]) if len(sys.argv) > 1 else PROJECT / "out"))

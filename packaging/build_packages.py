"""Build deb or rpm packages: the same commit gives the same bytes.

    /usr/bin/python3 packaging/build_packages.py deb|rpm OUT [--version-suffix +next]

Works in a copy of the tree, which it removes.  Needs dpkg-dev, debhelper, dh-python and
python3-shtab for debs, rpm and python3-shtab for rpms.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from email.utils import formatdate
from pathlib import Path
from typing import Dict, List, Sequence

PROJECT = Path(__file__).resolve().parents[1]
PACKAGING = PROJECT / "packaging"
# what neither Debian nor an EL has in a package build by default
RPM_REPRODUCIBLE = {
    "use_source_date_epoch_as_buildtime": "1",
    "clamp_mtime_to_source_date_epoch": "1",
    "_buildhost": "wcache",
}
BUILD_TIMEOUT_S = 600


class BuildError(Exception):
    """A tool failed; the message ends with what it said last."""


def version() -> str:
    """`wcache.core.VERSION`, the one place that says it."""
    namespace: Dict[str, str] = {}
    exec((PROJECT / "mgr_module/wcache/core/__init__.py").read_text(), namespace)  # noqa: S102
    return namespace["VERSION"]


def commit_time_s() -> int:
    """When the commit was made, by the environment or git; else when the changelog was changed."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given.isdigit():
        return int(given)
    asked = subprocess.run(
        ["git", "-C", str(PROJECT), "log", "-1", "--format=%ct"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return int(asked.stdout)
    return int((PROJECT / "CHANGELOG.md").stat().st_mtime)


def copy_tree(target: Path) -> None:
    """The project without what git ignores, each file as old as the commit."""
    listed = subprocess.run(
        ["git", "-C", str(PROJECT), "ls-files", "-z", "-co", "--exclude-standard"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
    )
    if listed.returncode:
        shutil.copytree(PROJECT, target, symlinks=True, ignore=shutil.ignore_patterns(
            ".git", "__pycache__", "out", "*.egg-info"
        ))
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, place = PROJECT / name, target / name
        if source.is_symlink() or source.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)
    for path in sorted(target.rglob("*")):
        os.utime(path, (commit_time_s(), commit_time_s()), follow_symlinks=False)


def build_debs(out: Path, suffix: str = "") -> List[Path]:
    """The three debs; returns them.  Raises BuildError."""
    with tempfile.TemporaryDirectory(prefix="wcache-deb.") as work:
        tree = Path(work) / "wcache"
        copy_tree(tree)
        shutil.copytree(tree / "packaging" / "debian", tree / "debian")
        (tree / "debian" / "changelog").write_text(
            f"wcache ({version()}{suffix}) unstable; urgency=medium\n\n"
            "  * See CHANGELOG.md.\n\n"
            " -- wcache maintainers <wcache@packages.invalid>  "
            f"{formatdate(commit_time_s())}\n"
        )
        _run(["dpkg-buildpackage", "-b", "-us", "-uc"], cwd=tree)
        return _keep(sorted(Path(work).glob("*.deb")), out)


def build_rpms(out: Path, suffix: str = "") -> List[Path]:
    """The three rpms; returns them.  Raises BuildError."""
    with tempfile.TemporaryDirectory(prefix="wcache-rpm.") as work:
        name = f"wcache-{version()}{suffix}"
        copy_tree(Path(work) / name)
        for folder in ("SOURCES", "SPECS"):
            (Path(work) / folder).mkdir()
        with tarfile.open(Path(work) / "SOURCES" / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(Path(work) / name, name)
        spec = Path(work) / "SPECS" / "wcache.spec"
        text = (PACKAGING / "rpm" / "wcache.spec.in").read_text()
        spec.write_text(text.replace("@VERSION@", f"{version()}{suffix}"))
        words = ["rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {work}"]
        for key, value in RPM_REPRODUCIBLE.items():
            words += ["--define", f"{key} {value}"]
        _run([*words, str(spec)], cwd=Path(work))
        return _keep(sorted(Path(work).glob("RPMS/*/*.rpm")), out)


def _keep(files: Sequence[Path], out: Path) -> List[Path]:
    out.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy2(path, out)) for path in files]


def _run(argv: Sequence[str], cwd: Path) -> None:
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(cwd),
        "TZ": "UTC", "SOURCE_DATE_EPOCH": str(commit_time_s()),
    }
    try:
        done = subprocess.run(
            argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=BUILD_TIMEOUT_S, check=False,
        )
    except FileNotFoundError:
        raise BuildError(f"{argv[0]} is not installed: see packaging/README.md") from None
    if done.returncode:
        tail = "\n".join(done.stdout.decode("utf-8", "replace").splitlines()[-15:])
        raise BuildError(f"{argv[0]} ended with {done.returncode}:\n{tail}")


def main() -> int:
    """Build one kind; returns the exit code."""
    words = argparse.ArgumentParser(description="Build packages of wcache.")
    words.add_argument("kind", choices=("deb", "rpm"))
    words.add_argument("out", type=Path)
    words.add_argument("--version-suffix", default="", help="appended to the version")
    options = words.parse_args()
    build = build_debs if options.kind == "deb" else build_rpms
    try:
        for path in build(options.out.resolve(), options.version_suffix):
            print(path)
    except BuildError as error:
        print(f"build_packages: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Ceph's documentation build, with Ceph's conf.py and extensions, of the pages that have wcache.

Left out: Doxygen and graphviz, which draw other pages, and what is to be had from git only
(sphinx-ditaa, funcparserlib, readthedocs-sphinx-search).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

from harness.releases import ensure_built, run

REQUIREMENTS = ("admin/doc-requirements.txt", "admin/doc-read-the-docs.txt")
# What Ceph's modules import besides, since the list of commands imports all of them.
OF_MODULES = ("jmespath", "pyOpenSSL", "xmltodict")
SETTINGS = (
    "conf.py", "_ext", "_static", "_templates", "_themes", "favicon.ico", "logo.png", "scripts",
    "releases/releases.yml",
)
PAGES = (
    "index.rst", "mgr/index.rst", "mgr/wcache.rst", "api/mon_command_api.rst",
    "rados/operations/health-checks.rst",
)


def ensure_sphinx(source: Path) -> Path:
    """The interpreter of an environment with what Ceph's documentation asks for, in the cache."""
    lines = [line for each in REQUIREMENTS for line in (source / each).read_text().splitlines()]
    wanted = [line for line in lines if line.strip() and not line.startswith(("#", "git+"))]
    wanted = [line for line in wanted if not line.startswith("pip ")] + [*OF_MODULES]

    def build(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder)], "an environment for Sphinx")
        run(
            [str(folder / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check",
             "install", *wanted],
            "what Ceph's documentation asks for",
        )
        (folder / "bin/doxygen").symlink_to("/bin/true")

    key = f"{sys.version_info[0]}.{sys.version_info[1]}-{_hash(wanted)}"
    return ensure_built("ceph-docs", key, build) / "bin/python"


def _hash(words: List[str]) -> str:
    import hashlib

    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


def build(python: Path, tree: Path, out: Path) -> List[str]:
    """Build the pages of a tree of Ceph's to `out`/html; returns the warnings.

    A warning has no line number: what is above it may differ between two trees.
    """
    shutil.copytree(tree / "src", out / "src", symlinks=True)
    for each in (*SETTINGS, *PAGES):
        here, there = tree / "doc" / each, out / "doc" / each
        there.parent.mkdir(parents=True, exist_ok=True)
        if here.is_dir():
            shutil.copytree(here, there)
        elif here.exists():
            shutil.copy2(here, there)
    (out / "doc/dev").mkdir()
    done = subprocess.run(
        # conf.py would ask the network which releases have reached their end of life
        ["unshare", "--net", str(python), "-m", "sphinx", "-q", "-b", "html", "doc", "html"],
        cwd=out, capture_output=True, text=True, timeout=900, check=False,
        env={"PATH": f"{python.parent}:/usr/bin:/bin", "PYTHONPATH": f"{out}/src/python-common",
             "LC_ALL": "C.UTF-8"},
    )
    if done.returncode != 0:
        raise RuntimeError(f"Sphinx ended with {done.returncode}:\n{done.stderr[-3000:]}")
    lines = [line.replace(f"{out}/", "") for line in done.stderr.splitlines()]
    return [_without_number(line) for line in lines if "WARNING: " in line or "ERROR: " in line]


def _without_number(line: str) -> str:
    place, colon, rest = line.partition(": ")
    return place.rstrip("0123456789") + colon + rest

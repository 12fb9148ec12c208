"""wcache's own packages as they were before an upgrade: of the protocol before today's.

Module and probe that differ in the protocol's number have the frozen messages alone
(`wcache.core.across`), whatever else they have in common.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from wcache.core.protocol import PROTOCOL_VERSION

OLDER = PROTOCOL_VERSION - 1
FOLDERS = ("osd_probe", "mgr_module")
_NUMBER = re.compile(r"^PROTOCOL_VERSION = \d+$", re.MULTILINE)


def packages_in(tree: str) -> str:
    """The PYTHONPATH of a tree."""
    return ":".join(f"{tree}/{name}" for name in FOLDERS)


def commit_before(project: Path, tree: Path) -> None:
    """Make `tree` the project of the commit before; today's where the clone has no such commit."""
    tree.mkdir()
    kept = subprocess.run(
        ["git", "archive", "HEAD~1", *FOLDERS], cwd=project, capture_output=True, check=False
    )
    if kept.returncode:
        _copy(project, tree)
    else:
        subprocess.run(["tar", "-x", "-C", str(tree)], input=kept.stdout, check=True)
    _renumber(tree)


def todays(project: Path, tree: Path) -> None:
    """Make `tree` today's project in all but the protocol's number."""
    tree.mkdir()
    _copy(project, tree)
    _renumber(tree)


def _copy(project: Path, tree: Path) -> None:
    for name in FOLDERS:
        left_out = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(project / name, tree / name, ignore=left_out)


def _renumber(tree: Path) -> None:
    path = tree / "mgr_module/wcache/core/protocol.py"
    text, times = _NUMBER.subn(f"PROTOCOL_VERSION = {OLDER}", path.read_text())
    assert times == 1, f"{path} does not say PROTOCOL_VERSION once"
    path.write_text(text)

"""Whether the interpreter that an option names may be run.

Whoever may set the module's options must not thereby run what anybody has put somewhere:
only what root, or the user that the mgr runs as, could have put there is started.
"""

from __future__ import annotations

import os
import stat
from typing import Iterator, List, Tuple

# as many as the kernel follows (include/linux/namei.h, MAXSYMLINKS)
LINKS_MAX = 40


def why_not(path: str) -> str:
    """Why a program may not be run, in words; empty where it may.

    Its file, every folder and every link on the way to it must belong to root or to us,
    and nobody else may write there.
    """
    if not os.path.isabs(path):
        return f"{path[:200]!r} is not an absolute path"
    found = None
    try:
        for place, found in _way_to(path):
            if found.st_uid not in (0, os.geteuid()):
                return f"{place} belongs to neither root nor the mgr's user"
            if _others_write(found):
                return f"{place} can be written by others"
    except (OSError, ValueError) as error:
        return f"{path[:200]!r} cannot be looked at ({type(error).__name__})"
    if found is None or not stat.S_ISREG(found.st_mode) or not os.access(path, os.X_OK):
        return f"{path[:200]!r} is not a program"
    return ""


def _others_write(found: os.stat_result) -> bool:
    if stat.S_ISLNK(found.st_mode):
        return False  # a link cannot be written, only replaced in its folder
    sticky_folder = stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)
    by_group = bool(found.st_mode & stat.S_IWGRP) and found.st_gid != 0
    return (by_group or bool(found.st_mode & stat.S_IWOTH)) and not sticky_folder


def _way_to(path: str) -> Iterator[Tuple[str, os.stat_result]]:
    """Each folder, link and file that the kernel passes on its way, the last one last."""
    here, links = "/", 0
    yield here, os.lstat(here)
    left: List[str] = path.split("/")
    while left:
        part = left.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, part)
        found = os.lstat(place)
        yield place, found
        if not stat.S_ISLNK(found.st_mode):
            here = place
            continue
        links += 1
        if links > LINKS_MAX:
            raise ValueError("links that lead to each other")
        target = os.readlink(place)
        here = "/" if os.path.isabs(target) else here
        left = target.split("/") + left

"""The commands of doc/install.md and doc/leave.md, to be typed as they stand there."""

from __future__ import annotations

from pathlib import Path
from typing import List

from harness.access import PROJECT
from harness.errors import HarnessError

GUIDE = PROJECT / "doc" / "install.md"
LEAVE = PROJECT / "doc" / "leave.md"
FENCE = "```"


def blocks(heading: str, guide: Path = GUIDE) -> List[List[str]]:
    """The commands of each block below a heading, up to the next one, without their comments.

    Raises HarnessError where there is no such heading or no block below it.
    """
    found: List[List[str]] = []
    below = inside = False
    for line in guide.read_text(encoding="utf-8").splitlines():
        if line.startswith(FENCE):
            inside = not inside
            if below and inside:
                found.append([])
        elif line.startswith("#") and not inside:
            below = line.lstrip("# ") == heading
        elif below and inside and line.partition(" #")[0].strip():
            found[-1].append(line.partition(" #")[0].rstrip())
    if not found:
        raise HarnessError(f"{guide} has no commands below {heading!r}")
    return found

"""Sections of doc/rados/operations/health-checks.rst, and of the release notes."""

from __future__ import annotations

from typing import List

from wcache.core.fleet.findings import ADVICE
from wcache.core.text import inflected

from .edits import Edit

# The section after which ours come ends with this line.
_BEFORE = "for further assistance."
_NOTE = "* ceph-volume: Raw BlueStore OSD preparation now pre-formats NVMe devices and"


def health_checks() -> List[Edit]:
    """A section for each health check of the module, in the words of `ceph wcache status`."""
    lines: List[str] = [_BEFORE]
    for code, (summary, todo) in sorted(ADVICE.items()):
        title = code.value
        lines += ["", title, "_" * len(title), "", *_wrapped(f"{inflected(summary, 2)}. {todo}.")]
    return [
        Edit("doc/rados/operations/health-checks.rst", _BEFORE, tuple(lines)),
        Edit("PendingReleaseNotes", _NOTE, (
            "* MGR: new module ``wcache``. It measures OSDs with their drives' volatile write",
            "  caches on and off, recommends the better mode, and sets it, reversibly.",
            "", _NOTE,
        )),
    ]


def _wrapped(text: str) -> List[str]:
    import textwrap

    plain = text.replace("..", ".").replace("`", "``").replace("*", r"\*").replace("|", r"\|")
    return textwrap.wrap(plain, 90, break_long_words=False, break_on_hyphens=False)

"""Sections of doc/rados/operations/health-checks.rst, and of the release notes."""

from __future__ import annotations

import re
import textwrap
from typing import List

from wcache.core.text import inflected
from wcache.knobs.registry import ADVICE

from .edits import Edit

# The section after which ours come ends with this line.
_BEFORE = "for further assistance."
# Pages that Ceph's documentation does not have.
_PAGE = re.compile(r"(; see| in) doc/[\w-]+\.md|: doc/install\.md .*$")
# `ceph wcache status`, /sys/block/sda, osd_mclock_max_capacity_iops_*, and what else marks text up.
_MARKED = re.compile(r"`([^`]+)`|(/\w[^\s),;]+|\b\w+_[\w*]+)|([*|])")
_NOTE = "* ceph-volume: Raw BlueStore OSD preparation now pre-formats NVMe devices and"


def health_checks() -> List[Edit]:
    """A section for each health check of the module, in the words of `ceph wcache status`."""
    lines: List[str] = [_BEFORE]
    for code, (summary, todo) in sorted(ADVICE.items()):
        title = code.value
        text = f"{_sentence(inflected(summary, 2))} {_sentence(todo)}"
        lines += ["", title, "_" * len(title), "", *_wrapped(text)]
    return [
        Edit("doc/rados/operations/health-checks.rst", _BEFORE, tuple(lines)),
        Edit("PendingReleaseNotes", _NOTE, (
            "* MGR: new module ``wcache``. It measures OSDs with their drives' volatile write",
            "  caches on and off, recommends the better mode, and sets it, reversibly.",
            "", _NOTE,
        )),
    ]


def _sentence(text: str) -> str:
    text = _PAGE.sub("", text).rstrip(".") + "."
    return text if "_" in text.split()[0] else text[0].upper() + text[1:]


def _wrapped(text: str) -> List[str]:
    """As reStructuredText: what is typed, and each name with an underscore, is a literal."""
    marked = _MARKED.sub(_marked, text)
    return textwrap.wrap(marked, 90, break_long_words=False, break_on_hyphens=False)


def _marked(found: re.Match[str]) -> str:
    typed, name, sign = found.groups()
    return f"``{typed or name}``" if typed or name else f"\\{sign}"

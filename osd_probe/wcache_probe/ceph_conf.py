"""What the probe reads from Ceph's configuration by itself: where it is, and of which cluster.

librados reads the rest.  What was left at the last end is restored before librados is loaded.
"""

from __future__ import annotations

import os
import re
from typing import Optional, Tuple

from .linux.block.host_files import read_text

CONF_BYTES_MAX = 1_000_000
_SECTION = re.compile(r"\s*\[([^]]*)\]")
_FSID = re.compile(r"\s*fsid\s*=\s*\"?([0-9a-fA-F-]{36})\"?\s*(?:[#;].*)?$")


def fsid_in(path: str) -> str:
    """The cluster's id that a configuration file names for all; empty where it names none."""
    section, found = "global", ""
    for line in (read_text(path, CONF_BYTES_MAX) or "").splitlines():
        head, fsid = _SECTION.match(line), _FSID.match(line)
        if head:
            section = head[1].strip()
        elif fsid and section == "global":
            found = fsid[1].lower()
    return found


def find_conf(places: Tuple[str, ...]) -> Optional[str]:
    """The first of them that can be read; None where none can."""
    readable = (each for each in places if os.access(each, os.R_OK) and not os.path.isdir(each))
    return next(readable, None)

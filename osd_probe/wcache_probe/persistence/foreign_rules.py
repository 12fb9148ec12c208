"""Other people's rules and settings that set write caches: found, named, left alone."""

from __future__ import annotations

import os
import re
from typing import List, Sequence, Tuple

from wcache.core.model import Finding, FindingCode, Severity

from ..block.host_files import entries, printable, read_table
from .udev_rule import PREFIX

RULE_FOLDERS = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d")
SETTINGS = ("/etc/hdparm.conf",)
FOUND_MAX = 16

# An assignment ("=", not the comparison "==") of the attribute, or a tool that switches.
_SETS = re.compile(
    r"ATTRS?\{[^}]*(cache_type|write_cache)\}\s*:?=(?!=)"
    r"|sdparm\b.*\bWCE\b|hdparm\b.*\s-W\s*[01]"
    r"|nvme\b.*\bset-feature\b.*-f(eature-id)?[ =]*(0x0?)?6\b"
    r"|smartctl\b.*\bwcache\b|echo\b.*(cache_type|write_cache)"
)
_SETTING = re.compile(r"\s*write_cache\s*=")


def find(
    folders: Sequence[str] = RULE_FOLDERS, settings: Sequence[str] = SETTINGS
) -> Tuple[Finding, ...]:
    """One finding for each file that sets a write cache, with the first line that does."""
    found: List[Finding] = []
    seen = set()
    for folder in folders:
        for name in entries(folder):
            # a file of the same name in a folder that comes first takes its place
            if name.endswith(".rules") and not name.startswith(PREFIX) and name not in seen:
                seen.add(name)
                found += _in_file(os.path.join(folder, name), _SETS)
    for path in settings:
        found += _in_file(path, _SETTING)
    return tuple(found[:FOUND_MAX])


def _in_file(path: str, pattern: re.Pattern[str]) -> List[Finding]:
    for number, line in enumerate(read_table(path), 1):
        if not line.lstrip().startswith("#") and pattern.search(line[:4096]):
            detail = f"{printable(path)}:{number}: {printable(line.strip(), 200)}"
            return [
                Finding(
                    FindingCode.FOREIGN_RULE, Severity.WARNING,
                    printable(os.path.basename(path)), detail,
                )
            ]
    return []

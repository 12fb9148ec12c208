"""Other people's rules and settings that set write caches: found, named, left alone."""

from __future__ import annotations

import glob
import os
import re
from typing import Iterator, List, Set

from wcache.core.model import Finding, FindingCode, Severity

from ..block.host_files import entries, printable, read_table, read_text
from .boot_rule import FILE_NAME
from .udev_rule import PREFIX

# the first folder's file hides one of the same name in a later one (udev(7), tmpfiles.d(5))
_LAYERED = (
    ("udev/rules.d", ".rules", ("etc", "run", "usr/lib")),
    ("tmpfiles.d", ".conf", ("etc", "run", "usr/lib")),
    ("systemd/system", ".service", ("etc", "run")),
)
_SINGLE = (
    "etc/hdparm.conf",
    "etc/smartd.conf",
    "etc/smartmontools/smartd.conf",
    "etc/sysfs.conf",
    "etc/sysfs.d/*.conf",
    "etc/rc.local",
    "etc/rc.d/rc.local",
    "etc/crontab",
    "etc/cron.d/*",
    "var/spool/cron/*",
    "var/spool/cron/crontabs/*",
)
_TUNED_PLACES = ("etc/tuned", "etc/tuned/profiles", "usr/lib/tuned", "usr/lib/tuned/profiles")
_TUNED_INCLUDES_MAX = 8
FILES_MAX = 512
FOUND_MAX = 16

_ATTRIBUTE = r"(cache_type|write_cache)"
# An assignment ("=", not the comparison "=="), a tool that switches, a setting of a daemon.
_SETS = re.compile(
    rf"ATTRS?\{{[^}}]*{_ATTRIBUTE}\}}\s*:?=(?!=)"
    rf"|^\s*[\w/*.:{{}}-]*\b{_ATTRIBUTE}\s*=(?!=)"
    rf"|^\s*[fFwW][+!=~^-]*\s+/sys/\S*{_ATTRIBUTE}\b"
    rf"|\b(echo|printf|tee)\b.*{_ATTRIBUTE}\b"
    # what the loop does may stand on a line of its own
    rf"|\bfor\s+\w+\s+in\s.*/{_ATTRIBUTE}\b"
    r"|\bsdparm\b(?!.*(\s-g|--get)\b).*\bWCE\b"
    r"|\bhdparm\b.*\s-[a-zA-Z]*W\s*[01]"
    r"|\bnvme\b.*\bset-feature\b.*-f(eature-id)?[ =]*(0x0?)?6\b"
    r"|\bsmartctl\b.*(\s-s|--set)[ =]*wcache\b"
    r"|\s-e\s+wcache,"
    r"|\bopenSeaChest\w*\b.*--(sctW|w)riteCache[= ]+(enable|disable)\b"
)


def find(root: str = "/") -> List[Finding]:
    """One finding for each file that sets a write cache, with the first line that does."""
    found: List[Finding] = []
    seen: Set[str] = set()
    for path in _files(root):
        real = os.path.realpath(path)
        if real not in seen and len(seen) < FILES_MAX and len(found) < FOUND_MAX:
            seen.add(real)
            found += _in_file(path, root)
    return found


def _files(root: str) -> Iterator[str]:
    for folder, suffix, places in _LAYERED:
        names = set()
        for place in places:
            top = os.path.join(root, place, folder)
            for name in entries(top):
                ours = name.startswith(PREFIX) or name == FILE_NAME
                if name.endswith(suffix) and not ours and name not in names:
                    names.add(name)
                    yield os.path.join(top, name)
    for pattern in _SINGLE:
        yield from sorted(glob.glob(os.path.join(glob.escape(root), pattern)))
    yield from _tuned(root)


def _tuned(root: str) -> Iterator[str]:
    """The files of tuned's active profile, with those that it includes (tuned.conf(5))."""
    active = read_text(os.path.join(root, "etc/tuned/active_profile")) or ""
    names = active.split()
    for name in names:
        if not re.fullmatch(r"[\w.-]+", name) or len(names) > _TUNED_INCLUDES_MAX:
            continue
        for place in _TUNED_PLACES:
            folder = os.path.join(root, place, name)
            if not os.path.isfile(os.path.join(folder, "tuned.conf")):
                continue
            for line in read_table(os.path.join(folder, "tuned.conf")):
                included = re.fullmatch(r"\s*include\s*=\s*(.+)", line)
                more = re.split(r"[,\s]+", included[1].strip()) if included else []
                names += [one for one in more if one not in names]
            for file_name in entries(folder):
                yield os.path.join(folder, file_name)
            break


def _in_file(path: str, root: str) -> List[Finding]:
    for number, line in enumerate(read_table(path), 1):
        if not line.lstrip().startswith(("#", ";")) and _SETS.search(line[:4096]):
            shown = "/" + os.path.relpath(path, root)
            detail = f"{printable(shown)}:{number}: {printable(line.strip(), 200)}"
            return [
                Finding(
                    FindingCode.FOREIGN_RULE, Severity.WARNING,
                    printable(os.path.basename(path)), detail,
                )
            ]
    return []

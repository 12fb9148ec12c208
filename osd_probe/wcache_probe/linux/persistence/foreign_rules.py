"""Other people's rules that set write caches: found, named, left alone.

What a rule, a unit or cron starts is read too, and what such a script starts: as far as it is
text, a few steps deep, and so many files.  A line is what its backslashes make of it.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Set, Tuple

from wcache.core.model import Finding, FindingCode, Severity

from ... import safe_files
from ..block.host_files import (
    NETWORK,
    entries,
    mount_of,
    mounts,
    printable,
    read_table,
    read_text,
)
from .udev_rule import FILE_NAME, PREFIX

# a file of one folder hides one of the same name in a later one (udev(7), tmpfiles.d(5),
# systemd.unit(5))
_PLACES = ("etc", "run", "usr/local/lib", "usr/lib", "lib")
_LAYERED = (
    ("udev/rules.d", (".rules",)),
    ("tmpfiles.d", (".conf",)),
    ("systemd/system", (".service", ".socket", ".mount", ".swap")),
)
_SINGLE = (
    *(f"{place}/systemd/system/*.d/*.conf" for place in _PLACES),
    *(f"{place}/systemd/system-{when}/*" for place in ("etc", "usr/lib")
      for when in ("sleep", "shutdown")),
    "etc/hdparm.conf",
    "etc/sysconfig/hdparm",
    "etc/udisks2/*.conf",
    "etc/smartd.conf",
    "etc/smartmontools/smartd.conf",
    "etc/sysfs.conf",
    "etc/sysfs.d/*.conf",
    "etc/rc.local",
    "etc/rc.d/rc.local",
    "etc/local.d/*.start",
    "etc/init.d/*",
    "etc/rc.d/init.d/*",
    "etc/pm/sleep.d/*",
    "etc/network/if-*.d/*",
    "etc/NetworkManager/dispatcher.d/*",
    "etc/initramfs-tools/scripts/*/*",
    "etc/crontab",
    "etc/anacrontab",
    *(f"etc/cron.{when}/*" for when in ("d", "hourly", "daily", "weekly", "monthly")),
    "var/spool/cron/*",
    "var/spool/cron/crontabs/*",
    "var/spool/anacron/*",
)
_TUNED_PLACES = ("etc/tuned", "etc/tuned/profiles", "usr/lib/tuned", "usr/lib/tuned/profiles")
_TUNED_INCLUDES_MAX = 8
FILES_MAX = 2048
STARTED_MAX = 256
STEPS_MAX = 3  # a rule starts a script, which starts one, which starts one
FOUND_MAX = 16
_BYTES_MAX = 262_144
_LINE_CHARS_MAX = 4096

_ATTRIBUTE = r"(cache_type|write_cache)"


def _after(word: str, but: str = "") -> str:
    """A word and what follows up to the next one, without `but`.

    Any user may write some of these lines: to go from each of a thousand words to the end of its
    line would take the square of that.
    """
    ends = f"{word}|{but}" if but else word
    return rf"{word}(?:(?!{ends}).)*"


# An assignment ("=", not the comparison "=="), a tool that switches, a setting of a daemon.
_RUNS = "|".join((
    rf"ATTRS?\{{[^{{}}]*{_ATTRIBUTE}\}}\s*:?=(?!=)",
    rf"^\s*[fFwW][+!=~^-]*\s+/sys/\S*{_ATTRIBUTE}\b",
    _after(r"\b(?:echo|printf|tee)\b") + rf"{_ATTRIBUTE}\b",
    # what the loop does may stand on a line of its own
    _after(r"\bfor\s+\w+\s+in\s") + rf"/{_ATTRIBUTE}\b",
    _after(r"\bsdparm\b", r"(?:\s-g|--get)\b") + r"\bWCE\b",
    _after(r"\bhdparm\b") + r"\s-[a-zA-Z]*W\s*[01]",
    _after(r"\bnvme\b") + _after(r"\bset-feature\b") + r"-f(eature-id)?[ =]*(0x0?)?6\b",
    _after(r"\bsmartctl\b") + r"(\s-s|--set)[ =]*wcache\b",
    r"\s-e\s+wcache,",
    _after(r"\bopenSeaChest\w*\b") + r"--(sctW|w)riteCache[= ]+(enable|disable)\b",
))
_STARTED_SETS = re.compile(_RUNS)  # in a script, a name with "=" is a variable
_SETS = re.compile(
    rf"{_RUNS}|^\s*[\w/*.:{{}}-]*\b{_ATTRIBUTE}\s*=(?!=)|^\s*WriteCacheEnabled\s*="
)
# where a line of a rule or a unit has commands; all else is a script or a table of commands
_IN_RULE = re.compile(
    r'\b(?:RUN|PROGRAM|IMPORT)(?:\{program\})?\s*\+?:?={1,2}\s*"((?:[^"\\]|\\.)*)"'
)
_IN_UNIT = re.compile(r"^\s*Exec\w+\s*=\s*[@:+!|-]*(.*)")
_PATH = re.compile(r"(?<![\w.$/}%-])/[\w.+@-]+(?:/[\w.+@-]+)+")
_WORD = re.compile(r"(?<![\w.$/}%+-])[\w.+-]+")
# where a command without a folder is looked for: udev's own place, and those of an admin
_OF_UDEV = ("usr/lib/udev", "lib/udev")
_OF_ADMIN = ("usr/local/sbin", "usr/local/bin", "root/bin")


@dataclass(frozen=True)
class _File:
    """One to be read; `started_by` are those that lead to it."""

    path: str  # below the host's root
    started_by: Tuple[str, ...] = ()


def find(root: str = "/") -> List[Finding]:
    """One finding for each file that sets a write cache, with the first line that does."""
    found: List[Finding] = []
    seen: Set[str] = set()
    listed: Set[str] = set()
    own = _names_in(root, _OF_ADMIN)
    table = mounts("/proc")
    todo = [_File("/" + os.path.relpath(path, root)) for path in _files(root)][:FILES_MAX]
    most = len(todo) + STARTED_MAX
    for file in todo:  # which grows meanwhile
        real = os.path.realpath(_on_host(root, file.path))
        if real in seen or len(found) >= FOUND_MAX:
            continue
        seen.add(real)
        lines = _lines(root, file.path)
        setting = _setting(file, lines)
        found += [setting] if setting else []
        for path in _started(file, lines, own):
            on_host = _on_host(root, path)
            # a server that is gone would have us wait for ever
            mount = mount_of(table, os.path.normpath(on_host))
            if mount is not None and mount.kind in (*NETWORK, "autofs"):
                continue
            if len(todo) < most and os.path.lexists(on_host) and on_host not in listed:
                listed.add(on_host)
                todo.append(_File(path, (*file.started_by, file.path)))
    return found


def _on_host(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _names_in(root: str, folders: Tuple[str, ...]) -> Dict[str, str]:
    """The files in some folders, by name."""
    return {
        name: f"/{folder}/{name}"
        for folder in reversed(folders) for name in entries(os.path.join(root, folder))
    }


def _lines(root: str, path: str) -> List[Tuple[int, str]]:
    """The lines of a text file that say something, each with its number, put together."""
    data = safe_files.read_of(path, _BYTES_MAX, None, root) or b""
    found: List[Tuple[int, str]] = []
    whole, begins = "", 0
    text = "" if b"\0" in data else data.decode("utf-8", "replace")
    for number, line in enumerate(map(str.rstrip, text.split("\n")), 1):
        if line.lstrip().startswith(("#", ";")):
            continue
        whole, begins = whole + line, begins or number
        if line.endswith("\\") and len(whole) < _LINE_CHARS_MAX:
            whole = whole[:-1] + " "
            continue
        found.append((begins, whole[:_LINE_CHARS_MAX]))
        whole, begins = "", 0
    return [*found, (begins, whole)] if whole else found


def _is_of_user(path: str) -> bool:
    """Whether a file is the table of an ordinary user."""
    return path.startswith("/var/spool/") and os.path.basename(path) != "root"


def _setting(file: _File, lines: List[Tuple[int, str]]) -> Optional[Finding]:
    """The first line that sets a cache, where there is one."""
    sets = _STARTED_SETS if file.started_by else _SETS
    for number, line in lines:
        if sets.search(line):
            by = f" (started by {printable(file.started_by[0])})" if file.started_by else ""
            return Finding(
                FindingCode.FOREIGN_RULE, Severity.WARNING,
                printable(os.path.basename(file.path)),
                f"{printable(file.path)}:{number}: {printable(' '.join(line.split()), 200)}{by}",
            )
    return None


def _started(file: _File, lines: List[Tuple[int, str]], own: Dict[str, str]) -> Iterator[str]:
    """What the commands of a file may start: paths, and names in an admin's folders."""
    # an ordinary user's table starts nothing that could set a cache, and leads root nowhere
    if _is_of_user(file.path) or len(file.started_by) >= STEPS_MAX:
        return
    for _, line in lines:
        for command, of_udev in _commands(file, line):
            yield from _PATH.findall(command)
            yield from (own[word] for word in _WORD.findall(command) if word in own)
            first = command.split(None, 1)[0] if of_udev and command.strip() else ""
            if first and "/" not in first:
                yield from (f"/{folder}/{first}" for folder in _OF_UDEV)


def _commands(file: _File, line: str) -> Iterator[Tuple[str, bool]]:
    """The commands in a line, and whether udev starts them."""
    if file.started_by:
        yield line, False
    elif file.path.endswith(".rules"):
        yield from ((text, True) for text in _IN_RULE.findall(line))
    elif "/systemd/system/" in file.path:
        yield from ((text, False) for text in _IN_UNIT.findall(line))
    elif not file.path.endswith(".conf"):
        yield line, False


def _files(root: str) -> Iterator[str]:
    for folder, suffixes in _LAYERED:
        names = set()
        for place in _PLACES:
            top = os.path.join(root, place, folder)
            for name in entries(top):
                ours = name.startswith(PREFIX) or name == FILE_NAME
                if name.endswith(suffixes) and not ours and name not in names:
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

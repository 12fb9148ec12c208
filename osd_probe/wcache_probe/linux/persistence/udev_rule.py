"""Our udev rules: how one names a drive, one for each drive that keeps a mode, the boot rule.

systemd strips white space at the end of an attribute before it compares (udev-rules.c,
token_match_attr()), and so do we; blanks inside, as in the `t10.` names that libata makes
of model and serial, are matched as they are.  In a match `*?[|` are patterns and a quote
or backslash ends or bends the text, so each of these is written as `?`: any one character.

A drive's own file is written whole or not at all, and is gone when a rollback says so.  It is known
as ours by its first line, which says the mode it keeps: what stands below that line, as where the
probe lies, may be something else by the time a rollback takes it away.  No field can hold a
character that means anything to udev, so a hostile model or serial cannot break out of its quotes.

The boot rule pins OSD drives in the moment they appear, before anything stands on them.  The pin
is the running kernel's.  After a warm reboot, a kdump, a rebind or delete and scan
a drive that is off may have kept its power: the new kernel reads `write through` from it,
device mapper loads its tables with that view, and when a reset turns the cache on they drop
flushes.  So the pin has to come back with the drive.

For each drive a line that sets an attribute: an initramfs has no Python.  systemd
assigns `ATTR{}` while it reads the rules of an event (udev_rule_apply_token_to_event(), which
also resolves the `*`), so before any RUN, and before 69-lvm.rules of the same event; the
events of partitions wait for that of their disk.  By then the kernel has made the disk's
`scsi_disk` and has read its cache for the first time (drivers/scsi/sd.c, sd_probe()).

A second line for each stands up to rules of others.  Ceph documents one that writes `cache_type`
in the event of `scsi_disk`, which lifts a pin (sd.c, cache_type_store()).  That event goes on
beside the disk's, and `udevadm trigger` repeats both at each boot, the disk's first.  A program
is run after all that an event assigns, so `sh`, which each initramfs has, pins once more.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import shutil
from contextlib import suppress
from typing import FrozenSet, Iterable, List, Optional, Tuple

from wcache.core.errors import RefusedError, StorageError
from wcache.core.model import CacheMode

from ...arguments import RUN_DIR, STATE_DIR
from ...safe_files import failure, folder_of, remove, write_whole
from ..block.host_files import read_text

_KINDS = ("naa.", "eui.", "uuid.", "nvme.", "t10.")
_LENGTH_MAX = 250
# printable ASCII: what the kernel's "%pE" leaves as it is (scsi_vpd_lun_id())
_WWID = re.compile(r"[a-z0-9]+\.[\x20-\x7e]{4,}")
_ZEROS = re.compile(r"[a-z0-9]+\.[0-]+")
_SPECIAL = re.compile(r"[^A-Za-z0-9 ._:+@-]")


def pattern(wwid: str) -> str:
    """What stands between the quotes of a match; RefusedError where nothing safe can."""
    usable = _WWID.fullmatch(wwid) and wwid.startswith(_KINDS) and wwid == wwid.strip()
    if not usable or len(wwid) > _LENGTH_MAX:
        raise RefusedError("the drive has no wwid that a udev rule can match")
    if _ZEROS.fullmatch(wwid):
        raise RefusedError("the drive's wwid is zeros, which other drives may have as well")
    return _SPECIAL.sub("?", wwid)


def matches(wanted: str, wwid: str) -> bool:
    """Whether udev would take a drive with `wwid` for the one that `wanted` names."""
    return fnmatch.fnmatchcase(wwid, wanted)


def names_of(wwid: str, wwn: str) -> Tuple[str, ...]:
    """The names that kernels give a drive: its wwid, and its WWN where that is a T10 name.

    A kernel took the longest designator of page 83h, of a SATA drive under libata the T10 one.
    Since 5.11, and in older stable kernels since, it takes the NAA one (scsi_vpd_lun_id(), "scsi:
    core: Fix VPD LUN ID designator priorities"), so a drive has another name after an upgrade.
    """
    return (wwid, wwn) if wwid.startswith("t10.") and wwn else (wwid,)


# what stands in a file name and in a program's arguments as it is
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")
_RUN = re.compile(r'RUN\+="(\S+) appear [^"]* --run-dir (\S+)(?: --state-dir (\S+))? %k"')

PREFIX = "85-wcache-"
_HEADER = "# Written by wcache-probe: keeps this drive in "


def drive_rule(
    wwid: str, mode: CacheMode, command: str, run_dir: str, state_dir: str = STATE_DIR
) -> str:
    """The file that keeps one drive in a mode; raises RefusedError for unsafe words.

    `command` is the probe on the host, `run_dir` where that finds out whether a lease
    holds the drive: one that returns under an experiment is not the rule's to change.
    In `state_dir` it finds what was lost and what was proven.

    The scsi_disk event comes before the kernel's first look at the cache
    (drivers/scsi/sd.c, sd_probe()), so the pin is there as early as can be; it is
    safe at any time, so it never yields.
    """
    name = pattern(wwid)
    for path in (command, run_dir, state_dir):
        if not _PATH.fullmatch(path):
            raise RefusedError(
                "a udev rule needs the path of wcache-probe on this host",
                "install wcache-probe, for example in /usr/bin",
            )
    state = "" if state_dir == STATE_DIR else f" --state-dir {state_dir}"
    return (
        f"{_HEADER}{mode.value}.\n"
        "# `ceph wcache rollback` removes it; one that was changed by hand it moves aside.\n"
        f'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTRS{{wwid}}=="{name}", '
        'ATTR{cache_type}="temporary write back"\n'
        f'ACTION=="add", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", '
        f'ATTRS{{wwid}}=="{name}", '
        f'RUN+="{command} {_request(wwid, mode)} --run-dir {run_dir}{state} %k"\n'
    )


def _request(wwid: str, mode: CacheMode) -> str:
    """What it asks of the probe.

    A name with blanks or signs goes in hex: in a RUN, percent and dollar are udev's.
    """
    name = f"--wwid {wwid}" if _PLAIN.fullmatch(wwid) else f"--wwid-hex {wwid.encode().hex()}"
    return f"appear --mode {mode.value.replace(' ', '-')} {name}"


def file_name(wwid: str) -> str:
    """One file for each drive; raises RefusedError where udev could not match the drive."""
    pattern(wwid)
    if _PLAIN.fullmatch(wwid):
        return f"{PREFIX}{wwid}.rules"
    # the kernel makes no such name longer than a path's part may be, and two that differ in
    # a blank only are two drives
    short = re.sub(r"[^A-Za-z0-9.-]+", "_", wwid)[:100]
    return f"{PREFIX}{short}-{hashlib.sha256(wwid.encode()).hexdigest()[:12]}.rules"


def mode_in(text: str) -> Optional[CacheMode]:
    """The mode that a file of ours keeps its drive in; None for a file that is not ours."""
    first = text.split("\n", 1)[0].strip()
    for mode in CacheMode:
        if first == f"{_HEADER}{mode.value}.":
            return mode
    return None


def is_changed(text: str, wwid: str) -> bool:
    """Whether a file of ours says anything else than we would, wherever the probe lay."""
    mode, run = mode_in(text), _RUN.search(text)
    if mode is None or run is None:
        return True
    try:
        written = drive_rule(wwid, mode, run[1], run[2], run[3] or STATE_DIR)
    except RefusedError:
        return True
    return rules_in(text) != rules_in(written)


def acts(text: str) -> bool:
    """Whether a file starts the probe for a drive, whatever its first line says."""
    return any("appear --mode " in line for line in rules_in(text))


def rules_in(text: str) -> List[str]:
    """The lines of a file that are rules."""
    return [line.strip() for line in text.splitlines() if line.strip() and line[:1] != "#"]


RULES_FOLDER = "/etc/udev/rules.d"
# udev reads what ends in .rules alone
ASIDE = ".changed-by-hand"


def _move_aside(path: str) -> None:
    """Give a file a name that nothing reads, for good; one that has it already is replaced."""
    with failure(f"cannot move aside {path}"), folder_of(path) as (folder, name):
        os.rename(name, name + ASIDE, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


class RuleFolder:
    """The folder of the host's own udev rules."""

    def __init__(
        self, folder: str = RULES_FOLDER, run_dir: str = RUN_DIR, command: Optional[str] = None,
        state_dir: str = STATE_DIR,
    ) -> None:
        self._folder = folder
        self._run_dir, self._state_dir = run_dir, state_dir
        self._command = shutil.which("wcache-probe") or "" if command is None else command

    def mode(self, wwid: str) -> Optional[CacheMode]:
        """The mode in which a rule of ours keeps a drive; None where there is none."""
        return mode_in(self._text(wwid))

    def says(self, wwid: str, mode: CacheMode) -> bool:
        """Whether the file of a drive still asks for a mode, changed by an admin or not."""
        return _request(wwid, mode) in self._text(wwid)

    def write(self, wwid: str, mode: CacheMode) -> None:
        """Keep a drive in a mode from its next appearance on.

        Raises RefusedError where no safe rule can be made, StorageError where a file of
        somebody else is in its place or the folder cannot be written.
        """
        rule = drive_rule(wwid, mode, self._command, self._run_dir, self._state_dir)
        path = self._path(wwid)
        text = self._text(wwid)
        if os.path.lexists(path) and mode_in(text) is None:
            raise StorageError(
                f"{path} was not written by wcache-probe", "move it away, then try again"
            )
        if text and is_changed(text, wwid):
            _move_aside(path)
        write_whole(path, rule, 0o644, make=0o755)

    def remove(self, wwid: str) -> None:
        """Take our rule for a drive away; on return no rule of ours is there.

        One that was changed by hand is moved aside, where udev does not read it.  Raises
        StorageError where it cannot go, or where a file that is not ours starts the probe.
        """
        try:
            path = self._path(wwid)
        except RefusedError:
            return
        text = self._text(wwid)
        if mode_in(text) is None:
            if acts(text):
                raise StorageError(
                    f"{path} sets this drive's cache and is not as wcache-probe wrote it",
                    "move it away, then try again",
                )
            return
        if is_changed(text, wwid):
            _move_aside(path)
        else:
            remove(path)

    def pins(self, wwid: str) -> bool:
        """Whether the boot rule names a drive."""
        text = read_text(os.path.join(self._folder, FILE_NAME), RULE_BYTES_MAX) or ""
        return bool(lines_naming(wwid, lines_of(text)))

    def standing(self) -> Tuple[str, ...]:
        """Every file here that keeps a drive in a mode, ours or changed by hand."""
        names: List[str] = []
        with failure(f"cannot read {self._folder}"), suppress(FileNotFoundError):
            names = sorted(os.listdir(self._folder))
        paths = (os.path.join(self._folder, n) for n in names if n.endswith(".rules"))
        return tuple(path for path in paths if acts(read_text(path) or ""))

    def _text(self, wwid: str) -> str:
        try:
            return read_text(self._path(wwid)) or ""
        except RefusedError:
            return ""

    def _path(self, wwid: str) -> str:
        return os.path.join(self._folder, file_name(wwid))


FILE_NAME = "59-wcache-pin.rules"
RULE_BYTES_MAX = 1_000_000
_BOOT_HEADER = "# Written by `wcache-probe prepare`: "
_TEXT = (
    f"{_BOOT_HEADER}the kernel flushes these OSD drives from the moment they appear.\n"
    "# Do not edit: `wcache-probe prepare` writes it anew, `wcache-probe unprepare` removes it.\n"
    "# It must also be in each initramfs image, which `wcache-probe prepare` sees to.\n"
    "# The lines of /dev/null let the probe see after a boot that the image had this very rule.\n"
)
# A note in udev's database that this rule ran in an initramfs, which has /init.  /dev/null is
# there in each and on every host.  The note outlives the change of the root (db_persist), and
# the event of the root's own udev takes it along.
NOTE_FILE = "udev/data/c1:3"
NOTE = "WCACHE_BOOT_RULE"
_ON_NULL = 'SUBSYSTEM=="mem", KERNEL=="null", '
_MATCH = 'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", '
_PIN = 'ATTR{device/scsi_disk/*/cache_type}="temporary write back"'
_HEAD, _TAIL = f'{_MATCH}ATTRS{{wwid}}=="', f'", {_PIN}'
_MATCH_OWN = 'ACTION=="add", SUBSYSTEM=="scsi_disk", '
_PIN_LAST = """RUN+="/bin/sh -c 'echo temporary write back >/sys%p/cache_type'\""""


def boot_rule(wwids: Iterable[str], kept: Iterable[str] = ()) -> str:
    """The file for drives with these names; raises RefusedError for one that is none.

    `kept` are lines of the rule of before that stay.
    """
    lines = {*map(line_of, wwids), *kept}
    # what pins each drive after all rules of its scsi_disk
    last = (
        f'{_MATCH_OWN}ATTRS{{wwid}}=="{name_in(line)}", {_PIN_LAST}'
        for line in filter(pins_one, lines)
    )
    return _TEXT + "".join(
        f"{line}\n" for line in (*_notes(lines), *sorted(lines), *sorted(last))
    )


def line_of(*names: str) -> str:
    """The line that pins one drive, whichever of its names the kernel gives it."""
    return f"{_HEAD}{'|'.join(map(pattern, names))}{_TAIL}"


def pins_one(line: str) -> bool:
    """Whether a line of a rule file is one that `line_of` could have made."""
    name = name_in(line)
    return line == f'{_HEAD}{name}{_TAIL}' and bool(name) and '"' not in name


def name_in(line: str) -> str:
    """What a line that pins one drive matches it by."""
    return line[len(_HEAD):-len(_TAIL)]


def is_ours(text: str) -> bool:
    """Whether `prepare` wrote a file, changed by hand since or not."""
    return text.startswith(_BOOT_HEADER)


def _notes(pins: Iterable[str]) -> Tuple[str, str]:
    """The lines that leave the note of a rule with these lines for drives."""
    return (
        f'{_ON_NULL}IMPORT{{db}}="{NOTE}"',
        f'ACTION=="add", {_ON_NULL}TEST=="/init", ENV{{{NOTE}}}="{_digest(pins)}", '
        'OPTIONS+="db_persist"',
    )


def _digest(pins: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(pins)).encode("utf-8")).hexdigest()[:16]


def note_of(text: str) -> str:
    """The property that a rule file leaves; empty where it leaves none."""
    names = names_in(text)
    leaves = lines_of(text).issuperset(_notes(lines_for(names)))
    return note_for(names) if leaves else ""


def note_for(names: Iterable[str]) -> str:
    """The property that a rule for drives with these names leaves."""
    return f"{NOTE}={_digest(lines_for(names))}"


def names_in(text: str) -> Tuple[str, ...]:
    """What a rule file matches drives by, sorted."""
    return tuple(sorted(map(name_in, filter(pins_one, lines_of(text)))))


def lines_for(names: Iterable[str]) -> FrozenSet[str]:
    """The lines that pin drives with these names, which `names_in` gave."""
    return frozenset(f"{_HEAD}{name}{_TAIL}" for name in names)


def lines_of(text: str) -> FrozenSet[str]:
    """The lines of a file that are rules."""
    return frozenset(rules_in(text))


def lines_naming(wwid: str, lines: Iterable[str]) -> FrozenSet[str]:
    """Those of these lines that pin the drive with this name."""
    try:
        name = pattern(wwid)
    except RefusedError:
        return frozenset()
    return frozenset(
        line for line in filter(pins_one, lines) if name in name_in(line).split("|")
    )

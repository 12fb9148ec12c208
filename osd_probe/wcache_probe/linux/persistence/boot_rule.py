"""The boot rule: pins OSD drives in the moment they appear, before anything stands on them.

The pin is the running kernel's.  After a warm reboot, a kdump, a rebind or delete and scan
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

import hashlib
from dataclasses import dataclass
from typing import FrozenSet, Iterable, Tuple

from wcache.core.errors import RefusedError

from .udev_rule import pattern, rules_in

FILE_NAME = "59-wcache-pin.rules"
_HEADER = "# Written by `wcache-probe prepare`: "
_TEXT = (
    f"{_HEADER}the kernel flushes these OSD drives from the moment they appear.\n"
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


@dataclass(frozen=True)
class BootRule:
    """The rule for drives with these names; raises RefusedError for one that is none.

    `kept` are lines of the rule of before that stay.
    """

    wwids: Tuple[str, ...]
    kept: Tuple[str, ...] = ()

    def text(self) -> str:
        """The file."""
        lines = {*map(line_of, self.wwids), *self.kept}
        last = map(_pins_last, filter(pins_one, lines))
        return _TEXT + "".join(
            f"{line}\n" for line in (*_notes(lines), *sorted(lines), *sorted(last))
        )


def line_of(wwid: str) -> str:
    """The line that pins one drive."""
    return f"{_HEAD}{pattern(wwid)}{_TAIL}"


def pins_one(line: str) -> bool:
    """Whether a line of a rule file is one that `line_of` could have made."""
    name = _name_in(line)
    return line == f'{_HEAD}{name}{_TAIL}' and bool(name) and '"' not in name


def _name_in(line: str) -> str:
    return line[len(_HEAD):-len(_TAIL)]


def _pins_last(line: str) -> str:
    """What pins the drive of a line of `line_of` after all rules of its scsi_disk."""
    return f'{_MATCH_OWN}ATTRS{{wwid}}=="{_name_in(line)}", {_PIN_LAST}'


def is_ours(text: str) -> bool:
    """Whether `prepare` wrote a file, changed by hand since or not."""
    return text.startswith(_HEADER)


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
    """The property that a rule file leaves; empty where it leaves none, as older ones."""
    names = names_in(text)
    leaves = lines_of(text).issuperset(_notes(lines_for(names)))
    return note_for(names) if leaves else ""


def note_for(names: Iterable[str]) -> str:
    """The property that a rule for drives with these names leaves."""
    return f"{NOTE}={_digest(lines_for(names))}"


def names_in(text: str) -> Tuple[str, ...]:
    """What a rule file matches drives by, sorted."""
    return tuple(sorted(map(_name_in, filter(pins_one, lines_of(text)))))


def lines_for(names: Iterable[str]) -> FrozenSet[str]:
    """The lines that pin drives with these names, which `names_in` gave."""
    return frozenset(f"{_HEAD}{name}{_TAIL}" for name in names)


def lines_of(text: str) -> FrozenSet[str]:
    """The lines of a file that are rules."""
    return frozenset(rules_in(text))


def is_named(wwid: str, lines: FrozenSet[str]) -> bool:
    """Whether one of these lines pins the drive with this name."""
    try:
        return line_of(wwid) in lines
    except RefusedError:
        return False

"""A udev rule of ours as data: checked fields in, one fixed text out.

A file is known as ours by its first line, which says the mode it keeps: what stands below that
line, as where the probe lies, may be something else by the time a rollback takes it away.  No
field can hold a character that means anything to udev, so a hostile model or serial cannot break
out of its quotes.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import List, Optional

from wcache.core.errors import RefusedError
from wcache.core.model import CacheMode

from .udev_match import pattern

# what stands in a file name and in a program's arguments as it is
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")
_RUN = re.compile(r'RUN\+="(\S+) appear [^"]* --run-dir (\S+) %k"')

PREFIX = "85-wcache-"
_HEADER = "# Written by wcache-probe: keeps this drive in "


@dataclass(frozen=True)
class UdevRule:
    """Keep one drive, by its `wwid`, in a mode; raises RefusedError for unsafe fields.

    `command` is the probe on the host, `run_dir` where that finds out whether a lease
    holds the drive: one that returns under an experiment is not the rule's to change.
    """

    wwid: str
    mode: CacheMode
    command: str
    run_dir: str

    def __post_init__(self) -> None:
        pattern(self.wwid)
        for path in (self.command, self.run_dir):
            if not _PATH.fullmatch(path):
                raise RefusedError(
                    "a udev rule needs the path of wcache-probe on this host",
                    "install wcache-probe, for example in /usr/bin",
                )

    @property
    def request(self) -> str:
        """What it asks of the probe.

        A name with blanks or signs goes in hex: in a RUN, percent and dollar are udev's.
        """
        plain = _PLAIN.fullmatch(self.wwid)
        name = f"--wwid {self.wwid}" if plain else f"--wwid-hex {self.wwid.encode().hex()}"
        return f"appear --mode {self.mode.value.replace(' ', '-')} {name}"

    def text(self) -> str:
        """The file.

        The scsi_disk event comes before the kernel's first look at the cache
        (drivers/scsi/sd.c, sd_probe()), so the pin is there as early as can be; it is
        safe at any time, so it never yields.
        """
        name = pattern(self.wwid)
        return (
            f"{_HEADER}{self.mode.value}.\n"
            "# `ceph wcache rollback` removes it; one that was changed by hand it moves aside.\n"
            f'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTRS{{wwid}}=="{name}", '
            'ATTR{cache_type}="temporary write back"\n'
            f'ACTION=="add", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", '
            f'ATTRS{{wwid}}=="{name}", '
            f'RUN+="{self.command} {self.request} --run-dir {self.run_dir} %k"\n'
        )


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
        written = UdevRule(wwid, mode, run[1], run[2]).text()
    except RefusedError:
        return True
    return _rules(text) != _rules(written)


def acts(text: str) -> bool:
    """Whether a file starts the probe for a drive, whatever its first line says."""
    return any("appear --mode " in line for line in _rules(text))


def _rules(text: str) -> List[str]:
    return [line.strip() for line in text.splitlines() if line.strip() and line[:1] != "#"]

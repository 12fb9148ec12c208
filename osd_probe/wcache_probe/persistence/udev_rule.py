"""A udev rule of ours as data: checked fields in, one fixed text out.

The text is never parsed back: a rule is ours and unchanged exactly where its file holds
what its fields make.  No field can hold a character that means anything to udev, so a
hostile model or serial cannot break out of its quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wcache.core.errors import RefusedError
from wcache.core.model import CacheMode

# no quotes, blanks, dollars, percents, or patterns of udev's matching
_WWID = re.compile(r"(naa|eui|uuid|nvme|t10)\.[A-Za-z0-9._-]{4,200}")
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")

PREFIX = "85-wcache-"


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
        if not _WWID.fullmatch(self.wwid):
            raise RefusedError("the drive has no wwid that a udev rule can match")
        for path in (self.command, self.run_dir):
            if not _PATH.fullmatch(path):
                raise RefusedError(
                    "a udev rule needs the path of wcache-probe on this host",
                    "install wcache-probe, for example in /usr/bin",
                )

    @property
    def file_name(self) -> str:
        """One file for each drive."""
        return f"{PREFIX}{self.wwid}.rules"

    @property
    def request(self) -> str:
        """What it asks of the probe."""
        return f"appear --mode {self.mode.value.replace(' ', '-')} --wwid {self.wwid}"

    def text(self) -> str:
        """The file.

        The scsi_disk event comes before the kernel's first look at the cache
        (drivers/scsi/sd.c, sd_probe()), so the pin is there as early as can be; it is
        safe at any time, so it never yields.
        """
        return (
            f"# Written by wcache-probe: keeps this drive in {self.mode.value}.\n"
            "# `ceph wcache rollback` removes it; changes made here by hand are kept.\n"
            f'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTRS{{wwid}}=="{self.wwid}", '
            'ATTR{cache_type}="temporary write back"\n'
            f'ACTION=="add", SUBSYSTEM=="block", ENV{{DEVTYPE}}=="disk", '
            f'ATTRS{{wwid}}=="{self.wwid}", '
            f'RUN+="{self.command} {self.request} --run-dir {self.run_dir} %k"\n'
        )

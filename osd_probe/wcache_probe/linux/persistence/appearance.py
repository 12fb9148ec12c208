"""A drive that just appeared, and the rule that wants it in a mode."""

from __future__ import annotations

from typing import Protocol, Tuple

from wcache.core.model import CacheMode, DriveReport

from ...switching import toggle
from ...switching.steps import Program, Switched
from .rule_folder import RuleFolder


class AppearedDrives(Protocol):
    """The part of a host that finds a drive by its disk."""

    def appeared(self, dev_name: str, wwid: str) -> Tuple[DriveReport, ...]:
        """The drive of a disk and all that shares its switch; no other drive is asked.

        Raises NotFoundError where the disk is another drive now.
        """


class Leases(Protocol):
    """Knows what leases hold."""

    def covers(self, domain_id: str) -> bool:
        """Whether a lease holds a cache domain."""


def appear(
    host: AppearedDrives, rules: RuleFolder, leases: Leases,
    *, dev_name: str, wwid: str, mode: CacheMode,
) -> Program:
    """Keep the drive in `mode`; changes nothing under a lease or where no rule asks for it.

    Events queue up: by now the rule that sent this one may have been taken back.  All of it
    is read once the program runs, so that no rollback can come in between.
    """
    drives = host.appeared(dev_name, wwid)
    held = any(leases.covers(drive.domain_id) for drive in drives)
    if held or not rules.says(wwid, mode):
        states = tuple(drive.state for drive in drives)
        return Switched(states, states, changed=False)
    return (yield from toggle.keep(drives, mode))

"""`wcache-probe removable`: whether this host can do without the program; packages ask it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List

from wcache.core.drive.journal import EntryKind
from wcache.core.errors import ConflictError
from wcache.core.text import named

from ..journal.journal_file import StateFolder
from ..linux.persistence.rule_folder import RuleFolder
from ..switcher import read_journal

if TYPE_CHECKING:
    import argparse

NAMED_MAX = 3
ADVICE = (
    "take it back with `ceph wcache rollback`, or here with `wcache-probe restore --action ID`; "
    "to leave it as it is, make the file /etc/wcache/leave"
)


def removable(options: argparse.Namespace, rules: RuleFolder) -> int:
    """0 where nothing that was applied on this host stands; else ConflictError, in one line.

    Leases do not count: whoever removes the program has them restored first.
    """
    standing: List[str] = []
    if os.path.isdir(options.state_dir):
        sound, damaged = read_journal(StateFolder(options.state_dir, options.run_dir).journal)
        applied = [e.owner_id for e in sound.values() if e.kind is EntryKind.ACTION]
        standing += _named(applied, "applied change")
        standing += _named(list(damaged), "unreadable journal entry")
    standing += _named(list(rules.standing()), "udev rule that starts wcache-probe")
    if standing:
        raise ConflictError(f"still on this host: {', and '.join(standing)}", ADVICE)
    return 0


def _named(names: List[str], what: str) -> List[str]:
    if not names:
        return []
    return [f"{what} ({named(sorted(names), NAMED_MAX)})"]

"""`wcache-probe accept`: give up what the journal says of a cache domain, with no mgr at all.

No drive is touched.  With a mgr, `ceph wcache drive accept` does the same on both sides.
"""

from __future__ import annotations

import argparse
import sys
from typing import Dict

from wcache.core.drive.journal import EntryKind
from wcache.core.errors import NotFoundError

from ..evidence.folder import EvidenceFolder
from ..journal.journal_file import StateFolder
from ..mgr_link import printable
from ..switcher import read_journal


def accept(options: argparse.Namespace) -> int:
    """Show the entries of a domain (or the one with that key), and drop them with --yes."""
    if options.disobeyed:
        return _try_again(options)
    state = StateFolder(options.state_dir, options.run_dir)
    state.lock()  # a running probe holds its journal in its hands
    found = _entries(state, options.domain)
    if not found:
        raise NotFoundError(
            f"the journal has no entry of {options.domain[:120]}", "see `wcache-probe status`"
        )
    for key, words in found.items():
        print(f"{'given up' if options.yes else 'would be given up'}: {printable(key)}: {words}")
        if options.yes:
            state.journal.remove(key)
    if not options.yes:
        print("look at the drive first, then add --yes", file=sys.stderr)
        return 1
    print("the drives stay as they are; the mgr is told by `ceph wcache drive accept`")
    return 0


def _try_again(options: argparse.Namespace) -> int:
    """Forget that drives of a domain did not obey; a probe that runs reads that at each look."""
    evidence = EvidenceFolder(options.state_dir)
    found = [
        one for one in evidence.disobeyed().values()
        if options.domain in (one.domain_id, one.drive_id)
    ]
    if not found:
        raise NotFoundError(
            f"no drive of {options.domain[:120]} is remembered to have refused a change",
            "see `wcache-probe look`",
        )
    for one in found:
        print(f"{'forgotten' if options.yes else 'would be forgotten'}: {one.drive_id}: "
              f"{one.answer}")
        if options.yes:
            evidence.forget_disobeyed(one.drive_id)
    if not options.yes:
        print("add --yes to have it tried again", file=sys.stderr)
    return 0 if options.yes else 1


def _entries(state: StateFolder, domain: str) -> Dict[str, str]:
    """The entries of a domain by key, and what each says."""
    sound, damaged = read_journal(state.journal)
    found = {
        key: ", ".join(f"{d.dev_name} was in {d.words}" for d in entry.drives)
        for key, entry in sound.items() if domain in (entry.domain_id, key)
    }
    for key, words in damaged.items():
        if domain in (key, key.partition(f"{EntryKind.LEASE.value}/")[2]):
            found[key] = words
    return found

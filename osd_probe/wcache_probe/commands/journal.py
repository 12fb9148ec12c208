"""`wcache-probe status`, `accept`, `removable`: what this host's journal holds or gives up.

No drive is touched.  With a mgr, `ceph wcache drive accept` does the same on both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Callable, Dict, List, Mapping

from wcache.core import codec
from wcache.core.drive.journal import EntryKind, JournalEntry
from wcache.core.errors import ConflictError, NotFoundError
from wcache.core.text import named, table, when

from ..evidence import EvidenceFolder
from ..journal.journal_file import MATRIX, PROBE, StateFolder
from ..linux.persistence.udev_rule import RuleFolder
from ..mgr_link import printable
from ..switcher import read_journal

FORMAT_VERSION = 1


def status(state: StateFolder, style: str) -> int:
    """What runs with this folder and what its journal holds; exit code 1 where it is damaged."""
    sound, damaged = read_journal(state.journal)
    pid = state.holder()
    program = state.program() if pid else ""
    if style == "json":
        data = {
            "format_version": FORMAT_VERSION, "state_dir": state.path, "pid": pid or None,
            "program": program or None, "journal": codec.to_plain(sound), "damaged": damaged,
        }
        print(json.dumps(data, indent=2))
        return 1 if damaged else 0
    print(f"state:  {state.path}")
    print(f"probe:  {f'running with pid {pid}' if program == PROBE else 'not running'}")
    if program == MATRIX:
        print(f"matrix: running with pid {pid}")
    rows = [
        (
            _why(entry), entry.owner_id, drives_of(entry), modes_of(entry),
            when(entry.written_at_s),
        )
        for entry in sound.values()
    ]
    heads = ("WHY", "ID", "DRIVES", "BEFORE", "SINCE (UTC)")
    print(table(heads, rows) if rows else "the journal is empty: nothing is held or applied")
    for line in damaged.values():
        print(f"cannot be read: {line}")
    return 1 if damaged else 0


def drives_of(entry: JournalEntry) -> str:
    """Name the drives of an entry."""
    return ", ".join(drive.dev_name for drive in entry.drives)


def modes_of(entry: JournalEntry) -> str:
    """Say what they were in before."""
    return ", ".join(dict.fromkeys(drive.words for drive in entry.drives))


def _why(entry: JournalEntry) -> str:
    """Who the entry is for; a matrix writes one as a lease does."""
    of_matrix = entry.kind is EntryKind.LEASE and entry.owner_id.startswith(f"{MATRIX}.")
    return MATRIX if of_matrix else entry.kind.value


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
    todo = "look at the drive first, then add --yes"
    code = _give_up("given up", found, state.journal.remove, todo, options)
    if not code:
        print("the drives stay as they are; the mgr is told by `ceph wcache drive accept`")
    return code


def _give_up(
    how: str, found: Mapping[str, str], forget: Callable[[str], None], todo: str,
    options: argparse.Namespace,
) -> int:
    """Tell what goes, by its name, and have it go with --yes; 1 without."""
    would = "" if options.yes else "would be "
    for name, words in found.items():
        print(f"{would}{how}: {printable(name)}: {words}")
        if options.yes:
            forget(name)
    if would:
        print(todo, file=sys.stderr)
    return int(bool(would))


def _try_again(options: argparse.Namespace) -> int:
    """Forget that drives of a domain did not obey; a probe that runs reads that at each look."""
    evidence = EvidenceFolder(options.state_dir)
    found = {
        one.drive_id: one.answer for one in evidence.disobeyed().values()
        if options.domain in (one.domain_id, one.drive_id)
    }
    if not found:
        raise NotFoundError(
            f"no drive of {options.domain[:120]} is remembered to have refused a change",
            "see `wcache-probe look`",
        )
    todo = "add --yes to have it tried again"
    return _give_up("forgotten", found, evidence.forget_disobeyed, todo, options)


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


NAMED_MAX = 3
ADVICE = (
    "take it back with `ceph wcache rollback`, or here with `wcache-probe restore --action ID`; "
    "to leave it as it is, make the file /etc/wcache/leave"
)


def removable(options: argparse.Namespace, rules: RuleFolder) -> int:
    """0 where nothing that was applied on this host stands; else ConflictError, in one line.

    Leases do not count: whoever removes the program has them restored first.  With `--idle` they
    do, and so does a probe that runs with the folder: it could begin another one.
    """
    standing: List[str] = []
    if os.path.isdir(options.state_dir):
        state = StateFolder(options.state_dir, options.run_dir)
        pid = state.holder() if options.idle else 0
        if pid:
            raise ConflictError(
                f"a {state.program()} (pid {pid}) is running with {options.state_dir}",
                "stop it first, where it runs in a container by its orchestrator",
            )
        sound, damaged = read_journal(state.journal)
        applied = [e.owner_id for e in sound.values() if e.kind is EntryKind.ACTION]
        if options.idle:
            leased = [e.domain_id for e in sound.values() if e.kind is EntryKind.LEASE]
            standing += _named(leased, "lease")
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

"""`wcache-probe prepare` and `unprepare`: what they look at before they change anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, List

from wcache.core.errors import ConflictError, NotFoundError, RefusedError
from wcache.core.model import DriveReport

from ..journal.host_lock import HostLock
from ..journal.journal_file import StateFolder
from ..linux.block.host_files import HostFiles
from ..linux.persistence.preparation import Preparation
from ..linux.persistence.prepare import Preparer, choose, in_container
from ..linux.real_host import linux_host
from ..matrix.scratch import find
from ..switcher import read_journal

if TYPE_CHECKING:
    import argparse


def preparer_of(options: argparse.Namespace) -> Preparer:
    """What changes this machine; raises RefusedError where it would change another one."""
    if os.geteuid() != 0:
        raise RefusedError("it writes to /etc and /boot", "run it as root")
    if in_container():
        raise RefusedError(
            "this is a container, and its /etc and /boot are not the host's",
            "run it on the host itself, with the --state-dir that the probe has there",
        )
    return Preparer(Preparation(options.host_root, options.state_dir), say)


def say(line: str) -> None:
    """For an admin to read."""
    print(line, flush=True)


def prepare(options: argparse.Namespace, preparer: Preparer) -> int:
    """Name the drives of OSDs, and those of the journal, in the boot rule."""
    preparer.check(image_elsewhere=options.image_elsewhere)
    state = StateFolder(options.state_dir, options.run_dir)
    with HostLock(options.run_dir).all_held():
        entries, _ = read_journal(state.journal)
        host = linux_host(options)
        drives = host.look()
        journalled: List[DriveReport] = []
        for entry in entries.values():
            try:
                journalled += host.domain(entry.domain_id)
            except NotFoundError:
                say(f"{entry.domain_id} is in the journal and not on this host")
        scratch = [find(HostFiles(), host, path).drive for path in options.scratch]
        chosen = choose((*drives, *scratch), journalled, entries.values(), host.disks())
        if options.dry_run:
            preparer.show(chosen)
            return 0
        if not chosen.wwids and not preparer.preparation.rule_text():
            say("nothing to prepare: no drive of an OSD here needs a pin")
            return 0
        rule = preparer.write_rule(chosen)
    # an image takes its time, and a lease may have to end meanwhile
    return preparer.see_to_images(rule)


def unprepare(options: argparse.Namespace, preparer: Preparer) -> int:
    """Take the boot rule away, where the journal names nothing that needs it."""
    with HostLock(options.run_dir).all_held():
        state = StateFolder(options.state_dir, options.run_dir)
        held = sorted(state.journal.read())
        if held:
            raise ConflictError(
                f"{len(held)} prior state(s) stand in the journal, and need the boot rule",
                "roll back what was applied, or `wcache-probe restore --all`; "
                "see `wcache-probe status`",
            )
        gone = preparer.remove_rule()
    code = preparer.clear_images()
    say("this host is no longer prepared" if gone else "this host was not prepared")
    return code

"""`wcache-probe prepare` and `unprepare`: what they look at before they change anything."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Optional, Tuple

from wcache.core.drive.journal import JournalEntry
from wcache.core.drive.safety import may_be_pinned
from wcache.core.errors import (
    ConflictError,
    NotFoundError,
    NotReadyError,
    RefusedError,
    WcacheError,
)
from wcache.core.model import DeviceCache, DriveReport
from wcache.core.text import many, named

from ..journal.host_lock import HostLock
from ..journal.journal_file import StateFolder
from ..linux.block.host_files import HostFiles
from ..linux.host import LinuxDriveHost
from ..linux.persistence.boot_rule import is_named, line_of, pins_one
from ..linux.persistence.preparation import Preparation
from ..linux.persistence.prepare import Chosen, Preparer, choose, in_container
from ..linux.real_host import linux_host
from ..matrix.scratch import find
from ..restoring.request import wake
from ..switcher import read_journal

if TYPE_CHECKING:
    import argparse

LOOKS_MAX = 5
LOOK_EVERY_S = 1.0
NEEDING_MAX = 4  # drives that a refusal names


def preparer_of(options: argparse.Namespace) -> Preparer:
    """What changes this machine; raises RefusedError where it would change another one."""
    if in_container(options.host_root, os.environ):
        raise RefusedError(
            "this is a container, and its /etc and /boot are not the host's",
            "run it on the host itself, with the --state-dir that the probe has there",
        )
    if os.geteuid() != 0:
        raise RefusedError("`prepare` and `unprepare` write to /etc and /boot", "run it as root")
    return Preparer(Preparation(options.host_root, options.state_dir), say)


def say(line: str) -> None:
    """For an admin to read."""
    print(line, flush=True)


def prepare(options: argparse.Namespace, preparer: Preparer) -> int:
    """Name the drives of OSDs, and those of the journal, in the boot rule."""
    preparer.check_rule()
    state = StateFolder(options.state_dir, options.run_dir)
    host = linux_host(options)
    wait_for_others(host)  # before any lock: a lease may have to end meanwhile
    # a disk that hangs must hold up no restore: all is looked at before any lock
    scratch = [find(HostFiles(), host, path).drive for path in options.scratch]
    drives = (*host.look(), *scratch)
    with HostLock(options.run_dir).all_held():
        entries, _ = read_journal(state.journal)
    journalled = _journalled(host, entries.values())
    chosen = choose(drives, journalled, entries.values(), host.disks())
    chosen = keep_lines(preparer.preparation, host, chosen)
    if chosen.count or preparer.preparation.rule_text():
        preparer.check_images(image_elsewhere=options.image_elsewhere)
    elif not options.dry_run:
        # wherever its images are, such a host has all that it needs
        preparer.say("nothing to prepare: no drive of an OSD here needs a pin")
        return 0
    if options.dry_run:
        preparer.show(chosen)
        return 0
    with HostLock(options.run_dir).all_held():
        # an entry that went and came again has the same key, and may name other drives
        if read_journal(state.journal)[0] != entries:
            raise NotReadyError(
                "the journal has changed meanwhile", "run `wcache-probe prepare` again"
            )
        rule = preparer.write_rule(chosen)
    # an image takes its time, and a lease may have to end meanwhile
    code = preparer.see_to_images(rule)
    wake(state.holder())  # a running probe tells the mgr
    return code


def _journalled(
    host: LinuxDriveHost, entries: Iterable[JournalEntry]
) -> Tuple[DriveReport, ...]:
    """The drives of the journal that are here."""
    found: List[DriveReport] = []
    for entry in entries:
        try:
            found += host.domain(entry.domain_id)
        except NotFoundError:
            say(f"{entry.domain_id} is in the journal and not on this host")
    return tuple(found)


def wait_for_others(
    host: LinuxDriveHost, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Give programs that open a drive for a moment the time to close it.

    udev and LVM look into each drive that has just changed; who stays longer is a user, and
    its drive is left out.
    """
    for number in range(LOOKS_MAX):
        held = [drive.dev_name for drive in host.look() if drive.foreign_uses]
        if not held:
            return
        if not number:
            say(f"{', '.join(held)}: used by something that is not an OSD; waiting a moment")
        sleep(LOOK_EVERY_S)


def needing_the_rule(preparation: Preparation, host: LinuxDriveHost) -> Dict[str, str]:
    """A line, by its wwid, for each drive that the rule names, is off, and may come on by a reset.

    Whoever turned it off: an accepted drive stands in no journal any more.
    """
    lines = preparation.look().lines
    found: Dict[str, str] = {}
    for name, wwid in host.disks():
        if not wwid or not is_named(wwid, lines):
            continue
        try:
            drives = host.appeared(name, wwid)
        except WcacheError as error:
            found[wwid] = f"{name} could not be looked at ({error.message})"
            continue
        may_come_on = {
            drive.state.device_cache for drive in drives
            if not drive.state.page.stays_off and may_be_pinned(drive)
        }
        if DeviceCache.WRITE_THROUGH in may_come_on:
            found[wwid] = f"the cache of {name} is off now and may come on by a reset"
        elif DeviceCache.UNKNOWN in may_come_on:
            found[wwid] = f"whether the cache of {name} is on is not known"
    return found


def keep_lines(preparation: Preparation, host: LinuxDriveHost, chosen: Chosen) -> Chosen:
    """The same with what stays of the rule of before: only `unprepare` unpins a drive that is off.

    Lines stay of drives that are off and may come on, and of those that are not here now.
    """
    chosen_now = {line_of(wwid) for wwid in chosen.wwids}
    need = needing_the_rule(preparation, host)
    here = {wwid for _, wwid in host.disks() if is_named(wwid, preparation.look().lines)}
    kept, why = [], []
    for line in sorted(filter(pins_one, preparation.look().lines - chosen_now)):
        owners = [wwid for wwid in here if line_of(wwid) == line]
        reasons = [need[wwid] for wwid in owners if wwid in need]
        if reasons or not owners:
            kept.append(line)
            why.append(reasons[0] if reasons else "its drive is not on this host now")
    return replace(chosen, kept=tuple(kept), why_kept=tuple(why))


def unprepare(
    options: argparse.Namespace, preparer: Preparer, host: Optional[LinuxDriveHost] = None
) -> int:
    """Take the boot rule away, where neither a journal nor a drive needs it."""
    with HostLock(options.run_dir).all_held():
        state = StateFolder(options.state_dir, options.run_dir)
        held = sorted(state.journal.read())
        if held:
            raise ConflictError(
                f"the boot rule is still needed by {many(len(held), 'prior state')} in the journal",
                "roll back what was applied, or `wcache-probe restore --all`; "
                "see `wcache-probe status`",
            )
        marks = state.journal.marks_of_others()
        if marks:
            raise ConflictError(
                f"a lease in the journal of another state folder holds {marks[0]}",
                "end that lease, or give its folder with --state-dir; if the folder is gone, "
                "remove the mark",
            )
        need = needing_the_rule(preparer.preparation, host or linux_host(options))
        if need:
            raise ConflictError(
                f"the boot rule stays, for {named(list(need.values()), NEEDING_MAX)}: after a warm "
                "reboot nothing else would make the kernel flush there",
                "keep it, it starts no program; once these caches are on, `wcache-probe unprepare` "
                "removes it; by hand: doc/found-off.md",
            )
        gone = preparer.remove_rule()
    code = preparer.clear_images()
    wake(state.holder())
    say("this host is no longer prepared" if gone else "this host was not prepared")
    return code

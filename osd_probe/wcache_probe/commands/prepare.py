"""`wcache-probe prepare` and `unprepare`: what they look at before they change anything."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Callable, List, Optional

from wcache.core.errors import ConflictError, NotFoundError, RefusedError, WcacheError
from wcache.core.model import DeviceCache, DriveReport

from ..journal.host_lock import HostLock
from ..journal.journal_file import StateFolder
from ..linux.block.host_files import HostFiles
from ..linux.host import LinuxDriveHost
from ..linux.persistence.boot_rule import is_named
from ..linux.persistence.preparation import Preparation
from ..linux.persistence.prepare import Preparer, choose, in_container
from ..linux.real_host import linux_host
from ..matrix.scratch import find
from ..switcher import read_journal

if TYPE_CHECKING:
    import argparse

LOOKS_MAX = 5
LOOK_EVERY_S = 1.0


def preparer_of(options: argparse.Namespace) -> Preparer:
    """What changes this machine; raises RefusedError where it would change another one."""
    if os.geteuid() != 0:
        raise RefusedError("`prepare` and `unprepare` write to /etc and /boot", "run it as root")
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
    host = linux_host(options)
    wait_for_others(host)  # before any lock: a lease may have to end meanwhile
    with HostLock(options.run_dir).all_held():
        entries, _ = read_journal(state.journal)
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


def needing_the_rule(preparation: Preparation, host: LinuxDriveHost) -> List[str]:
    """A line for each drive that the rule names, is not on, and may come on by a reset.

    Whoever turned it off: an accepted drive stands in no journal any more.
    """
    lines = preparation.look().lines
    found: List[str] = []
    for name, wwid in host.disks():
        if not wwid or not is_named(wwid, lines):
            continue
        try:
            states = [drive.state for drive in host.appeared(name, wwid)]
        except WcacheError as error:
            found.append(f"{name} could not be looked at ({error.message})")
            continue
        if any(
            state.device_cache in (DeviceCache.WRITE_THROUGH, DeviceCache.UNKNOWN)
            and not state.page.stays_off
            for state in states
        ):
            found.append(f"the cache of {name} is off now and may come on by a reset")
    return found


def unprepare(
    options: argparse.Namespace, preparer: Preparer, host: Optional[LinuxDriveHost] = None
) -> int:
    """Take the boot rule away, where neither a journal nor a drive needs it."""
    with HostLock(options.run_dir).all_held():
        state = StateFolder(options.state_dir, options.run_dir)
        held = sorted(state.journal.read())
        if held:
            raise ConflictError(
                f"{len(held)} prior state(s) in the journal still need the boot rule",
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
                f"{'; '.join(need)}: after a warm reboot only the boot rule would make the "
                "kernel flush it",
                "turn the cache on again, or keep the rule",
            )
        gone = preparer.remove_rule()
    code = preparer.clear_images()
    say("this host is no longer prepared" if gone else "this host was not prepared")
    return code

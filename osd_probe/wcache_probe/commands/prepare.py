"""`wcache-probe prepare`, `unprepare`: what they look at before they change anything."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    AbstractSet,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from wcache.core.drive.journal import JournalEntry
from wcache.core.drive.safety import may_be_pinned
from wcache.core.drive.saved_off import saves_off, why_pinned
from wcache.core.errors import (
    ConflictError,
    NotFoundError,
    NotReadyError,
    RefusedError,
    WcacheError,
)
from wcache.core.model import DeviceCache, DriveReport
from wcache.core.text import many, named, typed

from ..journal.host_lock import HostLock
from ..journal.journal_file import LeaseMarker, StateFolder
from ..linux.block.host_files import HostFiles, printable
from ..linux.host import LinuxDriveHost
from ..linux.persistence.preparation import RULES_FOLDER, Preparation
from ..linux.persistence.prepare import Chosen, Preparer, choose, in_container
from ..linux.persistence.udev_rule import (
    RuleFolder,
    lines_naming,
    matches,
    name_in,
    pattern,
    pins_one,
)
from ..matrix.scratch import find
from ..switcher import read_journal
from .restore import wake

if TYPE_CHECKING:
    import argparse

LOOKS_MAX = 5
LOOK_EVERY_S = 1.0
NEEDING_MAX = 4  # drives that a refusal names
# an OSD host has no pages of ours
FOUND_OFF, LEAVE = (f"{page}.md of the package ceph-mgr-wcache" for page in ("found-off", "leave"))


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


def prepare(options: argparse.Namespace, preparer: Preparer, host: LinuxDriveHost) -> int:
    """Name the drives of OSDs, and those of the journal, in the boot rule."""
    preparer.check_rule()
    state = StateFolder(options.state_dir, options.run_dir)
    wait_for_others(host)  # before any lock: a lease may have to end meanwhile
    # a disk that hangs must hold up no restore: all is looked at before any lock
    scratch = [find(HostFiles(), host, path).drive for path in options.scratch]
    drives = (*host.look(), *scratch)
    asked = {*_asked(options.drive, drives), *(drive.dev_name for drive in scratch)}
    with HostLock(options.run_dir).all_held():
        entries, damaged = read_journal(state.journal)
        before = preparer.preparation.rule_text()
    names = Names(preparer.preparation, options.run_dir, entries, damaged, asked)
    journalled = _journalled(host, entries.values())
    keep_off = {  # each read anew
        drive.dev_name for drive in drives
        if saves_off(drive) and not _why_pinned(host, drive.dev_name, drive.wwid, names)
    }
    chosen = choose(drives, journalled, entries.values(), host.disks(), keep_off)
    chosen = keep_lines(preparer.preparation, host, chosen)
    if chosen.count or preparer.preparation.rule_text():
        preparer.check_images(image_elsewhere=options.image_elsewhere)
    elif not options.dry_run:
        # wherever its images are, such a host has all that it needs
        preparer.explain(chosen)
        preparer.say("nothing to prepare: no drive of an OSD here needs a pin")
        return 0
    if options.dry_run:
        preparer.show(chosen)
        return 0
    with HostLock(options.run_dir).all_held():
        _require_as_seen(state, preparer.preparation, ((entries, damaged), before), "prepare")
        rule = preparer.write_rule(chosen)
    # an image takes its time, and a lease may have to end meanwhile
    code = preparer.see_to_images(rule)
    wake(state.holder())  # a running probe tells the mgr
    return code


def _asked(words: Iterable[str], drives: Sequence[DriveReport]) -> Tuple[str, ...]:
    """The kernel names of what `--drive` names; NotFoundError where no OSD uses one."""
    found = tuple(word.removeprefix("/dev/") for word in words)
    for name in found:
        if not any(drive.dev_name == name for drive in drives):
            raise NotFoundError(
                f"no OSD of this host uses a drive {printable(name)[:64]}",
                "see `wcache-probe look`; a drive without an OSD is given with --scratch",
            )
    return found


@dataclass(frozen=True)
class Names:
    """What names a drive already: a journal entry, a plan, a lease's mark, the boot rule.

    `entries` and `damaged` are the journal; `asked` are kernel names that an admin gives;
    `but_the_rule` leaves the lines of the boot rule out, which `unprepare` is to take away.
    """

    preparation: Preparation
    run_dir: str
    entries: Mapping[str, JournalEntry]
    damaged: Mapping[str, str]
    asked: AbstractSet[str] = frozenset()
    but_the_rule: bool = False

    def named_by(self, drive: DriveReport) -> str:
        """What names a drive; empty where nothing does."""
        if drive.dev_name in self.asked:
            return "an admin asks for it"
        if self.damaged:
            return f"the journal has an entry of any drive ({printable(next(iter(self.damaged)))})"
        for key, entry in self.entries.items():
            ids = {drive.drive_id, drive.wwid} - {""}
            if drive.domain_id == entry.domain_id or any(
                not ids.isdisjoint((prior.drive_id, prior.wwid)) for prior in entry.drives
            ):
                return f"the journal has an entry of it ({printable(key)})"
        if LeaseMarker(self.run_dir).covers(drive.domain_id):
            return "a lease holds it"
        folder = os.path.join(self.preparation.root, RULES_FOLDER)
        kept = RuleFolder(folder, self.run_dir, "").mode(drive.wwid)
        if kept is not None:
            return f"a plan's udev rule keeps it in {kept.value}"
        lines = frozenset() if self.but_the_rule else self.preparation.look().lines
        return "the boot rule names it already" if lines_naming(drive.wwid, lines) else ""


def _why_pinned(host: LinuxDriveHost, dev_name: str, wwid: str, names: Names) -> str:
    try:
        return why_pinned(_together(host, dev_name, wwid), names.named_by)
    except WcacheError as error:
        return f"{dev_name} could not be looked at ({error.message})"


def _together(host: LinuxDriveHost, dev_name: str, wwid: str) -> Tuple[DriveReport, ...]:
    """Every drive that shares a switch with a disk, or a line of the boot rule with such a one."""
    found: Dict[str, DriveReport] = {}
    todo = [(dev_name, wwid)]
    while todo:
        for drive in host.appeared(*todo.pop()):
            if drive.dev_name not in found:
                found[drive.dev_name] = drive
                todo += [
                    one for one in host.disks()
                    if one[0] not in found and matches(pattern(drive.wwid), one[1])
                ]
    return tuple(found.values())


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


def needing_the_rule(
    preparation: Preparation, host: LinuxDriveHost, names: Optional[Names] = None
) -> Dict[str, str]:
    """A line, by its wwid, for each drive that the rule names and that is off.

    With `names` those are left out that keep themselves off, and that nothing else names.
    Whoever turned it off: an accepted drive stands in no journal any more.
    """
    lines = preparation.look().lines
    found: Dict[str, str] = {}
    for name, wwid in host.disks():
        if not any(lines_naming(one, lines) for one in host.names(name, wwid)):
            continue
        try:
            drives = host.appeared(name, wwid)
        except WcacheError as error:
            found[wwid] = f"{name} could not be looked at ({error.message})"
            continue
        caches = {drive.state.device_cache for drive in drives if may_be_pinned(drive)}
        if names is not None and not _why_pinned(host, name, wwid, names):
            continue
        if DeviceCache.WRITE_THROUGH in caches:
            wakes = not all(map(saves_off, drives))
            found[wwid] = f"the cache of {name} is off now"
            found[wwid] += " and may come on by a reset" if wakes else ""
        elif DeviceCache.UNKNOWN in caches:
            found[wwid] = f"whether the cache of {name} is on is not known"
    return found


def keep_lines(preparation: Preparation, host: LinuxDriveHost, chosen: Chosen) -> Chosen:
    """The same with what stays of the rule of before: only `unprepare` unpins a drive that is off.

    Lines stay of drives that are off, and of those that are not here now.
    """
    need = needing_the_rule(preparation, host)
    needing = [(need[wwid], host.names(name, wwid)) for name, wwid in host.disks() if wwid in need]
    lines = preparation.look().lines
    absent = _absent(lines, host)
    named_now = {name for line in chosen.lines for name in name_in(line).split("|")}
    kept, why_kept = [], []
    for line in sorted(filter(pins_one, lines.difference(chosen.lines))):
        reasons = [why for why, names in needing if any(lines_naming(n, (line,)) for n in names)]
        if line in absent:
            reasons.append("its drive is not on this host now")
        elif "|" in name_in(line) and not named_now.isdisjoint(name_in(line).split("|")):
            reasons.append("an older kernel gives its drive the other name")
        if reasons:
            kept.append(line)
            why_kept.append(reasons[0])
    return replace(chosen, kept=tuple(kept), why_kept=tuple(why_kept))


def _absent(lines: FrozenSet[str], host: LinuxDriveHost) -> FrozenSet[str]:
    """The lines of a boot rule that pin no drive that is here, whatever its name is now."""
    here = (lines_naming(name, lines) for disk in host.disks() for name in host.names(*disk))
    return frozenset(filter(pins_one, lines)).difference(*here)


def unprepare(options: argparse.Namespace, preparer: Preparer, host: LinuxDriveHost) -> int:
    """Take the boot rule away, or drives out of it, where no journal and no drive needs it."""
    if options.drive:
        return _unprepare_drives(options, preparer, host)
    state, preparation = StateFolder(options.state_dir, options.run_dir), preparer.preparation
    with HostLock(options.run_dir).all_held():
        held = sorted(state.journal.read())
        if held:
            raise ConflictError(
                f"the boot rule is still needed by {many(len(held), 'prior state')} in the journal",
                "roll back what was applied, or `wcache-probe restore --all`; "
                "see `wcache-probe status`",
            )
        _refuse_leases_elsewhere(state)
        seen = read_journal(state.journal), preparation.rule_text()
    _refuse_returns(preparation, host, gone=options.gone)
    # a drive that hangs must hold up no restore: all are asked without the lock
    names = Names(preparation, options.run_dir, {}, {}, but_the_rule=True)
    need = needing_the_rule(preparation, host, names)
    if need:
        raise ConflictError(
            f"the boot rule stays, for {named(list(need.values()), NEEDING_MAX)}: after a warm "
            "reboot nothing else would make the kernel flush there",
            "keep it, it needs no program of wcache; once these caches are on, `wcache-probe "
            f"unprepare` removes it; by hand: {LEAVE}",
        )
    with HostLock(options.run_dir).all_held():
        _refuse_leases_elsewhere(state)
        _require_as_seen(state, preparation, seen, "unprepare")
        gone = preparer.remove_rule()
    code = preparer.clear_images()
    wake(state.holder())
    say("this host is no longer prepared" if gone else "this host was not prepared")
    return code


def _refuse_returns(preparation: Preparation, host: LinuxDriveHost, *, gone: bool) -> None:
    """Raise ConflictError where a drive may be off, and not pinned, when it appears again."""
    rules = RuleFolder(os.path.join(preparation.root, RULES_FOLDER), "", "").standing()
    if rules:
        raise ConflictError(
            f"the boot rule is still needed by {rules[0]}, which sets its drive's cache at each "
            "boot", "roll back its plan; where none stands any more, remove the file",
        )
    absent = _absent(preparation.look().lines, host)
    if absent and not gone:
        names = named([name_in(line) for line in sorted(absent)], NEEDING_MAX)
        raise ConflictError(
            f"the boot rule names drives that are not on this host now ({names}); the kernel "
            "would not flush one that comes back off",
            "connect them; where they are gone for good: `wcache-probe unprepare --gone`",
        )


def _require_as_seen(
    state: StateFolder, preparation: Preparation, seen: Tuple[object, str], verb: str
) -> None:
    """Raise NotReadyError where journal or boot rule are not what they were at the look."""
    # an entry that went and came again has the same key, and may name other drives
    again = read_journal(state.journal) != seen[0]
    if again or preparation.rule_text() != seen[1]:
        raise NotReadyError(
            f"the {'journal' if again else 'boot rule'} has changed meanwhile",
            f"run {typed('wcache-probe {}', verb)} again",
        )


def _refuse_leases_elsewhere(state: StateFolder) -> None:
    marks = state.journal.marks.of_others()
    if marks:
        raise ConflictError(
            f"a lease in the journal of another state folder holds {marks[0]}",
            "end that lease, or give its folder with --state-dir; if the folder is gone, "
            "remove the mark",
        )


def _unprepare_drives(
    options: argparse.Namespace, preparer: Preparer, host: LinuxDriveHost
) -> int:
    """Take drives that keep themselves off out of the boot rule, with what shares their switch."""
    preparer.check_rule()
    state, preparation = StateFolder(options.state_dir, options.run_dir), preparer.preparation
    with HostLock(options.run_dir).all_held():
        _refuse_leases_elsewhere(state)
        seen = read_journal(state.journal), preparation.rule_text()
    # a drive that hangs must hold up no restore: all are asked without the lock
    names = Names(preparation, options.run_dir, *seen[0], but_the_rule=True)
    lines = kept = preparation.look().lines
    for word in options.drive:
        name = word.removeprefix("/dev/")
        wwid = dict(host.disks()).get(name, "")
        if not lines_naming(wwid, lines):
            raise NotFoundError(
                f"the boot rule names no drive {printable(name)[:64]}",
                "see `wcache-probe look`",
            )
        why = _why_pinned(host, name, wwid, names)
        if why:
            raise ConflictError(
                f"the boot rule goes on naming {name}: {why}",
                "only a drive that is off, saves that itself, and that nothing of wcache's "
                f"names can do without: see {FOUND_OFF}",
            )
        for one in _together(host, name, wwid):
            kept -= lines_naming(one.wwid, lines)
    record = preparation.record()
    preparer.check_images(image_elsewhere=record is not None and record.image_elsewhere)
    with HostLock(options.run_dir).all_held():
        _refuse_leases_elsewhere(state)
        _require_as_seen(state, preparation, seen, "unprepare")
        rule = preparer.write_rule(Chosen((), kept=tuple(filter(pins_one, kept))))
    code = preparer.see_to_images(rule)
    wake(state.holder())
    for word in options.drive:
        preparer.say(
            f"{word}: the boot rule names it no more, so from the next boot on its commits pay for "
            "no flush. Should its cache come on (new firmware may lose what it saves, and anybody "
            "may switch it), acknowledged writes are lost at a power cut: "
            f"{typed('wcache-probe prepare --drive={}', word)} has it pinned again"
        )
    return code

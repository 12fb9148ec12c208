"""Drives that appear: each is looked at by itself, tried again, never forgotten.

At a boot sixty events start sixty programs.  Each asks its own drive only, under the lock
of its own cache domain, so none waits for the others.  What it was started for stands in
    <run>/appearing/<wwid>
until it is done: where the program was ended too early, or the drive was not ready in time,
the probe starts it again.
"""

from __future__ import annotations

import json
import os
import re
import select
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    Protocol,
    Sequence,
    Tuple,
)
from urllib.parse import quote

from wcache.core.codec import parse_json
from wcache.core.drive.safety import (
    FOR_THE_NEXT_BOOT,
    boots_with_rule,
    refused,
    require_ours,
)
from wcache.core.errors import (
    MalformedError,
    NotFoundError,
    NotReadyError,
    RefusalKind,
    RefusedError,
    StorageError,
    WcacheError,
)
from wcache.core.model import CacheMode, DriveReport

from ...journal.journal_file import LeaseMarker
from ...safe_files import read_own, remove, write_whole
from ...switching import toggle
from ...switching.steps import Program, Switched
from ..block.host_files import entries, printable
from .preparation import NOT_NAMED
from .udev_rule import RuleFolder

if TYPE_CHECKING:
    from ...restoring.restorer import Start, Started

# udev gives a program 180 s (udev.conf(5), event_timeout)
RETRIES_S = (1.0, 2.0, 4.0, 8.0, 16.0)
# Until then it is udev's program that is at it.
GRACE_S = 200.0
EVERY_S = 60.0
AT_ONCE = 4
NOTE_BYTES_MAX = 4096
_MAY_PASS = FOR_THE_NEXT_BOOT | {
    RefusalKind.SHARED, RefusalKind.UNSEEN, RefusalKind.DISOBEYED,
}
_DEVICE = re.compile(r"[A-Za-z0-9!_-]{1,64}")


class Appearing:
    """The notes in the run folder."""

    def __init__(self, run_dir: str, now: Callable[[], float] = time.time) -> None:
        self._folder = os.path.join(run_dir, "appearing")
        self._now = now

    def begin(self, device: str, wwid: str, mode: CacheMode) -> None:
        """Note it; one that cannot be noted is done all the same."""
        text = json.dumps([device, wwid, mode.value])
        with suppress(StorageError):
            write_whole(self._path(wwid), text, make=0o755, sync=None)

    def done(self, wwid: str) -> None:
        """It needs no other try."""
        with suppress(StorageError):
            remove(self._path(wwid), sync=None)

    def missed(self) -> Iterator[Tuple[str, str, CacheMode]]:
        """Device, wwid and mode of those that nobody is at any more."""
        for name in entries(self._folder):
            path = os.path.join(self._folder, name)
            try:
                if name.startswith(".") or self._is_young(os.stat(path).st_mtime):
                    continue
                text = read_own(path, NOTE_BYTES_MAX) or ""
                device, wwid, mode = parse_json(text, bytes_max=3 * NOTE_BYTES_MAX, what=path)
                if _DEVICE.fullmatch(device) and self._path(wwid) == path:
                    yield device, wwid, CacheMode(mode)
            except (OSError, MalformedError, ValueError, TypeError):
                continue

    def _is_young(self, noted_at_s: float) -> bool:
        """Whether udev's program may still be at it; the clock may have been set back since."""
        return 0.0 <= self._now() - noted_at_s < GRACE_S

    def _path(self, wwid: str) -> str:
        return os.path.join(self._folder, quote(wwid, safe="")[:200])


def try_until_done(
    keep: Callable[[], object], notes: Appearing, device: str, wwid: str, mode: CacheMode,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Keep a drive in a mode, again and again where it is not ready; raises what stays."""
    notes.begin(device, wwid, mode)
    delays = iter(RETRIES_S)
    while True:
        try:
            keep()
            notes.done(wwid)
            return
        except NotFoundError:
            notes.done(wwid)  # when it is back, there is another event
            raise
        except (NotReadyError, StorageError):
            delay = next(delays, None)
            if delay is None:
                raise  # the note stays
            sleep(delay)
        except WcacheError:
            notes.done(wwid)  # refused: another try would be too
            raise


@dataclass
class Missed:
    """The running probe's side: starts what udev's programs did not bring to an end."""

    notes: Appearing
    run_dir: str
    state_dir: str
    start: Start
    say: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _next_s: float = field(default=0.0)
    _children: Dict[str, Started] = field(default_factory=dict)

    def look(self) -> None:
        """Now and then: start what is left, a few at a time."""
        now_s = self.clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        self._children = {w: c for w, c in self._children.items() if not _ended(c)}
        for device, wwid, mode in self.notes.missed():
            if wwid in self._children or len(self._children) >= AT_ONCE:
                continue
            self.say(f"{device} ({wwid}) appeared and was not set to {mode.value}: once more")
            self._children[wwid] = self.start(
                words_of(device, wwid, mode, self.run_dir, self.state_dir)
            )


def words_of(
    device: str, wwid: str, mode: CacheMode, run_dir: str, state_dir: str
) -> List[str]:
    """The command for one drive."""
    return [
        "appear", "--mode", mode.value.replace(" ", "-"), "--wwid", wwid, "--run-dir", run_dir,
        "--state-dir", state_dir, device,
    ]


def _ended(child: Started) -> bool:
    """Whether a child has ended; one that has is done with."""
    ready, _, _ = select.select([child.stdout], [], [], 0.0)
    if not ready or child.stdout.read(1):
        return False
    child.stdout.close()
    child.wait()
    return True


class Host(Protocol):
    """What is read of the host of a drive that has come."""

    def appeared(self, dev_name: str, wwid: str) -> Tuple[DriveReport, ...]:
        """The drive of a disk and all that shares its switch; no other drive is asked."""

    def disks(self) -> Tuple[Tuple[str, str], ...]:
        """Each disk's kernel name and wwid."""

    def with_users(self, drives: Sequence[DriveReport]) -> Tuple[DriveReport, ...]:
        """The same drives with who uses them beside OSDs."""

    def lost_writes(self) -> Mapping[str, str]:
        """What power cuts have shown to be lost, by drive model."""

    def remembers(self) -> bool:
        """Whether what is kept of that can be read by now."""


def appear(
    host: Host, rules: RuleFolder, leases: LeaseMarker,
    *, dev_name: str, wwid: str, mode: CacheMode,
) -> Program:
    """Keep the drive in `mode`; changes nothing under a lease or where no rule asks for it.

    The drive and all that shares its switch are read, and no other one is asked.  Each of them
    is kept for a rule of its own alone: a LUN that came since is no part of what was decided.
    Events queue up: by now the rule that sent this one may have been taken back.  All of it
    is read once the program runs, so that no rollback can come in between.

    Raises RefusedError where a cache would go off that no boot rule pins: a warm reboot would have
    its volumes loaded as dropping flushes, and the next reset turn the cache on.
    """
    remembers = host.remembers()  # before what was proven is read there
    drives = host.appeared(dev_name, wwid)
    held = any(leases.covers(drive.domain_id, drive.drive_id) for drive in drives)
    if held or not rules.says(wwid, mode):
        states = tuple(drive.state for drive in drives)
        return Switched(states, states, changed=False)
    disks = host.disks()
    names = dict(disks)
    own = {drive.dev_name: names.get(drive.dev_name, "") for drive in drives}
    kept = frozenset(name for name, named in own.items() if rules.says(named, mode))
    _refuse_several(disks, frozenset((wwid, *(own[name] for name in kept))))
    differs = [one for one in drives if one.dev_name in kept and one.mode is not mode]
    for drive in differs if mode is CacheMode.WRITE_THROUGH else ():
        if boots_with_rule(drive.transport) and not rules.pins(own[drive.dev_name]):
            raise RefusedError(f"the cache of {drive.dev_name} stays on: {NOT_NAMED}")
    if mode is CacheMode.WRITE_BACK and differs:
        if not remembers:
            raise NotReadyError(
                f"the cache of {dev_name} stays off, since the state folder, which may say that "
                "its drive model loses writes, is not there yet", "the probe tries again",
            )
        # who uses them is found by going through every process
        drives = host.with_users(drives)
        _require_unused(drives)
    return (yield from toggle.keep(
        drives, mode, lambda drive: drive.dev_name in kept, host.lost_writes()
    ))


def _require_unused(drives: Sequence[DriveReport]) -> None:
    """Raise NotReadyError where nothing but a user, seen or not, is in the way: it may go.

    Such as fsck, or a tool of Ceph, which has a drive open for a while at a boot.
    """
    try:
        require_ours(drives)
    except RefusedError as error:
        if any(refused(drive, _MAY_PASS) for drive in drives):
            raise
        raise NotReadyError(error.message, error.advice) from None


def _refuse_several(disks: Tuple[Tuple[str, str], ...], wwids: FrozenSet[str]) -> None:
    """Raise RefusedError where a name is that of several disks: paths to one drive, or namesakes.

    What is pinned on one path is not pinned on the others, and of two drives with one name a
    rule means neither.
    """
    for wwid in sorted(wwids):
        same = [name for name, named in disks if named == wwid]
        if len(same) > 1:
            raise RefusedError(
                f"{', '.join(same)} have the same name ({printable(wwid)}), so their cache is "
                "left as it is", "leave one of them; `ceph wcache rollback` of the plan that made "
                "it last removes the rule",
            )

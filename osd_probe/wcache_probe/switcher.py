"""Carry out the programs of `switching` on the drives of a host.

A program says one step at a time; here each is carried out, and what fails is thrown
back into it, so that it can restore.  `after_step` is called after every step with its
number from 1 and the step: it is where tests kill the process.

A program begins when it is first asked for a step, and by then every other program of
this host is kept away from its cache domain: what it finds out before its first step still
holds at its last.

A step may hang in the kernel, and its right to change anything end meanwhile.  So whoever asked
for a change is asked again before each step, and by the host once a device is open, right before
the command that changes it.  The way back asks nobody.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Callable, ContextManager, Dict, Iterator, Optional, Tuple

from wcache.core import VERSION
from wcache.core.codec import INT_MAX
from wcache.core.drive import journal as entries
from wcache.core.drive.journal import EntryKind, JournalEntry
from wcache.core.drive.prior import Prior
from wcache.core.drive.safety import writeback_refusal
from wcache.core.errors import (
    ConflictError,
    NotFoundError,
    NotReadyError,
    RefusedError,
    StorageError,
    WcacheError,
)
from wcache.core.host_report import HostReport
from wcache.core.model import DriveState
from wcache.core.ports import DriveHost, Journal
from wcache.core.text import command, named

from .mgr_link import printable
from .switching import options, steps, toggle
from .switching.steps import Program, Step, Switched

AfterStep = Callable[[int, Step], None]
Lock = Callable[[str], ContextManager[object]]


def nothing(_number: int, _step: Step) -> None:
    """The hook of every real run."""


def read_journal(journal: Journal) -> Tuple[Dict[str, JournalEntry], Dict[str, str]]:
    """All sound entries by key, and for each damaged one what is wrong with it."""
    sound: Dict[str, JournalEntry] = {}
    damaged: Dict[str, str] = {}
    for key, text in sorted(journal.read().items()):
        try:
            entry = entries.parse(printable(key), text)
            if entry.key != key:
                raise StorageError(
                    f"journal entry {printable(key)} is damaged (it is that of {entry.key})",
                    "restore the drive by hand, then remove the entry",
                )
            sound[key] = entry
        except WcacheError as error:
            damaged[key] = error.line()
    return sound, damaged


@dataclass
class Switcher:
    """Changes cache modes on `host`, with `journal` to find the way back.

    `lock` is entered with the cache domain around each program; it keeps every other
    program of this host away from the domain.  `may_not_go_on` says why a change may not be
    made any more; `at` hears what each step is.
    """

    host: DriveHost
    journal: Journal
    after_step: AfterStep = nothing
    lock: Lock = nullcontext
    may_not_go_on: Callable[[], str] = str
    at: Callable[[str], None] = lambda what: None
    _alone: str = field(default="")  # the domain that is held
    _forwards: bool = field(default=False)  # a change is made, and not taken back
    touches: int = field(default=0)  # steps so far that changed something, or tried to

    @property
    def works_on(self) -> str:
        """The domain that is held for a program now; empty where none is."""
        return self._alone

    def require_to_go_on(self) -> None:
        """Raise NotReadyError where the change under way may not be made any more."""
        why = self.may_not_go_on() if self._forwards else ""
        if why:
            raise NotReadyError(
                f"nothing more was changed, since it took too long: {why}",
                "the probe's log and the kernel's say what did not answer",
            )

    # ---- the journal

    def read_journal(self) -> Tuple[Dict[str, JournalEntry], Dict[str, str]]:
        """`read_journal` of the journal it works with."""
        return read_journal(self.journal)

    def entry(self, kind: EntryKind, name: str) -> Optional[JournalEntry]:
        """The entry of a domain's lease or of an action; StorageError if it is damaged."""
        return self.entry_at(f"{kind.value}/{name}")

    def entry_at(self, key: str) -> Optional[JournalEntry]:
        """The entry of a key; StorageError if it is damaged."""
        sound, damaged = self.read_journal()
        if key in damaged:
            raise StorageError(damaged[key])
        return sound.get(key)

    def refuse_owed(self) -> None:
        """Raise ConflictError while a lease's prior state is to be restored, or cannot be read.

        Who measures by itself asks before it looks at a drive: what is there is not its own.
        """
        sound, damaged = self.read_journal()
        owed = [entry.domain_id for entry in sound.values() if entry.kind is EntryKind.LEASE]
        if owed or damaged:
            names = named([*owed, *map(printable, damaged)])
            raise ConflictError(
                f"the journal has prior states to restore ({names})",
                "run `wcache-probe restore --all` first; `wcache-probe status` says what cannot "
                "be read",
            )

    def unread(self) -> Dict[str, JournalEntry]:
        """What entries that cannot be read name (`to_pin`), where they do, by their keys."""
        _, damaged = self.read_journal()
        texts = self.journal.read()
        found = {key: entries.to_pin(key, texts.get(key, "")) for key in damaged}
        return {key: entry for key, entry in found.items() if entry is not None}

    def refuse_unread(self, entry: JournalEntry) -> None:
        """Raise ConflictError where one that cannot be read names the domain, or a drive of it.

        Its place in the order is not known, so it counts as later than all others.
        """
        for key, other in self.unread().items():
            if other.domain_id == entry.domain_id or steps.in_both(entry, other):
                raise ConflictError(
                    f"{printable(key)} may have changed {entry.domain_id} since, and cannot be "
                    "read here",
                    "that goes back first: `wcache-probe status` says what it needs",
                )

    # ---- programs

    def drop(self, key: str) -> None:
        """Take an entry away, sound or damaged: what it says is given up."""
        self.journal.remove(key)

    def restore(self, entry: JournalEntry, known: Optional[Prior] = None) -> Switched:
        """Bring back what the entry says and drop it; raises WcacheError where it stays.

        `known` is what the mgr knows of it: an entry of another cluster or of another prior
        state is refused by name.

        No drive but those of the entry is asked for anything, and those that bcache above them
        stands on.
        """
        with self.alone(entry.domain_id):
            return self._run(self._way_back(entry, known))

    def put_back(self, domain_id: str, owner_id: str) -> bool:
        """Restore what was there before a measurement of our own; False where nothing is owed.

        Raises NotReadyError where it stays owed.
        """
        entry = self.entry(EntryKind.LEASE, domain_id)
        if entry is None or entry.owner_id != owner_id:
            return False
        try:
            self.restore(entry)
        except WcacheError as error:
            raise NotReadyError(
                f"the prior cache mode is NOT back: {error.line()}",
                "run `wcache-probe restore --all`; a drive that is pinned loses nothing meanwhile",
            ) from None
        return True

    def _way_back(self, entry: JournalEntry, known: Optional[Prior]) -> Program:
        if entry.of_options:
            return (yield from options.restore(entry, self.host.prior(entry), known))
        # first: what follows may refuse, and the pins protect all the same
        yield from toggle.hold(self.host.here(entry))
        return (yield from toggle.restore(entry, self.host.prior(entry), known))

    def restore_key(self, key: str, known: Optional[Prior] = None) -> None:
        """Restore the entry of a key; NotFoundError where it has gone, or is another one's now.

        `known` may tell of the cluster alone: an entry of another one is refused.

        Its return says that the drives were read as they were before.
        """
        entry = self.entry_at(key)
        if entry is not None:
            with self.alone(entry.domain_id):
                now = self.entry_at(key)
                if now is not None and now.owner_id == entry.owner_id:
                    self._refuse_covered(now)
                    done = self.restore(now, known)
                    if done.left:
                        raise NotReadyError(
                            f"it has that again, and waits for {done.left}",
                            "wait until bcache/dirty_data reads 0.0k, then call again; a higher "
                            "bcache/writeback_rate_minimum is quicker",
                        )
                    return
        raise NotFoundError(
            f"{printable(key)} is no longer in the journal as it was, so nothing was read here",
            "somebody else restored it or gave it up: see `wcache-probe status`",
        )

    def _refuse_covered(self, entry: JournalEntry) -> None:
        """Raise ConflictError where something began after a change: that goes back first."""
        if entry.kind is not EntryKind.ACTION:
            return
        lease = self.entry(EntryKind.LEASE, entry.domain_id)
        if lease is not None:
            raise ConflictError(
                f"lease {lease.owner_id} holds {entry.domain_id}",
                "run `wcache-probe restore --all` first",
            )
        self.refuse_unread(entry)
        sound, _ = self.read_journal()
        later = [
            item.owner_id for item in sound.values()
            if item.kind is EntryKind.ACTION and item.domain_id == entry.domain_id
            and item.serial > entry.serial
        ]
        if later:
            raise ConflictError(
                f"{later[0]} has changed {entry.domain_id} since",
                "restore that one first: "
                + command("wcache-probe restore --action {}", later[0]),
            )

    def hold_key(self, key: str) -> None:
        """Pin the drives of the entry of a key, over all paths, with what shares their switch.

        Those of an entry that cannot be read, too, where it names them, whatever else it says.

        Raises the WcacheError of the first that could not be pinned, after trying all.
        """
        try:
            entry = self.entry_at(key)
        except StorageError:
            entry = self.unread().get(key)
            if entry is None:
                raise
        if entry is not None and not entry.of_options:
            with self.alone(entry.domain_id):
                self._run(toggle.hold(self.host.here(entry), must=True))
                # one that is here and does not say who it is was left out
                with suppress(RefusedError):
                    self.host.prior(entry)

    def run(self, domain_id: str, program: Program) -> Switched:
        """Make a change of a domain by a program; raises the WcacheError it ends with.

        NotReadyError where another program goes on with the domain for too long, or where the
        change may not be made any more.
        """
        with self.alone(domain_id):
            return self._run(program, forwards=True)

    @contextmanager
    def alone(self, domain_id: str) -> Iterator[None]:
        """Keep others out over reading drives and running the program that is made of that."""
        if self._alone == domain_id:
            yield
            return
        with self.lock(domain_id):
            self._alone, before = domain_id, self._alone
            try:
                yield
            finally:
                self._alone = before

    def _run(self, program: Program, *, forwards: bool = False) -> Switched:
        self._forwards = forwards
        try:
            return self._carry_out(program)
        finally:
            self._forwards = False

    def _carry_out(self, program: Program) -> Switched:
        number = 0
        result: Optional[DriveState] = None
        failure: Optional[WcacheError] = None
        while True:
            try:
                step = program.throw(failure) if failure else program.send(result)
            except StopIteration as stop:
                done: Switched = stop.value
                return done
            result, failure = None, None
            number += 1
            self.at(steps.words(step))
            if isinstance(step, steps.SetCache) and step.rescue:
                self._forwards = False
            try:
                self.require_to_go_on()
                result = self._do(step)
            except WcacheError as error:
                failure = error
            except Exception as error:
                # whatever a step runs into, the program must get its chance to restore
                failure = StorageError(
                    f"{type(step).__name__} failed ({type(error).__name__}: {error})"
                )
            self._forwards = self._forwards and failure is None
            self.after_step(number, step)

    def _do(self, step: Step) -> Optional[DriveState]:
        if not isinstance(step, (steps.ReadState, steps.ReadOptions, steps.AskCache)):
            self.touches += 1
        if isinstance(step, steps.WriteJournal):
            self._write(step.entry)
        elif isinstance(step, steps.RemoveJournal):
            self.journal.remove(step.entry.key)
        elif isinstance(step, steps.ReadState):
            return self.host.state(step.drive)
        elif isinstance(step, steps.ReadOptions):
            values = self.host.option_values(step.drive)
            return replace(self.host.state(step.drive), options=values)
        elif isinstance(step, steps.AskCache):
            self._ask_cache(step)
        elif isinstance(step, steps.SetOption):
            self.host.set_option(step.drive, step.name, step.value, back=step.back)
        elif isinstance(step, steps.Pin):
            self.host.pin(step.drive)
        elif isinstance(step, steps.Flush):
            self.host.flush(step.drive)
        elif isinstance(step, steps.SetCache):
            self.host.set_cache(step.drive, step.mode)
        else:
            self.host.save_cache(step.drive, step.mode, step.saved)
        return None

    def _ask_cache(self, step: steps.AskCache) -> None:
        """Raise RefusedError where bcache above a drive may not be in writeback.

        A way back, which nobody agreed to anew, asks nothing but what bcache itself stands on.
        """
        way_back = step.agreed is None
        drives = self.host.bcache_members(step.drive) if way_back else self.host.look()
        mine = [drive for drive in drives if drive.drive_id == step.drive.drive_id]
        report = HostReport("this host", VERSION, drives)
        why = writeback_refusal(report, mine, self.host.lost_writes(), step.agreed)
        if why:
            raise RefusedError(
                f"{step.drive.dev_name}: {why}",
                "cure that and make a new plan, or leave bcache in writethrough",
            )

    def _write(self, entry: JournalEntry) -> None:
        """Put an entry on stable storage, as the latest one unless it was there before.

        Raises ConflictError where a lease of another journal holds its drives: what was there
        before that lease is in that journal, and either way back would undo the other.
        """
        holder = self.journal.held_elsewhere(
            entry.domain_id, {drive.drive_id for drive in entry.drives}
        )
        if holder:
            raise ConflictError(
                f"a lease in the journal of another state folder holds {entry.domain_id}",
                f"end that lease first; if its folder is gone, remove {holder}",
            )
        self.refuse_unread(entry)
        sound, _ = self.read_journal()
        for other in sound.values():
            steps.refuse_renamed(entry, other)
        known = self.entry_at(entry.key)
        last = max((item.serial for item in sound.values()), default=0)
        serial = known.serial if known is not None else min(last + 1, INT_MAX)
        self.journal.write(entry.key, entries.encode(replace(entry, serial=serial)))

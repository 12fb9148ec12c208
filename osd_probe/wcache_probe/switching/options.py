"""Set an option of a cache domain's drives, for a lease or a plan, or back; sans-I/O.

What was there is in the journal before the first write, with what the kernel resets along with
the option: the scheduler takes nr_requests and wbt_lat_usec with it.  They go back in that order,
and back is what was read.  The cache mode is not touched, and nothing is pinned.

bcache's mode is never under a lease.  Where it goes back to one that keeps no dirty data, the
entry stays until none is left: the way back is not over before.  Wherever it goes into writeback,
back there too, its cache device is asked first, and again once it is there (`AskCache`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Generator, List, Optional, Sequence, Tuple

from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry
from wcache.core.drive.prior import (
    Prior,
    PriorDoubt,
    PriorError,
    require_entry,
    require_first_touch,
    with_options,
)
from wcache.core.errors import RefusedError, StorageError, WcacheError
from wcache.core.hardware import OptionValue
from wcache.core.model import DriveReport, DriveState
from wcache.core.options.entries import (
    BY_NAME,
    comparable,
    kept_from,
    leased_names,
    left_dirty,
    left_words,
    names_of,
    option,
)
from wcache.core.options.option import SharedCache

from .steps import (
    AskCache,
    Program,
    ReadOptions,
    RemoveJournal,
    SetOption,
    Step,
    Switched,
    WriteJournal,
    or_back,
    read,
    refuse_others,
)


def lease_set(
    drives: Sequence[DriveReport],
    entry: Optional[JournalEntry],
    *,
    lease_id: str,
    name: str,
    value: str,
    now_s: float,
    prior: Prior,
) -> Program:
    """Set an option of each drive; `entry` is the domain's journal entry of the lease, if any.

    `prior` is what the mgr knows.  Raises RefusedError by name where no entry allows it, and
    before the first write where the witnesses do not agree; else after a restore.
    """
    comparable(name).require(value)
    found = yield from _as_now(drives)
    if entry is None:
        entry = _entry(EntryKind.LEASE, lease_id, found, leased_names(name), now_s, prior)
        yield WriteJournal(entry)
    else:
        _require_about(entry, name, prior)
        refuse_others(entry, found)
    return (yield from or_back(_set(found, name, value), entry, found, restore))


def apply(
    drives: Sequence[DriveReport],
    entry: Optional[JournalEntry],
    *,
    action_id: str,
    name: str,
    expected: str,
    value: str,
    now_s: float,
    prior: Prior,
    agreed: Optional[SharedCache] = None,
) -> Program:
    """Make a decided change: as `lease_set`, but the entry stays for a rollback.

    `entry` is the journal entry of this action where an earlier attempt left one: it alone knows
    what was there before, so a repeated action never writes it anew.  `agreed`: an admin agreed
    that what is acknowledged is on this cache device alone for a while.
    """
    one_option = option(name)
    one_option.require(value)
    dirty = bool(one_option.dirty_in) and value == one_option.dirty_in
    if dirty and agreed is None:
        raise RefusedError(
            f"{name} is not set to {value}, since nobody has agreed to it",
            "`ceph wcache apply PLAN --consent-turn-on`",
        )
    found = yield from _as_now(drives)
    began = entry is not None
    for one in found:
        now = one.state.option(name)
        if now not in (expected, value):
            raise RefusedError(
                f"{name} of {one.dev_name} is {now or 'unknown'}, and the plan was made for "
                f"{expected}", "make a new plan",
            )
    if entry is None:
        _require_touchable(found, name)
    asked = tuple(AskCache(one, agreed) for one in found) if dirty else ()
    try:
        yield from _ask(asked)
    except WcacheError:
        if entry is not None:  # an earlier attempt may have set it
            _require_about(entry, name, prior)
            yield from restore(entry, found)
        raise
    if entry is None:
        new = _entry(EntryKind.ACTION, action_id, found, names_of(name), now_s, prior)
        if all(one.state.option(name) == value for one in found):
            states = tuple(one.state for one in found)
            return Switched(states, states, changed=False)
        entry = new
        yield WriteJournal(entry)
    else:
        _require_about(entry, name, prior)
        refuse_others(entry, found)
    done = yield from or_back(_set(found, name, value, asked), entry, found, restore)
    # a crash cut this action off after the change: it was ours, a rollback undoes it
    return replace(done, changed=True) if began else done


def _as_now(
    drives: Sequence[DriveReport],
) -> Generator[Step, Optional[DriveState], Tuple[DriveReport, ...]]:
    states = yield from read(*drives, how=ReadOptions)
    return tuple(replace(one, state=state) for one, state in zip(drives, states))


def _entry(
    kind: EntryKind, owner_id: str, found: Sequence[DriveReport], names: Sequence[str],
    now_s: float, prior: Prior,
) -> JournalEntry:
    """Make the entry that is journalled before the first touch; raise where that must not be."""
    _require_touchable(found, names[0])
    require_first_touch(prior, found)
    entry = JournalEntry(
        JOURNAL_VERSION, kind, owner_id, found[0].domain_id,
        with_options(found, names), now_s, cluster_fsid=prior.cluster_fsid,
    )
    if not agree(entry, prior):
        raise PriorError(
            PriorDoubt.OTHER_STATE,
            f"not in the state that the mgr recorded: {names[0]} is no longer as it was",
        )
    return entry


def _require_touchable(found: Sequence[DriveReport], name: str) -> None:
    for one in found:
        why = kept_from(one, name)
        if why:
            raise RefusedError(f"{one.dev_name}: {why}")


def _ask(asked: Sequence[AskCache]) -> Generator[Step, Optional[DriveState], None]:
    for ask in asked:  # noqa: UP028  what fails is thrown in here
        yield ask


def _require_about(entry: JournalEntry, name: str, prior: Prior) -> None:
    require_entry(entry, prior)
    if not any(one.name == name for drive in entry.drives for one in drive.options):
        raise RefusedError(f"{entry.kind.value} {entry.owner_id} is not about {name}")


def _set(
    found: Sequence[DriveReport], name: str, value: str, asked: Sequence[AskCache] = ()
) -> Program:
    """Write the value where it is not there, and read it back.

    `asked`: what was asked before, and is asked again once it is there: meanwhile it may have
    changed.
    """
    changed = False
    for drive in found:
        if drive.state.option(name) != value:
            yield SetOption(drive, name, value)
            changed = True
    after = yield from read(*found, how=ReadOptions)
    for drive, state in zip(found, after):
        if state.option(name) != value:
            raise RefusedError(
                f"{drive.dev_name} was given {name} {value} and has "
                f"{state.option(name) or 'none'}", "the kernel or the drive does not take it",
            )
    yield from _ask(asked)
    return Switched(tuple(drive.state for drive in found), after, changed)


def agree(entry: JournalEntry, prior: Prior) -> bool:
    """Tell whether an entry about to be written has the options and values that the mgr knows."""
    known = {drive.drive_id: drive.options for drive in prior.drives}
    return known == {drive.drive_id: drive.options for drive in entry.drives}


def restore(
    entry: JournalEntry, drives: Sequence[DriveReport], known: Optional[Prior] = None
) -> Program:
    """Bring back the options of an entry, prove it, then drop the entry.

    StorageError, and the entry stays, where a drive is not there or an option did not go back.
    What one drive refuses keeps no other from its way back.  The entry stays too where all of it
    is back and dirty data is left.
    """
    require_entry(entry, known)
    prior = {item.drive_id: item for item in entry.drives}
    here = tuple(drive for drive in drives if drive.drive_id in prior)
    before: List[DriveState] = []
    changed = False
    failure: Optional[WcacheError] = None
    for drive in here:
        try:
            before += yield from read(drive, how=ReadOptions)
            for one in prior[drive.drive_id].options:
                # read anew each time: the one before may have reset it
                (state,) = yield from read(drive, how=ReadOptions)
                if state.option(one.name) != one.value:
                    yield from _set_back(drive, one, state.option(one.name))
                    changed = True
        except WcacheError as error:  # no reason to leave the other drives as they are
            failure = failure or error
    if failure is not None:
        raise failure
    after = yield from read(*here, how=ReadOptions)
    missing = sorted(set(prior) - {drive.drive_id for drive in here})
    if missing:
        raise StorageError(
            f"{', '.join(missing)} is not on this host, so its options are not back",
            "reconnect the drive and run `wcache-probe restore --all`",
        )
    for drive, state in zip(here, after):
        for one in prior[drive.drive_id].options:
            if state.option(one.name) != one.value:
                raise StorageError(
                    f"{one.name} of {drive.dev_name} is {state.option(one.name) or 'unknown'} "
                    f"and was {one.value}",
                    "something else changes it: set it back by hand, or accept the drive as it is",
                )
    left = next(filter(None, (
        left_words(drive.dev_name, left_dirty(one.name, one.value, state))
        for drive, state in zip(here, after) for one in prior[drive.drive_id].options
    )), "")
    if not left:
        yield RemoveJournal(entry)
    return Switched(tuple(before), after, changed, left)


def _set_back(
    drive: DriveReport, prior: OptionValue, now: Optional[str]
) -> Generator[Step, Optional[DriveState], None]:
    """Give an option its prior value; into writeback only as `apply` does it."""
    entry = BY_NAME.get(prior.name)
    dirty = entry is not None and bool(entry.dirty_in) and prior.value == entry.dirty_in
    if dirty:
        yield AskCache(drive)
    yield SetOption(drive, prior.name, prior.value, back=True)
    if dirty and now is not None:
        try:
            yield AskCache(drive)
        except WcacheError:
            yield SetOption(drive, prior.name, now, back=True)
            raise

"""Pin, then toggle: the order of steps for every change of a cache mode, there or back.

Sans-I/O: a program is a generator that yields one `Step` at a time and is sent what
the step read.  The probe runs it against real drives, tests run it against a model
and crash, reset or fail it after every step.  A step that fails is thrown into the
program as the `WcacheError` it raised.

The order, and why: journal first, so that a crash at any later step finds what was
there; then the pin, so that the kernel flushes whatever the drive does; read back every
layer before the device is touched; toggle the device alone; read back both sides.
The pin stays when a lease ends: it is safe and gone at the next boot, while dropping
it makes the next rescan decide, and a rescan whose MODE SENSE fails assumes that there
is no cache (drivers/scsi/sd.c, sd_read_cache_type()).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Callable, Dict, Generator, List, Mapping, Optional, Sequence, Tuple

from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry, prior_of
from wcache.core.drive.prior import (
    Prior,
    lost,
    not_back,
    require_entry,
    require_first_touch,
    states_by_id,
)
from wcache.core.drive.safety import (
    Safety,
    doubted,
    judge,
    may_be_pinned,
    may_rest_on,
    may_toggle,
    pinnable,
    require_ours,
    require_throwaway,
)
from wcache.core.errors import DisobeyedError, RefusedError, StorageError, WcacheError
from wcache.core.model import CacheMode, DriveReport, DriveState, KernelView, Transport

from . import options
from .steps import (
    Flush,
    Pin,
    Program,
    ReadOptions,
    ReadState,
    RemoveJournal,
    SaveCache,
    SetCache,
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
    mode: CacheMode,
    now_s: float,
    throwaway: bool,
    consent_turn_on: bool,
    prior: Optional[Prior] = None,
    lost: Mapping[str, str] = {},
) -> Program:
    """Put a cache domain into `mode` under a lease; `entry` is its journal entry, if any.

    `prior` is what the mgr knows of the domain before its lease, None where no mgr is asked.
    `lost`, here and below: what power cuts have shown of drive models (`safety.may_rest_on`).
    Raises RefusedError before the first touch where `may_toggle` says no or the witnesses
    of the prior state do not agree, and after a restore where the drive did not obey.
    """
    found = tuple(drives)
    if entry is None:
        _check(found, mode, throwaway=throwaway, consent_turn_on=consent_turn_on, lost=lost)
        require_first_touch(prior, found)
        entry = JournalEntry(
            JOURNAL_VERSION, EntryKind.LEASE, lease_id, found[0].domain_id,
            prior_of(found), now_s, throwaway, cluster_fsid=prior.cluster_fsid if prior else "",
        )
        yield WriteJournal(entry)
    else:
        require_entry(entry, prior)
        refuse_others(entry, found)
        # an experiment that began with consent goes on with it: its prior state is safe
        _check(found, mode, throwaway=throwaway, consent_turn_on=True, began=True)
    program = _switch(found, lambda drive: mode)
    return (yield from or_back(program, entry, found, restore))


def restore(
    entry: JournalEntry, drives: Sequence[DriveReport], known: Optional[Prior] = None
) -> Program:
    """Bring back the prior state of an entry, prove it, then drop the entry.

    Drives that are not there now keep the entry alive: StorageError names them.  So does
    a reading that does not equal the prior state.  `known` is what the mgr knows of it.
    """
    require_entry(entry, known)
    prior = {item.drive_id: item for item in entry.drives}
    modes = {item.drive_id: item.mode for item in entry.drives}
    found = tuple(drives)
    here = tuple(drive for drive in found if drive.drive_id in prior)
    require_throwaway(found, modes, throwaway=entry.throwaway)
    if entry.persisted:
        # first, or a udev event still on its way would put the persisted mode back after us
        yield from _unsave(entry, found)
    if CacheMode.WRITE_BACK in modes.values():
        require_ours(found)
    # a drive of the domain that came later shares the switch: it is pinned and looked at too
    done = yield from _switch(found, lambda drive: modes.get(drive.drive_id))
    missing = sorted(set(prior) - {drive.drive_id for drive in here})
    if missing:
        raise StorageError(
            f"{', '.join(missing)} is not on this host, so its prior state is not back",
            "reconnect the drive and run `wcache-probe restore --all`",
        )
    read = states_by_id([drive.drive_id for drive in found], done.after)
    differs = not_back(entry.drives, read)
    if differs:
        raise StorageError(
            f"the prior state is not back: {differs}",
            "somebody else changed it: set it back by hand, or accept the drive as it is",
        )
    yield RemoveJournal(entry)
    return done


def _unsave(
    entry: JournalEntry, drives: Sequence[DriveReport]
) -> Generator[Step, Optional[DriveState], None]:
    """Take back what drives keep over a power cycle, and nothing else."""
    saved = {item.drive_id: item.state.page.saved for item in entry.drives}
    if CacheMode.WRITE_BACK in saved.values():
        # saving a mode turns the shared cache on for a moment, whatever it is now
        require_ours(drives)
        for drive in drives:
            yield from _require_ready(drive)
    wwids = {item.drive_id: item.wwid for item in entry.drives}
    for drive in drives:
        if drive.drive_id in saved:
            # its rule has the name that it had then, and another kernel gives it another one
            named = replace(drive, wwid=wwids[drive.drive_id] or drive.wwid)
            yield SaveCache(named, None, saved[drive.drive_id])


def _require_ready(drive: DriveReport) -> Generator[Step, Optional[DriveState], None]:
    """Pin a drive whose cache is about to come on, and see that every layer flushes."""
    if pinnable(drive.transport):
        state = yield from pin(drive)
    else:
        (state,) = yield from read(drive)
    _require_flushing(drive, state, CacheMode.WRITE_BACK)


def apply(
    drives: Sequence[DriveReport],
    entry: Optional[JournalEntry] = None,
    *,
    action_id: str,
    expected: CacheMode,
    mode: CacheMode,
    now_s: float,
    throwaway: bool,
    consent_turn_on: bool,
    persist: bool,
    known: Optional[Prior] = None,
    lost: Mapping[str, str] = {},
) -> Program:
    """Make a decided change: as `lease_set`, but the entry stays for a rollback.

    The pin stays too: after a reset the drive may come back with its cache on.
    `entry` is the journal entry of this action where an earlier attempt left one: it
    alone knows what was there before, so a repeated action never writes it anew.
    A change that it made before stays, with its entry, where it cannot be made to last.
    `known` is what the mgr knows of that, and must agree.
    """
    found = tuple(drives)
    if entry is None:
        require_first_touch(known, found)
    else:
        require_entry(entry, known)
        refuse_others(entry, found)
    wrong = [drive.dev_name for drive in found if drive.mode not in (expected, mode)]
    if wrong:
        raise RefusedError(f"{wrong[0]} is no longer as planned", "make a new plan")
    _check(
        found, mode, throwaway=throwaway, consent_turn_on=consent_turn_on, experiment=False,
        lasts=persist, lost=lost,
    )
    if all(drive.mode is mode for drive in found) and not persist:
        states = tuple(drive.state for drive in found)
        return Switched(states, states, changed=False)
    stays = entry is not None and all(drive.mode is mode for drive in found)
    if entry is None or (persist and not entry.persisted):
        prior = prior_of(found) if entry is None else entry.drives
        entry = JournalEntry(
            JOURNAL_VERSION, EntryKind.ACTION, action_id, found[0].domain_id,
            prior, now_s, throwaway, persist, known.cluster_fsid if known else "",
        )
        yield WriteJournal(entry)
    if persist and stays:
        return (yield from _or_unsaved(_persist(found, mode), entry, found, mode))
    program = _persist(found, mode) if persist else _switch(found, lambda drive: mode)
    return (yield from or_back(program, entry, found, restore))


def _persist(drives: Tuple[DriveReport, ...], mode: CacheMode) -> Program:
    """Put drives into a mode, have them keep it over a power cycle, and prove that they do."""
    done = yield from _switch(drives, lambda drive: mode)
    after: List[DriveState] = []
    for drive in drives:
        yield SaveCache(drive, mode)
    for drive in drives:
        (state,) = yield from read(drive)
        if state.page.saved is not mode:
            kept = state.page.saved.value if state.page.saved else "nothing that can be read"
            raise RefusedError(
                f"{drive.dev_name} was told to keep {mode.value} over a power cycle, "
                f"and it keeps {kept}", "plan again without --persist",
            )
        if replace(drive, state=state).mode is not mode:
            raise RefusedError(f"{drive.dev_name} left {mode.value} while that was made to last")
        after.append(state)
    saved = [state.page.saved for state in done.before]
    changed = done.changed or any(item is not mode for item in saved)
    return Switched(done.before, tuple(after), changed)


def _or_unsaved(
    program: Program, entry: JournalEntry, drives: Tuple[DriveReport, ...], mode: CacheMode
) -> Program:
    """Run what makes a change last; where it fails, prove that drives are as the change left them.

    The entry stays, whatever comes of it.
    """
    try:
        return (yield from program)
    except WcacheError as error:
        try:
            yield from _unsave(entry, drives)
            states = yield from read(*drives)
            kept = [replace(item, mode=mode) for item in entry.drives]
            differs = not_back(kept, states_by_id([drive.drive_id for drive in drives], states))
        except WcacheError as failed:
            differs = failed.message
        if differs:
            raise StorageError(
                f"{error.message}; and it is not as it was changed: {differs}",
                "a rollback of its plan brings back what was there before",
            ) from None
        raise


def keep(
    drives: Sequence[DriveReport], mode: CacheMode, named: Callable[[DriveReport], bool],
    lost: Mapping[str, str],
) -> Program:
    """Put drives that just appeared into the mode that was persisted for them.

    No journal: what is kept was decided and journalled when the rule was written.  What only
    shares their switch is not `named`, and is not toggled.  One that comes up off stays off where
    it is not shown by now that its flushes arrive, or where any of them is not that of OSDs alone.
    """
    if mode is CacheMode.WRITE_BACK and any(
        named(drive) and drive.mode is not mode for drive in drives
    ):
        require_ours(drives)
    for drive in drives if mode is CacheMode.WRITE_BACK else ():
        off = drive.mode is not mode
        why = doubted(drive, lost) if off else ""  # layers are read once all is pinned
        if why:
            raise RefusedError(
                f"{drive.dev_name}: its cache stays off, since {why}",
                "`ceph wcache rollback` of the plan that made it last removes its rule",
            )
    return (yield from _switch(tuple(drives), lambda drive: mode if named(drive) else None))


def hold(drives: Sequence[DriveReport], *, must: bool = False) -> Program:
    """Pin drives that the journal names, before anything else is done after a start.

    One that cannot be pinned now is no reason to leave the others: whatever turns its
    cache on later pins it first, or refuses.  With `must` the first failure is raised then.
    """
    failure: Optional[WcacheError] = None
    for drive in drives:
        if may_be_pinned(drive):
            try:
                yield Pin(drive)
            except WcacheError as error:
                failure = failure or error
    if must and failure is not None:
        raise failure
    return Switched((), (), changed=False)


def _check(
    drives: Tuple[DriveReport, ...], mode: CacheMode, *, throwaway: bool, consent_turn_on: bool,
    experiment: bool = True, began: bool = False, lasts: bool = False,
    lost: Mapping[str, str] = {},
) -> None:
    reason = may_toggle(
        drives, mode, throwaway=throwaway, consent_turn_on=consent_turn_on,
        experiment=experiment, began=began, lasts=lasts, lost=lost,
    )
    if reason:
        raise RefusedError(reason)


def _switch(
    drives: Tuple[DriveReport, ...], target: Callable[[DriveReport], Optional[CacheMode]]
) -> Program:
    """Pin all, read all layers, then toggle each; raises RefusedError where one disobeys.

    One whose target is None is not toggled, but what is done to the others is done to it.
    """
    on = any(target(drive) is CacheMode.WRITE_BACK for drive in drives)
    ends = CacheMode.WRITE_BACK if on else CacheMode.WRITE_THROUGH
    before: List[DriveState] = []
    for drive in drives:
        (state,) = yield from read(drive)
        before.append(state)
        if pinnable(drive.transport):
            try:
                state = yield from pin(drive)
            except WcacheError:
                if on or judge(state) is not Safety.UNSAFE:
                    raise
                # off is the cure without a pin too: Linux 6.11 and later keeps a `write through`
                # that was written into queue/write_cache, whatever the driver says
                # (block/blk-sysfs.c, queue_wc_store(), BLK_FLAG_WRITE_CACHE_DISABLED)
                with suppress(WcacheError):
                    state = yield from pin(drive)
        _require_flushing(drive, state, ends)
    changed = False
    after: Dict[str, DriveState] = {}
    order = sorted(zip(drives, before), key=lambda pair: target(pair[0]) is None)
    for drive, state in order:
        mode = target(drive)
        if mode is not None and replace(drive, state=state).mode is not mode:
            yield Flush(drive)
            yield SetCache(drive, mode)
            yield Flush(drive)
            changed = True
        after[drive.drive_id] = yield from _proven(drive, mode, ends)
    # once more: they may share the switch that the last one has turned
    for drive, _ in order[:-1]:
        after[drive.drive_id] = yield from _proven(drive, target(drive), ends)
    return Switched(
        tuple(before), tuple(after[drive.drive_id] for drive in drives), changed
    )


def _proven(
    drive: DriveReport, mode: Optional[CacheMode], ends: CacheMode
) -> Generator[Step, Optional[DriveState], DriveState]:
    """Read that a drive is in a mode (None: in any), and that nothing drops its flushes."""
    (now,) = yield from read(drive)
    if mode is not None and replace(drive, state=now).mode is not mode:
        raise DisobeyedError(
            f"{drive.dev_name} accepted a change to {mode.value} but did not make it",
            "see `ceph wcache drive ls`; the drive's firmware may pin its cache",
        )
    try:
        _require_flushing(drive, now, ends)
    except RefusedError:
        # somebody took a flush away while we switched: off is safe whatever flushes
        yield SetCache(drive, CacheMode.WRITE_THROUGH, rescue=True)
        raise
    return now


def pin(drive: DriveReport) -> Generator[Step, Optional[DriveState], DriveState]:
    """Pin a drive and prove it: an unproven pin protects nothing.

    Done anew each time, since nobody tells us when somebody else has ended it.
    """
    yield Pin(drive)
    (state,) = yield from read(drive)
    if not state.pinned or state.kernel_view is not KernelView.WRITE_BACK:
        raise RefusedError(
            f"the kernel view of {drive.dev_name} could not be pinned at write back",
            "look at scsi_disk/*/cache_type and at what else writes it",
        )
    return state


def _require_flushing(drive: DriveReport, state: DriveState, mode: CacheMode) -> None:
    """Require that every layer flushes where the cache stays on or comes on; off needs nothing."""
    if drive.transport is Transport.LOOP:
        return  # the switch *is* the kernel view; allowed on throwaway clusters only
    if mode is CacheMode.WRITE_THROUGH:
        return
    # that it may be on was asked before the first touch; here, whether what was read bears it
    why = may_rest_on(replace(drive, state=state), {}, on=True, rested=True)
    if why:
        raise RefusedError(f"{drive.dev_name}: {why}")


def bring_back(
    prior: Prior, drives: Sequence[DriveReport], *, kind: EntryKind, owner_id: str, now_s: float,
    throwaway: bool = False,
) -> Program:
    """Restore the cache mode, or the options, of which the mgr tells.

    Drives that are as they were need nothing.  Others are journalled from what the mgr
    knows first, so that a crash in the middle leaves the way back.
    """
    if not prior.known:
        raise lost(owner_id)
    states = yield from read(*drives, how=ReadOptions if prior.of_options else ReadState)
    ids = [drive.drive_id for drive in drives]
    if not not_back(prior.drives, states_by_id(ids, states)):
        return Switched(states, states, changed=False)
    persisted = False
    if prior.of_options:
        throwaway = False
    else:  # before anything is journalled
        modes = {item.drive_id: item.mode for item in prior.drives}
        require_throwaway(drives, modes, throwaway=throwaway)
        if CacheMode.WRITE_BACK in modes.values():
            require_ours(drives)
        # what a lease found was never saved anew; an applied change may have been
        saved = {item.drive_id: item.state.page.saved for item in prior.drives}
        persisted = kind is EntryKind.ACTION and any(
            state.page.saved is not saved.get(drive.drive_id)
            for drive, state in zip(drives, states)
        )
    entry = JournalEntry(
        JOURNAL_VERSION, kind, owner_id, prior.domain_id, prior.drives, now_s, throwaway,
        persisted, prior.cluster_fsid,
    )
    yield WriteJournal(entry)
    back = options.restore if prior.of_options else restore
    return (yield from back(entry, drives))

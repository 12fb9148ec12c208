"""A restore that is told of late never makes the probe forget what is held by then."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Iterator, List, Optional, Sequence

import pytest
from sim_drives import (
    BACK,
    OBEYS,
    THROUGH,
    MemoryJournal,
    Probe,
    RestoreHere,
    StopNever,
    hold,
    lease,
)
from wcache.core.drive import journal as entries
from wcache.core.errors import NotFoundError, NotReadyError
from wcache.core.protocol import SetModeRequest
from wcache_probe.restoring.restorer import Results
from wcache_probe.switcher import Switcher
from wcache_probe.switching.steps import WriteJournal


@dataclass
class LateChildren:
    """Children that restore when they are let, and are heard of when that is let."""

    switcher: Switcher
    told: bool = False
    begun: List[str] = field(default_factory=list)
    ended: List[str] = field(default_factory=list)

    def work(self) -> None:
        """All that were started do it, and end."""
        for key in self.begun:
            self.switcher.restore_key(key)
        self.ended += self.begun
        self.begun = []

    def restore(self, keys: Sequence[str], patience_s: Optional[float] = None) -> Results:
        results: Results = {}
        if self.told:
            results = dict.fromkeys(self.ended)
            self.ended = []
        new = [key for key in keys if key not in (*self.begun, *self.ended, *results)]
        self.begun += new
        if self.told:
            self.work()
            results.update(dict.fromkeys(self.ended))
            self.ended = []
        return {**{key: NotReadyError("still at it") for key in keys}, **results}


def lost_lease(probe: Probe) -> LateChildren:
    """A lease ran out, and the child that restores takes longer than it is waited for."""
    children = LateChildren(probe.switcher)
    probe.restore_by(children)
    hold(probe)
    probe.clock.now_s += 40.0
    probe.restoring.restore_owed()
    assert probe.keeper.held == (OBEYS,)
    return children


def resume(probe: Probe, children: LateChildren) -> None:
    """A new mgr names the same lease; the child is done before the drive is switched again."""
    children.work()
    assert probe.mode(OBEYS) is BACK
    probe.mgr.lease = lease()
    probe.mgr.ask("again", SetModeRequest(OBEYS, THROUGH))


@pytest.mark.parametrize("ending", ["no lease", "silence", "freeze", "stop"])
def test_a_lease_that_was_resumed_while_its_restore_went_on_is_undone_when_it_ends(
    probe, ending
):
    children = lost_lease(probe)
    resume(probe, children)
    probe.agent(StopNever(probe)).run_turn()
    children.told = True
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is THROUGH, "its lease is live"
    assert probe.keeper.held == (OBEYS,)
    if ending == "stop":
        probe.run(turns=0)
    elif ending == "silence":
        probe.mgr.error = NotReadyError("gone")
        probe.clock.now_s += 40.0
    elif ending == "freeze":
        probe.mgr.frozen = True
    else:
        probe.mgr.lease = None
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK
    assert probe.journal.entries == {}
    assert probe.keeper.held == ()


def test_a_lease_that_ends_as_a_late_restore_is_told_of_is_restored_in_the_same_breath(probe):
    children = lost_lease(probe)
    resume(probe, children)
    probe.agent(StopNever(probe)).run_turn()
    children.told = True
    probe.keeper.stopping()
    results = probe.restoring.restore_owed()
    assert results == {OBEYS: None}
    assert probe.mode(OBEYS) is BACK


@pytest.mark.parametrize("told_at", ["before the entry", "after the entry"])
def test_the_guard_that_hears_of_a_late_restore_forgets_no_switch_under_way(probe, told_at):
    children = lost_lease(probe)
    resume(probe, children)
    write = probe.journal.write
    held: List[object] = []

    def guard() -> None:
        children.told = True
        probe.restoring.restore_owed()

    def journal_write(key: str, text: str) -> None:
        if told_at == "before the entry":
            guard()
        write(key, text)

    def after_step(number: int, step: object) -> None:
        if isinstance(step, WriteJournal):
            guard()
            held.append(probe.keeper.held)

    probe.journal.write = journal_write  # type: ignore[method-assign]
    probe.switcher.after_step = after_step
    probe.agent(StopNever(probe)).run_turn()
    assert held == [(OBEYS,)], "also while the switch goes on: the loop may hang in it"
    assert probe.keeper.held == (OBEYS,)
    assert probe.mode(OBEYS) is THROUGH
    probe.mgr.lease = None
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK


def test_what_failed_before_a_lease_was_resumed_delays_no_restore_after_it(probe):
    children = lost_lease(probe)
    for _ in range(10):
        probe.clock.now_s += 70.0
        probe.restoring.restore_owed()
    resume(probe, children)
    probe.agent(StopNever(probe)).run_turn()
    children.told = True
    probe.mgr.lease = None
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK


def test_a_restore_that_takes_some_seconds_is_told_once_it_is_back_and_not_before(probe):
    children = lost_lease(probe)
    assert probe.restoring.notices == []
    children.told = True
    children.work()
    probe.clock.now_s += 10.0
    probe.restoring.restore_owed()
    assert [notice.restored for notice in probe.restoring.notices] == [True]


def test_what_nobody_has_heard_yet_is_not_told_once_it_is_no_longer_so(probe):
    children = lost_lease(probe)
    probe.clock.now_s += 40.0
    probe.restoring.restore_owed()
    (late,) = probe.restoring.notices
    assert "the prior state is not back: still at it" in late.text
    children.told = True
    children.work()
    probe.clock.now_s += 40.0
    probe.restoring.restore_owed()
    (notice,) = probe.restoring.notices
    assert (notice.restored, "the prior state is back" in notice.text) == (True, True)


def test_an_entry_that_has_gone_is_not_told_as_a_prior_state_that_is_back(probe):
    """Somebody gave it up, or restored it: nothing was read by us."""
    hold(probe)
    with pytest.raises(NotFoundError, match="nothing was read here"):
        Switcher(probe.host, MemoryJournal()).restore_key(f"lease/{OBEYS}")
    probe.journal.entries.clear()
    probe.restore_by(RestoreHere(Switcher(probe.host, MemoryJournal())))
    probe.mgr.lease = None
    for _ in range(3):
        probe.keeper.is_held(OBEYS, "L1")
        probe.agent(StopNever(probe)).run_turn()
    assert "no longer in the journal" in probe.mgr.notices()
    assert "is back" not in probe.mgr.notices()
    assert probe.keeper.held == ()


def test_an_entry_that_changed_hands_while_its_lock_was_waited_for_is_left_to_its_owner(probe):
    """Who held the lock ended that lease, and began another one on the drive."""
    hold(probe)
    key = f"lease/{OBEYS}"

    @contextmanager
    def lock(_domain_id: str) -> Iterator[None]:
        entry = entries.parse(key, probe.journal.entries[key])
        probe.journal.entries[key] = entries.encode(replace(entry, owner_id="L2"))
        yield

    with pytest.raises(NotFoundError, match="no longer in the journal as it was"):
        Switcher(probe.host, probe.journal, lock=lock).restore_key(key)
    assert probe.mode(OBEYS) is THROUGH
    assert entries.parse(key, probe.journal.entries[key]).owner_id == "L2"


def test_a_damaged_entry_of_a_lease_frees_no_domain(probe):
    hold(probe)
    key = f"lease/{OBEYS}"
    sound = probe.journal.entries[key]
    probe.journal.entries[key] = sound[:-20]
    probe.holds.follow(OBEYS)
    assert probe.keeper.held == (OBEYS,)
    probe.journal.entries[key] = sound
    probe.mgr.lease = None
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mode(OBEYS) is BACK

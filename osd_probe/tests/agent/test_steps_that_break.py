"""What breaks in the middle of a change, or comes too late for its lease, leaves nothing behind."""

from __future__ import annotations

import pytest
from sim_drives import BACK, OBEYS, THROUGH, StopNever, hold, lease
from wcache.core.drive.prior import prior_from
from wcache.core.errors import NotReadyError, StorageError
from wcache.core.model import Role
from wcache.core.protocol import (
    FailureOutcome,
    ReleaseRequest,
    SetModeRequest,
    TimerRequest,
)


def breaks_after(probe, name, *, journal=False):
    """This call of the host is made, and something unforeseen happens right after it.

    With `journal` the journal cannot be read from then on; returns what mends it.
    """
    real, read = getattr(probe.host, name), probe.journal.read

    def broken(*args, **named):
        setattr(probe.host, name, real)
        real(*args, **named)
        if journal:
            probe.journal.read = unread
        raise ZeroDivisionError("nobody thought of that")

    def unread():
        raise StorageError("the state folder cannot be read")

    def mend():
        probe.journal.read = read

    setattr(probe.host, name, broken)
    return mend


@pytest.mark.parametrize("step", ["pin", "flush", "set_cache", "state"])
def test_an_error_that_nobody_foresaw_takes_a_change_back_like_any_other(probe, step):
    probe.mgr.lease = lease()
    probe.mgr.ask("t", SetModeRequest(OBEYS, THROUGH))
    breaks_after(probe, step)
    probe.agent(StopNever(probe)).run_turn()
    outcome = probe.mgr.outcome("t")
    assert isinstance(outcome, FailureOutcome)
    assert "ZeroDivisionError" in outcome.message
    assert probe.mode(OBEYS) is BACK
    assert probe.journal.entries == {}


def ended(probe):
    """The lease is no longer told, and the loop turns on."""
    probe.mgr.lease = None
    for _ in range(3):
        probe.clock.now_s += 31.0
        probe.agent(StopNever(probe)).run_turn()


def test_a_change_is_owed_its_way_back_also_where_its_journal_cannot_be_read_then(probe):
    probe.mgr.lease = lease()
    probe.mgr.ask("t", SetModeRequest(OBEYS, THROUGH))
    mend = breaks_after(probe, "set_cache", journal=True)
    real = probe.journal.remove
    probe.journal.remove = lambda key: probe.journal.read()  # nor written to
    probe.agent(StopNever(probe)).run_turn()
    assert list(probe.journal.entries) == [f"lease/{OBEYS}"]
    assert OBEYS in probe.keeper.held
    mend()
    probe.journal.remove = real
    ended(probe)
    assert probe.mode(OBEYS) is BACK
    assert probe.journal.entries == {}


def test_a_way_back_by_the_mgrs_word_is_gone_on_with_after_it_broke_off(probe):
    drives = probe.host.domain(OBEYS)
    known = prior_from(probe.identity.cluster_fsid, OBEYS, drives)
    probe.host.set_cache(drives[0], THROUGH)
    mend = breaks_after(probe, "pin", journal=True)
    probe.mgr.ask("t", ReleaseRequest(OBEYS, "L1", prior=known))
    probe.agent(StopNever(probe)).run_turn()
    assert list(probe.journal.entries) == [f"lease/{OBEYS}"]
    assert OBEYS in probe.keeper.held
    mend()
    ended(probe)
    assert probe.mode(OBEYS) is BACK
    assert probe.journal.entries == {}


def test_no_flush_is_timed_on_a_drive_whose_lease_has_run_out(probe):
    """It would be timed in a mode that is about to end, and would hold up the restore."""
    hold(probe)
    timed = []
    probe.host.time_flushes = lambda *args, **named: timed.append(args)
    probe.clock.now_s += 31.0
    assert OBEYS in probe.keeper.held
    request = TimerRequest(OBEYS, 0, Role.BLOCK, 10, 10.0, 1000.0)
    with pytest.raises(NotReadyError, match="has run out"):
        probe.runner._time(request, probe.host.domain(OBEYS))
    assert timed == []

"""The probe holds its journal and what it reads against what the mgr has stored."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fake_mgr import FSID
from mgr_fakes import builders as make
from sim_drives import BACK, OBEYS, THROUGH, Probe, StopNever, hold, lease
from wcache.core.drive import journal
from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry
from wcache.core.drive.prior import Prior, PriorDoubt, prior_from
from wcache.core.host_report import JournalNote
from wcache.core.model import CacheMode
from wcache.core.protocol import (
    AcceptRequest,
    ApplyRequest,
    FailureOutcome,
    ReleaseRequest,
    ReportRequest,
    RollbackRequest,
    SetModeRequest,
    StateOutcome,
    Task,
)
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.main import main


def prior(probe: Probe, fsid: str = FSID) -> Prior:
    return prior_from(fsid, OBEYS, probe.host.domain(OBEYS))


def wrong(known: Prior, mode: CacheMode) -> Prior:
    drives = tuple(replace(item, mode=mode) for item in known.drives)
    return replace(known, drives=drives)


def applied(probe: Probe, *, persist: bool = False):
    known = prior(probe)
    probe.mgr.ask("a", ApplyRequest(OBEYS, "p1.0.x", BACK, THROUGH, consent_persist=persist))
    probe.run()
    assert probe.mode(OBEYS) is THROUGH
    return known


def test_a_drive_that_is_not_as_the_mgr_stored_it_is_not_touched(probe):
    probe.mgr.lease = lease()
    outcome = probe.ask(SetModeRequest(OBEYS, THROUGH, prior=wrong(prior(probe), THROUGH)))
    assert outcome.doubt is PriorDoubt.OTHER_STATE
    assert "is in write back and was in write through" in outcome.message
    assert (outcome.restored, probe.journal.entries) == (True, {})
    assert probe.mode(OBEYS) is BACK


@pytest.mark.parametrize(
    "request_of",
    [lambda: SetModeRequest(OBEYS, THROUGH), lambda: ApplyRequest(OBEYS, "p1.0.x", BACK, THROUGH)],
    ids=["lease", "apply"],
)
@pytest.mark.parametrize("entry", [False, True], ids=["at first", "again"])
def test_no_change_is_made_without_a_prior_state_of_the_mgr(probe, request_of, entry):
    probe.mgr.lease = lease()
    if entry:
        assert isinstance(probe.ask(request_of()), StateOutcome)
    kept, mode = dict(probe.journal.entries), probe.mode(OBEYS)
    assert bool(kept) is entry
    probe.mgr.host = None  # it does not look, so it has nothing to send
    probe.mgr.tasks.append(Task("bare", request_of()))
    probe.agent(StopNever(probe)).run_turn()
    outcome = probe.mgr.outcome("bare")
    assert outcome.refused
    assert "the mgr did not say what the drive was like before" in outcome.message
    assert "install the same version" in outcome.advice
    assert (probe.journal.entries, probe.mode(OBEYS)) == (kept, mode)


def test_a_request_of_another_cluster_is_refused_by_name(probe):
    probe.mgr.lease = lease()
    outcome = probe.ask(SetModeRequest(OBEYS, THROUGH, prior=prior(probe, "other")))
    assert "of cluster other" in outcome.message
    assert probe.journal.entries == {}


def test_an_entry_of_another_prior_state_is_refused_by_name(probe):
    known = applied(probe)
    outcome = probe.ask(RollbackRequest(OBEYS, "p1.0.x", prior=wrong(known, THROUGH)))
    assert outcome.doubt is PriorDoubt.DISPUTED
    assert "journal entry action/p1.0.x is of another prior state" in outcome.message
    assert (outcome.restored, probe.mode(OBEYS)) == (False, THROUGH)


def test_an_entry_of_another_cluster_is_refused_by_name_and_told(probe):
    known = applied(probe)
    ((key, text),) = probe.journal.entries.items()
    entry = replace(journal.parse(key, text), cluster_fsid="other")
    probe.journal.entries[key] = journal.encode(entry)
    outcome = probe.ask(RollbackRequest(OBEYS, "p1.0.x", prior=known))
    assert outcome.doubt is PriorDoubt.DISPUTED
    assert f"journal entry {key} is of cluster other, and this is cluster {FSID}" in outcome.message
    assert (probe.mode(OBEYS), list(probe.journal.entries)) == (THROUGH, [key])
    probe.mgr.ask("look", ReportRequest())
    probe.run()
    (note,) = probe.mgr.outcome("look").report.journal
    assert (note.key, note.cluster_fsid, note.drives[0].mode) == (key, "other", BACK)


@pytest.mark.parametrize("gone", [False, True], ids=["by its entry", "by the mgr's word"])
def test_no_rollback_is_made_while_an_entry_of_another_version_names_its_drive(probe, gone):
    """That may be of a later change, whose way back would undo this one."""
    known = applied(probe)
    ((key, text),) = probe.journal.entries.items()
    later = {**json.loads(text), "owner_id": "p2.0.x", "version": 99}
    probe.journal.entries["action/p2.0.x"] = json.dumps(later)
    if gone:
        del probe.journal.entries[key]
    kept = dict(probe.journal.entries)
    outcome = probe.ask(RollbackRequest(OBEYS, "p1.0.x", prior=known))
    assert "action/p2.0.x may have changed" in outcome.message
    assert (outcome.restored, probe.mode(OBEYS)) == (False, THROUGH)
    assert probe.journal.entries == kept


@pytest.mark.parametrize(
    "request_of",
    [lambda: SetModeRequest(OBEYS, BACK), lambda: ApplyRequest(OBEYS, "a1", BACK, THROUGH)],
    ids=["lease", "apply"],
)
def test_nothing_is_changed_again_by_an_entry_of_another_cluster(probe, request_of):
    """What is taken back later would be what another mgr has seen."""
    probe.mgr.lease = lease()
    first = request_of()
    probe.ask(replace(first, mode=THROUGH))
    ((key, text),) = probe.journal.entries.items()
    entry = journal.encode(replace(journal.parse(key, text), cluster_fsid="other"))
    probe.journal.entries[key] = entry
    probe.mgr.ask("again", request_of())
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mgr.outcome("again").doubt is PriorDoubt.DISPUTED
    assert (probe.mode(OBEYS), probe.journal.entries) == (THROUGH, {key: entry})


def test_what_a_probe_restores_by_itself_is_told_with_what_its_journal_said(probe):
    hold(probe)
    probe.mgr.lease = None
    probe.run(turns=2)
    notice = probe.mgr.posts[-1].notices[-1]
    assert (notice.restored, notice.lease_id) == (True, "L1")
    assert [item.mode for item in notice.prior] == [BACK]


@pytest.mark.parametrize("persist", [False, True])
def test_a_rollback_without_an_entry_restores_what_the_mgr_stored(probe, persist):
    known = applied(probe, persist=persist)
    probe.journal.entries.clear()
    outcome = probe.ask(RollbackRequest(OBEYS, "p1.0.x", prior=known))
    assert isinstance(outcome, StateOutcome)
    assert outcome.changed
    (drive,) = probe.host.domain(OBEYS)
    assert (drive.mode, drive.state.page.saved) == (BACK, BACK)
    assert probe.journal.entries == {}


def test_a_rollback_that_nobody_knows_anything_of_fails_and_says_so(probe):
    applied(probe)
    probe.journal.entries.clear()
    probe.mgr.priors.clear()
    outcome = probe.ask(RollbackRequest(OBEYS, "p1.0.x"))
    assert isinstance(outcome, FailureOutcome)
    assert (outcome.doubt, outcome.restored) == (PriorDoubt.LOST, False)
    assert probe.mode(OBEYS) is THROUGH


def test_a_release_without_an_entry_restores_what_the_mgr_stored(probe):
    known = prior(probe)
    hold(probe)
    probe.journal.entries.clear()
    probe.restart()
    outcome = probe.ask(ReleaseRequest(OBEYS, "L1", prior=known))
    assert isinstance(outcome, StateOutcome)
    assert (probe.mode(OBEYS), probe.journal.entries) == (BACK, {})


def test_a_saved_value_that_is_not_as_it_was_is_not_called_restored(probe):
    known = applied(probe)
    (drive,) = probe.host.domain(OBEYS)
    probe.host.save_cache(drive, THROUGH, None)
    outcome = probe.ask(RollbackRequest(OBEYS, "p1.0.x", prior=known))
    assert isinstance(outcome, FailureOutcome)
    assert "keeps over a power cycle is write through and was write back" in outcome.message
    assert not outcome.restored
    assert list(probe.journal.entries) == ["action/p1.0.x"]


def test_an_accepted_entry_is_dropped_and_the_drive_stays(probe):
    applied(probe)
    outcome = probe.ask(AcceptRequest(OBEYS, ("action/p1.0.x", "action/unknown")))
    assert isinstance(outcome, StateOutcome)
    assert probe.journal.entries == {}
    assert probe.mode(OBEYS) is THROUGH


def test_accept_by_hand_shows_first_and_drops_with_yes(tmp_path, capsys):
    folders = ["--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run")]
    state = StateFolder(folders[1], folders[3])
    drive = make.drive("sda", 0)
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.ACTION, "p1.0", drive.domain_id,
        journal.prior_of((drive,)), 1.0,
    )
    state.journal.write(entry.key, journal.encode(entry))
    state.journal.write(f"lease/{drive.domain_id}", "{damaged")
    assert main(["accept", *folders, drive.domain_id]) == 1
    assert "sda was in write back" in capsys.readouterr().out
    assert len(state.journal.read()) == 2
    assert main(["accept", *folders, "--yes", drive.domain_id]) == 0
    assert state.journal.read() == {}
    assert main(["accept", *folders, drive.domain_id]) == 2


def test_an_entry_of_another_version_is_told_by_its_domain_and_so_are_pins_that_fail(probe):
    applied(probe)
    ((key, text),) = probe.journal.entries.items()
    probe.journal.entries[key] = json.dumps({**json.loads(text), "version": 99})
    probe.journal.entries["action/p9.0.x"] = "{"
    asked = []
    probe.runner.not_pinned = lambda entries: asked.append(list(entries)) or ()
    probe.mgr.ask("look", ReportRequest())
    probe.run()
    report = probe.mgr.outcome("look").report
    assert report.journal == (JournalNote(key, OBEYS), JournalNote("action/p9.0.x", ""))
    assert asked[-1] == [key]

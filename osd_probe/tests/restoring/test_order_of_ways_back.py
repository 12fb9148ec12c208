"""Of two changes of a drive the later one is taken back first, also by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from prepare_bench import Bank, host_of, prepare
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache.core.errors import ConflictError, StorageError
from wcache.core.model import CacheMode
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.switcher import Switcher
from wcache_probe.switching import toggle
from wcache_probe.switching.steps import Switched, WriteJournal

WT, WB = CacheMode.WRITE_THROUGH, CacheMode.WRITE_BACK


@pytest.fixture
def journal(fake_host):
    return StateFolder(str(fake_host.root / "var"), str(fake_host.root / "run")).journal


@pytest.fixture
def host(fake_host):
    """A drive that is on, on a host that was prepared."""
    host = host_of(fake_host, bank=Bank())
    prepare(fake_host, host)
    return host


def applied(host, journal, action_id, mode, at_s):
    """A change by the program that makes it; the clock says `at_s`."""
    (drive,) = host.look()
    program = toggle.apply(
        (drive,), action_id=action_id, expected=drive.mode, mode=mode, now_s=at_s,
        throwaway=False, consent_turn_on=True, persist=False,
    )
    Switcher(host, journal).run(drive.domain_id, program)


@pytest.mark.parametrize("times_s", [(1.0, 2.0), (2.0, 1.0)], ids=["clock runs", "clock set back"])
def test_an_older_change_is_refused_while_a_later_one_stands_which_is_named(
    host, journal, times_s
):
    """The other way round what was there at first would be lost, and the drive end elsewhere."""
    applied(host, journal, "a1", WT, times_s[0])
    applied(host, journal, "a2", WB, times_s[1])
    switcher = Switcher(host, journal)
    with pytest.raises(ConflictError, match="a2 has changed") as refused:
        switcher.restore_key("action/a1")
    assert "restore --action a2" in refused.value.advice
    switcher.restore_key("action/a2")
    assert host.look()[0].mode is WT
    switcher.restore_key("action/a1")
    assert host.look()[0].mode is WB
    assert journal.read() == {}


def written(entry):
    """A program that writes an entry and does nothing else."""
    yield WriteJournal(entry)
    return Switched((), (), changed=False)


def entry_of(host, action_id, at_s=0.0):
    (drive,) = host.look()
    return JournalEntry(
        2, EntryKind.ACTION, action_id, drive.domain_id, prior_of((drive,)), at_s
    )


def test_a_change_that_is_written_once_more_keeps_its_place(host, journal):
    """As one that is made to last after a later one: what it found is still the earlier."""
    switcher = Switcher(host, journal)
    for action_id in ("a1", "a2", "a1"):
        entry = entry_of(host, action_id)
        switcher.run(entry.domain_id, written(entry))
    sound, _ = switcher.read_journal()
    assert {key: entry.serial for key, entry in sound.items()} == {"action/a1": 1, "action/a2": 2}


def test_an_entry_of_an_older_version_is_earlier_than_all_that_came_after(host, journal):
    old, new = entry_of(host, "old", at_s=9e9), entry_of(host, "new", at_s=1.0)
    journal.write(old.key, encode(old))
    switcher = Switcher(host, journal)
    switcher.run(new.domain_id, written(new))
    with pytest.raises(ConflictError, match="new has changed"):
        switcher.restore_key("action/old")


def leased(lease_id, drives):
    return toggle.lease_set(
        drives, None, lease_id=lease_id, mode=WT, now_s=0.0, throwaway=False,
        consent_turn_on=True,
    )


def turned_on(action_id, drives):
    return toggle.apply(
        drives, action_id=action_id, expected=WT, mode=WB, now_s=0.0, throwaway=False,
        consent_turn_on=True, persist=False,
    )


@pytest.mark.parametrize("then", ["", "it had another name then"])
@pytest.mark.parametrize("change", [leased, turned_on])
def test_a_drive_that_a_lease_of_another_state_folder_holds_is_left_to_it(
    fake_host, host, journal, tmp_path, change, then
):
    """Else each would bring back what it found, and both would say that it is back."""
    other = StateFolder(str(tmp_path / "other"), str(fake_host.root / "run")).journal
    domain_id = then or host.look()[0].domain_id
    theirs, ours = Switcher(host, other), Switcher(host, journal)
    drives = [replace(drive, domain_id=domain_id) for drive in host.look()]
    theirs.run(domain_id, leased("theirs", drives))
    assert host.look()[0].mode is WT
    program = change("ours", host.look())
    with pytest.raises(ConflictError, match="another state folder holds") as refused:
        ours.run(domain_id, program)
    assert "run/leases/" in refused.value.advice
    assert (journal.read(), host.look()[0].mode) == ({}, WT)
    theirs.restore_key(f"lease/{domain_id}")
    assert host.look()[0].mode is WB
    ours.run(domain_id, leased("ours", host.look()))
    assert host.look()[0].mode is WT


def of_another_version(journal, key, **changes):
    """Have a later probe have written an entry; returns its text."""
    text = json.dumps({**json.loads(journal.read()[key]), "version": 99, **changes})
    journal.write(key, text)
    return text


@pytest.mark.parametrize("changes", [
    {}, {"serial": 0}, {"domain_id": "it had another name then"}, {"kind": "of later"},
    {"drives": []},
])
def test_an_older_change_is_refused_while_one_of_another_version_stands(host, journal, changes):
    """It may be the later one, whatever it says: its probe would bring back what it found."""
    applied(host, journal, "a1", WT, 1.0)
    applied(host, journal, "a2", WB, 2.0)
    sound = journal.read()["action/a2"]
    if "drives" in changes:
        changes = {"drives": [{"drive_id": "another", "mode": 7}]}  # the domain says it alone
    text, switcher = of_another_version(journal, "action/a2", **changes), Switcher(host, journal)
    with pytest.raises(ConflictError, match="action/a2 may have changed") as refused:
        switcher.restore_key("action/a1")
    assert "status" in refused.value.advice
    assert (host.look()[0].mode, journal.read()["action/a2"]) == (WB, text)
    journal.write("action/a2", sound)
    switcher.restore_key("action/a2")
    switcher.restore_key("action/a1")
    assert (host.look()[0].mode, journal.read()) == (WB, {})


@pytest.mark.parametrize("key", ["lease/it had another name then", "action/a1"])
@pytest.mark.parametrize("change", [leased, turned_on])
def test_nothing_is_begun_on_a_drive_that_an_entry_of_another_version_names(
    host, journal, key, change
):
    """What it found would be taken for the prior state, and both would say that it is back."""
    switcher, (drive,) = Switcher(host, journal), host.look()
    kind, _, name = key.partition("/")
    domain_id = name if kind == "lease" else drive.domain_id
    drives = [replace(drive, domain_id=domain_id)]
    switcher.run(domain_id, leased("L0", drives))
    text = json.dumps({**json.loads(journal.read()[f"lease/{domain_id}"]), "version": 99})
    journal.remove(f"lease/{domain_id}")
    journal.write(key, text)
    assert host.look()[0].mode is WT
    with pytest.raises(ConflictError, match=f"{key} may have changed"):
        switcher.run(drive.domain_id, change("ours", host.look()))
    assert (host.look()[0].mode, journal.read()) == (WT, {key: text})


def test_an_entry_that_cannot_be_read_is_never_written_over(host, journal):
    entry = entry_of(host, "a1")
    journal.write(entry.key, "{")
    with pytest.raises(StorageError, match="action/a1 is damaged"):
        Switcher(host, journal).run(entry.domain_id, written(entry))
    assert journal.read() == {entry.key: "{"}


def test_one_of_another_version_of_another_drive_keeps_nothing_from_going_back(host, journal):
    applied(host, journal, "a1", WT, 1.0)
    drive = {**json.loads(journal.read()["action/a1"])["drives"][0], "drive_id": "another"}
    other = encode(replace(entry_of(host, "a2"), domain_id="another"))
    journal.write("action/a2", other)
    text = of_another_version(journal, "action/a2", drives=[drive])
    Switcher(host, journal).restore_key("action/a1")
    assert (host.look()[0].mode, journal.read()) == (WB, {"action/a2": text})


def test_a_change_is_not_taken_back_below_a_lease_that_began_after_it(host, journal):
    """The lease's end would bring back the mode that was taken back."""
    applied(host, journal, "a1", WT, 1.0)
    switcher, drives = Switcher(host, journal), host.look()
    switcher.run(drives[0].domain_id, leased("L1", drives))
    with pytest.raises(ConflictError, match="lease L1 holds"):
        switcher.restore_key("action/a1")
    assert len(journal.read()) == 2
    switcher.restore_key(f"lease/{drives[0].domain_id}")
    assert host.look()[0].mode is WT
    switcher.restore_key("action/a1")
    assert host.look()[0].mode is WB

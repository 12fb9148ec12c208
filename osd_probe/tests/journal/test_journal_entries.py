"""What a journal entry says: of which cluster it is, and how its drives are found again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from mgr_fakes import builders as make
from sim_drives import MemoryJournal, Probe
from wcache.core.drive import journal
from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry
from wcache.core.errors import StorageError
from wcache.core.option_value import OptionValue
from wcache_probe.switcher import Switcher, read_journal

STORED = Path(__file__).parents[3] / "qa" / "stored_v1"


@pytest.mark.parametrize("name", ["lease", "applied"])
def test_an_entry_of_version_1_is_taken_with_the_new_fields_empty(name):
    ((key, text),) = json.loads((STORED / f"{name}.json").read_text())["journal"].items()
    assert '"version":1' in text
    entry = journal.parse(key, text)
    assert entry.key == key
    assert (entry.version, entry.cluster_fsid) == (JOURNAL_VERSION, "")
    (prior,) = entry.drives
    assert (prior.drive_id, prior.mode.value) == ("0x5000000000000001", "write back")
    assert (prior.wwid, prior.serial, prior.wwn) == ("", "", "")
    assert journal.parse(key, journal.encode(entry)) == entry


def test_an_entry_of_version_2_is_taken_without_a_serial():
    drive = make.drive("sda", 0, wwid="naa.5000")
    entry = JournalEntry(
        2, EntryKind.ACTION, "a1", drive.domain_id, journal.prior_of((drive,)), 1.0
    )
    plain = json.loads(journal.encode(entry))
    del plain["serial"]
    again = journal.parse(entry.key, json.dumps(plain))
    assert (again.version, again.serial) == (JOURNAL_VERSION, 0)


def test_the_later_entry_is_the_one_with_the_greater_serial_whatever_the_clock_said():
    drive = make.drive("sda", 0)

    def entry(serial, at_s):
        return JournalEntry(
            JOURNAL_VERSION, EntryKind.ACTION, "a", drive.domain_id, journal.prior_of((drive,)),
            at_s, serial=serial,
        )

    ordered = [entry(0, 5.0), entry(0, 9.0), entry(1, 7.0), entry(2, 3.0)]
    assert sorted(reversed(ordered), key=lambda item: item.order) == ordered


def test_an_entry_names_its_cluster_and_every_name_of_its_drives():
    drive = make.drive("sda", 0, wwid="naa.5000", serial="S1", wwn="0x5000")
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.LEASE, "l", drive.domain_id, journal.prior_of((drive,)), 1.0,
        cluster_fsid=make.CLUSTER_ID,
    )
    again = journal.parse(entry.key, journal.encode(entry))
    assert again.cluster_fsid == make.CLUSTER_ID
    (prior,) = again.drives
    assert (prior.wwid, prior.serial, prior.wwn) == ("naa.5000", "S1", "0x5000")


@pytest.mark.parametrize("values", [(), (OptionValue("scheduler", "none"),)])
def test_only_an_entry_of_options_has_a_version_that_a_probe_without_them_refuses(values):
    """After a package was rolled back a changed drive is pinned all the same, and goes back."""
    drive = make.drive("sda", 0, wwid="naa.5000")
    (prior,) = journal.prior_of((drive,))
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.ACTION, "a1", drive.domain_id,
        (replace(prior, options=values),), 1.0, serial=3,
    )
    text = journal.encode(entry)
    plain = json.loads(text)
    assert plain["version"] == (JOURNAL_VERSION if values else 3)
    assert ("options" in text) is bool(values)
    assert journal.parse(entry.key, text) == entry


def test_an_entry_of_a_version_to_come_is_refused_by_name():
    drive = make.drive("sda", 0)
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.LEASE, "l", drive.domain_id, journal.prior_of((drive,)), 1.0
    )
    later = JOURNAL_VERSION + 1
    plain = {**json.loads(journal.encode(entry)), "version": later, "drives": "of another shape"}
    with pytest.raises(StorageError, match=f"version {later}"):
        journal.parse(entry.key, json.dumps(plain))


@pytest.mark.parametrize("name", ["action/a2", "lease/domain-sda", "lease/another"])
def test_an_entry_under_the_name_of_another_one_is_damaged_and_nothing_goes_by_it(name):
    """A file that was copied or renamed: what it says is not of what its name says."""
    drive = make.drive("sda", 0)
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.ACTION, "a1", drive.domain_id, journal.prior_of((drive,)), 1.0
    )
    kept = MemoryJournal({name: journal.encode(entry)})
    sound, damaged = read_journal(kept)
    assert sound == {}
    assert "it is that of action/a1" in damaged[name]
    with pytest.raises(StorageError, match="damaged"):
        Switcher(Probe().host, kept).restore_key(name)
    assert list(kept.entries) == [name]

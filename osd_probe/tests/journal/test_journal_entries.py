"""What a journal entry says: of which cluster it is, and how its drives are found again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from sim_drives import MemoryJournal, Probe
from wcache.core.drive import journal
from wcache.core.drive.journal import (
    JOURNAL_VERSION,
    EntryKind,
    FrozenDrive,
    FrozenEntry,
    JournalEntry,
)
from wcache.core.errors import MalformedError, StorageError
from wcache.core.hardware import OptionValue
from wcache.core.model import CacheMode, CachePage, Transport
from wcache_probe.switcher import Switcher, read_journal


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


def test_an_entry_of_a_version_to_come_is_refused_by_name():
    drive = make.drive("sda", 0)
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.LEASE, "l", drive.domain_id, journal.prior_of((drive,)), 1.0
    )
    later = JOURNAL_VERSION + 1
    plain = {**json.loads(journal.encode(entry)), "version": later, "drives": "of another shape"}
    with pytest.raises(StorageError, match=f"version {later}"):
        journal.parse(entry.key, json.dumps(plain))


# As an entry of version 5 is on disk: what stands here is read by every later probe.
ON_DISK = {
    "version": 5, "kind": "action", "owner_id": "p1.0.ab", "domain_id": "0x5000c500a",
    "drives": [{
        "drive_id": "0x5000c500a", "dev_name": "sda", "transport": "sas", "mode": "write back",
        "state": {"page": {"saved": "write through"}}, "wwid": "naa.5000c500a", "serial": "S1",
        "wwn": "0x5000c500a", "options": [{"name": "scheduler", "value": "none"}],
    }],
}
FROZEN = FrozenEntry(EntryKind.ACTION, "p1.0.ab", "0x5000c500a", (FrozenDrive(
    "0x5000c500a", "sda", Transport.SAS, CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH,
    "naa.5000c500a", "S1", "0x5000c500a", (OptionValue("scheduler", "none"),),
),))


def test_the_frozen_part_is_read_whatever_number_an_entry_has_and_whatever_else_is_in_it():
    (drive,) = ON_DISK["drives"]
    state = {"page": {"saved": "write through", "more": []}, "device_cache": 7}
    later = {
        **ON_DISK, "version": 99, "of_later": {"a": 1}, "throwaway": "maybe",
        "drives": [{**drive, "state": state, "of_later": "b"}],
    }
    for plain in (ON_DISK, later):
        found = journal.frozen(json.dumps(plain))
        assert found == FROZEN
        assert found.key == "action/p1.0.ab"


def test_what_is_written_now_has_the_frozen_part():
    drive = make.drive("sda", 0, wwid="naa.5000", serial="S1", wwn="0x5000")
    page = CachePage(saved=CacheMode.WRITE_THROUGH)
    drive = replace(drive, state=replace(drive.state, page=page))
    (prior,) = journal.prior_of((drive,))
    prior = replace(prior, options=(OptionValue("scheduler", "none"),))
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.LEASE, "l", drive.domain_id, (prior,), 1.0, serial=3
    )
    found = journal.frozen(journal.encode(entry))
    assert found == FrozenEntry(EntryKind.LEASE, "l", drive.domain_id, (FrozenDrive(
        drive.drive_id, "sda", drive.transport, drive.mode, CacheMode.WRITE_THROUGH, "naa.5000",
        "S1", "0x5000", (OptionValue("scheduler", "none"),),
    ),))
    assert found.key == entry.key


@pytest.mark.parametrize("damage", [
    "", "[]", "{}", "{", json.dumps({**ON_DISK, "kind": "wish"}),
    json.dumps({**ON_DISK, "drives": "sda"}), json.dumps({**ON_DISK, "drives": [1]}),
    json.dumps({**ON_DISK, "domain_id": 7}),
    json.dumps({**ON_DISK, "owner_id": "x" * 2000}),
])
def test_an_entry_without_its_frozen_part_pins_nothing(damage):
    with pytest.raises(MalformedError):
        journal.frozen(damage)
    assert journal.to_pin(FROZEN.key, damage) is None


@pytest.mark.parametrize("options", [[], ON_DISK["drives"][0]["options"]])
def test_an_entry_of_an_unknown_number_is_told_as_an_error_pinned_and_stays(options):
    (drive,) = ON_DISK["drives"]
    text = json.dumps({**ON_DISK, "version": 99, "drives": [{**drive, "options": options}]})
    kept = MemoryJournal({FROZEN.key: text})
    sound, damaged = read_journal(kept)
    assert sound == {}
    assert "version 99" in damaged[FROZEN.key]
    assert named(journal.to_pin(FROZEN.key, text)) == ("0x5000c500a", [NAMES])
    switcher = Switcher(Probe().host, kept)
    with pytest.raises(StorageError, match="version 99"):
        switcher.restore_key(FROZEN.key)
    assert kept.entries == {FROZEN.key: text}


def test_an_entry_of_our_number_that_is_about_options_alone_needs_no_pin():
    plain = {**ON_DISK, "of_later": 1}
    assert journal.to_pin(FROZEN.key, json.dumps(plain)) is None
    (drive,) = ON_DISK["drives"]
    text = json.dumps({**plain, "drives": [{**drive, "options": []}]})
    assert named(journal.to_pin(FROZEN.key, text)) == ("0x5000c500a", [NAMES])
    assert journal.to_pin("action/another", text) is None


NAMES = ("0x5000c500a", "sda", Transport.SAS, "naa.5000c500a", "S1", "0x5000c500a")


def named(entry):
    """What a drive of an entry is found by, and its domain, which is locked for a pin."""
    return entry.domain_id, [
        (one.drive_id, one.dev_name, one.transport, one.wwid, one.serial, one.wwn)
        for one in entry.drives
    ]


@pytest.mark.parametrize("later", [
    {"kind": "wish"}, {"kind": None}, {"owner_id": "x" * 2000}, {"owner_id": 7}, {"version": 0},
    {"version": "6"},
])
@pytest.mark.parametrize("of_drive", [
    {}, {"mode": "write around"}, {"mode": None}, {"options": "none"}, {"of_later": [1]},
    {"options": [{"name": "scheduler", "value": ["none"]}]}, {"state": {"page": {"saved": "x"}}},
])
def test_words_of_a_later_version_keep_no_drive_from_being_pinned(later, of_drive):
    (drive,) = ON_DISK["drives"]
    text = json.dumps({**ON_DISK, "version": 99, **later, "drives": [{**drive, **of_drive}]})
    assert named(journal.to_pin("wish/of another key", text)) == ("0x5000c500a", [NAMES])


def test_a_drive_of_a_later_transport_is_found_by_its_names_and_so_are_those_beside_it():
    (drive,) = ON_DISK["drives"]
    drives = [
        {"drive_id": "0x1", "transport": ["fabric"]}, {**drive, "transport": "fabric"}, 7,
        {"dev_name": "sdc"}, {**drive, "drive_id": 7}, drive, {"drive_id": "0x2", "wwn": [2]},
    ]
    text = json.dumps({**ON_DISK, "version": 99, "drives": drives})
    unknown = Transport.UNKNOWN
    assert named(journal.to_pin(FROZEN.key, text)) == ("0x5000c500a", [
        ("0x1", "", unknown, "", "", ""), (*NAMES[:2], unknown, *NAMES[3:]), NAMES,
    ])


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

"""A pin that fails at the start is tried again, holds up nobody, and is told to the mgr."""

from __future__ import annotations

import json
import os

import pytest
from mgr_fakes import builders as make
from prepare_bench import Bank, host_of
from sim_drives import Clock, MemoryJournal
from wcache.core.drive import journal
from wcache.core.drive.journal import EntryKind, JournalEntry, prior_of
from wcache.core.errors import NotReadyError, StorageError
from wcache.core.model import FindingCode, Severity
from wcache_probe.journal.journal_words import journal_findings
from wcache_probe.linux.transports.scsi import PIN
from wcache_probe.linux.transports.sg_io import ScsiError, Sense
from wcache_probe.restoring.restorer import PAUSE_MAX_S, PINS_AT_ONCE, Pins
from wcache_probe.switcher import Switcher

FAILED = StorageError("the kernel view of sda did not become write back", "see its log")
HANGS = NotReadyError("restore process 7 still running after 6 s")


class Pinner:
    """Pins as it is told; `asked` are the keys of each call and how long it may take."""

    def __init__(self):
        self.results = {}
        self.late = {}
        self.asked = []

    def restore(self, keys, patience_s=None):
        self.asked.append((tuple(keys), patience_s))
        late, self.late = self.late, {}
        return {**late, **{key: self.results.get(key) for key in keys}}


class Start:
    """A probe that has just started, in virtual time, with changes of drives in its journal."""

    def __init__(self, *names):
        self.clock = Clock()
        self.pinner = Pinner()
        self.journal = MemoryJournal()
        self.said = []
        for name in names:
            drives = prior_of((make.drive(name, 0),))
            entry = JournalEntry(2, EntryKind.ACTION, name, f"domain-{name}", drives, 0.0)
            self.journal.write(entry.key, journal.encode(entry))
        self.switcher = Switcher(None, self.journal)
        self.pins = Pins(self.pinner, self.switcher.read_journal, self.said.append, self.clock)

    def fails(self, name, error=FAILED):
        self.pinner.results[f"action/{name}"] = error

    def begin(self):
        self.pins.pin(list(self.switcher.read_journal()[0]))

    def tries_s(self, name, seconds):
        """When this drive was tried again in so many seconds of turns, from the start on."""
        found, began_s = [], self.clock.now_s
        while self.clock.now_s < began_s + seconds:
            self.clock.now_s += 1.0
            before = len(self.pinner.asked)
            self.pins.look()
            if any(f"action/{name}" in keys for keys, _ in self.pinner.asked[before:]):
                found.append(self.clock.now_s - began_s)
        return found

    def findings(self):
        sound, _ = self.switcher.read_journal()
        return self.pins.findings({**sound, **self.switcher.unread()})


@pytest.mark.slow
def test_it_is_tried_again_after_pauses_that_grow_up_to_ten_minutes():
    start = Start("sda", "sdb")
    start.fails("sda")
    start.begin()
    tries_s = start.tries_s("sda", 7200.0)
    pauses_s = [later - sooner for sooner, later in zip([0.0, *tries_s], tries_s)]
    assert pauses_s == sorted(pauses_s)
    assert pauses_s[0] < 10.0
    assert max(pauses_s) == PAUSE_MAX_S
    assert start.tries_s("sdb", 100.0) == [], "it is pinned"
    assert len([line for line in start.said if "sda" in line]) == 1, "said once"


def test_until_it_takes_it_is_a_finding_of_the_host_and_then_it_is_none():
    start = Start("sda", "sdb")
    assert start.findings() == ()
    start.fails("sda")
    start.begin()
    (finding,) = start.findings()
    assert (finding.code, finding.severity) == (FindingCode.NOT_PINNED, Severity.ERROR)
    assert finding.subject == "sda"
    assert "did not become write back" in finding.detail
    start.fails("sda", None)
    assert len(start.tries_s("sda", 100.0)) == 1
    assert start.findings() == ()
    assert "pinned now" in start.said[-1]


def test_one_that_hangs_is_told_and_no_turn_of_the_loop_waits_for_it():
    start = Start("sda")
    start.fails("sda", HANGS)
    start.begin()
    (finding,) = start.findings()
    assert "has not answered" in finding.detail
    assert "6 s" not in finding.detail, "what changes each time is no news"
    start.tries_s("sda", 600.0)
    assert start.findings() == (finding,)
    assert {patience_s for _, patience_s in start.pinner.asked[1:]} == {0.0}
    start.pinner.late = {"action/sda": None}
    start.tries_s("sda", 1.0)
    assert start.findings() == ()


def test_a_turn_of_the_loop_starts_a_few_of_many():
    names = [f"sd{letter}" for letter in "abcdefghijkl"]
    start = Start(*names)
    for name in names:
        start.fails(name)
    start.begin()
    start.tries_s("sda", 60.0)
    later = start.pinner.asked[1:]
    assert max(len(keys) for keys, _ in later) == PINS_AT_ONCE
    assert {key for keys, _ in later for key in keys} == {f"action/{name}" for name in names}


def test_what_was_taken_back_or_given_up_is_neither_tried_nor_told_any_more():
    start = Start("sda")
    start.fails("sda")
    start.begin()
    start.journal.entries.clear()
    assert start.findings() == ()
    assert start.tries_s("sda", 100.0) == []


def test_one_whose_entry_is_damaged_is_tried_all_the_same():
    """Its drive is as it was; what the entry says is not needed to pin it again."""
    start = Start("sda", "sdb")
    start.fails("sda")
    start.begin()
    start.journal.write("action/sda", "{ half an entry")
    assert start.tries_s("sda", 100.0) != []
    start.fails("sda", None)
    start.tries_s("sda", 600.0)
    assert "pinned now" in start.said[-1]
    assert start.tries_s("sda", 600.0) == []


@pytest.mark.parametrize(("names", "subject"), [
    ({}, "sda"), ({"dev_name": ""}, "wwn-sda"),
])
def test_one_of_an_entry_of_another_version_is_told_too(names, subject):
    start = Start("sda")
    ((key, text),) = start.journal.read().items()
    drives = [{**one, **names} for one in json.loads(text)["drives"]]
    start.journal.write(key, of_another_version(text, drives=drives))
    start.fails("sda")
    start.pins.pin([key])
    (finding,) = start.findings()
    assert (finding.code, finding.subject) == (FindingCode.NOT_PINNED, subject)
    start.fails("sda", None)
    start.tries_s("sda", 100.0)
    assert start.findings() == ()


# ---- the child


def pinned(fake_host, name):
    (disk,) = (fake_host.root / "sys/block" / name / "device/scsi_disk").iterdir()
    return (disk / "cache_type").read_text() == PIN


class DeafBank(Bank):
    """Model drives of which one answers no command."""

    deaf = ""

    def command(self, device, cdb, **more):
        if device.name == self.deaf:
            raise ScsiError(f"{device.name} does not answer", Sense(4, 0x44, 0))
        return super().command(device, cdb, **more)


@pytest.fixture
def two(fake_host):
    """A host with two disks in one entry of its journal; and what pins them."""
    bank = DeafBank()
    host = host_of(fake_host, osds=("sda", "sdb"), bank=bank)
    entry = JournalEntry(2, EntryKind.ACTION, "a1", "d", prior_of(tuple(host.look())), 0.0)
    kept = MemoryJournal({entry.key: journal.encode(entry)})
    return bank, Switcher(host, kept)


def test_a_pin_that_the_kernel_does_not_take_is_an_error_and_the_others_are_pinned(
    fake_host, two
):
    _, switcher = two
    fake_host.set_view("sda", "write through")
    with pytest.raises(StorageError, match="kernel view of sda did not become write back"):
        switcher.hold_key("action/a1")
    assert pinned(fake_host, "sdb")


def test_a_disk_that_does_not_say_who_it_is_is_an_error_and_the_others_are_pinned(
    fake_host, two
):
    bank, switcher = two
    bank.deaf = "sda"
    with pytest.raises(StorageError, match="sda"):
        switcher.hold_key("action/a1")
    assert pinned(fake_host, "sdb")
    bank.deaf = ""
    switcher.hold_key("action/a1")
    assert pinned(fake_host, "sda")


def test_a_drive_that_is_not_here_needs_no_pin(fake_host, two):
    """It is pinned by its rule in the moment it appears."""
    _, switcher = two
    for folder in ("sys/block/sda", "sys/class/block/sda"):
        os.unlink(fake_host.root / folder)
    switcher.hold_key("action/a1")
    assert pinned(fake_host, "sdb")


def of_another_version(text, **changes):
    return json.dumps({**json.loads(text), "version": 99, "nobody": "knows it", **changes})


@pytest.mark.parametrize("changes", [
    {}, {"kind": "of another kind"}, {"owner_id": "of another key"},
])
@pytest.mark.parametrize("of_drive", [
    {}, {"options": [{"name": "scheduler", "value": "none"}]}, {"mode": "of later"},
    {"transport": "of later"},
])
def test_the_drives_of_an_entry_of_another_version_are_pinned_and_it_stays(
    fake_host, two, changes, of_drive
):
    _, switcher = two
    journal_of = switcher.journal
    ((key, text),) = journal_of.read().items()
    drives = [{**one, **of_drive} for one in json.loads(text)["drives"]]
    journal_of.entries[key] = other = of_another_version(text, drives=drives, **changes)
    sound, damaged = switcher.read_journal()
    assert (sound, list(damaged)) == ({}, [key])
    assert "version 99" in damaged[key]
    switcher.hold_key(key)
    assert pinned(fake_host, "sda")
    assert pinned(fake_host, "sdb")
    with pytest.raises(StorageError, match="version 99"):
        switcher.restore_key(key)
    assert journal_of.read() == {key: other}
    (finding,) = journal_findings(sound, damaged, None)
    assert (finding.code, finding.severity) == (FindingCode.RESTORE_FAILED, Severity.ERROR)


@pytest.mark.parametrize("changes", [
    {"drives": []}, {"drives": "none"}, {"drives": [{"dev_name": "sda"}]}, {"domain_id": 7},
])
def test_an_entry_that_names_no_drive_pins_none_and_says_so(fake_host, two, changes):
    _, switcher = two
    ((key, text),) = switcher.journal.read().items()
    switcher.journal.entries[key] = of_another_version(text, **changes)
    with pytest.raises(StorageError):
        switcher.hold_key(key)
    assert not pinned(fake_host, "sda")

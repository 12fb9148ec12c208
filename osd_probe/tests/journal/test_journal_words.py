"""What a mgr is told of a journal with more entries than a message has room for."""

import json
from dataclasses import replace

from sim_drives import FSID, OBEYS, Probe, hold
from wcache.core import across
from wcache.core.drive.journal import EntryKind
from wcache.core.host_report import NOTES_MAX
from wcache_probe.journal.journal_words import JournalBack, journal_notes
from wcache_probe.mgr_link import Identity

DAMAGED = "action/p0.0"


def full():
    """The entries of a journal by key, in its order: one lease among many changes."""
    probe = Probe()
    hold(probe)
    lease = probe.switcher.entry(EntryKind.LEASE, OBEYS)
    actions = [
        replace(lease, kind=EntryKind.ACTION, owner_id=f"p{n:04}.0", domain_id=f"d{n}")
        for n in range(NOTES_MAX + 1)
    ]
    return {entry.key: entry for entry in (*actions, lease)}


def test_leases_and_what_is_damaged_are_told_before_changes_in_their_order():
    entries = full()
    told = [note.key for note in journal_notes(entries, {DAMAGED: "broken"}, {})]
    assert told == [f"lease/{OBEYS}", DAMAGED, *[*entries][:NOTES_MAX - 2]]


def test_leases_and_what_goes_back_are_told_before_changes_to_a_mgr_of_another_protocol():
    keys = [*full()]
    wanted = keys[NOTES_MAX]
    back = JournalBack(lambda: keys, lambda asked: {})
    text = back.report([wanted], Identity("sim1", "probe", "start1", True, FSID))
    told = across.report_in(json.loads(text)).keys
    assert told == (f"lease/{OBEYS}", wanted, *keys[:across.KEYS_MAX - 2])


def test_a_change_that_is_asked_for_and_has_no_entry_is_told_as_such():
    """A full list does not say it, and whoever asks would wait for ever."""
    keys = [*full()]
    back = JournalBack(lambda: keys, lambda asked: {})
    text = back.report(["action/gone", keys[0]], Identity("sim1", "probe", "start1", True, FSID))
    assert across.report_in(json.loads(text)).failed == (
        ("action/gone", "its journal has no entry of it"),
    )
    brought = JournalBack(lambda: keys, lambda asked: {key: keys.remove(key) for key in asked})
    for _ in range(2):
        text = brought.report([wanted := "action/p0000.0"], Identity("s", "p", "i", True, FSID))
        report = across.report_in(json.loads(text))
        assert (report.restored, report.failed) == ((wanted,), ())

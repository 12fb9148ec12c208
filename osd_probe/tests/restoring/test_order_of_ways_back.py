"""Of two changes of a drive the later one is taken back first, also by hand."""

from __future__ import annotations

import os

import pytest
from prepare_bench import Bank, host_of
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache.core.errors import ConflictError
from wcache.core.model import CacheMode
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.switcher import Switcher

WT, WB = CacheMode.WRITE_THROUGH, CacheMode.WRITE_BACK


def test_an_older_change_is_refused_while_a_later_one_stands_which_is_named(fake_host):
    """The other way round what was there at first would be lost, and the drive end elsewhere."""
    host = host_of(fake_host, bank=Bank())
    os.makedirs(fake_host.root / "state", mode=0o700)
    journal = StateFolder(str(fake_host.root / "state"), str(fake_host.root / "run")).journal
    for number, (action_id, mode) in enumerate((("a1", WT), ("a2", WB))):
        (drive,) = host.look()
        entry = JournalEntry(
            2, EntryKind.ACTION, action_id, drive.domain_id, prior_of((drive,)), float(number)
        )
        journal.write(entry.key, encode(entry))
        host.pin(drive)
        host.set_cache(drive, mode)
    switcher = Switcher(host, journal)
    with pytest.raises(ConflictError, match="a2 has changed") as refused:
        switcher.restore_key("action/a1")
    assert "restore --action a2" in refused.value.advice
    switcher.restore_key("action/a2")
    assert host.look()[0].mode is WT
    switcher.restore_key("action/a1")
    assert host.look()[0].mode is WB
    assert journal.read() == {}

"""Run again, `prepare` takes the pin from no drive that is off: only `unprepare` may."""

from __future__ import annotations

import pytest
from prepare_bench import (
    WHERE,
    WWID,
    chosen,
    entry_of,
    host_of,
    options_of,
    prepare,
    preparer_of,
    turned_off,
)
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache.core.model import CacheMode
from wcache_probe.commands import prepare as command
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.udev_rule import line_of


@pytest.fixture
def host(fake_host):
    """Two prepared drives; the first is off, and wakes on."""
    host = host_of(fake_host, osds=("sda", "sdb"))
    prepare(fake_host, host)
    turned_off(host)
    return host


def rule(fake_host):
    return (fake_host.root / f"etc/{WHERE}").read_text()


def test_the_line_of_a_drive_that_is_off_stays_though_its_osd_is_stopped(fake_host, host):
    """In no journal, as `drive accept` leaves it."""
    (fake_host.root / "osd/osd.0/block").unlink()
    _, said = prepare(fake_host, host)
    assert WWID in rule(fake_host)
    assert "the cache of sda is off now and may come on by a reset" in said


def test_the_line_of_a_drive_that_is_off_stays_though_somebody_uses_it(fake_host, host):
    fake_host.write("proc/self/mountinfo", "29 1 8:0 / /srv rw - ext4 /dev/sda rw\n")
    _, said = prepare(fake_host, host)
    assert "left out" in said
    assert WWID in rule(fake_host)


def test_the_line_of_a_drive_that_is_on_goes_with_its_osd(fake_host, host):
    (drive, _) = host.look()
    host.set_cache(drive, CacheMode.WRITE_BACK)
    (fake_host.root / "osd/osd.0/block").unlink()
    prepare(fake_host, host)
    assert WWID not in rule(fake_host)


def test_the_line_of_a_drive_that_is_not_here_stays(fake_host, host):
    path = fake_host.root / f"etc/{WHERE}"
    path.write_text(rule(fake_host).replace("0000002", "0000009"))
    _, said = prepare(fake_host, host)
    assert "naa.5000c50000000009" in rule(fake_host)
    assert "its drive is not on this host now" in said


def test_no_line_stays_that_prepare_did_not_write(fake_host, host):
    path = fake_host.root / f"etc/{WHERE}"
    before = rule(fake_host)
    path.write_text(before + 'ACTION=="add", RUN+="/bin/sh"\n')
    prepare(fake_host, host)
    assert rule(fake_host) == before


def test_a_journal_in_another_folder_loses_no_pin_to_prepare(fake_host, host, monkeypatch):
    """The entry stands in folder A, and `prepare` is run with folder B."""
    (drive, _) = host.look()
    other = options_of(fake_host, "prepare", state="A")
    entry = JournalEntry(2, EntryKind.ACTION, "a1", drive.domain_id, prior_of((drive,)), 0.0)
    StateFolder(other.state_dir, other.run_dir).journal.write(entry.key, encode(entry))
    (fake_host.root / "osd/osd.0/block").unlink()
    assert command.prepare(options_of(fake_host, "prepare"), preparer_of(fake_host), host) == 0
    assert WWID in rule(fake_host)


def test_a_journalled_name_that_fits_two_drives_pins_neither(fake_host):
    host = host_of(fake_host, wwids=('t10.A"BCDE', "t10.AxBCDE"))
    found = chosen(host, entry_of(host.look()), journalled=host.look())
    assert found.lines == ()
    assert "would also match sdb" in found.left_out[0]


def test_a_journalled_drive_that_no_rule_can_name_keeps_no_other_from_its_rule(fake_host):
    host = host_of(fake_host, wwids=(WWID, "iqn.2001-05.com.x:disk"), osds=("sda", "sdb"))
    (_, sdb) = host.look()
    found = chosen(host, entry_of((sdb,)), journalled=(sdb,))
    assert found.lines == (line_of(WWID),)
    assert WWID in found.rule
    assert any(line.startswith("sdb: ") for line in found.left_out)

"""Restoring needs nothing but the drive itself: no other is asked, and its name may be another."""

from dataclasses import replace

import pytest
from model_drives import ModelNvme, ModelScsi
from sim_drives import MemoryJournal
from wcache.core.drive.journal import (
    JOURNAL_VERSION,
    EntryKind,
    JournalEntry,
    encode,
    parse,
    prior_of,
)
from wcache.core.errors import RefusedError, StorageError
from wcache.core.hardware import OptionValue
from wcache.core.model import CacheMode, DeviceCache
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.switcher import Switcher
from wcache_probe.switching import toggle

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH



@pytest.mark.parametrize("known_by", ["wwid", "serial", "the name it had"])
def test_eleven_disks_that_hang_do_not_hold_the_twelfth(shelf, known_by):
    drive = shelf.lease("sdl")
    shelf.sysfs("sdl", wwid=known_by == "wwid", serial=known_by == "serial")
    shelf.hang = set(shelf.models) - {"sdl"}
    switcher = shelf.switcher()
    switcher.restore(switcher.entry(EntryKind.LEASE, drive.domain_id))
    assert shelf.is_on("sdl")
    assert shelf.journal.entries == {}


def test_a_drive_is_found_by_its_wwid_under_another_name_and_the_stranger_is_not_touched(shelf):
    drive = shelf.lease("sda")
    shelf.models["sda"], shelf.models["sdb"] = shelf.models["sdb"], shelf.models["sda"]
    shelf.sysfs("sda")
    shelf.sysfs("sdb")
    stranger = shelf.models["sda"]
    stranger.current = stranger.page(False)
    shelf.hang = set(shelf.models) - {"sdb"}
    switcher = shelf.switcher()
    switcher.restore(switcher.entry(EntryKind.LEASE, drive.domain_id))
    assert shelf.is_on("sdb")
    assert not shelf.is_on("sda")


def test_a_stranger_under_the_name_of_a_drive_that_has_gone_is_not_touched(shelf):
    drive = shelf.lease("sda")
    stranger = ModelScsi(wce=False)
    stranger.naa = bytes.fromhex("5000c500000009ff")
    shelf.models["sda"] = stranger
    shelf.sysfs("sda", wwid=False, serial=False)
    switcher = shelf.switcher()
    with pytest.raises(StorageError, match="is not on this host"):
        switcher.restore(switcher.entry(EntryKind.LEASE, drive.domain_id))
    assert 0x55 not in stranger.log
    assert len(shelf.journal.entries) == 1


def test_no_cache_comes_on_in_a_drive_that_is_reached_over_two_paths_now(shelf):
    drive = shelf.lease("sda")
    shelf.models["sdb"] = shelf.models["sda"]
    shelf.sysfs("sdb")
    switcher = shelf.switcher()
    with pytest.raises(RefusedError, match="several paths now"):
        switcher.restore(switcher.entry(EntryKind.LEASE, drive.domain_id))
    assert not shelf.is_on("sda")


def test_all_drives_of_a_domain_come_back(fake_host):
    model = ModelNvme()
    for name, number in (("nvme0n1", "259:0"), ("nvme0n2", "259:1")):
        fake_host.nvme("nvme0", name, number)
    fake_host.osd(1, block="nvme0n1")
    host = fake_host.drive_host(switches=Switches(nvme=model))
    drives = host.look()
    assert len(drives) == 2
    journal = MemoryJournal()
    switcher = Switcher(host, journal)
    switcher.run(
        drives[0].domain_id,
        toggle.lease_set(
            drives, None, lease_id="L", mode=THROUGH, now_s=0.0, throwaway=False,
            consent_turn_on=False,
        ),
    )
    assert not model.on
    entry = parse(*next(iter(journal.entries.items())))
    found = host.prior(entry)
    assert sorted(d.dev_name for d in found) == ["nvme0n1", "nvme0n2"]
    assert all(d.state.device_cache is DeviceCache.WRITE_THROUGH for d in found)
    switcher.restore(entry)
    assert model.on
    assert journal.entries == {}


def off_namesake(shelf, off):
    """Have sdb take the WWN of sda, and another serial number: `off` is without its cache."""
    shelf.models["sdb"].naa = shelf.models["sda"].naa
    model = shelf.models[off]
    model.current = model.saved = model.page(False)
    for name in ("sda", "sdb"):
        shelf.sysfs(name)


@pytest.mark.parametrize("mode", [BACK, THROUGH])
@pytest.mark.parametrize(("meant", "other"), [("sda", "sdb"), ("sdb", "sda")])
def test_of_two_drives_of_one_wwn_the_one_of_the_entry_gets_its_mode_back(
    shelf, mode, meant, other
):
    off_namesake(shelf, meant if mode is BACK else other)
    (drive,) = [one for one in shelf.host.look() if one.dev_name == meant]
    prior = replace(prior_of((drive,))[0], drive_id=drive.wwn, mode=mode)
    prior = replace(prior, state=replace(prior.state, device_cache=DeviceCache(mode.value)))
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.ACTION, "p1.1", drive.domain_id, (prior,), 1.0
    )
    shelf.journal.entries[entry.key] = encode(entry)
    shelf.switcher().restore_key(entry.key)
    assert (shelf.is_on(meant), shelf.is_on(other)) == (mode is BACK, mode is BACK)
    assert 0x55 not in shelf.models[other].log
    assert shelf.journal.entries == {}


def test_an_entry_stays_where_only_a_namesake_of_its_drive_is_here(shelf):
    drive = shelf.lease("sda")
    shelf.models["sda"].serial = b"SERIAL77"
    shelf.sysfs("sda")
    switcher = shelf.switcher()
    with pytest.raises(StorageError, match="is not on this host"):
        switcher.restore(switcher.entry(EntryKind.LEASE, drive.domain_id))
    assert not shelf.is_on("sda")
    assert len(shelf.journal.entries) == 1


@pytest.mark.parametrize("gone", [False, True])
def test_an_entry_of_a_namesake_is_restored_with_the_other_and_without_it(shelf, gone):
    off_namesake(shelf, "sdb")
    (drive,) = [one for one in shelf.host.look() if one.dev_name == "sda"]
    assert drive.drive_id == f"{drive.wwn}:SERIAL00"
    depth = shelf.fake.root / "sys/class/block/sda/queue/nr_requests"
    depth.write_text("128\n")
    prior = replace(prior_of((drive,))[0], options=(OptionValue("nr_requests", "256"),))
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.ACTION, "p1.1", drive.domain_id, (prior,), 1.0
    )
    shelf.journal.entries[entry.key] = encode(entry)
    if gone:
        for folder in ("sys/block", "sys/class/block"):
            (shelf.fake.root / folder / "sdb").unlink()
    shelf.switcher().restore_key(entry.key)
    assert depth.read_text().strip() == "256"
    assert shelf.journal.entries == {}

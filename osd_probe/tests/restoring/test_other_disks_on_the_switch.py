"""Other disks on the switch: each is pinned, and no cache comes on over one that is not known."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from model_drives import ModelNvme, ModelScsi, designator, vpd
from shelf import Shelf
from sim_drives import MemoryJournal
from wcache.core.drive.journal import (
    JOURNAL_VERSION,
    EntryKind,
    JournalEntry,
    encode,
    prior_of,
)
from wcache.core.drive.prior import prior_from
from wcache.core.errors import RefusedError, StorageError
from wcache.core.model import CacheMode
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.sg_io import ScsiError, Sense
from wcache_probe.switcher import Switcher
from wcache_probe.switching import toggle

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH



@pytest.fixture
def pins(shelf):
    """The disks that were pinned."""
    found, pin = [], shelf.host.pin

    def pinned(drive):
        found.append(drive.dev_name)
        pin(drive)

    shelf.host.pin = pinned
    return found


@pytest.mark.parametrize("how", ["at the start", "at a restore"])
def test_every_path_is_pinned_before_anything_is_refused(shelf, pins, how):
    drive = shelf.lease("sda")
    del pins[:]
    shelf.models["sdb"] = shelf.models["sda"]
    shelf.sysfs("sdb")
    pin_as(shelf, drive, how)
    assert sorted(pins) == ["sda", "sdb"]


@pytest.mark.parametrize("how", ["at the start", "at a restore"])
def test_a_lun_that_came_later_is_pinned_before_anything_is_refused(shelf, pins, how):
    drive = shelf.lease("sda")
    del pins[:]
    shelf.fake.scsi_disk("sdz", "65:0", hctl="0:0:0:1", view="write through")
    shelf.models["sdz"] = ModelScsi()
    shelf.models["sdz"].naa = bytes.fromhex("5000c500000009fe")
    pin_as(shelf, drive, how, fails="sdz did not become write back")
    assert sorted(pins) == ["sda", "sdz"]


def test_a_path_that_does_not_answer_keeps_no_other_one_from_being_pinned(shelf, pins):
    drive = shelf.lease("sda")
    del pins[:]
    shelf.models["sdb"] = shelf.models["sda"]
    shelf.sysfs("sdb")
    command = shelf.command

    def dead_on_sda(device, cdb, **more):
        if device.name == "sda":
            raise StorageError("sda does not answer")
        return command(device, cdb, **more)

    shelf.command = dead_on_sda
    pin_as(shelf, drive, "at the start", fails="sda does not answer")
    assert pins == ["sdb"]


def pin_as(shelf, drive, how, fails=""):
    """Pin it, as a start or a restore does; at a start `fails` is told once all were tried."""
    switcher = shelf.switcher()
    entry = switcher.entry(EntryKind.LEASE, drive.domain_id)
    if how == "at the start":
        with pytest.raises(StorageError, match=fails) if fails else nullcontext():
            switcher.hold_key(entry.key)
        return
    with pytest.raises(RefusedError):
        switcher.restore(entry)


@pytest.mark.slow
@pytest.mark.parametrize("view", ["write through", "a word of a kernel to come"])
def test_a_lun_that_came_later_and_is_not_known_to_flush_keeps_the_cache_off(shelf, view):
    drive = shelf.lease("sda")
    shelf.fake.scsi_disk("sdz", "65:0", hctl="0:0:0:1", view=view)
    shelf.models["sdz"] = ModelScsi()
    shelf.models["sdz"].naa = bytes.fromhex("5000c500000009fe")
    switcher = shelf.switcher()
    entry = replace(switcher.entry(EntryKind.LEASE, drive.domain_id))
    with pytest.raises(RefusedError, match="sdz shares the cache"):
        switcher.restore(entry)
    assert not shelf.is_on("sda")


@pytest.mark.parametrize(("newcomer", "serial"), [
    ("sdb", b"SERIALXX"),
    ("sda", b"SERIALXX"),  # it has the kernel name that the drive of the entry had
    ("sdb", b"SERIAL00"),  # all LUNs of a target may say one unit serial number
])
def test_a_lun_that_came_later_is_no_drive_of_the_entry_by_a_name_that_it_shares(
    new_host, tmp_path, newcomer, serial
):
    before = Shelf(new_host((tmp_path / "one").resolve()), count=1)
    drive = before.lease("sda")
    after = Shelf(new_host((tmp_path / "two").resolve()), count=0)
    mine = "sdc" if newcomer == "sda" else "sda"
    later = ModelScsi(wce=False)
    later.naa, later.serial = bytes.fromhex("5000c500000009fe"), serial
    after.models.update({mine: before.models["sda"], newcomer: later})
    for lun, name in enumerate((mine, newcomer)):
        after.fake.scsi_disk(name, f"8:{32 + lun}", hctl=f"0:0:0:{lun}", view="write back")
        after.sysfs(name)
    after.fake.device("dm-0", "253:0", below=(newcomer,), dm_uuid="LVM-x", view="write through")
    after.journal.entries.update(before.journal.entries)
    switcher = after.switcher()
    with pytest.raises(RefusedError, match=f"{newcomer} shares the cache .* dm-0 does not flush"):
        switcher.restore(switcher.entry(EntryKind.LEASE, drive.domain_id))
    assert not after.is_on(mine)


def test_a_namespace_that_came_later_has_the_controllers_serial_number_and_is_looked_at(fake_host):
    model = ModelNvme()
    fake_host.nvme("nvme0", "nvme0n1", "259:0")
    fake_host.osd(1, block="nvme0n1")
    host = fake_host.drive_host(switches=Switches(nvme=model))
    (drive,) = drives = host.look()
    switcher = Switcher(host, MemoryJournal())
    switcher.run(drive.domain_id, toggle.lease_set(
        drives, None, lease_id="L", mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=False,
    ))
    fake_host.nvme("nvme0", "nvme0n2", "259:1")
    fake_host.set_view("nvme0n2", "write through")
    for name in ("nvme0n1", "nvme0n2"):
        fake_host.write(f"sys/class/block/{name}/device/serial", f"{drive.serial}\n")
    with pytest.raises(RefusedError, match="nvme0n2 shares the cache"):
        switcher.restore(switcher.entry(EntryKind.LEASE, drive.domain_id))
    assert not model.on


class Recorded(ModelScsi):
    """Remembers whether its cache was ever turned on."""

    was_on = False

    def mode_select(self, cdb, data_out, ten):
        found = super().mode_select(cdb, data_out, ten)
        self.was_on = self.was_on or self.current == self.page(True)
        return found


def test_to_save_write_back_again_turns_the_cache_on_over_no_drive_that_came_later(fake_host):
    shelf = Shelf(fake_host, count=1)
    model = shelf.models["sda"] = Recorded(savable=True)
    model.naa, model.serial = bytes.fromhex("5000c50000000100"), b"SERIAL00"
    model.current, model.saved = model.page(False), model.page(True)
    (drive,) = shelf.host.look()
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.ACTION, "p1.1", drive.domain_id, prior_of((drive,)), 1.0,
        persisted=True,
    )
    shelf.journal.entries[entry.key] = encode(entry)
    model.saved = model.page(False)  # what the plan made last
    fake_host.scsi_disk("sdz", "65:0", hctl="0:0:0:1", view="write back")
    fake_host.device("dm-0", "253:0", below=("sdz",), dm_uuid="LVM-x", view="write through")
    shelf.models["sdz"] = ModelScsi(wce=False)
    shelf.models["sdz"].naa = bytes.fromhex("5000c500000009fe")
    shelf.sysfs("sdz")
    with pytest.raises(RefusedError, match="sdz shares the cache"):
        shelf.switcher().restore_key(entry.key)
    assert not model.was_on
    assert list(shelf.journal.entries) == [entry.key]


class OfTarget(ModelScsi):
    """A LUN that names its target too, as SAS drives do."""

    def inquiry(self, cdb):
        if cdb[1] and cdb[2] == 0x83:
            target = designator(bytes.fromhex("5000c500000000ff"), association=2)
            return vpd(0x83, designator(self.naa) + target)
        return super().inquiry(cdb)


@pytest.mark.parametrize("how", ["taken offline", "aborts one page"])
def test_no_cache_comes_on_where_a_lun_on_its_switch_does_not_say_who_it_is(fake_host, how):
    shelf = Shelf(fake_host, count=0)
    for number, name in enumerate(("sda", "sdb")):
        model = shelf.models[name] = OfTarget(wce=False)
        model.naa = bytes.fromhex(f"5000c500000001{number:02x}")
        model.serial = f"SERIAL{number:02}".encode()
        fake_host.scsi_disk(name, f"8:{16 * number}", hctl=f"0:0:0:{number}", view="write back")
        shelf.sysfs(name)
        fake_host.osd(number, block=name)
    fake_host.device("dm-0", "253:0", below=("sdb",), dm_uuid="LVM-x", view="write through")
    command = shelf.command

    def dead(device, cdb, **more):
        if device.name == "sdb" and how == "taken offline":
            raise StorageError("sdb was not reached (host status 01h)")
        if device.name == "sdb" and tuple(cdb[:3]) == (0x12, 1, 0x83):
            raise ScsiError("sdb refuses SCSI command 12h", Sense(0xB, 0x44, 0))
        return command(device, cdb, **more)

    shelf.command = dead
    drive = next(one for one in shelf.host.look() if one.dev_name == "sda")
    assert "sdb, on the same cache switch, does not say who it is" in drive.toggle_refusal
    drives = shelf.host.domain(drive.domain_id)
    with pytest.raises(RefusedError, match="sdb, on the same cache switch"):
        shelf.switcher().run(drive.domain_id, toggle.apply(
            drives, action_id="p1", expected=drive.mode, mode=BACK, now_s=0.0, throwaway=False,
            consent_turn_on=True, persist=False, known=prior_from("", drive.domain_id, drives),
        ))
    assert not shelf.is_on("sda")


@pytest.mark.parametrize("stranger", ["sdb", "sdz"])
def test_no_cache_comes_on_where_another_disk_may_be_a_drive_of_the_entry_that_stays_off(
    fake_host, stranger
):
    shelf = Shelf(fake_host, count=0)
    for lun, name in enumerate(("sda", "sdc")):
        model = shelf.models[name] = ModelScsi(wce=name == "sda")
        model.naa, model.serial = bytes.fromhex(f"5000c500000001{lun:02x}"), b""
        fake_host.scsi_disk(name, f"8:{16 * lun}", hctl=f"0:0:0:{lun}", view="write back")
        shelf.sysfs(name, serial=False)
        fake_host.osd(lun, block=name)
    drives = shelf.host.look()
    switcher = shelf.switcher()
    switcher.run(drives[0].domain_id, toggle.lease_set(
        drives, None, lease_id="L", mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=True,
    ))
    shelf.models[stranger] = shelf.models["sdc"]
    fake_host.scsi_disk(stranger, "65:0", hctl="0:0:0:2", view="write back")
    fake_host.device("dm-0", "253:0", below=(stranger,), dm_uuid="LVM-x", view="write through")
    shelf.sysfs(stranger, serial=False)
    with pytest.raises(RefusedError, match="several paths now"):
        switcher.restore(switcher.entry(EntryKind.LEASE, drives[0].domain_id))
    assert not shelf.is_on("sda")

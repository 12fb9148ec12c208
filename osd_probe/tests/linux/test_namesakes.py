"""Disks of one name: another path to a drive, or another drive that must not be taken for it."""

import pytest
from model_drives import ModelAta, ModelScsi
from wcache.core.drive.safety import Safety, judge
from wcache.core.errors import NotFoundError, RefusedError
from wcache.core.model import DeviceCache
from wcache_probe.linux.persistence.udev_rule import pattern
from wcache_probe.linux.transports import sata
from wcache_probe.linux.transports.classify import Switches

WWID = "naa.5000c50000000001"
VIEWS = ("write back", "write through")


class Port:
    """A drive behind each disk, which knows what was sent to it."""

    def __init__(self, **drives):
        self.drives = drives

    def command(self, device, cdb, **more):
        return self.drives[device.name].command(device, cdb, **more)


def host_of(fake_host, *serials, used=("sda", "sdb"), views=VIEWS, wwid=WWID):
    drives = {}
    for i, serial in enumerate(serials):
        name = f"sd{'abcd'[i]}"
        fake_host.scsi_disk(name, f"8:{16 * i}", hctl=f"{i}:0:0:0", path=f"host{i}", view=views[i])
        fake_host.write(f"sys/devices/pci0/host{i}/target{i}:0:0/{i}:0:0:0/wwid", f"{wwid}\n")
        drives[name] = ModelScsi()
        drives[name].serial = serial
        if name in used:
            fake_host.osd(i, block=name)
    return fake_host.drive_host(switches=Switches(scsi=Port(**drives))), drives


def test_two_drives_of_one_wwn_are_both_shown_and_each_one_s_danger_is_told(fake_host):
    host, _ = host_of(fake_host, b"SER1", b"SER2")
    first, second = host.look()
    assert [judge(drive.state) for drive in (first, second)] == [Safety.SAFE, Safety.UNSAFE]
    assert first.drive_id != second.drive_id
    for drive, other in ((first, "sdb"), (second, "sda")):
        assert f"another disk has the same name ({other}, {WWID})" in drive.toggle_refusal


def test_neither_of_two_drives_of_one_wwn_is_changed_and_both_can_be_read(fake_host):
    host, drives = host_of(fake_host, b"SER1", b"SER2")
    for drive in host.look():
        assert host.state(drive).device_cache is DeviceCache.WRITE_BACK
    assert not any(0x55 in drive.log or 0x15 in drive.log for drive in drives.values())
    assert {one.drive_id for one in host.anew(host.look())} == {
        one.drive_id for one in host.look()
    }


@pytest.mark.parametrize(("serial", "refusal"), [
    (b"SER2", "another disk has the same name (sdb"),
    (b"SER1", "it is reached over several paths (sda, sdb)")])
def test_a_disk_that_no_osd_uses_counts_as_well(fake_host, serial, refusal):
    host, _ = host_of(fake_host, b"SER1", serial, used=("sda",), views=("write back",) * 2)
    (drive,) = host.look()
    assert refusal in drive.toggle_refusal


@pytest.mark.parametrize("views", [VIEWS, VIEWS[::-1]])
def test_of_several_paths_the_one_that_is_not_flushed_is_told(fake_host, views):
    host, _ = host_of(fake_host, b"SER1", b"SER1", views=views)
    (drive,) = host.look()
    assert judge(drive.state) is Safety.UNSAFE
    assert drive.dev_name == f"sd{'ab'[views.index('write through')]}"


def test_a_drive_whose_name_was_taken_by_another_is_not_found_by_it(fake_host):
    host, drives = host_of(fake_host, b"SER1", b"SER2")
    first, _ = host.look()
    drives["sda"].serial, drives["sda"].naa = b"SER3", bytes.fromhex("5000c50000000009")
    with pytest.raises(NotFoundError):
        host.state(first)


def test_a_wwn_of_zeros_is_no_name(fake_host):
    ata = ModelAta()
    raw = bytearray(ata.identify())
    raw[2 * 108 : 2 * 112] = bytes(8)
    raw[511] = -sum(raw[:511]) % 256
    assert sata.parse_identify(bytes(raw)).wwn == ""
    assert sata.parse_identify(ata.identify()).wwn == "naa.5000c50000000002"
    for zeros in ("naa.0000000000000000", "eui.0000000000000000"):
        with pytest.raises(RefusedError, match="zeros"):
            pattern(zeros)


def test_no_option_of_two_drives_of_one_wwn_is_changed_and_it_can_go_back(fake_host):
    host, _ = host_of(fake_host, b"SER1", b"SER2")
    for drive in host.look():
        depth = fake_host.root / f"sys/class/block/{drive.dev_name}/queue/nr_requests"
        depth.write_text("256\n")
        with pytest.raises(RefusedError, match="another disk has the same name"):
            host.set_option(drive, "nr_requests", "128")
        assert depth.read_text() == "256\n"
        host.set_option(drive, "nr_requests", "512", back=True)
        assert depth.read_text().strip() == "512"

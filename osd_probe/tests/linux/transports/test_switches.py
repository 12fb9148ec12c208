"""Each transport reads what the drive says, changes what it is told to, and nothing else."""

import pytest
from model_drives import ModelAta, ModelNvme, ModelScsi, vpd
from prepare_bench import Bank
from wcache.core.errors import (
    RefusedError,
    StorageError,
)
from wcache.core.model import CacheMode, CachePage, DeviceCache, FindingCode, Role, Transport
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.transports.nvme import NvmeSwitch
from wcache_probe.linux.transports.sata import SataSwitch
from wcache_probe.linux.transports.scsi import ScsiSwitch
from wcache_probe.linux.transports.sg_io import ScsiError, ScsiReply, Sense, SgIo

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


def scsi(fake_host, port, name="sda", number="8:0", **more):
    """A disk as the kernel shows one behind virtio-scsi, and its switch."""
    fake_host.scsi_disk(name, number, **more)
    switch = ScsiSwitch(port, set(), Transport.SCSI)
    return switch, by_name(fake_host.files, name)


@pytest.mark.parametrize("ten", [True, False])
def test_scsi_reads_all_four_page_controls(fake_host, ten):
    drive = ModelScsi(savable=True, ten=ten)
    drive.saved = drive.page(False)
    switch, device = scsi(fake_host, drive)
    reading = switch.read(device)
    assert reading.device_cache is DeviceCache.WRITE_BACK
    assert reading.page == CachePage(True, BACK, THROUGH)


@pytest.mark.parametrize("ten", [True, False])
def test_scsi_toggles_the_current_value_and_never_the_saved_one(fake_host, ten):
    drive = ModelScsi(savable=True, ten=ten)
    switch, device = scsi(fake_host, drive)
    switch.set_cache(device, THROUGH)
    assert switch.read(device).device_cache is DeviceCache.WRITE_THROUGH
    assert drive.current == drive.page(False)
    assert drive.saved == drive.page(True)
    drive.power_on()
    assert switch.read(device).device_cache is DeviceCache.WRITE_BACK


@pytest.mark.parametrize("drive", [ModelScsi(wce=False), ModelAta(enabled=False)])
def test_no_cache_comes_on_in_a_disk_that_was_replugged_since_the_pin(fake_host, drive):
    fake_host.scsi_disk("sda", "8:0", path="ata1/host0", driver="ahci")
    device = by_name(fake_host.files, "sda")
    kind = ScsiSwitch if isinstance(drive, ModelScsi) else SataSwitch
    switch = kind(drive, set(), Transport.SCSI)
    with pytest.raises(RefusedError):
        switch.set_cache(device, BACK)
    switch.pin(device)
    fake_host.replug_scsi("sda")
    with pytest.raises(RefusedError):
        switch.set_cache(device, BACK)
    assert switch.read(device).device_cache is DeviceCache.WRITE_THROUGH
    switch.set_cache(device, THROUGH)
    switch.pin(device)
    switch.set_cache(device, BACK)
    assert switch.read(device).device_cache is DeviceCache.WRITE_BACK


def test_scsi_saves_one_bit_and_leaves_the_current_value(fake_host):
    drive = ModelScsi(savable=True)
    switch, device = scsi(fake_host, drive)
    switch.pin(device)
    assert switch.save(device, THROUGH) is True
    assert (drive.current, drive.saved) == (drive.page(True), drive.page(False))


def test_scsi_calls_nothing_saved_that_the_drive_did_not_save(fake_host):
    class Forgets(ModelScsi):
        def mode_select(self, cdb, data, ten):
            saved = self.saved
            reply = super().mode_select(cdb, data, ten)
            self.saved = saved
            return reply

    drive = Forgets(savable=True)
    switch, device = scsi(fake_host, drive)
    switch.pin(device)
    with pytest.raises(StorageError, match="did not save write through"):
        switch.save(device, THROUGH)


def test_scsi_never_saves_what_somebody_else_set_for_now(fake_host):
    drive = ModelScsi(savable=True)
    drive.current = drive.page(True, retention=7)
    switch, device = scsi(fake_host, drive)
    with pytest.raises(RefusedError):
        switch.save(device, THROUGH)
    assert drive.saved == drive.page(True)


def test_a_drive_that_cannot_save_says_so(fake_host):
    switch, device = scsi(fake_host, ModelScsi())
    assert switch.save(device, THROUGH) is False


@pytest.mark.parametrize(
    "garbage", [b"", bytes(8), b"\xff" * 252, bytes((0, 20)) + bytes(26), bytes((0, 9)) * 40]
)
def test_a_mode_page_that_makes_no_sense_is_unknown_and_never_toggled(fake_host, garbage):
    drive = ModelScsi()
    drive.bad_mode_data = garbage
    switch, device = scsi(fake_host, drive)
    reading = switch.read(device)
    assert reading.device_cache is DeviceCache.UNKNOWN
    assert reading.refusal
    with pytest.raises(StorageError):
        switch.set_cache(device, THROUGH)
    assert 0x55 not in drive.log


def test_a_cache_that_cannot_be_changed_is_refused(fake_host):
    switch, device = scsi(fake_host, ModelScsi(changeable=False))
    assert "cannot be changed" in switch.read(device).refusal


def test_the_pin_is_known_only_where_it_was_set_and_only_while_it_holds(fake_host):
    switch, device = scsi(fake_host, ModelScsi())
    assert switch.pinned(device) is None
    switch.pin(device)
    cache_type = fake_host.root / "sys/class/block/sda/device/scsi_disk/0:0:0:0/cache_type"
    assert cache_type.read_text() == "temporary write back"
    assert switch.pinned(device) is True
    fake_host.set_view("sda", "write through")
    assert switch.pinned(device) is False


def test_a_pin_that_the_kernel_takes_and_does_not_hold_is_an_error(fake_host):
    switch, device = scsi(fake_host, ModelScsi(), view="write through")
    with pytest.raises(StorageError):
        switch.pin(device)


def test_luns_of_one_target_share_one_domain(fake_host):
    switch, device = scsi(fake_host, ModelScsi())
    fake_host.scsi_disk("sdb", "8:16", hctl="0:0:0:1")
    assert [one.name for one in switch.siblings(device)] == ["sda", "sdb"]
    fake_host.scsi_disk("sdc", "8:32", hctl="0:0:1:0")
    assert [one.name for one in switch.siblings(device)] == ["sda", "sdb"]


class Nameless(ModelScsi):
    """A LUN that has a serial number and no designator."""

    def inquiry(self, cdb):
        return vpd(0x83, b"") if cdb[1] and cdb[2] == 0x83 else super().inquiry(cdb)


@pytest.mark.parametrize("beside", ["a CD drive", "LUNs without a WWN"])
def test_what_else_is_on_a_target_takes_nothing_from_a_disk_that_says_who_it_is(fake_host, beside):
    drives = Bank()
    for lun, name in enumerate(("sda", "sdb")):
        drive = drives.drives[name] = ModelScsi() if beside == "a CD drive" else Nameless()
        drive.naa = bytes.fromhex(f"5000c500000001{lun:02x}")
        drive.serial = f"SERIAL{lun:02}".encode()
        fake_host.scsi_disk(name, f"8:{16 * lun}", hctl=f"0:0:0:{lun}")
        fake_host.osd(lun, block=name)
    if beside == "a CD drive":
        target = (fake_host.root / "sys/class/block/sda/device").resolve().parent
        cd = target / "0:0:0:7/block/sr0"
        cd.mkdir(parents=True)
        (cd / "dev").write_text("11:0\n")
    found = fake_host.drive_host(switches=Switches(scsi=drives)).look()
    assert [drive.dev_name for drive in found] == ["sda", "sdb"]
    assert len({drive.domain_id for drive in found}) == 1
    assert not any("cache switch" in drive.toggle_refusal for drive in found)


def sata(fake_host, drive):
    fake_host.scsi_disk("sda", "8:0", path="ata1/host0")
    return SataSwitch(drive, set()), by_name(fake_host.files, "sda")


def test_sata_reads_and_sets_by_identify_and_set_features(fake_host):
    drive = ModelAta()
    switch, device = sata(fake_host, drive)
    assert switch.read(device).device_cache is DeviceCache.WRITE_BACK
    switch.set_cache(device, THROUGH)
    assert switch.read(device).device_cache is DeviceCache.WRITE_THROUGH
    switch.pin(device)
    switch.set_cache(device, BACK)
    switch.flush(device)
    assert [entry for entry in drive.log if entry[0] != 0xEC] == [
        (0xEF, 0x82), (0xEF, 0x02), (0xEA, 0)
    ]
    assert switch.save(device, THROUGH) is False


@pytest.mark.parametrize("zoned", range(4))
def test_a_drive_that_shingles_by_itself_is_told_and_others_are_not(fake_host, zoned):
    drive = ModelAta()
    drive.zoned = zoned
    switch, device = sata(fake_host, drive)
    found = [finding.code for finding in switch.read(device).findings]
    assert found == ([FindingCode.SHINGLED] if zoned == 2 else [])
    disk = ModelScsi()
    disk.zoned = zoned
    fake_host.scsi_disk("sdb", "8:16")
    other = ScsiSwitch(disk, set(), Transport.SCSI)
    found = [item.code for item in other.read(by_name(fake_host.files, "sdb")).findings]
    assert found == ([FindingCode.SHINGLED] if zoned == 2 else [])


@pytest.mark.parametrize(("state", "cache"), [(2, "write back"), (3, "write through")])
def test_sct_overrules_what_identify_says_and_is_left_alone(fake_host, state, cache):
    drive = ModelAta(enabled=state == 3, sct_state=state)
    switch, device = sata(fake_host, drive)
    reading = switch.read(device)
    assert reading.device_cache.value == cache
    assert "SCT" in reading.refusal
    assert [finding.code for finding in reading.findings] == [FindingCode.FOREIGN_RULE]


def test_sct_that_leaves_the_cache_to_set_features_changes_nothing(fake_host):
    switch, device = sata(fake_host, ModelAta(sct_state=1))
    assert switch.read(device).refusal == ""


def test_identify_data_that_is_not_marked_valid_is_unknown(fake_host):
    switch, device = sata(fake_host, ModelAta(valid=False))
    assert switch.read(device).device_cache is DeviceCache.UNKNOWN


def test_a_sata_drive_without_a_cache_has_none(fake_host):
    switch, device = sata(fake_host, ModelAta(supported=False, enabled=False))
    assert switch.read(device).device_cache is DeviceCache.NONE


def nvme(fake_host, drive):
    fake_host.nvme("nvme0", "nvme0n1", "259:0")
    return NvmeSwitch(drive), by_name(fake_host.files, "nvme0n1")


def test_nvme_sets_the_feature_of_the_controller_without_saving(fake_host):
    drive = ModelNvme(savable=True)
    switch, device = nvme(fake_host, drive)
    assert switch.read(device).page == CachePage(True, BACK, BACK)
    switch.set_cache(device, THROUGH)
    assert (drive.on, drive.saved) == (False, True)
    assert switch.read(device).device_cache is DeviceCache.WRITE_THROUGH


def test_nvme_saves_where_it_can_and_the_current_value_stays(fake_host):
    drive = ModelNvme(savable=True)
    switch, device = nvme(fake_host, drive)
    assert switch.save(device, THROUGH) is True
    assert (drive.on, drive.saved) == (True, False)
    plain = ModelNvme()
    assert NvmeSwitch(plain).save(device, THROUGH) is False


def test_nvme_without_a_volatile_cache_has_none_and_a_hint_with_its_source(fake_host):
    switch, device = nvme(fake_host, ModelNvme(present=False))
    assert switch.read(device).device_cache is DeviceCache.NONE
    (hint,) = switch.identify(device).plp_hints
    assert hint.protected
    assert "VWC" in hint.source


def test_all_namespaces_of_a_controller_are_one_domain(fake_host):
    switch, device = nvme(fake_host, ModelNvme())
    fake_host.nvme("nvme0", "nvme0n2", "259:1")
    fake_host.nvme("nvme1", "nvme1n1", "259:2")
    assert [one.name for one in switch.siblings(device)] == ["nvme0n1", "nvme0n2"]
    second = by_name(fake_host.files, "nvme0n2")
    assert switch.identify(device).domain_id == switch.identify(second).domain_id
    assert switch.identify(device).drive_id != switch.identify(second).drive_id


@pytest.mark.parametrize(
    ("driver", "more", "transport", "refused"),
    [
        ("virtio_scsi", {}, Transport.SCSI, False),
        ("mpt3sas", {"path": "host0/port-0:0/end_device-0:0"}, Transport.SAS, False),
        ("mpt3sas", {}, Transport.RAID, True),
        ("megaraid_sas", {}, Transport.RAID, True),
        ("ahci", {"path": "ata1/host0", "vendor": "ATA"}, Transport.SATA, False),
        (
            "mpt3sas", {"path": "host0/port-0:0/end_device-0:0", "vendor": "ATA"},
            Transport.SATA_HBA, False,  # refused for each drive: see test_prove.py
        ),
        ("megaraid_sas", {"vendor": "ATA"}, Transport.SATA_HBA, False),
        ("iscsi_tcp", {}, Transport.UNKNOWN, True),
    ],
)
def test_a_transport_is_drive_protocol_and_host_driver(
    fake_host, driver, more, transport, refused
):
    fake_host.scsi_disk("sda", "8:0", driver=driver, **more)
    switch = Switches(scsi=ModelScsi()).of(by_name(fake_host.files, "sda"))
    assert switch.transport is transport
    assert bool(switch.refusal) is refused


def test_a_virtio_disk_is_shown_and_left_alone(fake_host):
    fake_host.disk("vda", "254:0")
    fake_host.osd(1, block="vda")
    host = fake_host.drive_host()
    (drive,) = host.look()
    assert (drive.transport, drive.mode) == (Transport.VIRTIO, None)
    with pytest.raises(RefusedError):
        host.set_cache(drive, THROUGH)


def host_with(fake_host, drive):
    fake_host.scsi_disk("sda", "8:0")
    fake_host.osd(1, block="sda")
    return fake_host.drive_host(switches=Switches(scsi=drive))


def test_a_drive_that_answers_nothing_is_shown_by_name_and_left_alone(fake_host):
    class Silent:
        def command(self, *args, **more):
            raise StorageError("sda was not reached")

    (drive,) = host_with(fake_host, Silent()).look()
    assert (drive.state.device_cache, drive.mode) == (DeviceCache.UNKNOWN, None)
    assert drive.toggle_refusal == "sda was not reached"


def test_flushes_that_the_kernel_drops_are_not_timed(fake_host):
    host = host_with(fake_host, ModelScsi(wce=False))
    (drive,) = host.look()
    fake_host.set_view("sda", "write through")
    with pytest.raises(RefusedError, match="sends no flush to sda"):
        host.time_flushes(drive, 1, Role.BLOCK, 1, 1.0, 1.0)


def test_a_saved_value_that_differs_is_a_finding(fake_host):
    model = ModelScsi(savable=True)
    model.current = model.page(False)
    (drive,) = host_with(fake_host, model).look()
    assert [finding.code for finding in drive.findings] == [FindingCode.SAVED_DIFFERS]


def test_unit_attention_is_retried_and_a_refusal_is_not(fake_host):
    fake_host.scsi_disk("sda", "8:0")
    device = by_name(fake_host.files, "sda")
    answers = [
        (2, ScsiReply(b"", Sense(6, 0x29, 0))), (2, ScsiReply(b"", Sense(6, 0x2A, 1))),
        (8, ScsiReply(b"")), (0, ScsiReply(b"ok")),
    ]
    port = SgIo(submit=lambda *args: answers.pop(0))
    assert port.command(device, b"\x00" * 6).data == b"ok"
    refusals = [(2, ScsiReply(b"", Sense(5, 0x24, 0))), (0, ScsiReply(b"never"))]
    with pytest.raises(ScsiError):
        SgIo(submit=lambda *args: refusals.pop(0)).command(device, b"\x00" * 6)
    assert len(refusals) == 1


def test_a_drive_that_says_unit_attention_for_ever_is_an_error(fake_host):
    fake_host.scsi_disk("sda", "8:0")
    port = SgIo(submit=lambda *args: (2, ScsiReply(b"", Sense(6, 0x29, 0))))
    with pytest.raises(ScsiError, match="6/29/00"):
        port.command(by_name(fake_host.files, "sda"), b"\x00" * 6)

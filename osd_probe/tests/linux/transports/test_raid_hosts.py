"""Disks behind a RAID driver: those that are passed on are drives, volumes are not."""

import pytest
from mgr_fakes import builders as make
from model_drives import ModelScsi
from wcache.core.drive.journal import JOURNAL_VERSION, EntryKind, JournalEntry, prior_of
from wcache.core.drive.safety import may_toggle
from wcache.core.errors import RefusedError
from wcache.core.model import CacheMode, Finding, FindingCode, Severity, Transport
from wcache_probe.linux.block.sysfs import by_name
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.switching.steps import ReadState
from wcache_probe.switching.toggle import lease_set, restore

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
DISK, VOLUME = "naa.5000c50000000001", "naa.600605b00000000100000000000000aa"
NEW, OLD = "6.1.0-56-amd64", "4.8.17-generic"
PASSED_ON, RAID = Transport.SAS_RAID, Transport.RAID


def behind(
    fake_host, driver, hctl, *, level=None, wwid=DISK, vendor="SEAGATE", vpd89=False, release=NEW,
    port=None,
):
    """The switches of a host with one such disk, which is sda."""
    fake_host.scsi_disk("sda", "8:0", driver=driver, hctl=hctl, vendor=vendor)
    device = fake_host.root / "sys/class/block/sda/device"
    (device / "wwid").write_text(f"{wwid}\n")
    if level is not None:
        (device / "raid_level").write_text(f"{level}\n")
    if vpd89:
        (device / "vpd_pg89").write_bytes(b"\0")
    return Switches(scsi=port or ModelScsi(), kernel_release=release)


def host_of(fake_host, switches):
    fake_host.osd(1, block="sda")
    return fake_host.drive_host(switches=switches)


@pytest.mark.parametrize(
    ("driver", "hctl", "shown", "transport"),
    [
        ("megaraid_sas", "0:0:4:0", {}, PASSED_ON),
        ("megaraid_sas", "0:1:4:0", {}, PASSED_ON),
        ("megaraid_sas", "0:2:0:0", {}, RAID),
        ("megaraid_sas", "0:3:0:0", {"vendor": "ATA"}, RAID),
        ("megaraid_sas", "0:0:4:0", {"wwid": VOLUME}, RAID),
        ("megaraid_sas", "0:0:4:0", {"wwid": "eui.0025385000000001"}, RAID),
        ("megaraid_sas", "0:0:4:0", {"vendor": "ATA"}, Transport.SATA_HBA),
        ("megaraid_sas", "0:0:4:0", {"vpd89": True}, Transport.SATA_HBA),
        ("hpsa", "0:0:4:0", {"level": "N/A"}, PASSED_ON),
        ("hpsa", "0:1:0:0", {"level": "RAID 1(+0)"}, RAID),
        ("hpsa", "0:0:4:0", {"level": "RAID UNKNOWN"}, RAID),
        ("hpsa", "0:0:4:0", {}, RAID),
        ("smartpqi", "0:0:4:0", {"level": "N/A"}, PASSED_ON),
        ("smartpqi", "0:1:0:0", {"level": "RAID-0"}, RAID),
        ("smartpqi", "0:1:0:0", {"level": "N/A"}, RAID),
        ("smartpqi", "0:3:0:0", {"level": "N/A", "vendor": "ATA"}, RAID),
        ("aacraid", "0:1:4:0", {"level": "JBOD"}, PASSED_ON),
        ("aacraid", "0:0:4:0", {"level": "JBOD"}, RAID),
        ("aacraid", "0:1:4:0", {"level": ""}, RAID),
        ("arcmsr", "0:0:0:0", {"level": "N/A"}, RAID),
        ("mpi3mr", "0:0:0:0", {}, RAID),
    ],
)
def test_a_disk_is_told_from_a_volume_by_what_its_driver_says(
    fake_host, driver, hctl, shown, transport
):
    switches = behind(fake_host, driver, hctl, **shown)
    switch = switches.of(by_name(fake_host.files, "sda"))
    assert switch.transport is transport
    assert bool(switch.refusal) is (transport is RAID)


@pytest.mark.parametrize(("driver", "hctl", "vendor"), [
    ("mpt3sas", "0:2:0:0", "NVMe"), ("mpt3sas", "0:2:0:0", "SAMSUNG"),
    ("mpi3mr", "0:2:3:0", "NVMe"), ("megaraid_sas", "0:0:276:0", "NVMe"),
    ("smartpqi", "0:0:4:0", "NVMe"),
])
def test_an_nvme_drive_that_looks_like_a_scsi_disk_is_called_one(fake_host, driver, hctl, vendor):
    switches = behind(
        fake_host, driver, hctl, vendor=vendor, wwid="eui.ace42e0000000001", level="N/A"
    )
    (drive,) = host_of(fake_host, switches).look()
    assert "an NVMe drive behind" in drive.toggle_refusal
    assert FindingCode.RAID_POLICY not in {item.code for item in drive.findings}


@pytest.mark.parametrize(("driver", "hctl", "vendor"), [
    ("mpt3sas", "0:1:0:0", "LSI"), ("mpi3mr", "0:2:0:0", "LSI"),
    ("megaraid_sas", "0:2:0:0", "DELL"),
])
def test_a_volume_is_not_called_an_nvme_drive(fake_host, driver, hctl, vendor):
    switches = behind(fake_host, driver, hctl, vendor=vendor, wwid=VOLUME)
    assert switches.of(by_name(fake_host.files, "sda")).transport is RAID


def test_a_sas_disk_that_is_passed_on_is_a_drive_like_others(fake_host):
    model = ModelScsi()
    host = host_of(fake_host, behind(fake_host, "megaraid_sas", "0:0:4:0", port=model))
    (drive,) = host.look()
    assert (drive.transport, drive.mode, drive.toggle_refusal) == (PASSED_ON, BACK, "")
    assert [finding.code for finding in drive.findings] == [FindingCode.FLUSH_UNPROVEN]
    host.pin(drive)
    host.set_cache(drive, THROUGH)
    assert model.current == model.page(False)


def test_a_volume_is_refused_and_told(fake_host):
    host = host_of(fake_host, behind(fake_host, "megaraid_sas", "0:2:0:0", wwid=VOLUME))
    (drive,) = host.look()
    assert drive.toggle_refusal == "a volume, whose cache and drives a RAID controller owns"
    assert [finding.code for finding in drive.findings] == [FindingCode.RAID_POLICY]


@pytest.mark.parametrize("release", [OLD, "3.10.0-1160.el7.x86_64", "custom"])
def test_a_kernel_that_may_swallow_flushes_of_megaraid_disks_is_refused(fake_host, release):
    switches = behind(fake_host, "megaraid_sas", "0:0:4:0", release=release)
    host = host_of(fake_host, switches)
    (drive,) = host.look()
    assert "before 4.9 answers flushes" in drive.toggle_refusal
    # what a journal names goes back all the same
    host.pin(drive)
    host.set_cache(drive, THROUGH)


def test_only_megaraid_kernels_are_doubted(fake_host):
    switches = behind(fake_host, "hpsa", "0:0:4:0", level="N/A", release=OLD)
    (drive,) = host_of(fake_host, switches).look()
    assert drive.toggle_refusal == ""


FINDINGS = (Finding(FindingCode.FLUSH_UNPROVEN, Severity.INFO, "sda", "not shown"),)
KNOWN = {"transport": PASSED_ON, "host_driver": "hpsa", "findings": FINDINGS}
OFF = make.drive("sda", 0, mode=THROUGH, **KNOWN)
ON = make.drive("sda", 0, mode=BACK, **KNOWN)


@pytest.mark.parametrize("experiment", [True, False])
def test_a_cache_behind_raid_firmware_that_is_found_off_is_never_turned_on(experiment):
    def asked(drive, mode):
        return may_toggle(
            [drive], mode, throwaway=False, consent_turn_on=True, experiment=experiment
        )

    assert "hpsa may not pass flushes on" in asked(OFF, BACK)
    assert asked(ON, THROUGH) is None


def test_a_lease_that_turned_it_off_turns_it_on_again():
    terms = {"lease_id": "l", "mode": BACK, "now_s": 0.0, "throwaway": False}
    with pytest.raises(RefusedError):
        next(lease_set((OFF,), None, consent_turn_on=True, **terms))
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.LEASE, "l", ON.domain_id, prior_of((ON,)), 0.0
    )
    assert isinstance(next(lease_set((OFF,), entry, consent_turn_on=False, **terms)), ReadState)


def test_a_change_that_turned_it_off_is_rolled_back():
    entry = JournalEntry(
        JOURNAL_VERSION, EntryKind.ACTION, "a1", ON.domain_id, prior_of((ON,)), 0.0
    )
    assert isinstance(next(restore(entry, (OFF,))), ReadState)

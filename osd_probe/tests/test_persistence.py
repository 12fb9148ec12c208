"""What we persist is kept, taken back whole, and can say nothing but what it was meant to."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_drives import ModelScsi
from wcache.core.errors import RefusedError, StorageError
from wcache.core.model import CacheMode
from wcache_probe.host import LinuxDriveHost
from wcache_probe.persistence.rule_folder import RuleFolder
from wcache_probe.persistence.udev_rule import UdevRule
from wcache_probe.transports.classify import Switches

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
WWID = "naa.5000c50000000001"
COMMAND = "/usr/bin/wcache-probe"


@pytest.fixture
def rules(tmp_path):
    (tmp_path / "rules.d").mkdir()
    return RuleFolder(str(tmp_path / "rules.d"), "/run/wcache", COMMAND)


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "rules.d").iterdir())


def test_a_rule_pins_first_and_leaves_the_rest_to_the_probe():
    pin, run = UdevRule(WWID, THROUGH, COMMAND, "/run/wcache").text().splitlines()[2:]
    assert pin == (
        f'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTRS{{wwid}}=="{WWID}", '
        'ATTR{cache_type}="temporary write back"'
    )
    assert run.endswith(
        f'RUN+="{COMMAND} appear --mode write-through --wwid {WWID} --run-dir /run/wcache %k"'
    )


FIELD = st.text(alphabet="a0._-/ \"'$%{}*?\n\\", max_size=12)


@given(FIELD, FIELD, FIELD)
def test_no_field_of_a_rule_can_break_out(wwid, command, marker):
    try:
        text = UdevRule(f"naa.{wwid}", THROUGH, f"/{command}", f"/{marker}").text()
    except RefusedError:
        return
    assert re.fullmatch(r"[A-Za-z0-9._/ :#%\"={},!+`\n-]*", text[text.index("\nACTION") :])
    assert text.count("\n") == 4
    assert text.count('"') == 18


@pytest.mark.parametrize(
    "wwid", ["", "naa.", 'naa.5000"; RUN+="x', "naa.50*0", "t10.ATA     DISK", "naa.5000\n5000"]
)
def test_a_wwid_that_udev_could_take_for_more_is_refused(rules, wwid):
    with pytest.raises(RefusedError):
        rules.write(wwid, THROUGH)


def test_a_rule_is_written_changed_and_removed_whole(rules, tmp_path):
    assert rules.mode(WWID) is None
    rules.write(WWID, THROUGH)
    assert (rules.mode(WWID), files(tmp_path)) == (THROUGH, [f"85-wcache-{WWID}.rules"])
    rules.write(WWID, BACK)
    assert (rules.mode(WWID), files(tmp_path)) == (BACK, [f"85-wcache-{WWID}.rules"])
    rules.remove(WWID)
    rules.remove(WWID)
    assert (rules.mode(WWID), files(tmp_path)) == (None, [])


def test_a_queued_event_finds_whether_its_rule_still_asks_for_its_mode(rules):
    assert not rules.says(WWID, THROUGH)
    rules.write(WWID, THROUGH)
    assert rules.says(WWID, THROUGH)
    assert not rules.says(WWID, BACK)
    rules.remove(WWID)
    assert not rules.says(WWID, THROUGH)


def test_a_rule_that_an_admin_changed_is_the_admins(rules, tmp_path):
    rules.write(WWID, THROUGH)
    path = tmp_path / "rules.d" / f"85-wcache-{WWID}.rules"
    path.write_text(path.read_text() + "# mine\n")
    assert rules.mode(WWID) is None
    rules.remove(WWID)
    with pytest.raises(StorageError):
        rules.write(WWID, BACK)
    assert path.read_text().endswith("# mine\n")


def test_without_the_probe_on_the_host_no_rule_is_written(tmp_path):
    (tmp_path / "rules.d").mkdir()
    with pytest.raises(RefusedError):
        RuleFolder(str(tmp_path / "rules.d"), "/run/wcache", "").write(WWID, THROUGH)
    assert files(tmp_path) == []


def host_with(fake_host, drive, rules, wwid=WWID):
    fake_host.scsi_disk("sda", "8:0")
    fake_host.write("sys/devices/pci0/host0/target0:0:0/0:0:0:0/wwid", f"{wwid}\n")
    fake_host.osd(1, block="sda")
    return LinuxDriveHost(
        files=fake_host.files, boot_pins=fake_host.boot_pins, osd_data_globs=[fake_host.osd_glob],
        switches=Switches(scsi=drive), rules=rules, find_foreign_rules=tuple,
    )


def test_a_drive_that_cannot_save_is_kept_by_a_rule_and_rollback_removes_it(
    fake_host, rules, tmp_path
):
    host = host_with(fake_host, ModelScsi(), rules)
    (drive,) = host.look()
    assert drive.state.page.saved is None
    host.save_cache(drive, THROUGH, None)
    assert host.state(drive).page.saved is THROUGH
    host.save_cache(drive, None, drive.state.page.saved)
    assert (host.state(drive).page.saved, files(tmp_path)) == (None, [])


def test_rollback_of_a_second_change_brings_the_first_rule_back(fake_host, rules):
    host = host_with(fake_host, ModelScsi(), rules)
    (drive,) = host.look()
    host.save_cache(drive, THROUGH, None)
    prior = host.state(drive).page.saved
    host.save_cache(drive, BACK, None)
    host.save_cache(drive, None, prior)
    assert rules.mode(WWID) is THROUGH


def test_a_drive_that_can_save_gets_no_rule(fake_host, rules, tmp_path):
    model = ModelScsi(savable=True)
    host = host_with(fake_host, model, rules)
    (drive,) = host.look()
    host.pin(drive)
    host.save_cache(drive, THROUGH, None)
    assert (model.saved, files(tmp_path)) == (model.page(False), [])
    host.save_cache(drive, None, BACK)
    assert (model.saved, model.current) == (model.page(True), model.page(True))


def test_two_disks_of_one_name_get_no_rule(fake_host, rules, tmp_path):
    host = host_with(fake_host, ModelScsi(), rules)
    fake_host.scsi_disk("sdb", "8:16", hctl="0:0:1:0")
    fake_host.write("sys/devices/pci0/host0/target0:0:1/0:0:1:0/wwid", f"{WWID}\n")
    drive = next(drive for drive in host.look() if drive.dev_name == "sda")
    with pytest.raises(RefusedError):
        host.save_cache(drive, THROUGH, None)
    assert files(tmp_path) == []

"""What we persist is kept, taken back whole, and can say nothing but what it was meant to."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_drives import ModelScsi
from wcache.core.errors import RefusedError, StorageError
from wcache.core.model import CacheMode
from wcache_probe.arguments import parse
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.udev_rule import RuleFolder, drive_rule, pattern
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.switcher import Switcher
from wcache_probe.switching import toggle

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
    pin, run = drive_rule(WWID, THROUGH, COMMAND, "/run/wcache").splitlines()[2:]
    assert pin == (
        f'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTRS{{wwid}}=="{WWID}", '
        'ATTR{cache_type}="temporary write back"'
    )
    assert run.endswith(
        f'RUN+="{COMMAND} appear --mode write-through --wwid {WWID} --run-dir /run/wcache %k"'
    )


FIELD = st.text(alphabet="a0._-/ \"'$%{}*?\n\\", max_size=12)


@given(FIELD, FIELD, FIELD, FIELD)
def test_no_field_of_a_rule_can_break_out(wwid, command, marker, state):
    try:
        text = drive_rule(f"naa.{wwid}", THROUGH, f"/{command}", f"/{marker}", f"/{state}")
    except RefusedError:
        return
    assert re.fullmatch(r"[A-Za-z0-9._/ :?#%\"={},!+`\n-]*", text[text.index("\nACTION") :])
    assert text.count("\n") == 4
    assert text.count('"') == 18


@pytest.mark.parametrize(
    "wwid", ["", "naa.", "sda", "naa.5000\n5000", "t10.disk\u00e9", "naa." + "0" * 300]
)
def test_a_wwid_that_udev_could_take_for_more_is_refused(rules, wwid):
    with pytest.raises(RefusedError):
        rules.write(wwid, THROUGH)


def test_a_rule_names_a_state_folder_that_is_elsewhere(rules, tmp_path):
    elsewhere = RuleFolder(str(tmp_path / "rules.d"), "/run/wcache", COMMAND, "/srv/wcache")
    elsewhere.write(WWID, BACK)
    (path,) = (tmp_path / "rules.d").iterdir()
    assert path.read_text().endswith(' --run-dir /run/wcache --state-dir /srv/wcache %k"\n')
    rules.remove(WWID)
    assert files(tmp_path) == []  # it is ours, not moved aside


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


@pytest.mark.parametrize(
    "wwid",
    ["t10.ATA     QEMU HARDDISK                           QM00001", 't10.A"B  $C%D|E', WWID],
)
def test_a_name_with_blanks_and_signs_is_matched_and_comes_back_as_it_was(
    rules, tmp_path, wwid
):
    rules.write(wwid, THROUGH)
    (name,) = files(tmp_path)
    assert re.fullmatch(r"85-wcache-[A-Za-z0-9._-]+\.rules", name)
    text = (tmp_path / "rules.d" / name).read_text()
    assert text.count(f'ATTRS{{wwid}}=="{pattern(wwid)}"') == 2
    words = re.search(r'RUN\+="(.*) %k"', text)[1].split()
    assert not set("$%'\\") & set("".join(words))
    assert parse([*words[1:], "sda"]).wwid == wwid
    assert rules.says(wwid, THROUGH)
    rules.remove(wwid)
    assert files(tmp_path) == []


def test_two_names_that_differ_in_a_blank_have_two_files(rules, tmp_path):
    rules.write("t10.ATA  DISK 1", THROUGH)
    rules.write("t10.ATA DISK  1", BACK)
    assert len(files(tmp_path)) == 2
    assert (rules.mode("t10.ATA  DISK 1"), rules.mode("t10.ATA DISK  1")) == (THROUGH, BACK)


def test_a_rule_is_known_after_the_probe_has_moved(rules, tmp_path):
    rules.write(WWID, THROUGH)
    for command in ("/opt/wcache/wcache-probe", ""):
        moved = RuleFolder(str(tmp_path / "rules.d"), "/run/elsewhere", command)
        assert moved.mode(WWID) is THROUGH
    moved.remove(WWID)
    assert files(tmp_path) == []


def test_a_rule_that_says_something_else_of_itself_is_known_and_removed(rules, tmp_path):
    rules.write(WWID, THROUGH)
    path = tmp_path / "rules.d" / f"85-wcache-{WWID}.rules"
    first, _, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, "# as another version words it\n", *rest]))
    assert rules.mode(WWID) is THROUGH
    assert rules.says(WWID, THROUGH)
    rules.remove(WWID)
    assert files(tmp_path) == []


@pytest.mark.parametrize("take", ["remove", "write"])
def test_a_rule_of_ours_that_was_changed_by_hand_is_kept_where_udev_does_not_read_it(
    rules, tmp_path, take
):
    rules.write(WWID, THROUGH)
    path = tmp_path / "rules.d" / f"85-wcache-{WWID}.rules"
    path.write_text(path.read_text() + 'KERNEL=="sdb", MODE="0600"\n')
    assert rules.mode(WWID) is THROUGH
    if take == "remove":
        rules.remove(WWID)
    else:
        rules.write(WWID, BACK)
    assert rules.mode(WWID) is (None if take == "remove" else BACK)
    kept = path.with_name(path.name + ".changed-by-hand")
    assert kept.read_text().endswith('MODE="0600"\n')


def test_a_file_in_its_place_that_is_not_ours_is_left_and_where_it_acts_said(rules, tmp_path):
    path = tmp_path / "rules.d" / f"85-wcache-{WWID}.rules"
    path.write_text("# mine\n")
    rules.remove(WWID)
    with pytest.raises(StorageError):
        rules.write(WWID, BACK)
    path.write_text("# mine\n" + drive_rule(WWID, THROUGH, COMMAND, "/run/wcache"))
    with pytest.raises(StorageError, match="not as wcache-probe wrote it"):
        rules.remove(WWID)
    assert path.exists()


def test_while_a_rule_stays_its_journal_entry_stays(fake_host, rules, tmp_path):
    host = host_with(fake_host, ModelScsi(), rules)
    (drive,) = host.look()
    state = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"))
    switcher = Switcher(host, state.journal)
    switcher.run(drive.domain_id, toggle.apply(
        (drive,), action_id="a1", expected=BACK, mode=THROUGH, now_s=0.0, throwaway=False,
        consent_turn_on=False, persist=True,
    ))
    path = tmp_path / "rules.d" / f"85-wcache-{WWID}.rules"
    text = path.read_text()
    path.write_text("# changed beyond recognition\n" + text)
    (entry,) = switcher.read_journal()[0].values()
    with pytest.raises(StorageError):
        switcher.restore(entry)
    assert list(switcher.read_journal()[0].values()) == [entry]
    path.write_text(text)
    switcher.restore(entry)
    assert (switcher.read_journal()[0], files(tmp_path)) == ({}, [])


def test_without_the_probe_on_the_host_no_rule_is_written(tmp_path):
    (tmp_path / "rules.d").mkdir()
    with pytest.raises(RefusedError):
        RuleFolder(str(tmp_path / "rules.d"), "/run/wcache", "").write(WWID, THROUGH)
    assert files(tmp_path) == []


def host_with(fake_host, drive, rules, wwid=WWID):
    fake_host.scsi_disk("sda", "8:0")
    fake_host.write("sys/devices/pci0/host0/target0:0:0/0:0:0:0/wwid", f"{wwid}\n")
    fake_host.osd(1, block="sda")
    return fake_host.drive_host(
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

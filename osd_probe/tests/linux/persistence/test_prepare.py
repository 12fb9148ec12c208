"""The boot rule names the drives of OSDs and no others, and every image must have it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prepare_bench import (
    BLANKS,
    TOOL,
    WHERE,
    WWID,
    Builder,
    chosen,
    entry_of,
    host_of,
    options_of,
    preparation,
    prepare,
    preparer_of,
    turned_off,
)
from wcache.core.drive.journal import encode
from wcache.core.errors import ConflictError, RefusedError, StorageError
from wcache.core.model import CacheMode, DeviceCache, FindingCode, Severity, Transport
from wcache_probe.commands.prepare import keep_lines, unprepare
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.persistence.images import files_in
from wcache_probe.linux.persistence.preparation import (
    Prepared,
    for_next_boot,
    told_once,
    with_next_boot,
)
from wcache_probe.linux.persistence.prepare import Chosen, choose
from wcache_probe.linux.persistence.udev_rule import (
    FILE_NAME,
    boot_rule,
    is_ours,
    line_of,
    lines_naming,
    matches,
    pattern,
)
from wcache_probe.switching.toggle import hold

# ---- the rule


def test_a_line_pins_one_disk_in_its_own_event_and_starts_no_program():
    assert line_of(WWID) == (
        'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", '
        f'ATTRS{{wwid}}=="{WWID}", '
        'ATTR{device/scsi_disk/*/cache_type}="temporary write back"'
    )
    assert FILE_NAME < "60-persistent-storage.rules" < "69-lvm.rules"
    assert is_ours(boot_rule(()))


def test_a_rule_of_others_that_writes_the_view_in_its_own_event_is_followed_by_a_pin():
    kept = line_of(BLANKS)
    lines = [
        line for line in boot_rule((WWID,), (kept,)).splitlines() if "scsi_disk\"" in line
    ]
    assert lines == [
        f'ACTION=="add", SUBSYSTEM=="scsi_disk", ATTRS{{wwid}}=="{wwid}", '
        "RUN+=\"/bin/sh -c 'echo temporary write back >/sys%p/cache_type'\""
        for wwid in (WWID, BLANKS)
    ]


def test_blanks_are_matched_as_they_are_and_what_udev_takes_for_more_as_any_character():
    assert pattern(BLANKS) == BLANKS
    assert pattern('t10.A"B\\C*D|E[F]G?H$I%J') == "t10.A?B?C?D?E?F?G?H?I?J"


@pytest.mark.parametrize(
    "wwid", ["", "naa.", "sda", "naa.5000\n5000", "t10.trailing ", "t10.ümlaut", "naa." + "0" * 300]
)
def test_a_drive_without_a_name_that_udev_can_match_is_refused(wwid):
    with pytest.raises(RefusedError):
        line_of(wwid)


@given(st.text(alphabet="a0 .\"'\\$%{}*?[]|,=\n\t", max_size=20))
def test_no_wwid_breaks_out_of_its_quotes_and_each_matches_itself(text):
    try:
        line = line_of(f"t10.{text}")
    except RefusedError:
        return
    assert line.count('"') == 10
    assert "\n" not in line
    assert matches(pattern(f"t10.{text}"), f"t10.{text}")


def test_only_the_drives_of_osds_are_named(fake_host):
    assert chosen(host_of(fake_host)) == Chosen((line_of(WWID),))


def test_a_sata_drive_is_named_as_kernels_before_5_11_and_since_name_it(fake_host):
    """scsi_vpd_lun_id() took its T10 designator, and takes the NAA one of the same page now."""
    host = host_of(fake_host, wwids=(BLANKS,))
    (drive,) = host.look()
    assert drive.wwn.startswith("naa.")
    (line,) = chosen(host).lines
    assert line == line_of(BLANKS, drive.wwn)
    for name in (BLANKS, drive.wwn):
        assert lines_naming(name, (line,))
    assert not lines_naming(f"{drive.wwn}0", (line,))
    for lines, refused in (((line_of(BLANKS),), True), ((line,), False)):
        pins = Prepared(frozenset(lines), proven=frozenset(lines))
        assert bool(for_next_boot(drive, pins)) is refused


def test_the_kernel_of_before_pins_a_drive_that_has_its_other_name_now(fake_host):
    host = host_of(fake_host, wwids=(BLANKS,))
    prepare(fake_host, host)
    drive = turned_off(host)
    before = chosen(host).lines
    fake_host.write("sys/devices/pci0/host0/target0:0:0/0:0:0:0/wwid", f"{drive.wwn}\n")
    for _ in range(2):
        found = keep_lines(preparation(fake_host), host, chosen(host))
        assert (found.lines, found.kept) == ((line_of(drive.wwn),), before)
        assert not host.look()[0].toggle_refusal
        host.set_cache(drive, CacheMode.WRITE_BACK)


def test_a_drive_that_may_not_be_pinned_is_not_named_as_its_entry_does(fake_host, monkeypatch):
    host = host_of(fake_host, wwids=(BLANKS,))
    (before,) = host.look()
    now = replace(before, wwid=before.wwn)
    monkeypatch.setattr("wcache_probe.linux.persistence.prepare.may_be_pinned", lambda drive: False)
    assert choose((now,), (now,), (entry_of((before,)),), [("sda", now.wwid)]).lines == ()


def test_a_drive_that_something_else_uses_too_is_not_named(fake_host):
    host = host_of(fake_host)
    fake_host.write("proc/self/mountinfo", "29 1 8:0 / /srv rw - ext4 /dev/sda rw\n")
    found = chosen(host)
    assert found.lines == ()
    assert "not an OSD" in found.left_out[0]


def test_a_drive_in_the_journal_stays_named_shared_or_gone(fake_host):
    host = host_of(fake_host)
    entry = entry_of(host.look())
    (fake_host.root / "osd/osd.0/block").unlink()
    assert chosen(host).lines == ()
    assert chosen(host, entry).lines == (line_of(WWID),)


def test_a_name_that_fits_two_drives_is_not_used(fake_host):
    host = host_of(fake_host, wwids=('t10.A"BCDE', "t10.AxBCDE"))
    found = chosen(host)
    assert found.lines == ()
    assert "sdb" in found.left_out[0]


def without_cache(drive):
    return replace(drive, state=replace(drive.state, device_cache=DeviceCache.NONE))


def test_a_drive_without_a_cache_is_not_named_and_not_missed(fake_host):
    host = host_of(fake_host, osds=("sda", "sdb"))
    drive, other = host.look()
    uncached = without_cache(drive)
    assert choose((uncached, other), (), (), host.disks()) == Chosen((line_of(other.wwid),))
    assert not with_next_boot(uncached, preparation(fake_host).look()).refusals
    assert FindingCode.NOT_PREPARED in [finding.code for finding in other.findings]


def test_a_drive_of_the_journal_stays_named_though_it_says_that_it_has_no_cache_now(fake_host):
    host = host_of(fake_host)
    entry, uncached = entry_of(host.look()), without_cache(host.look()[0])
    assert choose((uncached,), (uncached,), (entry,), host.disks()).lines == (line_of(WWID),)


def test_a_drive_with_a_serial_only_is_left_out_and_refused_by_name(fake_host):
    host = host_of(fake_host, wwids=("",))
    assert "no wwid" in chosen(host).left_out[0]
    assert "no wwid" in host.look()[0].toggle_refusal


def test_an_unprepared_drive_is_refused_with_the_command_and_a_finding(fake_host):
    host = host_of(fake_host)
    (drive,) = host.look()
    assert "`wcache-probe prepare` on this host" in drive.toggle_refusal
    assert FindingCode.NOT_PREPARED in [finding.code for finding in drive.findings]


def test_a_host_without_images_is_prepared_by_the_rule_alone(fake_host):
    host = host_of(fake_host)
    assert prepare(fake_host, host)[0] == 0
    (drive,) = host.look()
    assert (drive.toggle_refusal, drive.findings) == ("", ())
    before = os.stat(preparation(fake_host).rule_path).st_ino
    code, said = prepare(fake_host, host)
    assert (code, os.stat(preparation(fake_host).rule_path).st_ino) == (0, before)
    assert "up to date" in said


def test_a_new_drive_wants_prepare_again(fake_host):
    host = host_of(fake_host)
    prepare(fake_host, host)
    fake_host.osd(7, block="sdb")
    reports = {drive.dev_name: drive for drive in host.look()}
    assert not reports["sda"].toggle_refusal
    assert "prepare" in reports["sdb"].toggle_refusal


@pytest.mark.parametrize(
    "transport",
    [Transport.SCSI, Transport.SAS, Transport.SAS_RAID, Transport.SATA, Transport.SATA_HBA],
    ids=lambda transport: transport.value,
)
def test_a_drive_of_every_transport_that_is_pinned_is_named_and_refused_without(
    fake_host, transport
):
    host = host_of(fake_host)
    drive = replace(host.look()[0], transport=transport)
    assert choose((drive,), (), (), host.disks()).lines == (line_of(WWID),)
    (refused,) = for_next_boot(drive, preparation(fake_host).look())
    assert "`wcache-probe prepare`" in refused.text
    prepare(fake_host, host)
    assert for_next_boot(drive, preparation(fake_host).look()) == ()


def test_nvme_and_loop_devices_need_no_rule(fake_host):
    fake_host.nvme("nvme0", "nvme0n1", "259:0")
    fake_host.loop("loop0", "7:0")
    host = host_of(fake_host, wwids=(), osds=("nvme0n1", "loop0"))
    assert chosen(host) == Chosen(())
    assert not any("prepare" in drive.toggle_refusal for drive in host.look())


@pytest.mark.parametrize("change", ["# by hand\n", ""])
def test_a_rule_that_was_changed_or_removed_prepares_nothing(fake_host, change):
    host = host_of(fake_host)
    prepare(fake_host, host)
    path = preparation(fake_host).rule_path
    file = Path(path)
    file.write_text(file.read_text() + change if change else "")
    assert "prepare" in host.look()[0].toggle_refusal
    assert prepare(fake_host, host)[0] == 0
    assert host.look()[0].toggle_refusal == ""


def test_a_file_of_somebody_else_in_its_place_is_left_alone(fake_host):
    host = host_of(fake_host)
    path = fake_host.write(f"etc/{WHERE}", "# mine\n")
    with pytest.raises(StorageError):
        prepare(fake_host, host)
    assert path.read_text() == "# mine\n"
    assert "prepare" in host.look()[0].toggle_refusal


def test_a_damaged_record_prepares_nothing(fake_host):
    host = host_of(fake_host)
    prepare(fake_host, host)
    fake_host.write("state/prepared.json", '{"version": 1}')
    assert "prepare" in host.look()[0].toggle_refusal


# ---- the way back, and a start


def test_unprepare_takes_rule_record_and_the_images_copy_away(fake_host):
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1")
    prepare(fake_host, host, tool=TOOL, run_tool=builder)
    made = preparer_of(fake_host, find_tool=lambda: TOOL, run_tool=builder)
    assert made.remove_rule()
    assert made.clear_images() == 0
    assert files_in(str(fake_host.root / "boot/initrd.img-6.1"), WHERE) == ()
    assert not (fake_host.root / TOOL.conf_path).exists()
    assert "prepare" in host.look()[0].toggle_refusal
    assert not made.remove_rule()


@pytest.mark.parametrize("text", ["sound", "damaged"])
def test_unprepare_is_refused_while_the_journal_holds_anything(fake_host, text):
    host = host_of(fake_host)
    prepare(fake_host, host)
    options, made = options_of(fake_host, "unprepare"), preparer_of(fake_host)
    entry = entry_of(host.look())
    journal = StateFolder(options.state_dir, options.run_dir).journal
    journal.write(entry.key, encode(entry) if text == "sound" else "{")
    with pytest.raises(ConflictError, match="1 prior state"):
        unprepare(options, made, host)
    assert host.look()[0].toggle_refusal == ""
    journal.remove(entry.key)
    assert unprepare(options, made, host) == 0
    assert "prepare" in host.look()[0].toggle_refusal


def test_at_a_start_every_drive_is_pinned_that_can_be(fake_host):
    host = host_of(fake_host, osds=("sda", "sdb"))
    drives = host.look()
    program = hold(drives)
    step = next(program)
    assert step.drive == drives[0]
    step = program.throw(StorageError("it hangs"))
    assert step.drive == drives[1]
    with pytest.raises(StopIteration):
        program.send(None)


def test_a_report_tells_it_once_and_warns_where_the_journal_holds_such_a_drive(fake_host):
    drives = host_of(fake_host, osds=("sda", "sdb")).look()
    quiet, (finding,) = told_once(drives, set())
    assert [drive.findings for drive in quiet] == [(), ()]
    assert (finding.severity, finding.detail[:9]) == (Severity.INFO, "sda, sdb:")
    _, (finding,) = told_once(drives, {drives[1].domain_id})
    assert (finding.severity, finding.detail[:4]) == (Severity.WARNING, "sdb:")
    assert told_once(quiet, set()) == (quiet, ())

"""The boot rule names the drives of OSDs and no others, and every image must have it."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_drives import ModelScsi
from wcache.core.drive.journal import EntryKind, JournalEntry, encode, prior_of
from wcache.core.drive.toggle import hold
from wcache.core.errors import ConflictError, NotFoundError, RefusedError, StorageError
from wcache.core.model import FindingCode, Severity
from wcache_probe.arguments import parse
from wcache_probe.commands.prepare import unprepare
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.linux.host import LinuxDriveHost
from wcache_probe.linux.persistence.boot_rule import FILE_NAME, BootRule, is_ours, line_of
from wcache_probe.linux.persistence.cpio_image import files_in
from wcache_probe.linux.persistence.images import find_images
from wcache_probe.linux.persistence.initramfs import Tool, find_tool
from wcache_probe.linux.persistence.preparation import Preparation
from wcache_probe.linux.persistence.prepare import Chosen, Preparer, choose
from wcache_probe.linux.persistence.udev_match import matches, pattern
from wcache_probe.linux.transports.classify import Switches
from wcache_probe.linux.unprepared import told_once

WWID = "naa.5000c50000000001"
BLANKS = "t10.ATA     QEMU HARDDISK                           QM00001"
WHERE = f"udev/rules.d/{FILE_NAME}"


# ---- the rule


def test_a_line_pins_one_disk_in_its_own_event_and_starts_no_program():
    assert line_of(WWID) == (
        'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", '
        f'ATTRS{{wwid}}=="{WWID}", '
        'ATTR{device/scsi_disk/*/cache_type}="temporary write back"'
    )
    assert FILE_NAME < "60-persistent-storage.rules" < "69-lvm.rules"
    assert "RUN" not in BootRule((WWID, BLANKS)).text()
    assert is_ours(BootRule(()).text())


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


# ---- which drives


class Bank:
    """Model drives that differ, by the name of their disk."""

    def __init__(self):
        self.drives = {}

    def command(self, device, cdb, **more):
        if device.name not in self.drives:
            model = self.drives[device.name] = ModelScsi()
            model.naa = bytes.fromhex(f"5000c500000000{ord(device.name[2]):02x}")
        return self.drives[device.name].command(device, cdb, **more)


def host_of(fake_host, *, wwids=(WWID, "naa.5000c50000000002"), osds=("sda",), bank=None):
    """Disks with these names, the first of them under OSDs; not prepared."""
    for number, wwid in enumerate(wwids):
        name, hctl = f"sd{chr(97 + number)}", f"0:0:{number}:0"
        fake_host.scsi_disk(name, f"8:{16 * number}", hctl=hctl)
        fake_host.write(f"sys/devices/pci0/host0/target0:0:{number}/{hctl}/wwid", f"{wwid} \n")
    for number, name in enumerate(osds):
        fake_host.osd(number, block=name)
    return LinuxDriveHost(
        files=fake_host.files, osd_data_globs=[fake_host.osd_glob],
        switches=Switches(scsi=bank or Bank()), find_foreign_rules=tuple,
        boot_pins=preparation(fake_host).look,
    )


def preparation(fake_host):
    root = str(fake_host.root)
    return Preparation(root, os.path.join(root, "state"), fake_host.files.sys)


def chosen(host, *entries, journalled=()):
    return choose(host.look(), journalled, entries, host.disks())


def entry_of(drives):
    return JournalEntry(2, EntryKind.ACTION, "a1", "d", prior_of(drives), 0.0)


def test_only_the_drives_of_osds_are_named(fake_host):
    assert chosen(host_of(fake_host)) == Chosen((WWID,))


def test_a_drive_that_something_else_uses_too_is_not_named(fake_host):
    host = host_of(fake_host)
    fake_host.write("proc/self/mountinfo", "29 1 8:0 / /srv rw - ext4 /dev/sda rw\n")
    found = chosen(host)
    assert found.wwids == ()
    assert "not an OSD" in found.left_out[0]


def test_a_drive_in_the_journal_stays_named_shared_or_gone(fake_host):
    host = host_of(fake_host)
    entry = entry_of(host.look())
    (fake_host.root / "osd/osd.0/block").unlink()
    assert chosen(host).wwids == ()
    assert chosen(host, entry).wwids == (WWID,)


def test_a_name_that_fits_two_drives_is_not_used(fake_host):
    host = host_of(fake_host, wwids=('t10.A"BCDE', "t10.AxBCDE"))
    found = chosen(host)
    assert found.wwids == ()
    assert "sdb" in found.left_out[0]


def test_a_drive_with_a_serial_only_is_left_out_and_refused_by_name(fake_host):
    host = host_of(fake_host, wwids=("",))
    assert "no wwid" in chosen(host).left_out[0]
    assert "no wwid" in host.look()[0].toggle_refusal


# ---- what the probe makes of it


def prepare(fake_host, host, *, tool=None, run_tool=None):
    """Run it as the command does; what it said, and its exit code."""
    said = []
    made = Preparer(
        preparation(fake_host), said.append, find_tool=lambda: tool,
        run_tool=run_tool or (lambda tool: None), reload_udev=lambda: "",
    )
    made.check(image_elsewhere=False)
    return made.see_to_images(made.write_rule(chosen(host))), "\n".join(said)


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


# ---- images


def cpio(root, names):
    """An archive of these files of a folder, by cpio itself."""
    done = subprocess.run(
        ["cpio", "-o", "-H", "newc", "--quiet"], input="\n".join(names).encode(), cwd=root,
        stdout=subprocess.PIPE, check=True,
    )
    return done.stdout


class Builder:
    """What makes images as initramfs-tools does: microcode, then the root, compressed."""

    def __init__(self, fake_host, *names, compress=("gzip", "-c"), takes=True):
        self.root, self.names, self.compress = fake_host.root, names, compress
        self.takes, self.runs = takes, 0
        fake_host.write("image/kernel/microcode", "x" * 1001)
        fake_host.write("image/bin/sh", "y" * 100_001)
        for name in names:
            self.build(name)

    def __call__(self, tool):
        self.runs += 1
        rule = self.root / f"etc/{WHERE}"
        if self.takes and rule.exists():
            target = self.root / f"image/lib/{WHERE}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(rule.read_text())
        elif not rule.exists():
            (self.root / f"image/lib/{WHERE}").unlink(missing_ok=True)
        for name in self.names:
            self.build(name)

    def build(self, name):
        image = self.root / "image"
        files = [str(p.relative_to(image)) for p in sorted(image.rglob("*")) if p.is_file()]
        rest = cpio(image, [name for name in files if not name.startswith("kernel")])
        done = subprocess.run(
            self.compress, input=rest, stdout=subprocess.PIPE, check=True
        )
        path = self.root / "boot" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(cpio(image, ["kernel/microcode"]) + bytes(512) + done.stdout)


TOOL = Tool("a tool", ("a",), ("a", "b"), "etc/dracut.conf.d/59-wcache-pin.conf", "x\n")


@pytest.mark.parametrize(
    "compress", [("gzip", "-c"), ("xz", "-c", "--check=crc32"), ("bzip2", "-c"), ("cat",),
                 ("zstd", "-q", "-c")], ids=lambda words: words[0],
)
def test_every_image_is_made_anew_until_it_has_the_rule_and_then_left_alone(
    fake_host, compress
):
    host = host_of(fake_host)
    try:
        builder = Builder(fake_host, "initrd.img-6.1", "initrd.img-6.6", compress=compress)
    except FileNotFoundError:
        pytest.skip(f"there is no {compress[0]} here")
    code, said = prepare(fake_host, host, tool=TOOL, run_tool=builder)
    assert (code, builder.runs) == (0, 1), said
    assert (fake_host.root / TOOL.conf_path).read_text() == "x\n"
    assert host.look()[0].toggle_refusal == ""
    assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
    assert builder.runs == 1


def test_an_image_that_does_not_take_the_rule_leaves_the_host_unprepared(fake_host):
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1", takes=False)
    code, said = prepare(fake_host, host, tool=TOOL, run_tool=builder)
    assert code == 1
    assert "initrd.img-6.1 lacks the boot rule" in said
    assert "NOT prepared" in said
    assert "/boot/initrd.img-6.1" in host.look()[0].toggle_refusal


def test_without_a_tool_the_images_that_lack_it_are_named(fake_host):
    host = host_of(fake_host)
    Builder(fake_host, "initrd.img-6.1")
    code, said = prepare(fake_host, host)
    assert code == 1
    assert "neither initramfs-tools nor dracut nor mkinitcpio" in said


def test_an_image_made_since_wants_prepare_again_and_one_that_went_does_not(fake_host):
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1", "initrd.img-6.6")
    prepare(fake_host, host, tool=TOOL, run_tool=builder)
    (fake_host.root / "boot/initrd.img-6.6").unlink()
    assert host.look()[0].toggle_refusal == ""
    builder.build("initrd.img-6.9")
    assert "/boot/initrd.img-6.9" in host.look()[0].toggle_refusal
    assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
    assert (host.look()[0].toggle_refusal, builder.runs) == ("", 1)


def test_a_container_that_does_not_see_the_images_is_told_so(fake_host):
    host = host_of(fake_host)
    prepare(fake_host, host, tool=TOOL, run_tool=Builder(fake_host, "initrd.img-6.1"))
    (fake_host.root / "boot/initrd.img-6.1").unlink()
    assert "/boot" in host.look()[0].toggle_refusal


def test_a_kernel_that_was_given_an_image_from_elsewhere_needs_an_admins_word(fake_host):
    host = host_of(fake_host)
    data = fake_host.root / "sys/kernel/boot_params/data"
    data.parent.mkdir(parents=True)
    data.write_bytes(bytes(0x21C) + b"\x00\x10\x00\x00" + bytes(64))
    with pytest.raises(NotFoundError, match="not on it"):
        prepare(fake_host, host)
    assert not os.path.exists(preparation(fake_host).rule_path)
    made = Preparer(preparation(fake_host), lambda line: None, reload_udev=lambda: "")
    made.check(image_elsewhere=True)
    assert made.see_to_images(made.write_rule(chosen(host))) == 0
    assert host.look()[0].toggle_refusal == ""


def test_an_image_that_is_cut_off_or_none_at_all_counts_as_lacking_it(fake_host):
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1")
    prepare(fake_host, host, tool=TOOL, run_tool=builder)
    path = fake_host.root / "boot/initrd.img-6.1"
    for data in (path.read_bytes()[:-400], b"not an image", b"", b"\x1f\x8bxxxxxxxx"):
        path.write_bytes(data)
        with pytest.raises(StorageError):
            files_in(str(path), WHERE)
        code, said = prepare(fake_host, host)
        assert code == 1
        assert "cannot be looked into" in said


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_reader(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "image"
    for lead in (b"", b"070701", b"MZ", b"\x1f\x8b\x08", b"\x5d\x00\x00"):
        path.write_bytes(lead + data)
        with contextlib.suppress(StorageError):
            files_in(str(path), WHERE)


def test_a_unified_kernel_image_is_looked_into(fake_host, tmp_path):
    builder = Builder(fake_host, "initrd.img-6.1")
    fake_host.write(f"image/etc/{WHERE}", "the rule\n")
    builder.build("initrd.img-6.1")
    initrd = (fake_host.root / "boot/initrd.img-6.1").read_bytes()
    pe = bytearray(b"MZ" + bytes(58) + (64).to_bytes(4, "little"))
    pe += b"PE\0\0" + b"\x64\x86" + (1).to_bytes(2, "little") + bytes(12)
    pe += (0).to_bytes(2, "little") + bytes(2)
    section = b".initrd\0" + len(initrd).to_bytes(4, "little") + bytes(4)
    section += (len(initrd) + 7).to_bytes(4, "little") + (200).to_bytes(4, "little") + bytes(16)
    pe += section
    pe += bytes(200 - len(pe)) + initrd + bytes(7)
    path = fake_host.root / "boot/EFI/Linux/x.efi"
    path.parent.mkdir(parents=True)
    path.write_bytes(pe)
    assert files_in(str(path), WHERE) == ("the rule\n",)
    assert "/boot/EFI/Linux/x.efi" in [i.path for i in find_images(str(fake_host.root))]


def test_images_of_kdump_and_backups_are_not_looked_at(fake_host):
    for name in ("initramfs-6.1kdump.img", "initrd.img-6.1.bak", "vmlinuz-6.1"):
        fake_host.write(f"boot/{name}", "x")
    fake_host.write("boot/initramfs-6.1.img", "x")
    found = find_images(str(fake_host.root))
    assert [image.path for image in found] == ["/boot/initramfs-6.1.img"]


@pytest.mark.parametrize(
    ("installed", "name"),
    [({"update-initramfs", "mkinitramfs", "dracut"}, "initramfs-tools"),
     ({"dracut", "update-initramfs"}, "dracut"), ({"mkinitcpio"}, "mkinitcpio"), (set(), None)],
)
def test_the_tool_that_makes_the_images_is_found(installed, name):
    tool = find_tool(lambda program: program if program in installed else None)
    assert (tool.name if tool else None) == name


# ---- the way back, and a start


def test_unprepare_takes_rule_record_and_the_images_copy_away(fake_host):
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1")
    prepare(fake_host, host, tool=TOOL, run_tool=builder)
    made = Preparer(
        preparation(fake_host), lambda line: None, find_tool=lambda: TOOL, run_tool=builder,
        reload_udev=lambda: "",
    )
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
    state, run = str(fake_host.root / "state"), str(fake_host.root / "run")
    os.chmod(state, 0o700)
    options = parse(["unprepare", "--state-dir", state, "--run-dir", run])
    made = Preparer(preparation(fake_host), lambda line: None, reload_udev=lambda: "")
    entry = entry_of(host.look())
    journal = StateFolder(state, run).journal
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

"""Prepared is what the next boot has: rule, image and journal, and not a copy of them in RAM."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from prepare_bench import TOOL, WHERE, Builder, chosen, host_of, preparation, prepare
from wcache.core.errors import NotFoundError, StorageError
from wcache.core.model import Transport
from wcache_probe.linux.persistence.boot_rule import NOTE_FILE, BootRule, note_of
from wcache_probe.linux.persistence.prepare import Preparer
from wcache_probe.linux.survey import unprepared

IMAGE = "boot/initrd.img-6.1"


def mounted(fake_host, point, kind):
    fake_host.write(
        "proc/self/mountinfo", f"29 1 0:9 / {fake_host.root}{point} rw - {kind} none rw\n"
    )


def given(fake_host, size):
    """A kernel that says that it was given so many bytes of initramfs."""
    data = bytearray(0x260)
    data[0x21C:0x220] = (size % 2**32).to_bytes(4, "little")
    data[0xC4:0xC8] = (size >> 32).to_bytes(4, "little")
    path = fake_host.root / "sys/kernel/boot_params/data"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def booted(fake_host, boot_id, *, size=None, noted=None):
    """The next boot: by an image of so many bytes, which had this rule, if any."""
    fake_host.write("proc/sys/kernel/random/boot_id", f"{boot_id}\n")
    note = f"E:{note_of(noted)}\n" if noted else ""
    fake_host.write(f"run/{NOTE_FILE}", f"I:123\n{note}")
    if size is not None:
        given(fake_host, size)


def rule(fake_host):
    return (fake_host.root / f"etc/{WHERE}").read_text()


def size_of(fake_host, name=IMAGE):
    return (fake_host.root / name).stat().st_size


@pytest.fixture
def host(fake_host):
    """A prepared host that was booted, it seems, by an image that is not its own."""
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1")
    booted(fake_host, "first", size=12_345_679)
    code, said = prepare(fake_host, host, tool=TOOL, run_tool=builder)
    assert code == 0
    assert "after its next boot it can" in said
    return host


def refusal(host):
    (drive,) = host.look()
    return drive.toggle_refusal


def refusal_of(host, name):
    return next(drive.toggle_refusal for drive in host.look() if drive.dev_name == name)


# ---- in RAM


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs"])
def test_a_rule_in_ram_prepares_nothing(fake_host, kind):
    host = host_of(fake_host)
    assert prepare(fake_host, host)[0] == 0
    assert refusal(host) == ""
    mounted(fake_host, "/etc", kind)
    assert f"etc/udev/rules.d is on {kind}" in refusal(host)
    with pytest.raises(NotFoundError, match="of which the next boot has nothing") as refused:
        prepare(fake_host, host)
    assert "--image-elsewhere" in refused.value.advice


@pytest.mark.parametrize(
    ("transport", "lost"),
    [(Transport.SCSI, True), (Transport.SATA, True), (Transport.NVME, True),
     (Transport.LOOP, False)],  # of a throwaway cluster, and gone at the next boot itself
)
def test_a_journal_in_ram_keeps_drives_of_every_transport_from_being_toggled(
    fake_host, transport, lost
):
    host = host_of(fake_host)
    assert prepare(fake_host, host)[0] == 0
    mounted(fake_host, "/state", "tmpfs")
    drive = replace(host.look()[0], transport=transport)
    said = unprepared(drive, preparation(fake_host).look())
    assert ("give the probe a --state-dir on a disk" in said) is lost
    assert "state is on tmpfs" in refusal(host)
    with pytest.raises(StorageError, match="state is on tmpfs"):
        prepare(fake_host, host)


# ---- which image it was booted by


def test_a_size_that_fits_nothing_refuses_no_host_before_its_next_boot(host):
    assert refusal(host) == ""


def test_an_image_that_leaves_no_note_at_the_next_boot_is_not_one_of_the_host(fake_host, host):
    booted(fake_host, "second")
    assert "not stored on it and lacks the rule" in refusal(host)
    with pytest.raises(NotFoundError, match="lacks the rule"):
        prepare(fake_host, host)
    # an admin's word is kept, over the boots after it and over what needs none
    made = Preparer(preparation(fake_host), lambda line: None, reload_udev=lambda: "")
    made.check_images(image_elsewhere=True)
    assert made.see_to_images(made.write_rule(chosen(host))) == 0
    assert refusal(host) == ""
    booted(fake_host, "third")
    assert refusal(host) == ""


def test_the_note_shows_that_the_image_had_the_rule_whatever_its_size(fake_host, host):
    booted(fake_host, "second", noted=rule(fake_host))
    assert refusal(host) == ""


def test_an_image_that_had_an_older_rule_is_not_one_of_the_host(fake_host, host):
    """One from the network, into which an admin had put the rule once."""
    booted(fake_host, "second", noted=BootRule(("naa.5000c50000000002",)).text())
    assert "lacks the rule" in refusal(host)


def test_a_drive_that_is_added_later_changes_the_rule_and_refuses_no_host(fake_host, host):
    booted(fake_host, "second", noted=rule(fake_host))
    fake_host.osd(1, block="sdb")
    before = rule(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1")
    assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
    assert rule(fake_host) != before
    assert [drive.toggle_refusal for drive in host.look()] == ["", ""]
    assert preparation(fake_host).record().image_elsewhere is False
    # the boot after that has to show it anew
    booted(fake_host, "third", noted=before)
    assert "lacks the rule" in refusal_of(host, "sda")
    booted(fake_host, "third", noted=rule(fake_host))
    assert [drive.toggle_refusal for drive in host.look()] == ["", ""]


def test_a_rule_that_was_changed_by_hand_is_written_anew_and_refuses_no_host(fake_host, host):
    booted(fake_host, "second", noted=rule(fake_host))
    fake_host.write(f"etc/{WHERE}", BootRule(("naa.5000c50000000002",)).text())
    builder = Builder(fake_host, "initrd.img-6.1")
    assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
    assert refusal(host) == ""


def test_running_prepare_again_does_not_make_the_boot_unknown_again(fake_host, host):
    assert prepare(fake_host, host)[0] == 0
    booted(fake_host, "second", noted=rule(fake_host))
    assert prepare(fake_host, host)[0] == 0
    booted(fake_host, "second")
    assert "lacks the rule" in refusal(host)


@pytest.mark.parametrize("more", [(), ("intel-ucode.img",), ("amd-uc.img", "early_ucode.cpio")])
def test_an_image_with_what_the_loader_joined_to_it_is_one_of_the_host(fake_host, host, more):
    total = size_of(fake_host)
    for at, name in enumerate(more):
        fake_host.write(f"boot/{name}", "m" * (1001 + at))
        total += -total % 4 + 1001 + at
    booted(fake_host, "second", size=total)
    assert refusal(host) == ""
    booted(fake_host, "second", size=total + 4)
    assert "lacks the rule" in refusal(host)


def test_two_images_that_the_loader_joined_are_of_the_host(fake_host, host):
    fake_host.write("boot/initrd.img-6.6", (fake_host.root / IMAGE).read_bytes().hex())
    sizes = [size_of(fake_host, name) for name in (IMAGE, "boot/initrd.img-6.6")]
    booted(fake_host, "second", size=sum(size + -size % 4 for size in sizes))
    assert "newer than the last check" in refusal(host)
    (fake_host.root / "boot/initrd.img-6.6").unlink()
    assert "lacks the rule" in refusal(host)


def test_a_size_beyond_four_gigabytes_is_read_whole(fake_host, host):
    booted(fake_host, "second", size=size_of(fake_host) + 2**32)
    assert "lacks the rule" in refusal(host)


def test_where_the_kernel_tells_no_size_the_note_alone_shows_it(fake_host):
    """Another architecture: no boot parameters of x86."""
    host = host_of(fake_host)
    fake_host.write("run/initramfs/fsck.log", "")
    booted(fake_host, "first")
    builder = Builder(fake_host, "initrd.img-6.1")
    assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
    booted(fake_host, "second")
    assert "lacks the rule" in refusal(host)
    booted(fake_host, "second", noted=rule(fake_host))
    assert refusal(host) == ""
    (fake_host.root / "run/initramfs/fsck.log").unlink()
    (fake_host.root / "run/initramfs").rmdir()
    booted(fake_host, "second")
    assert refusal(host) == "", "nothing says that there was an initramfs"


def test_nothing_is_concluded_where_udevs_database_is_not_to_be_seen(fake_host, host):
    booted(fake_host, "second")
    (fake_host.root / "run" / NOTE_FILE).unlink()
    (fake_host.root / "run/udev/data").rmdir()
    assert refusal(host) == ""


def test_nothing_is_concluded_from_a_record_of_an_older_version_or_its_rule(fake_host, host):
    path = fake_host.root / "state/prepared.json"
    record = json.loads(path.read_text())
    del record["boot_id"]
    path.write_text(json.dumps(record))
    booted(fake_host, "second")
    assert refusal(host) == ""
    old = "".join(
        f"{line}\n" for line in BootRule(("naa.5000c50000000001",)).text().splitlines()
        if "WCACHE" not in line
    )
    assert note_of(rule(fake_host))
    assert note_of(old) == ""


def test_a_root_from_the_network_may_have_its_image_from_there_too(fake_host):
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1")
    booted(fake_host, "first", size=12_345_679)
    mounted(fake_host, "", "nfs4")
    with pytest.raises(NotFoundError, match="root from the network"):
        prepare(fake_host, host, tool=TOOL, run_tool=builder)
    given(fake_host, size_of(fake_host))
    for _ in range(2):  # the image that was made anew has another size
        assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
        assert refusal(host) == ""
    assert preparation(fake_host).record().image_elsewhere is False


def test_the_rule_leaves_its_note_in_an_initramfs_alone_and_the_root_takes_it_along():
    text = BootRule(()).text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    name, _, value = note_of(text).partition("=")
    assert lines == [
        f'SUBSYSTEM=="mem", KERNEL=="null", IMPORT{{db}}="{name}"',
        'ACTION=="add", SUBSYSTEM=="mem", KERNEL=="null", TEST=="/init", '
        f'ENV{{{name}}}="{value}", OPTIONS+="db_persist"',
    ]
    assert NOTE_FILE == "udev/data/c1:3"
    assert note_of(BootRule(("naa.5000c50000000001",)).text()) != note_of(text)

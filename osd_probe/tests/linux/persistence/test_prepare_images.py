"""Every image that a host may boot must have the boot rule."""

import bz2
import contextlib
import gzip
import lzma
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prepare_bench import (
    TOOL,
    WHERE,
    Builder,
    booted,
    host_of,
    options_of,
    preparation,
    prepare,
    preparer_of,
)
from wcache.core.errors import NotFoundError, StorageError
from wcache_probe.commands import prepare as command
from wcache_probe.linux.persistence import images
from wcache_probe.linux.persistence.images import files_in, find_images, find_tool


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_image_with_the_rule_of_before_a_drive_was_added_lacks_it(fake_host):
    """Its rule does not name that drive, so the boot by it would not pin it."""
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1")
    assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
    fake_host.osd(1, block="sdb")
    code, said = prepare(fake_host, host)  # with no tool that could make it anew
    assert (code, "initrd.img-6.1 has an older boot rule" in said) == (1, True)
    assert "NOT prepared" in said
    assert all(drive.toggle_refusal for drive in host.look())
    assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
    assert [drive.toggle_refusal for drive in host.look()] == ["", ""]


def test_an_image_with_the_rule_and_an_older_one_beside_it_lacks_it(fake_host):
    """Which of the two its udev reads is that image's matter."""
    host = host_of(fake_host)
    builder = Builder(fake_host, "initrd.img-6.1")
    fake_host.write(f"image/etc/{WHERE}", "# an older one\n")
    builder.build("initrd.img-6.1")
    code, said = prepare(fake_host, host, tool=TOOL, run_tool=builder)
    assert (code, "has an older boot rule" in said) == (1, True)
    assert host.look()[0].toggle_refusal


def test_a_container_that_does_not_see_the_images_is_told_so(fake_host):
    host = host_of(fake_host)
    prepare(fake_host, host, tool=TOOL, run_tool=Builder(fake_host, "initrd.img-6.1"))
    (fake_host.root / "boot/initrd.img-6.1").unlink()
    assert "/boot" in host.look()[0].toggle_refusal


def boots_from_elsewhere(fake_host):
    booted(fake_host, "elsewhere", size=0x1000)


def test_a_kernel_that_was_given_an_image_from_elsewhere_needs_an_admins_word(fake_host):
    host = host_of(fake_host)
    boots_from_elsewhere(fake_host)
    with pytest.raises(NotFoundError, match="not stored on it"):
        prepare(fake_host, host)
    assert not os.path.exists(preparation(fake_host).rule_path)
    code, said = prepare(fake_host, host, image_elsewhere=True)
    assert code == 0
    assert f"put {preparation(fake_host).rule_path} into what it boots" in said
    assert "boots once, then measures" in host.look()[0].toggle_refusal


def test_a_host_that_boots_an_image_from_elsewhere_since_is_not_prepared_any_more(fake_host):
    """What `prepare` saw was a boot without an image, or with one that is gone."""
    host = host_of(fake_host)
    assert prepare(fake_host, host)[0] == 0
    assert host.look()[0].toggle_refusal == ""
    boots_from_elsewhere(fake_host)
    assert "image is not stored on it" in host.look()[0].toggle_refusal


def test_a_host_whose_drives_need_no_pin_is_prepared_wherever_its_image_is(fake_host, monkeypatch):
    host = host_of(fake_host, osds=())
    boots_from_elsewhere(fake_host)
    said = []
    made = preparer_of(fake_host, said.append)
    assert command.prepare(options_of(fake_host, "prepare"), made, host) == 0
    assert said == ["nothing to prepare: no drive of an OSD here needs a pin"]
    assert not os.path.exists(preparation(fake_host).rule_path)


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
        assert "cannot be read" in said


@given(st.binary(max_size=400))
def test_no_bytes_crash_the_reader(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "image"
    for lead in (b"", b"070701", b"MZ", b"\x1f\x8b\x08", b"\x5d\x00\x00"):
        path.write_bytes(lead + data)
        with contextlib.suppress(StorageError):
            files_in(str(path), WHERE)


@pytest.mark.slow
@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_an_image_that_unpacks_to_too_much_costs_little_and_is_named(
    tmp_path, monkeypatch, compress
):
    header = b"070701" + b"".join(
        b"%08x" % field for field in (0, 0, 0, 0, 0, 0, 32 << 20, 0, 0, 0, 0, 8, 0)
    )
    path = tmp_path / "initrd.img-6"
    path.write_bytes(compress(header + b"bin/big\0".ljust(10, b"\0") + bytes(32 << 20)))
    monkeypatch.setattr(images, "BYTES_MAX", 8 << 20)
    tracemalloc.start()
    try:
        with pytest.raises(StorageError, match=r"\(it holds more than 8 MiB\)$"):
            files_in(str(path), "etc/a.rules")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20  # xz has a dictionary of 8 MiB
    finally:
        tracemalloc.stop()


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

"""Prepared is proven by a boot: seen by the kernel's figures, else by the note of the rule.

A host whose way of booting cannot be told is one on which nothing is toggled before a boot has
left that note, whoever says what of its images.
"""

from __future__ import annotations

import gzip

import pytest
from prepare_bench import (
    TOOL,
    WHERE,
    Builder,
    booted,
    given,
    host_of,
    made_with,
    mounted,
    prepare,
)
from wcache.core.errors import NotFoundError
from wcache.core.model import Cure
from wcache_probe.linux.persistence.preparation import told_once
from wcache_probe.linux.persistence.udev_rule import NOTE_FILE, boot_rule, note_of

IMAGE = "boot/initrd.img-6.1"
OTHER = "naa.5000c50000000002"


def rule(fake_host):
    return (fake_host.root / f"etc/{WHERE}").read_text()


def size_of(fake_host, name=IMAGE):
    return (fake_host.root / name).stat().st_size


def refusal_of(host, name="sda"):
    return next(drive.toggle_refusal for drive in host.look() if drive.dev_name == name)


def waits(host, name="sda"):
    return refusal_of(host, name).startswith("boots once, then measures: ")


# ---- ways of booting that do not show which image it was


def built_in(fake_host):
    """A kernel with an initramfs inside: it was given none, and dracut ran."""
    fake_host.write("run/initramfs/log", "")


def built_in_and_nothing_left_of_it(fake_host):
    made_with(fake_host, 'CONFIG_BLK_DEV_INITRD=y\nCONFIG_INITRAMFS_SOURCE="/usr/share/i.cpio"\n')


def kernel_whose_options_are_not_known(fake_host):
    (fake_host.root / "boot/config-6.1.0").unlink()


def built_in_by_its_own_word(fake_host):
    text = b'CONFIG_INITRAMFS_SOURCE="a"\n'
    fake_host.write("proc/config.gz", "")
    (fake_host.root / "proc/config.gz").write_bytes(gzip.compress(text))


def other_processor(fake_host):
    (fake_host.root / "sys/kernel/boot_params/data").unlink()


def other_size(fake_host):
    Builder(fake_host, "initrd.img-6.1")
    given(fake_host, 12_345_679)


def with_its_own_image(fake_host):
    """As a host that boots as it seems to; what follows speaks against it."""
    Builder(fake_host, "initrd.img-6.1")
    fake_host.write("boot/vmlinuz-6.1", "kernel")
    given(fake_host, size_of(fake_host))


def root_from_the_network(fake_host):
    with_its_own_image(fake_host)
    mounted(fake_host, "", "nfs4")


# what is found beside its own image, and what its loader calls itself
FILES = {
    "unified image": ("sys/firmware/efi/efivars/StubInfo-4a67b082", "systemd-stub"),
    "unified image by its folder": ("run/systemd/stub/profile", ""),
    "GRUB from the network": (
        "proc/cmdline", "BOOT_IMAGE=(tftp,10.0.0.1)/vmlinuz-6.1 root=/dev/sdz1\n"
    ),
    "address by the loader": (
        "proc/cmdline", "BOOT_IMAGE=vmlinuz-6.1 BOOTIF=01-52-54-00-12-34-56\n"
    ),
    "kernel of elsewhere": (
        "proc/cmdline", "BOOT_IMAGE=/images/vmlinuz-rescue root=/dev/sdz1\n"
    ),
    "image of elsewhere": (
        "proc/cmdline", "initrd=\\EFI\\osd\\initrd.img-7 root=/dev/sdz1\n"
    ),
    "image put into memory": ("proc/cmdline", "initrdmem=0x1000,4096\n"),
    "copies of images": ("etc/kernel/proxmox-boot-uuids", "ABCD-0123\n"),
}
LOADERS = {"iPXE": 4, "PXELINUX": 3, "kexec": 0xD}


def beside_its_own_image(name):
    def way(fake_host):
        with_its_own_image(fake_host)
        if name in LOADERS:
            given(fake_host, size_of(fake_host), loader=LOADERS[name])
        else:
            fake_host.write(*FILES[name])

    way.__name__ = name
    return way


UNTOLD = [
    built_in, built_in_and_nothing_left_of_it, kernel_whose_options_are_not_known,
    built_in_by_its_own_word, other_processor, other_size, root_from_the_network,
    *map(beside_its_own_image, (*FILES, *LOADERS)),
]


def prepared(fake_host, way, **more):
    host = host_of(fake_host)
    way(fake_host)
    builder = Builder(fake_host, *(p.name for p in (fake_host.root / "boot").glob("initrd*")))
    code, said = prepare(fake_host, host, tool=TOOL, run_tool=builder, **more)
    return host, code, said


@pytest.mark.slow
@pytest.mark.parametrize("way", UNTOLD, ids=lambda way: way.__name__)
def test_where_the_boot_cannot_be_told_nothing_is_toggled_before_a_boot_left_the_note(
    fake_host, way
):
    host, code, said = prepared(fake_host, way)
    assert code == 0
    assert "boots once, then measures" in said
    assert "prepared: udev pins" not in said
    assert waits(host)
    # a trigger of udev, in this boot, is no boot
    booted(fake_host, "first", noted=rule(fake_host))
    assert waits(host)
    booted(fake_host, "second")
    assert "this boot left no note of the boot rule" in refusal_of(host)
    assert prepare(fake_host, host)[0] == 1
    booted(fake_host, "third", noted=boot_rule((OTHER,)))
    assert refusal_of(host) != ""
    booted(fake_host, "fourth", noted=rule(fake_host))
    assert refusal_of(host) == ""
    assert prepare(fake_host, host)[0] == 0
    assert refusal_of(host) == "", "running it again takes nothing back"


def test_an_admins_word_of_an_image_elsewhere_is_no_boot(fake_host):
    host = host_of(fake_host)
    given(fake_host, 4096)
    with pytest.raises(NotFoundError, match="not stored on it") as refused:
        prepare(fake_host, host)
    assert "once a boot has shown" in refused.value.advice
    assert prepare(fake_host, host, image_elsewhere=True)[0] == 0
    assert waits(host)
    booted(fake_host, "second")
    assert "left no note" in refusal_of(host)
    booted(fake_host, "third", noted=rule(fake_host))
    assert refusal_of(host) == ""


def test_the_report_says_that_such_a_host_boots_once_and_then_measures(fake_host):
    host, _, _ = prepared(fake_host, built_in)
    _, (finding,) = told_once(host.look(), set())
    assert (finding.cure, finding.detail[:30]) == (Cure.BOOT_ONCE, "sda: boots once, then measures")
    fake_host.osd(1, block="sdb")  # which the rule does not name: that wants a command
    _, (finding,) = told_once(host.look(), set())
    assert (finding.cure, "`wcache-probe prepare`" in finding.detail) == (Cure.GENERAL, True)


# ---- a boot that can be told


def test_a_kernel_that_was_given_an_image_of_the_host_prepares_it_before_and_after_a_boot(
    fake_host
):
    host, code, said = prepared(fake_host, with_its_own_image)
    assert (code, refusal_of(host)) == (0, "")
    assert "prepared: udev pins" in said
    fake_host.write("proc/cmdline", "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.1 root=/dev/sdz1 quiet\n")
    booted(fake_host, "second", size=size_of(fake_host))
    assert refusal_of(host) == ""
    booted(fake_host, "third", size=size_of(fake_host) + 4)
    assert "left no note" in refusal_of(host)
    booted(fake_host, "third", size=size_of(fake_host) + 2**32)
    assert "left no note" in refusal_of(host), "a size beyond four gigabytes is read whole"


@pytest.mark.slow
def test_what_was_seen_before_the_images_were_made_anew_counts_in_that_boot_alone(fake_host):
    host, _, _ = prepared(fake_host, with_its_own_image)
    fake_host.osd(1, block="sdb")
    builder = Builder(fake_host, "initrd.img-6.1")
    for _ in range(2):
        assert prepare(fake_host, host, tool=TOOL, run_tool=builder)[0] == 0
        assert [drive.toggle_refusal for drive in host.look()] == ["", ""]
    booted(fake_host, "second")  # still with the size of the image of before
    assert refusal_of(host) != ""


@pytest.mark.parametrize("more", [(), ("intel-ucode.img",), ("amd-uc.img", "early_ucode.cpio")])
def test_an_image_with_what_the_loader_joined_to_it_is_one_of_the_host(fake_host, more):
    host, _, _ = prepared(fake_host, with_its_own_image)
    total = size_of(fake_host)
    for at, name in enumerate(more):
        fake_host.write(f"boot/{name}", "m" * (1001 + at))
        total += -total % 4 + 1001 + at
    booted(fake_host, "second", size=total)
    assert refusal_of(host) == ""
    booted(fake_host, "second", size=total + 4)
    assert refusal_of(host) != ""


def test_two_images_that_the_loader_joined_are_of_the_host(fake_host):
    host, _, _ = prepared(fake_host, with_its_own_image)
    fake_host.write("boot/initrd.img-6.6", (fake_host.root / IMAGE).read_bytes().hex())
    sizes = [size_of(fake_host, name) for name in (IMAGE, "boot/initrd.img-6.6")]
    booted(fake_host, "second", size=sum(size + -size % 4 for size in sizes))
    assert "newer than the last check" in refusal_of(host)
    (fake_host.root / "boot/initrd.img-6.6").unlink()
    assert "left no note" in refusal_of(host)


def test_a_kernel_that_can_have_no_initramfs_needs_no_note(fake_host):
    host = host_of(fake_host)
    other_processor(fake_host)
    made_with(fake_host, "# CONFIG_BLK_DEV_INITRD is not set\n")
    code, said = prepare(fake_host, host)
    assert (code, refusal_of(host)) == (0, "")
    assert "without an initramfs image" in said


# ---- what a note speaks of


@pytest.mark.parametrize("replaced", ["boot/vmlinuz-6.1", "boot/flatcar/vmlinuz-b"])
def test_a_kernel_that_was_replaced_since_is_proven_by_its_own_boot(fake_host, replaced):
    fake_host.write("boot/vmlinuz-6.1", "kernel")
    host, _, _ = prepared(fake_host, built_in)
    booted(fake_host, "second", noted=rule(fake_host))
    assert refusal_of(host) == ""
    fake_host.write(replaced, "another kernel")
    assert "kernels in /boot are not those" in refusal_of(host)
    assert prepare(fake_host, host)[0] == 0
    assert waits(host), "this boot's note is that of the kernel before"
    booted(fake_host, "third", noted=rule(fake_host))
    assert refusal_of(host) == ""


@pytest.mark.slow
def test_a_drive_that_is_added_waits_for_a_boot_and_holds_up_no_other(fake_host):
    host, _, _ = prepared(fake_host, built_in)
    booted(fake_host, "second", noted=rule(fake_host))
    before = rule(fake_host)
    fake_host.osd(1, block="sdb")
    for _ in range(2):
        assert prepare(fake_host, host)[0] == 0
        assert rule(fake_host) != before
        assert refusal_of(host) == ""
        assert waits(host, "sdb")
    # an image that is made elsewhere may have the rule of before for long
    booted(fake_host, "third", noted=before)
    assert refusal_of(host) == ""
    assert "left no note of the boot rule as it is" in refusal_of(host, "sdb")
    booted(fake_host, "third")
    assert refusal_of(host) != ""
    booted(fake_host, "fourth", noted=rule(fake_host))
    assert [drive.toggle_refusal for drive in host.look()] == ["", ""]


def test_a_note_is_not_believed_where_it_cannot_be_told_when_it_was_left(fake_host):
    """The root has an /init as an initramfs has, so every trigger of udev leaves the note."""
    host = host_of(fake_host)
    built_in(fake_host)
    fake_host.write("init", "")
    code, said = prepare(fake_host, host)
    assert code == 1
    assert "/init" in said
    booted(fake_host, "second", noted=rule(fake_host))
    assert "no note tells when a rule ran" in refusal_of(host)
    # and a container does not see the host's root
    (fake_host.root / "init").unlink()
    assert "is not recorded" in refusal_of(host)


def test_a_probe_that_does_not_see_udevs_database_says_so(fake_host):
    host, _, _ = prepared(fake_host, built_in)
    booted(fake_host, "second")
    (fake_host.root / "run" / NOTE_FILE).unlink()
    (fake_host.root / "run/udev/data").rmdir()
    assert "needs /run/udev" in refusal_of(host)


def test_a_boot_that_the_kernel_does_not_name_proves_nothing(fake_host):
    host, _, _ = prepared(fake_host, built_in)
    booted(fake_host, "", noted=rule(fake_host))
    assert refusal_of(host) != ""


def test_a_rule_of_an_older_version_that_leaves_no_note_is_written_anew(fake_host):
    host, _, _ = prepared(fake_host, built_in)
    old = "".join(
        f"{line}\n" for line in rule(fake_host).splitlines() if "WCACHE" not in line
    )
    assert note_of(rule(fake_host))
    assert note_of(old) == ""
    fake_host.write(f"etc/{WHERE}", old)
    assert prepare(fake_host, host)[0] == 0
    assert waits(host)


def test_the_rule_leaves_its_note_in_an_initramfs_alone_and_the_root_takes_it_along():
    text = boot_rule(())
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    name, _, value = note_of(text).partition("=")
    assert lines == [
        f'SUBSYSTEM=="mem", KERNEL=="null", IMPORT{{db}}="{name}"',
        'ACTION=="add", SUBSYSTEM=="mem", KERNEL=="null", TEST=="/init", '
        f'ENV{{{name}}}="{value}", OPTIONS+="db_persist"',
    ]
    assert NOTE_FILE == "udev/data/c1:3"
    assert note_of(boot_rule(("naa.5000c50000000001",))) != note_of(text)

"""The root of a guest that boots as a host does: systemd, and an initramfs of its own making.

Its ``/boot`` is a folder of the host, which plays the boot loader: an image that the guest
rebuilds is the one that the next boot is from.
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Mapping

from .artefacts import (
    GUEST,
    BuildError,
    _run,
    cached,
    decompressed_kernel,
    install_host_packages,
)

SUITE = "bookworm"

# dracut-core is dracut without the package that takes update-initramfs away
PACKAGES = (
    "busybox",
    "cryptsetup",
    "cryptsetup-initramfs",
    "dracut-core",
    "initramfs-tools",
    "kmod",
    "linux-image-amd64",
    "lvm2",
    "lz4",
    "mount",
    "procps",
    "python3",
    "qemu-guest-agent",
    "sdparm",
    "sg3-utils",
    "systemd-sysv",
    "udev",
    "util-linux",
)

LEFT_OUT = (
    "/lib/modules/*/kernel/drivers/gpu/*",
    "/lib/modules/*/kernel/drivers/media/*",
    "/lib/modules/*/kernel/drivers/net/*",
    "/lib/modules/*/kernel/sound/*",
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
)

DRIVERS = ("virtio_pci", "virtio_blk", "ext4", "virtio_scsi", "ahci", "sd_mod", "sg")

# Debian's own choice is all drivers there are and zstd, which boots half a minute later here
SETTINGS = {
    "etc/initramfs-tools/conf.d/lab": "MODULES=list\nCOMPRESS=lz4\n",
    "etc/initramfs-tools/modules": "".join(f"{name}\n" for name in DRIVERS),
    "etc/dracut.conf.d/lab.conf": (
        'hostonly=no\nearly_microcode=no\ncompress=lz4\n'
        'dracutmodules=" base systemd systemd-initrd dracut-systemd udev-rules '
        'kernel-modules rootfs-block fs-lib dm lvm crypt "\n'
        f'drivers=" {" ".join(DRIVERS)} dm_mod dm_crypt "\n'
    ),
    # a machine that is busy takes longer than systemd's 90 s, and then boots into its emergency
    "etc/systemd/system.conf.d/lab.conf": (
        "[Manager]\nDefaultTimeoutStartSec=15min\nDefaultDeviceTimeoutSec=15min\n"
    ),
}

# what making an image anew leaves beside it
LEFTOVERS = (".bak", ".dpkg-bak", ".new")
ROOT_IMAGE_BYTES = 3 << 30


class Initramfs(Enum):
    """What the guest boots through."""

    LAB = "the lab's own"
    INITRAMFS_TOOLS = "initramfs-tools"
    DRACUT = "dracut"

    @property
    def rules_folder(self) -> str:
        """Where an image of it has the host's own udev rules."""
        return "etc/udev/rules.d" if self is Initramfs.DRACUT else "usr/lib/udev/rules.d"


@dataclass(frozen=True)
class BootingRoot:
    """Paths of the artefact; read-only and shared by every lab on this machine."""

    vmlinux: Path
    boot: Path
    root_image: Path


def ensure() -> BootingRoot:
    """Return the root, building it where it is missing (about a minute)."""
    install_host_packages()
    recipe = [SUITE, *PACKAGES, *LEFT_OUT, *SETTINGS.values(), str(ROOT_IMAGE_BYTES)]
    recipe += [(GUEST / "booting_root").read_text(), inspect.getsource(_build)]
    folder = cached("lab-booting-root", recipe, _build)
    return BootingRoot(
        vmlinux=folder / "vmlinux", boot=folder / "boot", root_image=folder / "root.img"
    )


def fill_boot(root: BootingRoot, boot: Path, initramfs: Initramfs) -> None:
    """Make the ``/boot`` of a host that makes its image in one of the two ways."""
    shutil.copytree(root.boot, boot, ignore=shutil.ignore_patterns("initramfs-*"))
    # Debian's dracut gives its image the name that initramfs-tools' has
    shutil.copy2(_built(root, initramfs), image_in(boot))


def image_in(boot: Path) -> Path:
    """The image in a ``/boot``."""
    return _only(boot, "initrd.img-*")


def put_into_image(
    root: BootingRoot, boot: Path, initramfs: Initramfs, files: Mapping[str, str]
) -> None:
    """Have the image hold these files besides what it was built with; paths are relative.

    The kernel unpacks archives one after the other, as it does with a processor's microcode.
    """
    image = image_in(boot)
    part = image.with_name(f"{image.name}.new")
    part.write_bytes(_archive(files) + _built(root, initramfs).read_bytes())
    part.rename(image)


def _built(root: BootingRoot, initramfs: Initramfs) -> Path:
    return _only(root.boot, "initramfs-*" if initramfs is Initramfs.DRACUT else "initrd.img-*")


def _only(boot: Path, pattern: str) -> Path:
    found = [path for path in boot.glob(pattern) if path.suffix not in LEFTOVERS]
    if len(found) != 1:
        raise BuildError(f"{boot} holds {len(found)} images {pattern}, and one is needed")
    return found[0]


def _archive(files: Mapping[str, str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for name, text in files.items():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
        listing = "\n".join(str(path.relative_to(top)) for path in sorted(top.rglob("*")))
        return subprocess.run(
            ["cpio", "--create", "--format=newc", "--quiet", "--owner=0:0"],
            cwd=top, input=listing.encode(), capture_output=True, check=True,
        ).stdout  # fmt: skip


def _build(work: Path) -> None:
    tree, settings = work / "tree", work / "settings"
    for name, text in SETTINGS.items():
        (settings / name).parent.mkdir(parents=True, exist_ok=True)
        (settings / name).write_text(text)
    _run(
        "mmdebstrap",
        "--variant=minbase",
        "--include=" + ",".join(PACKAGES),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT),
        f"--essential-hook=copy-in {settings}/etc /",
        f'--customize-hook={GUEST / "booting_root"} "$1"',
        SUITE,
        str(tree),
    )
    boot = work / "boot"
    (tree / "boot").rename(boot)
    (tree / "boot").mkdir()
    (kernel,) = boot.glob("vmlinuz-*")
    (work / "vmlinux").write_bytes(decompressed_kernel(kernel.read_bytes()))
    image = work / "root.img"
    with image.open("wb") as handle:
        handle.truncate(ROOT_IMAGE_BYTES)
    _run(
        "mke2fs", "-q", "-F", "-t", "ext4", "-d", str(tree),
        "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image),
    )  # fmt: skip
    for leftover in (tree, settings):
        shutil.rmtree(leftover)

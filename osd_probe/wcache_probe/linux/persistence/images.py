"""The host's initramfs images: where they are, and whether it was booted by one of them.

An image activates volumes before the root file system is there, so the boot rule must be in
each that the host may boot.  Images of kdump are left out: no OSD is started under that
kernel, and the one that follows boots by one of the others.
"""

from __future__ import annotations

import glob
import itertools
import os
from dataclasses import dataclass
from enum import Enum
from typing import List, Optional, Sequence, Tuple

from ..block.host_files import HostFiles, read_bytes

# Debian, Red Hat, SUSE, Arch; the Boot Loader Specification; unified kernel images
_PATTERNS = (
    "boot/initrd.img-*",
    "boot/initrd-*",
    "boot/initramfs-*",
    "boot/initramfs.img-*",
    *(f"{top}/*/*/initrd*" for top in ("boot", "boot/efi", "efi")),
    *(f"{top}/EFI/Linux/*.efi" for top in ("boot", "boot/efi", "efi")),
)
_NOT_BOOTED = (".bak", ".old-dkms", ".dpkg-bak", ".new", ".tmp", ".dpkg-new")
IMAGES_MAX = 64
# what loaders put before an image: GRUB's names of microcode (util/grub-mkconfig.in), Arch's
_JOINED = ("boot/*ucode*", "boot/*-uc.img", "boot/microcode.cpio")
JOINED_MAX = 3
PARTS_MAX = 32


@dataclass(frozen=True)
class Image:
    """One image as it is now; what is made anew differs in size or time."""

    path: str  # below the host's root
    size_bytes: int
    changed_at_ns: int


def find_images(root: str) -> Tuple[Image, ...]:
    """Every image that the host may boot, each once; IMAGES_MAX and one more mean too many."""
    found: List[Image] = []
    seen = set()
    for pattern in _PATTERNS:
        for path in sorted(glob.glob(os.path.join(glob.escape(root), pattern))):
            name = os.path.basename(path)
            if "kdump" in name or name.endswith(_NOT_BOOTED) or not os.path.isfile(path):
                continue
            status = os.stat(path)
            identity = (status.st_dev, status.st_ino)
            if identity not in seen and len(found) <= IMAGES_MAX:
                seen.add(identity)
                shown = "/" + os.path.relpath(path, root)
                found.append(Image(shown, status.st_size, status.st_mtime_ns))
    return tuple(found)


class BootedBy(Enum):
    """Which image this kernel was given."""

    HERE = "one of this host, or none at all"
    ELSEWHERE = "one that is not on this host"
    UNKNOWN = "one that cannot be told"


def booted_by(images: Sequence[Image], root: str, files: HostFiles) -> BootedBy:
    """What the kernel's own figures say; it is no proof where they say nothing.

    A loader may join images, each but the last padded to 4 bytes, and a unified image is given
    in parts: so a size that fits nothing here says nothing.
    """
    size = _ramdisk_bytes(files)
    if size == 0:
        return BootedBy.HERE
    if not images:
        return BootedBy.ELSEWHERE
    if size is not None and _fits(size, images, root):
        return BootedBy.HERE
    return BootedBy.UNKNOWN


def _fits(size: int, images: Sequence[Image], root: str) -> bool:
    """Whether so many bytes may be an image, alone or with others or microcode joined to it."""
    sizes = [_padded(image.size_bytes) for image in images]
    known = {image.path for image in images}
    for pattern in _JOINED:
        for path in glob.glob(os.path.join(glob.escape(root), pattern)):
            if "/" + os.path.relpath(path, root) not in known and os.path.isfile(path):
                sizes.append(_padded(os.path.getsize(path)))
    return any(
        sum(sizes[number] for number in numbers) == _padded(size)
        for count in range(1, JOINED_MAX + 1)
        for numbers in itertools.combinations(range(len(sizes[:PARTS_MAX])), count)
        if numbers[0] < len(images)
    )


def _padded(size: int) -> int:
    return -(-size // 4) * 4


def _ramdisk_bytes(files: HostFiles) -> Optional[int]:
    """How many bytes of initramfs this kernel was given; None where it does not say.

    Offset 21Ch of x86's boot parameters, its upper half at C4h
    (Documentation/arch/x86/zero-page.rst).  Elsewhere the device tree says that there is one,
    or the folder that dracut and initramfs-tools leave in /run.
    """
    data = read_bytes(os.path.join(files.sys, "kernel/boot_params/data"))
    if data is not None and len(data) >= 0x220:
        low, high = data[0x21C:0x220], data[0xC4:0xC8]
        return int.from_bytes(low + high, "little")
    signs = (
        os.path.join(files.sys, "firmware/devicetree/base/chosen/linux,initrd-start"),
        os.path.join(files.run, "initramfs"),
    )
    return None if any(map(os.path.exists, signs)) else 0

"""The host's initramfs images: where they are, and whether it boots by one that is elsewhere.

An image activates volumes before the root file system is there, so the boot rule must be in
each that the host may boot.  Images of kdump are left out: no OSD is started under that
kernel, and the one that follows boots by one of the others.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from typing import List, Sequence, Tuple

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


def booted_from_elsewhere(images: Sequence[Image], sys: str) -> bool:
    """Whether this kernel was given an initramfs and none is found on the host.

    Offset 218h of x86's boot parameters is the image's address, 21Ch its size
    (Documentation/arch/x86/boot.rst); elsewhere the device tree has it.
    """
    if images:
        return False
    try:
        with open(os.path.join(sys, "kernel/boot_params/data"), "rb") as file:
            return any(file.read(0x220)[0x21C:0x220])
    except OSError:
        chosen = os.path.join(sys, "firmware/devicetree/base/chosen")
        return os.path.exists(os.path.join(chosen, "linux,initrd-start"))

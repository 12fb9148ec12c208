"""The host's initramfs images and kernels: where they are.

An image activates volumes before the root file system is there, so the boot rule must be in
each that the host may boot.  Images of kdump are left out: no OSD is started under that
kernel, and the one that follows boots by one of the others.
"""

from __future__ import annotations

import glob
import os
import stat
from dataclasses import dataclass
from typing import Callable, List, Sequence, Tuple

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
# what distributions call kernels; the Boot Loader Specification, NixOS, Flatcar
_KERNELS = tuple(
    f"{top}/{below}"
    for top in ("boot", "boot/efi", "efi")
    for below in (
        "EFI/Linux/*.efi", "*/*/linux", "kernels/*",
        *(f"{folder}{name}" for folder in ("", "*/")
          for name in ("vmlinu[xz]*", "bzImage*", "Image*", "kernel-*")),
    )
)
KERNELS_MAX = 128


@dataclass(frozen=True)
class Image:
    """One image as it is now; what is made anew differs in size or time."""

    path: str  # below the host's root
    size_bytes: int
    changed_at_ns: int


def find_images(root: str) -> Tuple[Image, ...]:
    """Every image that the host may boot, each once; IMAGES_MAX and one more mean too many."""
    return _found(
        root, _PATTERNS, IMAGES_MAX,
        lambda name: "kdump" not in name and not name.endswith(_NOT_BOOTED),
    )


def find_kernels(root: str) -> Tuple[Image, ...]:
    """Every kernel in the host's /boot; KERNELS_MAX and one more mean too many."""
    return _found(root, _KERNELS, KERNELS_MAX, lambda name: not name.endswith(_NOT_BOOTED))


def _found(
    root: str, patterns: Sequence[str], most: int, wanted: Callable[[str], bool]
) -> Tuple[Image, ...]:
    found: List[Image] = []
    seen = set()
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(glob.escape(root), pattern))):
            try:
                status = os.stat(path)
            except OSError:
                continue
            if not wanted(os.path.basename(path)) or not stat.S_ISREG(status.st_mode):
                continue
            identity = (status.st_dev, status.st_ino)
            if identity not in seen and len(found) <= most:
                seen.add(identity)
                shown = "/" + os.path.relpath(path, root)
                found.append(Image(shown, status.st_size, status.st_mtime_ns))
    return tuple(found)

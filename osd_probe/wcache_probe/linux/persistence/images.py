"""The host's initramfs images and kernels: where they are, what is in them, how they are made.

An image activates volumes before the root file system is there, so the boot rule must be in
each that the host may boot.  Images of kdump are left out: no OSD is started under that
kernel, and the one that follows boots by one of the others.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple

from wcache.core.errors import StorageError

from .boot_rule import FILE_NAME
from .cpio_image import files_in

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


_TOOL_SECONDS_MAX = 1800.0
# udev's rules are in /lib in an image of initramfs-tools, in /etc in one of dracut
_IN_IMAGE = f"udev/rules.d/{FILE_NAME}"


@dataclass(frozen=True)
class Tool:
    """What makes images, and the file that has it take our rule along, if it needs one."""

    name: str
    programs: Tuple[str, ...]
    command: Tuple[str, ...]
    conf_path: str = ""
    conf_text: str = ""


_OURS = "# Written by `wcache-probe prepare`: takes the boot rule into the images.\n"
TOOLS = (
    # its udev hook copies /etc/udev/rules.d whole
    Tool(
        "initramfs-tools", ("update-initramfs", "mkinitramfs"),
        ("update-initramfs", "-u", "-k", "all"),
    ),
    # takes a fixed list of rules (its module udev-rules), and what install_items names
    Tool(
        "dracut", ("dracut",), ("dracut", "--force", "--regenerate-all"),
        "etc/dracut.conf.d/59-wcache-pin.conf",
        f'{_OURS}install_items+=" /etc/udev/rules.d/{FILE_NAME} "\n',
    ),
    Tool(
        "mkinitcpio", ("mkinitcpio",), ("mkinitcpio", "-P"),
        "etc/mkinitcpio.conf.d/59-wcache-pin.conf",
        f"{_OURS}FILES+=(/etc/udev/rules.d/{FILE_NAME})\n",
    ),
)


def find_tool(which: Callable[[str], Optional[str]] = shutil.which) -> Optional[Tool]:
    """The first tool that is installed whole."""
    return next((tool for tool in TOOLS if all(map(which, tool.programs))), None)


def rules_in(root: str, image: Image) -> Tuple[str, ...]:
    """The texts of the boot rule in an image; StorageError where it cannot be looked into."""
    return files_in(os.path.join(root, image.path.lstrip("/")), _IN_IMAGE)


def run_tool(tool: Tool) -> None:
    """Make all images anew; raises StorageError with what the tool said last."""
    try:
        done = subprocess.run(
            tool.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=_TOOL_SECONDS_MAX, check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageError(f"{tool.command[0]} failed ({error})") from None
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise StorageError(f"{tool.command[0]} failed: {' / '.join(lines)}")

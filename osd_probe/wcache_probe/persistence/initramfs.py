"""The host's initramfs images: where they are, which lack the boot rule, how they are made anew.

An image activates volumes before the root file system is there, so the rule must be in each
that the host may boot.  Images of kdump are left out: no OSD is started under that kernel,
and the one that follows boots by one of the others.
"""

from __future__ import annotations

import glob
import os
import shutil
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
_TOOL_SECONDS_MAX = 1800.0
# udev's rules are in /lib in an image of initramfs-tools, in /etc in one of dracut
_IN_IMAGE = f"udev/rules.d/{FILE_NAME}"


@dataclass(frozen=True)
class Image:
    """One image as it is now; what is made anew differs in size or time."""

    path: str  # below the host's root
    size_bytes: int
    changed_at_ns: int


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


def rules_in(root: str, image: Image) -> Tuple[str, ...]:
    """The texts of the boot rule in an image; StorageError where it cannot be looked into."""
    return files_in(os.path.join(root, image.path.lstrip("/")), _IN_IMAGE)


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

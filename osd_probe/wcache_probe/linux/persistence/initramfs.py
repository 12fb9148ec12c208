"""What is in the host's initramfs images, and how they are made anew."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Callable, Optional, Tuple

from wcache.core.errors import StorageError

from .boot_rule import FILE_NAME
from .cpio_image import files_in
from .images import Image

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

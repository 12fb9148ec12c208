"""How this kernel was booted: by an image of the host, by none, or in a way that cannot be told.

Only what the kernel itself tells counts for a host.  Whatever speaks of another way (the network,
a unified image, kexec, an initramfs inside of the kernel) leaves it to the note of a later boot.
"""

from __future__ import annotations

import glob
import itertools
import os
import re
import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Iterator, Optional, Sequence

from ...safe_files import read_bytes
from ..block.host_files import NETWORK, HostFiles, mount_of, mounts, read_text
from .images import Image

# what loaders put before an image: GRUB's names of microcode (util/grub-mkconfig.in), Arch's
_JOINED = ("boot/*ucode*", "boot/*-uc.img", "boot/microcode.cpio")
JOINED_MAX = 3
PARTS_MAX = 32
# Ids of loaders in x86's boot parameters (Documentation/arch/x86/boot.rst, type_of_loader)
_LOADERS = {3: "Syslinux or PXELINUX", 4: "iPXE", 0xD: "kexec"}
# systemd-stub, the beginning of a unified image, leaves these (systemd-stub(7))
_STUB_VARIABLES = "firmware/efi/efivars/StubInfo-*"
_STUB_FOLDER = "systemd/stub"
_COPIES = "etc/kernel/proxmox-boot-uuids"
_TOPS = ("", "boot", "boot/efi", "efi")
_NAMED = re.compile(r"(?:BOOT_IMAGE|initrd)=(\S+)")
_NETWORK_WORDS = re.compile(
    r"(?:^|\s)(BOOTIF=|netroot=|nfsroot=|root=/dev/nfs|root=(?:nfs4?|cifs|http|https|live:http)"
    r"\S*:|\S+=\((?:tftp|http|https|pxe|efinet)\S*)"
)
_COMMAND_LINE_BYTES_MAX = 65_536
_CONFIG_BYTES_MAX = 2_000_000


class BootedBy(Enum):
    """Which image this kernel was given."""

    HERE = "one of this host"
    NONE = "none, and it has none inside of it"
    ELSEWHERE = "one that is not on this host"
    OTHER_SIZE = "one of another size, as one of this host had before it was made anew"
    UNKNOWN = "one that cannot be told"


@dataclass(frozen=True)
class Booted:
    """What can be told of this boot; `why` says why no more can."""

    by: BootedBy
    why: str = ""


def booted_by(images: Sequence[Image], root: str, files: HostFiles) -> Booted:
    """What the kernel's own figures say of this boot.

    A loader may join images, each but the last padded to 4 bytes, and a unified image is given
    in parts: so a size that fits nothing here says nothing.
    """
    config = _kernel_config(root, files)
    if "# CONFIG_BLK_DEV_INITRD is not set" in config:
        return Booted(BootedBy.NONE)
    size = _ramdisk_bytes(files)
    why = _not_from_here(root, files)
    if size and not images:
        return Booted(BootedBy.ELSEWHERE, "this host's initramfs image is not stored on it")
    if size is None:
        why = why or "its kernel does not say which image it was given"
    elif size == 0:
        ran = os.path.exists(os.path.join(files.run, "initramfs"))
        if ran or 'CONFIG_INITRAMFS_SOURCE=""' not in config:
            why = why or "its kernel may hold an initramfs of its own"
    elif not why and not _fits(size, images, root):
        other = "its kernel was given an image of another size than this host has"
        return Booted(BootedBy.OTHER_SIZE, other)
    if why:
        return Booted(BootedBy.UNKNOWN, why)
    return Booted(BootedBy.HERE if size else BootedBy.NONE)


def _not_from_here(root: str, files: HostFiles) -> str:
    """What says that this host may be booted in a way that its images do not show."""
    mount = mount_of(mounts(files.proc), os.path.realpath(os.path.join(root, "etc")))
    if mount is not None and mount.kind in NETWORK:
        return "it has its root from the network, and may have its image from there too"
    loader = _LOADERS.get((_boot_parameters(files) or bytes(0x220))[0x210] >> 4)
    if loader:
        return f"its kernel was started by {loader}"
    variables = os.path.join(glob.escape(files.sys), _STUB_VARIABLES)
    if glob.glob(variables) or os.path.exists(os.path.join(files.run, _STUB_FOLDER)):
        return "it boots a unified kernel image"
    words = read_text(os.path.join(files.proc, "cmdline"), _COMMAND_LINE_BYTES_MAX) or ""
    if _NETWORK_WORDS.search(words):
        return "its kernel's command line speaks of a boot by the network"
    if re.search(r"(?:^|\s)initrdmem=", words):
        return "its loader put the image into memory by itself"
    if read_text(os.path.join(root, _COPIES)):
        return "it boots copies of its images, which proxmox-boot-tool makes"
    missing = next((name for name in _named(words) if not _is_here(name, root)), None)
    return "" if missing is None else "what its kernel's command line names is not on this host"


def _named(words: str) -> Iterator[str]:
    """The names, without folders, of kernel and images on a command line."""
    for text in _NAMED.findall(words):
        # GRUB may put the partition before it
        for path in re.sub(r"\([^)]*\)", "", text).split(","):
            name = re.split(r"[\\/]", path)[-1]
            if name:
                yield name


def _is_here(name: str, root: str) -> bool:
    """Whether a file of this name is where kernels and images are."""
    return any(
        glob.glob(os.path.join(glob.escape(root), top, below, glob.escape(name)))
        for top in _TOPS for below in (("", "*", "*/*") if top else ("",))
    )


def _kernel_config(root: str, files: HostFiles) -> str:
    """What the running kernel was made with; empty where it is not told."""
    data = read_bytes(os.path.join(files.proc, "config.gz"), _CONFIG_BYTES_MAX)
    if data:
        try:
            plain = zlib.decompressobj(wbits=31).decompress(data, _CONFIG_BYTES_MAX)
            return plain.decode("utf-8", "replace")
        except zlib.error:
            return ""
    release = read_text(os.path.join(files.proc, "sys/kernel/osrelease")) or ""
    if not re.fullmatch(r"[\w.+~-]+", release):
        return ""
    places = (f"boot/config-{release}", f"usr/lib/modules/{release}/config")
    texts = (read_text(os.path.join(root, place), _CONFIG_BYTES_MAX) for place in places)
    return next(filter(None, texts), "")


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


def _boot_parameters(files: HostFiles) -> Optional[bytes]:
    """x86's boot parameters (Documentation/arch/x86/zero-page.rst); None on others."""
    data = read_bytes(os.path.join(files.sys, "kernel/boot_params/data"))
    return data if data is not None and len(data) >= 0x220 else None


def _ramdisk_bytes(files: HostFiles) -> Optional[int]:
    """How many bytes of initramfs this kernel was given; None where it does not say.

    Offset 21Ch of the boot parameters, its upper half at C4h.
    """
    data = _boot_parameters(files)
    return None if data is None else int.from_bytes(data[0x21C:0x220] + data[0xC4:0xC8], "little")

"""The host's initramfs images: where they are, what is in them, what makes them.

An image activates volumes before the root file system is there, so the boot rule must be in
each that the host may boot.  Images of kdump are left out: no OSD is started under that
kernel, and the one that follows boots by one of the others.

They are read without the tools that made them.  An image is a row of cpio archives, each plain or
compressed (Documentation/driver-api/early-userspace/buffer-format.rst): microcode first, then the
rest.  A unified kernel image (`.efi`) carries the same in its section `.initrd`.
"""

from __future__ import annotations

import bz2
import glob
import lzma
import os
import shutil
import stat
import struct
import subprocess
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Callable, Iterator, List, Optional, Sequence, Tuple

from wcache.core.errors import StorageError

from ...safe_files import open_regular
from .udev_rule import FILE_NAME

_HEADER_BYTES = 110  # "newc": the magic, then 13 numbers of 8 hex digits
_NAME_BYTES_MAX = 4096
_CONTENT_BYTES_MAX = 1_000_000
_CHUNK = 1 << 16
BYTES_MAX = 1 << 31  # of one part, as it comes out
_MEMORY_MAX = 1 << 29  # of xz, whose preset 9 takes 65 MiB
_END = "TRAILER!!!"
_GZIP, _BZIP2, _XZ, _LZMA = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x5d\x00\x00"
# what Python's library cannot decompress; the host has the program, since it made the image
_PROGRAMS = (
    (b"\x28\xb5\x2f\xfd", ("zstd", "-q", "-d", "-c")),
    (b"\x02\x21\x4c\x18", ("lz4", "-q", "-d", "-c")),
    (b"\x04\x22\x4d\x18", ("lz4", "-q", "-d", "-c")),
    (b"\x89LZO", ("lzop", "-q", "-d", "-c")),
)


def files_in(path: str, ending: str) -> Tuple[str, ...]:
    """The text of each file in an image whose path ends with `ending`.

    Raises StorageError where the image cannot be read, or is none.
    """
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        with open(open_regular(handle), "rb", buffering=0) as file, _payload(file) as image:
            found = [data for name, data in _row(image, ending) if name.endswith(ending)]
    except (
        OSError, EOFError, ValueError, lzma.LZMAError, struct.error, zlib.error
    ) as error:
        raise StorageError(f"{path} cannot be read as an initramfs image ({error})") from None
    return tuple(data.decode("utf-8", "replace") for data in found)


@contextmanager
def _payload(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The row of archives in a file: all of it, or the section of a unified image."""
    unified = file.read(2) == b"MZ"
    file.seek(0)
    if not unified:
        yield file
        return
    at, size = _section(file, b".initrd\0")
    with tempfile.TemporaryFile(buffering=0) as copy:
        file.seek(at)
        while size > 0:
            chunk = file.read(min(size, _CHUNK))
            if not chunk:
                raise EOFError("it ends too early")
            copy.write(chunk)
            size -= len(chunk)
        copy.seek(0)
        yield copy


def _section(file: IO[bytes], wanted: bytes) -> Tuple[int, int]:
    """Where a section of a PE file is, and its size (the PE/COFF specification)."""
    file.seek(0x3C)
    (at,) = struct.unpack("<I", file.read(4))
    file.seek(at)
    magic, count, optional = struct.unpack("<4s2xH12xH2x", file.read(24))
    if magic != b"PE\0\0":
        raise ValueError("it has no PE header")
    file.seek(at + 24 + optional)
    for _ in range(count):
        name, size, raw_size, raw_at = struct.unpack("<8sI4xII16x", file.read(40))
        if name == wanted:
            return raw_at, min(size, raw_size) or raw_size
    raise ValueError("it has no section .initrd")


class _Stream:
    """Reads forwards and can look ahead; it takes up to a bound of bytes."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._ahead, self._at = b"", 0  # what was read, and how much of that was taken
        self.position = 0

    def read(self, size: int) -> bytes:
        """Exactly so many bytes; EOFError where there are fewer."""
        while len(self._ahead) - self._at < size:
            if not self._read_on():
                raise EOFError("it ends too early")
        self._at += size
        self.position += size
        if self.position > BYTES_MAX:
            raise ValueError(f"it holds more than {BYTES_MAX >> 20} MiB")
        return self._ahead[self._at - size:self._at]

    def _read_on(self) -> bool:
        """Read a chunk more; False at the end."""
        chunk = self._read(_CHUNK)
        self._ahead, self._at = self._ahead[self._at:] + chunk, 0
        return bool(chunk)

    def skip(self, size: int) -> None:
        """Leave so many bytes out."""
        while size > 0:
            size -= len(self.read(min(size, _CHUNK)))

    def next_archive(self) -> bytes:
        """Skip the zeros between archives; the first bytes that follow, empty at the end."""
        while True:
            self.skip(len(self._ahead) - self._at - len(self._ahead[self._at:].lstrip(b"\0")))
            if len(self._ahead) - self._at >= 6 or not self._read_on():
                return self._ahead[self._at:self._at + 6]


def _row(file: IO[bytes], ending: str) -> Iterator[Tuple[str, bytes]]:
    """Every file of all archives of a row, with the content of those that end as wanted."""
    stream = _Stream(file.read)
    if not stream.next_archive():
        raise ValueError("it is empty")
    while stream.next_archive().startswith(b"07070"):
        yield from _archive(stream, ending)
    start = stream.next_archive()
    if start:
        file.seek(stream.position)
        with _decompressed(file, start) as read:
            stream = _Stream(read)
            while stream.next_archive():  # what follows that part is nobody's here
                yield from _archive(stream, ending)


def _archive(stream: _Stream, ending: str) -> Iterator[Tuple[str, bytes]]:
    """One archive, up to its trailer."""
    while True:
        header = stream.read(_HEADER_BYTES)
        if header[:6] not in (b"070701", b"070702"):
            raise ValueError("it is no cpio archive")
        size, name_size = int(header[54:62], 16), int(header[94:102], 16)
        if not 0 < name_size <= _NAME_BYTES_MAX:
            raise ValueError("it is damaged")
        name = stream.read(name_size)[:-1].decode("utf-8", "replace")
        stream.skip(-(_HEADER_BYTES + name_size) % 4)
        content = b""
        if name.endswith(ending) and size <= _CONTENT_BYTES_MAX:
            content = stream.read(size)
        else:
            stream.skip(size)
        stream.skip(-size % 4)
        if name == _END:
            return
        yield name, content


def _reader(file: IO[bytes], decompressor: Any) -> Callable[[int], bytes]:
    """Read by a decompressor of Python's library, so many bytes of what comes out at a time."""

    def read(size: int) -> bytes:
        plain = b""
        while not plain and not decompressor.eof:
            data = getattr(decompressor, "unconsumed_tail", b"")  # of zlib's
            if not data and getattr(decompressor, "needs_input", True):
                data = file.read(_CHUNK)
            plain = decompressor.decompress(data, size)
            if not (data or plain or decompressor.eof):
                raise EOFError("it ends too early")
        return plain

    return read


@contextmanager
def _decompressed(file: IO[bytes], start: bytes) -> Iterator[Callable[[int], bytes]]:
    """How to read what is compressed from here to the end of a file."""
    if start.startswith(_GZIP):
        yield _reader(file, zlib.decompressobj(wbits=31))
    elif start.startswith(_BZIP2):
        yield _reader(file, bz2.BZ2Decompressor())
    elif start.startswith((_XZ, _LZMA)):
        yield _reader(file, lzma.LZMADecompressor(memlimit=_MEMORY_MAX))
    else:
        words = next((words for magic, words in _PROGRAMS if start.startswith(magic)), None)
        if words is None:
            raise ValueError(f"its compression is unknown, it begins with {start.hex()}")
        try:
            process = subprocess.Popen(
                words, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except FileNotFoundError:
            raise ValueError(f"install {words[0]} so that it can be read") from None
        with process:
            try:
                assert process.stdout is not None  # noqa: S101
                yield process.stdout.read
            finally:
                process.kill()


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
    run_program(tool.command, _TOOL_SECONDS_MAX)


def run_program(command: Sequence[str], seconds_max: float) -> None:
    """Run what changes this host; raises StorageError with what it said last."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=seconds_max, check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageError(f"{command[0]} failed ({error})") from None
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise StorageError(f"{command[0]} failed: {' / '.join(lines)}")

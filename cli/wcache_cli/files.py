"""Reading files named on the command line, bounded and with one clear line of error."""

from __future__ import annotations

import codecs
import os
import stat
from contextlib import contextmanager
from typing import BinaryIO, Iterable, Iterator, Tuple

from wcache.core.errors import MalformedError

BLOCK_BYTES = 65_536
LINE_CHARS_MAX = 65_536


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """A file or a pipe, open; a device might never end."""
    try:
        # a FIFO without a writer would be waited for for ever; opened like this it is empty
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            kind = os.fstat(fd).st_mode
            if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind)):
                raise MalformedError(f"{path} is no file")
            os.set_blocking(fd, True)
            yield file
    except OSError as error:
        raise MalformedError(f"{path} cannot be read: {error.strerror or error}") from None


def text_blocks(path: str, bytes_max: int) -> Iterator[str]:
    """The text of a file, a block at a time; MalformedError as `read_text`."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    seen = 0
    with _opened(path) as file:
        while True:
            block = file.read(BLOCK_BYTES)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError:
                raise MalformedError(f"{path} is not text (from byte {seen} on)") from None
            seen += len(block)
            if seen > bytes_max:
                raise MalformedError(f"{path} is larger than {bytes_max} bytes")
            if text:
                yield text
            if not block:
                return


def numbered_lines(path: str, blocks: Iterable[str]) -> Iterator[Tuple[int, str]]:
    """The lines of a text that comes in blocks, from 1; MalformedError where one has no end."""
    rest, number = "", 1
    for block in blocks:
        *lines, rest = (rest + block).split("\n")
        for line in lines:
            yield number, line
            number += 1
        if len(rest) > LINE_CHARS_MAX:
            raise MalformedError(f"{path}, line {number} is longer than any latency")
    yield number, rest


def read_text(path: str, bytes_max: int) -> str:
    """The text of a file; MalformedError where it can't be read, is too large or no text."""
    with _opened(path) as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise MalformedError(f"{path} is larger than {bytes_max} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(f"{path} is not text (byte {error.start})") from None

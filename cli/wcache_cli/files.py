"""Reading files named on the command line, bounded and with one clear line of error."""

from __future__ import annotations

from wcache.core.errors import MalformedError


def read_text(path: str, bytes_max: int) -> str:
    """The text of a file; MalformedError where it can't be read, is too large or no text."""
    try:
        with open(path, "rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise MalformedError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > bytes_max:
        raise MalformedError(f"{path} is larger than {bytes_max} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(f"{path} is not text (byte {error.start})") from None

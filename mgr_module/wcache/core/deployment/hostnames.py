"""Which host names are taken: they stand in keys of the store, file names, caps and scripts."""

from __future__ import annotations

import re

from ..errors import MalformedError

HOSTNAME_CHARS_MAX = 253
# Also a part of a key in the store, where "/" and "#" have a meaning.
_HOSTNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch


def checked_hostname(name: object) -> str:
    """The name; raises MalformedError where it could mean something to a shell or to YAML."""
    if not isinstance(name, str) or not 0 < len(name) <= HOSTNAME_CHARS_MAX:
        raise MalformedError(f"hostname must be 1 to {HOSTNAME_CHARS_MAX} characters long")
    if not _HOSTNAME(name):
        raise MalformedError("hostname may have letters, digits, dots, dashes and underscores")
    return name

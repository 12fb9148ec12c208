"""Names that others wrote, as the mgr's maps have them: bounded, and with nothing that hides.

Whoever has an OSD's key writes what its metadata says (MonCap.cc, profile osd), and a CRUSH map
that is set whole may hold any name.
"""

from __future__ import annotations

from typing import Any, Mapping

# A host name has at most 253 characters (RFC 1035); a container image is a host, a path and a
# digest.
NAME_CHARS_MAX, IMAGE_CHARS_MAX = 253, 1024


def name(said: Any, chars_max: int = NAME_CHARS_MAX) -> str:
    """A name on one line, without controls, escapes and marks that turn the direction of text.

    What was unprintable is a question mark, and so is what was cut off: a name that had either
    is never that of an honest host.
    """
    text = said if isinstance(said, str) else ""
    if len(text) > chars_max:
        text = text[: chars_max - 1] + "?"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)


def of_osd(meta: Mapping[str, Any], field: str, chars_max: int = NAME_CHARS_MAX) -> str:
    """A field of an OSD's metadata; empty where there is none."""
    return name(meta.get(field), chars_max)

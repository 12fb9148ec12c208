"""Words of vendors' tools, made short and printable."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable

from wcache.core.codec import one_line

_NO_VALUE = ("", "n/a", "na", "-")


def word(value: Any) -> str:
    """One value as a line of up to 60 characters; "" where the tool has none."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    # an int of absurd length would take long to print, and no tool has one
    text = one_line(value, 60) if isinstance(value, str) else str(value)[:20]
    return "" if text.lower() in _NO_VALUE else text


def joined(words: Iterable[str], between: str = ", ") -> str:
    """Each word once, in order."""
    return one_line(between.join(dict.fromkeys(word for word in words if word)), 120)


def counted(words: Iterable[str]) -> str:
    """How many of each ("6 Enabled, 2 not told"); "" where none is told."""
    found = Counter(words)
    if not any(found):
        return ""
    return one_line(
        ", ".join(f"{count} {text or 'not told'}" for text, count in sorted(
            found.items(), key=lambda item: (not item[0], -item[1], item[0])
        )), 120,
    )

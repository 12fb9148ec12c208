"""What is known of a drive's power-loss protection, in one cell, with where it comes from."""

from __future__ import annotations

from typing import Sequence

from ...model import PlpHint

UNKNOWN = "unknown"


def cell(hints: Sequence[PlpHint], trusted: bool) -> str:
    """`trusted` where an admin vouches for it, else the first hint with its source."""
    if trusted:
        return "trusted"
    for hint in hints:
        return f"{'hinted' if hint.protected else 'denied'}: {hint.source}"
    return UNKNOWN

"""A bcache device above a drive, in words."""

from __future__ import annotations

from typing import Any, Mapping

from ...core.text import amount


def bcache_words(one: Mapping[str, Any]) -> str:
    """What the drive is to it, and what it is set to."""
    role = "cache" if one["is_cache"] else "backing"
    sizes = {
        name: "unknown" if one[key] is None else amount(one[key])
        for name, key in (
            ("cutoff", "sequential_cutoff_bytes"), ("dirty", "dirty_bytes"),
            ("target", "target_bytes"), ("rate", "rate_bytes_s"),
        )
    }
    return (
        f"{role} of {one['name']} ({one['mode']}, sequential cutoff {sizes['cutoff']}, dirty "
        f"{sizes['dirty']} of {sizes['target']}, {sizes['rate']}/s)"
    )

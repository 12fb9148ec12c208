"""A bcache device, dm-cache or dm-writecache above a drive, in words."""

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
    state = f", {one['state']}" if one["state"] in ("no cache", "inconsistent") else ""
    return (
        f"{role} of {one['name']} ({one['mode']}{state}, sequential cutoff {sizes['cutoff']}, "
        f"dirty {sizes['dirty']} of {sizes['target']}, {sizes['rate']}/s)"
    )


def dm_cache_words(one: Mapping[str, Any]) -> str:
    """What it is and how it is set; wcache leaves it alone."""
    dirty = one["dirty_bytes"]
    parts = (
        one["mode"], one["policy"] and f"policy {one['policy']}",
        "" if dirty is None else f"dirty {amount(dirty)}",
    )
    return (
        f"under {one['kind']} {one['name']} ({', '.join(filter(None, parts))}; observed only, not "
        "tuned)"
    )

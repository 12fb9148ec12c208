"""What was written to a drive, and by it to its flash, as its SMART data tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..text import amount


@dataclass(frozen=True)
class Wear:
    """Bytes over the drive's life; None where the drive does not tell.

    `host_bytes` came from the host, `nand_bytes` were programmed into the flash.
    """

    host_bytes: Optional[int] = None
    nand_bytes: Optional[int] = None
    read_at_s: float = 0.0  # wall clock


def since(before: Wear, now: Wear) -> str:
    """What was written between two readings, in words; '' where nothing can be said."""
    host = _grown(before.host_bytes, now.host_bytes)
    nand = _grown(before.nand_bytes, now.nand_bytes)
    if host is None and nand is None:
        return ""
    parts = [] if host is None else [f"{amount(host)} from the host"]
    if nand is None:
        parts.append("the drive does not report its NAND writes")
    else:
        parts.append(f"{amount(nand)} to its NAND")
    if host and nand is not None:
        factor = f"{nand / host:.2f} times as much"
        if before.host_bytes and before.nand_bytes is not None:
            factor += f", {before.nand_bytes / before.host_bytes:.2f} times over its life before"
        parts.append(factor)
    return ", ".join(parts)


def _grown(before: Optional[int], now: Optional[int]) -> Optional[int]:
    """None where one is not told, or a counter went back (another drive, or a reset)."""
    return None if before is None or now is None or now < before else now - before

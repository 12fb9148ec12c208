"""How fast a flush can be that a drive really carries out."""

from __future__ import annotations

from typing import Optional

# Write back this fast, without proof of power-loss protection, is too good to be true:
# a disk has to turn, and flash without capacitors has to program a page.
FLUSH_FLOOR_ROTATIONAL_US = 1000.0
FLUSH_FLOOR_FLASH_US = 100.0


def flush_floor_us(rotational: Optional[bool]) -> float:
    """What a flush of written data takes at least without power-loss protection.

    A drive that does not say whether it turns is taken for flash, which doubts less.
    """
    return FLUSH_FLOOR_ROTATIONAL_US if rotational else FLUSH_FLOOR_FLASH_US

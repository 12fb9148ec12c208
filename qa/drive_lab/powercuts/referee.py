"""Whether all that was acknowledged is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from .blocks import BLOCK_BYTES, Written, decode


@dataclass(frozen=True)
class Judgement:
    """Writes that fdatasync acknowledged before the cut, and those that are gone."""

    acknowledged: int
    lost: tuple[Written, ...]


def judge(tag: int, acks: Sequence[tuple[int, int]], region: bytes) -> Judgement:
    """Compare what the writer told before the cut with the region of the volume after it.

    A later write to the same block is as good: nobody wants the earlier one any more.
    """
    newest: dict[int, int] = {}
    lost = []
    for number, block in acks:
        if block not in newest:
            found = decode(region[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES])
            ours = found is not None and (found.tag, found.block) == (tag, block)
            newest[block] = found.number if found is not None and ours else -1
        if number > newest[block]:
            lost.append(Written(tag, number, block))
    return Judgement(len(acks), tuple(lost))

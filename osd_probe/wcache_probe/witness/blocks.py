"""What the witnessed writes are: each block says of which run it is, its number and its place.

Writes are numbered from 0.  A number's place follows from it, so that the witness needs to
keep no more than how many writes were acknowledged.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Callable, Optional, Tuple

BLOCK_BYTES = 4096
# a power of two, so that each number below it has a place of its own
BLOCKS_MAX = 4096
# writes that one fdatasync acknowledges; those beyond the last acknowledged one are in flight
BATCH_MAX = 8
RUN_ID_BYTES = 16

_MAGIC = b"wcwitns1"
_HEADER = struct.Struct("<8s16sQQ20x")  # and the crc32 of it, over and over
_CRC = struct.Struct("<I")
# odd, so that it visits every place; far steps, so that the drive has to seek
_STEP = 0x9E3779B1


@dataclass(frozen=True)
class Written:
    """One write: its run, its number, its place."""

    run_id: bytes
    number: int
    place: int


@dataclass(frozen=True)
class Judgement:
    """Writes that were acknowledged, could be checked, and are gone (their numbers)."""

    acknowledged: int
    checked: int
    lost: Tuple[int, ...]


def place_of(number: int, blocks: int) -> int:
    """Where a write goes."""
    return number * _STEP % blocks


def encode(written: Written) -> bytes:
    """The block: its header over and over, so that a torn one is seen."""
    header = _HEADER.pack(_MAGIC, written.run_id, written.number, written.place)
    header += _CRC.pack(zlib.crc32(header))
    return header * (BLOCK_BYTES // len(header))


def decode(data: bytes) -> Optional[Written]:
    """What a block is; None where it is torn or nothing of ours."""
    magic, run_id, number, place = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        return None
    written = Written(run_id, number, place)
    return written if encode(written) == data else None


def judge(
    run_id: bytes, acknowledged: int, blocks: int, read: Callable[[int], bytes]
) -> Judgement:
    """What a drive has kept of a run; `read` gives the block at a place.

    A later write to the same place is as good: nobody wants the earlier one any more.  What
    the writes in flight went to may be torn and is not counted.
    """
    in_flight = {
        place_of(acknowledged + ahead, blocks) for ahead in range(BATCH_MAX)
    }
    checked = 0
    lost = []
    for number in range(max(0, acknowledged - blocks), acknowledged):
        place = place_of(number, blocks)
        if place in in_flight:
            continue
        checked += 1
        found = decode(read(place))
        if found is None or (found.run_id, found.place) != (run_id, place) or found.number < number:
            lost.append(number)
    return Judgement(acknowledged, checked, tuple(lost))

"""What the writer writes: a block says which round, which write and which place it is of.

Read by the writer in the guest too, so standard library only.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Optional

BLOCK_BYTES = 4096
# of the volume; beyond the labels of BlueStore and LVM
BASE_BYTES = 4 << 20
BLOCKS = 256
REGION_BYTES = BLOCKS * BLOCK_BYTES
MAGIC = b"powercut"
_HEADER = struct.Struct("<8sQQQ32x")
ACK_BYTES = 16


@dataclass(frozen=True)
class Written:
    """One write: the round's tag, its number in the round, and its place."""

    tag: int
    number: int
    block: int


def encode(written: Written) -> bytes:
    """The block: its header over and over, so that a torn one is seen."""
    header = _HEADER.pack(MAGIC, written.tag, written.number, written.block)
    return header * (BLOCK_BYTES // len(header))


def decode(data: bytes) -> Optional[Written]:
    """What a block is, or None where it is torn or nothing of ours."""
    magic, tag, number, block = _HEADER.unpack_from(data)
    written = Written(tag, number, block)
    return written if magic == MAGIC and encode(written) == data else None


def encode_ack(number: int, block: int) -> bytes:
    """A record of the file in which the writer tells what is acknowledged."""
    return f"{number:08d} {block:06d}\n".encode()


def decode_acks(data: bytes) -> list[tuple[int, int]]:
    """Number and block of every whole record."""
    whole = len(data) - len(data) % ACK_BYTES
    records = (data[at : at + ACK_BYTES] for at in range(0, whole, ACK_BYTES))
    return [(int(record[:8]), int(record[9:15])) for record in records]

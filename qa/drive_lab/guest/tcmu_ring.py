"""The command ring by which the kernel's target_core_user hands SCSI commands to a program.

As include/uapi/linux/target_core_user.h has it, mailbox version 2.
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import Callable, List, Tuple

MAILBOX = struct.Struct("<HHIII")  # version, flags, cmdr_off, cmdr_size, cmd_head
TAIL_AT = 64
HEADER = struct.Struct("<IHBB")  # len_op, cmd_id, kflags, uflags
REQUEST_AT, IOV_COUNT, CDB_OFF_AT, IOV_AT = 8, struct.Struct("<I"), 24, 48
IOV = struct.Struct("<QQ")
ANSWER_AT = struct.Struct("<BBHI96s")  # scsi_status, padding, read_len, sense
OP_MASK, OP_CMD, OP_TMR = 0x7, 1, 2
UNKNOWN_OP, READ_LEN = 0x1, 0x2
VERSION = 2

# the CDB and the data that came with it: SCSI status, data for the initiator, sense
Execute = Callable[[bytes, bytes], Tuple[int, bytes, bytes]]


class Ring:
    """The ring of one device, by the name that it has in configfs."""

    def __init__(self, name: str) -> None:
        uio = next(
            folder for folder in sorted(Path("/sys/class/uio").iterdir())
            if f"/{name}/" in (folder / "name").read_text()
        )
        size = int((uio / "maps/map0/size").read_text(), 16)
        self._fd = os.open(f"/dev/{uio.name}", os.O_RDWR)
        self._map = mmap.mmap(self._fd, size)
        if MAILBOX.unpack_from(self._map)[0] != VERSION:
            raise SystemExit("this kernel's ring has another layout")

    def serve(self, execute: Execute, reset: Callable[[], None]) -> None:
        """Answer commands for ever; `reset` is called for each task management request."""
        while True:
            # first: what was queued before the device was opened raises no event
            while self._one(execute, reset):
                pass
            os.write(self._fd, b"\0\0\0\0")
            os.read(self._fd, 4)

    def _one(self, execute: Execute, reset: Callable[[], None]) -> bool:
        _, _, ring_off, ring_size, head = MAILBOX.unpack_from(self._map)
        (tail,) = IOV_COUNT.unpack_from(self._map, TAIL_AT)
        if tail == head:
            return False
        at = ring_off + tail
        len_op, cmd_id, kflags, _ = HEADER.unpack_from(self._map, at)
        if len_op & OP_MASK == OP_CMD:
            self._command(at, len_op, cmd_id, kflags, execute)
        elif len_op & OP_MASK == OP_TMR:
            reset()
        tail = (tail + (len_op & ~OP_MASK)) % ring_size
        IOV_COUNT.pack_into(self._map, TAIL_AT, tail)
        return True

    def _command(self, at: int, len_op: int, cmd_id: int, kflags: int, execute: Execute) -> None:
        (count,) = IOV_COUNT.unpack_from(self._map, at + REQUEST_AT)
        (cdb_at,) = struct.unpack_from("<Q", self._map, at + CDB_OFF_AT)
        places: List[Tuple[int, int]] = [
            IOV.unpack_from(self._map, at + IOV_AT + number * IOV.size) for number in range(count)
        ]
        cdb = self._map[cdb_at : cdb_at + 16]
        sent = b"".join(self._map[base : base + size] for base, size in places)
        status, data, sense = execute(cdb, sent)
        left = data[: sum(size for _, size in places)]
        length = len(left)
        for base, size in places:
            part, left = left[:size], left[size:]
            self._map[base : base + len(part)] = part
        HEADER.pack_into(self._map, at, len_op, cmd_id, kflags, READ_LEN if length else 0)
        ANSWER_AT.pack_into(self._map, at + REQUEST_AT, status, 0, 0, length, sense)

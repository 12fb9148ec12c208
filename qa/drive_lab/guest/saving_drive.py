"""A SCSI disk that saves its caching mode page: served to the guest's kernel through TCMU.

    PYTHONPATH=qa python3 -m drive_lab.guest.saving_drive NAME FOLDER

FOLDER holds what is there without power: `medium`, and `kept.json` with the saved WCE bit and
how the drive behaves.  What is in this process is gone with its power: the current page, and
what the volatile cache holds; by SIGUSR1 that is gone too, and the drive answers no more than
that nothing is there, so that the kernel need not wait for it.  Each command is written to `log`,
by its name.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Dict, Tuple

from drive_lab.guest.tcmu_ring import Ring

BLOCK_BYTES, BLOCKS = 512, 131072
WCE, DPOFUA, SAVABLE = 0x04, 0x10, 0x80
GOOD, CHECK_CONDITION = 0x00, 0x02
NOT_READY, HARDWARE, ILLEGAL, UNIT_ATTENTION = 0x02, 0x04, 0x05, 0x06
Answer = Tuple[int, bytes, bytes]


def fixed_sense(key: int, asc: int) -> bytes:
    """Sense data in the fixed format (SPC-6 4.4.3)."""
    return bytes((0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, asc, 0, 0, 0, 0, 0))


def failed(key: int, asc: int) -> Answer:
    """CHECK CONDITION with a sense key and additional sense code."""
    return CHECK_CONDITION, b"", fixed_sense(key, asc)


def good(data: bytes = b"") -> Answer:
    """GOOD, with data."""
    return GOOD, data, b""


class SavingDrive:
    """The drive with its power on."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._kept_file = folder / "kept.json"
        self._medium = (folder / "medium").open("r+b")
        self._log = (folder / "log").open("a")
        self._cache: Dict[int, bytes] = {}
        self._power = self._attention = True
        self.reset()

    def kept(self) -> Dict[str, bool]:
        """What it keeps without power: `wce`, and `fails_mode_sense` where a test says so."""
        found: Dict[str, bool] = json.loads(self._kept_file.read_text())
        return found

    def reset(self) -> None:
        """A reset: the saved page is the current one again.  The target core tells the host."""
        self._wce = bool(self.kept()["wce"])

    def lose_power(self) -> None:
        """The plug is pulled."""
        self._power = False
        self._cache.clear()

    def execute(self, cdb: bytes, sent: bytes) -> Answer:
        """One command."""
        op = cdb[0]
        name = COMMANDS.get(op)
        print(f"{name or hex(op)} {cdb.hex()}", file=self._log, flush=True)
        if not self._power:
            return failed(NOT_READY, 0x3A)
        if self._attention and op not in (0x12, 0xA0, 0x03):
            self._attention = False
            return failed(UNIT_ATTENTION, 0x29)
        if name is None:
            return failed(ILLEGAL, 0x20)
        answer: Answer = getattr(self, name)(cdb, sent)
        return answer

    def inquiry(self, cdb: bytes, _sent: bytes) -> Answer:
        """Standard data, and the pages that say who it is and that it has no zones."""
        if not cdb[1] & 1:
            return good(
                bytes((0, 0, 6, 2, 91, 0, 0, 2)) + b"LAB     SAVING DRIVE    0001".ljust(88, b"\0")
            )
        serial = self._name.encode()
        pages = {
            0x00: bytes((0x00, 0x80, 0x83, 0xB1)),
            0x80: serial,
            0x83: bytes((1, 3, 0, 8)) + bytes.fromhex("5000c500") + serial[-4:].rjust(4, b"0"),
            0xB1: bytes((0x1C, 0x20)) + bytes(58),  # 7,200 rpm
        }
        page = pages.get(cdb[2])
        if page is None:
            return failed(ILLEGAL, 0x24)
        return good(bytes((0, cdb[2])) + len(page).to_bytes(2, "big") + page)

    def mode_sense(self, cdb: bytes, _sent: bytes) -> Answer:
        """The caching page of each page control; there is no other page."""
        if self.kept().get("fails_mode_sense"):
            return failed(HARDWARE, 0x44)
        if cdb[2] & 0x3F not in (0x08, 0x3F):
            return failed(ILLEGAL, 0x24)
        values = (self._wce, True, True, bool(self.kept()["wce"]))
        wce = WCE if values[cdb[2] >> 6] else 0
        page = bytes((0x08 | SAVABLE, 0x12, wce)) + bytes(17)
        if cdb[0] == 0x1A:
            return good(bytes((3 + len(page), 0, DPOFUA, 0)) + page)
        return good((6 + len(page)).to_bytes(2, "big") + bytes((0, DPOFUA)) + bytes(4) + page)

    def mode_select(self, cdb: bytes, sent: bytes) -> Answer:
        """SP=1 saves the page as well; a cache that goes off is written out first (SBC-4)."""
        page = sent[8 if cdb[0] == 0x55 else 4 :]
        if len(page) < 20 or page[0] & 0x3F != 0x08:
            return failed(ILLEGAL, 0x26)
        self._wce = bool(page[2] & WCE)
        if not self._wce:
            self._write_out()
        if cdb[1] & 1:
            self._kept_file.write_text(json.dumps({**self.kept(), "wce": self._wce}))
        return good()

    def ready(self, _cdb: bytes, _sent: bytes) -> Answer:
        """It is."""
        return good()

    def request_sense(self, _cdb: bytes, _sent: bytes) -> Answer:
        """Nothing to say."""
        return good(fixed_sense(0, 0))

    def capacity(self, cdb: bytes, _sent: bytes) -> Answer:
        """READ CAPACITY (10) and (16)."""
        wide = 8 if cdb[0] == 0x9E else 4
        data = (BLOCKS - 1).to_bytes(wide, "big") + BLOCK_BYTES.to_bytes(4, "big")
        return good(data.ljust(32 if wide == 8 else 8, b"\0"))

    def synchronize(self, _cdb: bytes, _sent: bytes) -> Answer:
        """SYNCHRONIZE CACHE: what the cache holds is on the medium."""
        self._write_out()
        return good()

    def read(self, cdb: bytes, _sent: bytes) -> Answer:
        """READ (10) and (16)."""
        first, count = extent(cdb)
        self._medium.seek(first * BLOCK_BYTES)
        data = bytearray(self._medium.read(count * BLOCK_BYTES).ljust(count * BLOCK_BYTES, b"\0"))
        for block, held in self._cache.items():
            if first <= block < first + count:
                at = (block - first) * BLOCK_BYTES
                data[at : at + BLOCK_BYTES] = held
        return good(bytes(data))

    def write(self, cdb: bytes, sent: bytes) -> Answer:
        """WRITE (10) and (16): into the cache, or on the medium without one or by FUA."""
        first, count = extent(cdb)
        for number in range(count):
            at = number * BLOCK_BYTES
            self._cache[first + number] = sent[at : at + BLOCK_BYTES]
        if not self._wce or cdb[1] & 0x08:
            self._write_out()
        return good()

    def _write_out(self) -> None:
        for block, held in self._cache.items():
            self._medium.seek(block * BLOCK_BYTES)
            self._medium.write(held)
        self._medium.flush()
        self._cache.clear()


def extent(cdb: bytes) -> Tuple[int, int]:
    """First block and number of blocks of a READ or WRITE."""
    if cdb[0] in (0x28, 0x2A):
        return int.from_bytes(cdb[2:6], "big"), int.from_bytes(cdb[7:9], "big")
    return int.from_bytes(cdb[2:10], "big"), int.from_bytes(cdb[10:14], "big")


COMMANDS = {
    0x00: "ready", 0x03: "request_sense", 0x12: "inquiry", 0x15: "mode_select",
    0x1A: "mode_sense", 0x1B: "ready", 0x25: "capacity", 0x28: "read", 0x2A: "write",
    0x35: "synchronize", 0x55: "mode_select", 0x5A: "mode_sense", 0x88: "read", 0x8A: "write",
    0x91: "synchronize", 0x9E: "capacity",
}  # fmt: skip

if __name__ == "__main__":
    drive = SavingDrive(sys.argv[1], Path(sys.argv[2]))
    signal.signal(signal.SIGUSR1, lambda _number, _frame: drive.lose_power())
    Ring(sys.argv[1]).serve(drive.execute, drive.reset)

"""Host and NAND writes out of smartctl's JSON; what is not well known is not told.

NVMe counts units of 512,000 bytes (NVM Express, SMART / Health Information log).  ATA has Device
Statistics (ACS-4, page 01h: Logical Sectors Written), SCSI its write error counter log.  NAND
writes are vendors' own: attributes whose names say their unit, as smartctl's database has them.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Optional, Tuple

from wcache.core.codec import parse_json
from wcache.core.errors import WcacheError
from wcache.core.hardware import Wear
from wcache.core.model import DriveReport, Transport

from .tool import OUTPUT_BYTES_MAX, Run, find, run

SECONDS_MAX = 5.0
LOOK_SECONDS_MAX = 20.0  # for all drives of one look: the others have their turn at the next
FRESH_S = 600.0
NVME_UNIT_BYTES = 512_000
BYTES_MAX = 2**62
_UNITS = {"32MiB": 32 * 2**20, "GiB": 2**30, "1GiB": 2**30, "MiB": 2**20}
_HOST = re.compile(r"(?:Total_)?Host_Writes_(32MiB|1GiB|GiB|MiB)")
_NAND = re.compile(r"(?:Total_)?NAND_Writes_(32MiB|1GiB|GiB|MiB)")
_SECTORS = "Logical Sectors Written"
_ASKED = (
    Transport.SCSI, Transport.SAS, Transport.SAS_RAID, Transport.SATA, Transport.SATA_HBA,
    Transport.NVME,
)


def parse(text: str, now_s: float) -> Optional[Wear]:
    """What smartctl's JSON tells; None where it tells neither.  MalformedError: no JSON."""
    found = parse_json(text, bytes_max=OUTPUT_BYTES_MAX, what="smartctl's answer")
    top = found if isinstance(found, dict) else {}
    host, nand = _nvme(top) or _scsi(top) or _statistics(top), None
    for name, raw in _attributes(top):
        of_host, of_nand = _HOST.fullmatch(name), _NAND.fullmatch(name)
        if of_host and host is None:
            host = _bytes(raw, _UNITS[of_host[1]])
        if of_nand and nand is None:
            nand = _bytes(raw, _UNITS[of_nand[1]])
    return None if host is None and nand is None else Wear(host, nand, now_s)


def _nvme(top: Dict[str, Any]) -> Optional[int]:
    log = top.get("nvme_smart_health_information_log")
    return _bytes(log.get("data_units_written"), NVME_UNIT_BYTES) if isinstance(log, dict) else None


def _scsi(top: Dict[str, Any]) -> Optional[int]:
    log = top.get("scsi_error_counter_log")
    write = log.get("write") if isinstance(log, dict) else None
    text = write.get("gigabytes_processed") if isinstance(write, dict) else None
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text):
        return None
    return _bytes(round(float(text) * 1000), 10**6)


def _statistics(top: Dict[str, Any]) -> Optional[int]:
    pages = _inner(top.get("ata_device_statistics"), "pages")
    size = top.get("logical_block_size", 512)
    sector = size if size in (512, 4096) else 512
    for page in pages:
        for row in _inner(page, "table"):
            if isinstance(row, dict) and row.get("name") == _SECTORS:
                return _bytes(row.get("value"), sector)
    return None


def _attributes(top: Dict[str, Any]) -> Tuple[Tuple[str, Any], ...]:
    rows = _inner(top.get("ata_smart_attributes"), "table")
    return tuple(
        (row["name"], row["raw"].get("value")) for row in rows
        if isinstance(row, dict) and isinstance(row.get("name"), str)
        and isinstance(row.get("raw"), dict)
    )


def _inner(value: Any, key: str) -> Tuple[Any, ...]:
    rows = value.get(key) if isinstance(value, dict) else None
    return tuple(rows[:512]) if isinstance(rows, list) else ()


def _bytes(count: Any, unit: int) -> Optional[int]:
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        return None
    return count * unit if count * unit <= BYTES_MAX else None


class WearReader:
    """Asks smartctl for a drive once in a while, and remembers.

    A look at all drives gets LOOK_SECONDS_MAX in all.
    """

    def __init__(
        self, tool: Callable[[], Optional[str]] = lambda: find("smartctl"), run: Run = run,
        clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._tool, self._run = tool, run
        self._clock, self._wall_clock = clock, wall_clock
        self._known: Dict[str, Tuple[float, Optional[Wear]]] = {}
        self._ends_at_s = 0.0

    def begin(self) -> None:
        """A look at all drives begins."""
        self._ends_at_s = self._clock() + LOOK_SECONDS_MAX

    def read(self, drive: DriveReport) -> Optional[Wear]:
        """What the drive tells; of before where that is fresh, or time is short."""
        asked_at_s, wear = self._known.get(drive.drive_id, (float("-inf"), None))
        now_s = self._clock()
        stale = now_s - asked_at_s > FRESH_S
        tool = self._tool() if stale and drive.transport in _ASKED else None
        if tool is None or now_s > self._ends_at_s or "/" in drive.dev_name:
            return wear
        command = (
            tool, "--json=c", "--info", "--attributes", "--log=devstat", "--log=error",
            f"/dev/{drive.dev_name}",
        )
        with suppress(WcacheError):  # a tool that does not answer: what is known stays
            wear = parse(self._run(command, SECONDS_MAX), self._wall_clock())
        self._known[drive.drive_id] = (now_s, wear)
        return wear

    def known(self, drive: DriveReport) -> Optional[Wear]:
        """What it told last; the drive is asked for nothing."""
        return self._known.get(drive.drive_id, (0.0, None))[1]

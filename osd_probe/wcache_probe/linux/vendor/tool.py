"""Tools that only read, with what they tell: smartctl of wear, dmsetup of caches.

They are bounded in time and output, with no shell and no terminal.  The probe is root, so it runs
no program that another user may change or put in place.

Of wear what is not well known is not told.  NVMe counts units of 512,000 bytes (NVM Express, SMART
/ Health Information log).  ATA has Device Statistics (ACS-4, page 01h: Logical Sectors Written),
SCSI its write error counter log.  NAND writes are vendors' own: attributes whose names say their
unit, as smartctl's database has them.

Documentation/admin-guide/device-mapper/cache.rst and writecache.rst say what each field of dm-cache
and dm-writecache is.  `--noflush` keeps dm-cache from committing its metadata for us
(drivers/md/dm-cache-target.c, cache_status()).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from wcache.core.codec import parse_json
from wcache.core.errors import NotReadyError, WcacheError
from wcache.core.hardware import DmCacheState, Wear
from wcache.core.model import DriveReport, Transport

from ... import safe_files

OUTPUT_BYTES_MAX = 4_000_000  # storcli: about 6 KB for each drive
POLL_S = 0.02
# Vendors put their tools beside the usual places.
PLACES = (
    "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin",
    "/opt/MegaRAID/storcli", "/opt/MegaRAID/perccli", "/opt/lsi/storcli",
    "/opt/MegaRAID/storcli2", "/opt/MegaRAID/perccli2",
    "/opt/smartstorageadmin/ssacli/bin", "/usr/Arcconf", "/opt/Arcconf",
)

Run = Callable[[Sequence[str], float], str]
"""Runs a command for so many seconds; its output, or NotReadyError."""


def find(name: str, path: str = os.pathsep.join(PLACES)) -> Optional[str]:
    """Where a tool is; None where it is not installed."""
    return shutil.which(name, path=path)


def run(command: Sequence[str], seconds_max: float) -> str:
    """What the tool prints; its exit code says little (smartctl: a bit for each finding).

    Raises NotReadyError where others may change it, and where it does not start, takes too long
    or prints too much.
    """
    name = os.path.basename(command[0])
    others = _why_others_change(command[0])
    if others:
        raise NotReadyError(f"{name} is not run: {others}")
    with tempfile.TemporaryFile() as output:
        with safe_files.failure(f"{name} does not start", kind=NotReadyError):
            child = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
            )
        try:
            ends_at_s = time.monotonic() + seconds_max
            while child.poll() is None:
                if os.fstat(output.fileno()).st_size > OUTPUT_BYTES_MAX:
                    raise NotReadyError(f"{name} prints more than {OUTPUT_BYTES_MAX} bytes")
                if time.monotonic() > ends_at_s:
                    raise NotReadyError(f"{name} took more than {seconds_max:g} s")
                time.sleep(POLL_S)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)  # a session of its own
                # one that hangs in the kernel cannot be waited for
                with suppress(subprocess.TimeoutExpired):
                    child.wait(1.0)
        output.seek(0)
        text = output.read(OUTPUT_BYTES_MAX + 1)
    if len(text) > OUTPUT_BYTES_MAX:
        raise NotReadyError(f"{name} prints more than {OUTPUT_BYTES_MAX} bytes")
    return text.decode("utf-8", "replace")


def _why_others_change(program: str) -> str:
    """Who else may decide what a program does; "" where only root and we may.

    What cannot be looked at does not start either.
    """
    try:
        handle = safe_files.find(program, safe_files.own_users())
    except safe_files.UntrustedError as error:
        return str(error.strerror)
    except OSError:
        return ""
    with safe_files.closing_fd(handle):
        mode = os.fstat(handle).st_mode
    by_others = mode & (stat.S_IWGRP | stat.S_IWOTH)
    return f"others may write to {program}: chmod go-w takes that from them" if by_others else ""


SECONDS_MAX = 5.0
LOOK_SECONDS_MAX = 20.0  # for all drives of one look: the others have their turn at the next
WEAR_FRESH_S = 600.0
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


def wear_in(text: str, now_s: float) -> Optional[Wear]:
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
        stale = now_s - asked_at_s > WEAR_FRESH_S
        tool = self._tool() if stale and drive.transport in _ASKED else None
        if tool is None or now_s > self._ends_at_s or "/" in drive.dev_name:
            return wear
        command = (
            tool, "--json=c", "--info", "--attributes", "--log=devstat", "--log=error",
            f"/dev/{drive.dev_name}",
        )
        with suppress(WcacheError):  # a tool that does not answer: what is known stays
            wear = wear_in(self._run(command, SECONDS_MAX), self._wall_clock())
        self._known[drive.drive_id] = (now_s, wear)
        return wear

    def known(self, drive: DriveReport) -> Optional[Wear]:
        """What it told last; the drive is asked for nothing."""
        return self._known.get(drive.drive_id, (0.0, None))[1]


DEVICES_MAX = 64
SECTOR_BYTES = 512
MODES = ("writethrough", "writeback", "passthrough")
_NAME = re.compile(r"[0-9A-Za-z#+\-.:=@_\\]{1,127}")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,15}")


def dm_caches(
    tool: Callable[[], Optional[str]] = lambda: find("dmsetup"), run: Run = run
) -> Dict[str, DmCacheState]:
    """Every such device by its name in device mapper; none where nobody can say."""
    path = tool()
    try:
        return caches_in(run([path, "status", "--noflush"], SECONDS_MAX)) if path else {}
    except NotReadyError:
        return {}


def caches_in(text: str) -> Dict[str, DmCacheState]:
    """What `dmsetup status` prints; lines about other targets, and odd ones, are passed over."""
    found: Dict[str, DmCacheState] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(": ")
        fields = rest.split()
        if len(found) >= DEVICES_MAX or not _NAME.fullmatch(name) or len(fields) < 4:
            continue
        state = None
        if fields[2] == "cache":
            state = _cache(name, fields[3:])
        elif fields[2] == "writecache":
            state = DmCacheState(name, "dm-writecache", "writeback")
        if state is not None:
            found[name] = state
    return found


def _cache(name: str, fields: List[str]) -> Optional[DmCacheState]:
    """Sizes, hits, dirty blocks, then lists that say how long they are."""
    if fields == ["Fail"] or len(fields) < 13:
        return DmCacheState(name, "dm-cache", "unknown")
    block, dirty = _number(fields[2]), _number(fields[10])
    features = _list(fields, 11)
    if features is None:
        return DmCacheState(name, "dm-cache", "unknown")
    after = 12 + len(features)
    core = _list(fields, after)
    policy = "" if core is None else "".join(fields[after + 1 + len(core):][:1])
    size = None if block is None or dirty is None else block * dirty * SECTOR_BYTES
    mode = next((one for one in features if one in MODES), "unknown")
    return DmCacheState(
        name, "dm-cache", mode, policy if _WORD.fullmatch(policy) else "", size
    )


def _list(fields: List[str], at: int) -> Optional[List[str]]:
    count = _number(fields[at]) if at < len(fields) else None
    if count is None or at + 1 + count > len(fields):
        return None
    return fields[at + 1:at + 1 + count]


def _number(text: str) -> Optional[int]:
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None

"""dm-cache and dm-writecache as `dmsetup status` shows them.

Documentation/admin-guide/device-mapper/cache.rst and writecache.rst say what each field is.
`--noflush` keeps dm-cache from committing its metadata for us (drivers/md/dm-cache-target.c,
cache_status()).
"""

from __future__ import annotations

import re
import time
from typing import Callable, Dict, List, Optional

from wcache.core.errors import NotReadyError
from wcache.core.hardware import DmCacheState

from .tool import Run, find, run

SECONDS_MAX = 5.0
FRESH_S = 2.0  # a look asks for each drive
DEVICES_MAX = 64
SECTOR_BYTES = 512
MODES = ("writethrough", "writeback", "passthrough")
_NAME = re.compile(r"[0-9A-Za-z#+\-.:=@_\\]{1,127}")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,15}")


class DmCaches:
    """Reads them, for all drives of a look at once."""

    def __init__(
        self, run_tool: Run = run, clock: Callable[[], float] = time.monotonic,
        tool: Optional[str] = "",
    ) -> None:
        """`tool`: where dmsetup is; looked for where it is empty, None where there is none."""
        self._run = run_tool
        self._clock = clock
        self._tool = find("dmsetup") if tool == "" else tool
        self._read_at_s = float("-inf")
        self._known: Dict[str, DmCacheState] = {}

    def read(self) -> Dict[str, DmCacheState]:
        """Every such device by its name in device mapper; none where nobody can say."""
        now_s = self._clock()
        if self._tool is None or now_s - self._read_at_s < FRESH_S:
            return self._known
        self._read_at_s = now_s
        try:
            self._known = parse(self._run([self._tool, "status", "--noflush"], SECONDS_MAX))
        except NotReadyError:
            self._known = {}
        return self._known


def parse(text: str) -> Dict[str, DmCacheState]:
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

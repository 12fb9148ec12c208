"""What a probe reads beside drives' caches: options, counters, wear, memory.

A storage controller as its vendor's tool tells it, and what an admin may do about it.

What bcache above a drive is set to: it decides which drive a write goes to, and when.

Below its target of dirty data the writes of an OSD end in the cache device, above it more and
more of them wait for the backing drive.  Periods on both sides of that line are not alike.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from .text import CommandLine, amount, chained, command, ticked

NAME_CHARS_MAX = 64
VALUE_CHARS_MAX = 32
VALUES_MAX = 32


@dataclass(frozen=True)
class OptionValue:
    """An option of a drive, with its value as `Option.canonical` writes it."""

    name: str = field(metadata={"max_chars": NAME_CHARS_MAX})
    value: str = field(metadata={"max_chars": VALUE_CHARS_MAX})


@dataclass(frozen=True)
class FlushCounters:
    """Kernel flush counters of one disk (`/sys/block/*/stat`, fields 16 and 17).

    `at_ns` is the probe's monotonic clock when they were read.  `paths` are the disks in the
    kernel that they are the sum of: an NVMe namespace has one for each path.  0 where a probe
    did not say, and may have read the multipath head, which counts no flushes.
    """

    at_ns: int
    writes: int
    flushes: int
    flush_ms: int
    paths: int = 0


@dataclass(frozen=True)
class DmCacheState:
    """A dm-cache or dm-writecache above a drive, named and observed, never tuned.

    None is unknown.  dm-writecache has one mode and no policy.
    """

    name: str = field(metadata={"max_chars": 128})
    kind: str = field(metadata={"max_chars": 16})
    mode: str = field(metadata={"max_chars": 16})
    policy: str = field(default="", metadata={"max_chars": 16})
    dirty_bytes: Optional[int] = None


@dataclass(frozen=True)
class CgroupLimit:
    """What a control group lets these OSDs use together.

    `used_bytes` is what all of its processes use now, without page cache, which the kernel takes
    back before it kills.  It is 0 in a report, and in a reading where it is not known.
    """

    bytes_max: int
    osd_ids: Tuple[int, ...] = field(default=(), metadata={"max_items": 1024})
    used_bytes: int = 0


@dataclass(frozen=True)
class HostMemory:
    """A host's RAM (/proc/meminfo) and the limits of the OSDs' control groups.

    `available_bytes` of a report is rounded, so that a report changes only where it matters.
    """

    total_bytes: int
    available_bytes: int = 0
    limits: Tuple[CgroupLimit, ...] = field(default=(), metadata={"max_items": 1024})


@dataclass(frozen=True)
class Wear:
    """What was written to a drive over its life, as its SMART data tell; None is unknown.

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


CONTROLLERS_MAX = 16
_WORD = {"max_chars": 120}


@dataclass(frozen=True)
class Controller:
    """What one controller says; "" where its tool does not tell.

    `tool` is the vendor's program, `name` how that calls the controller (a number).
    """

    tool: str = field(metadata=_WORD)
    name: str = field(metadata=_WORD)
    model: str = field(default="", metadata=_WORD)
    firmware: str = field(default="", metadata=_WORD)
    mode: str = field(default="", metadata=_WORD)  # IT or IR, HBA or RAID
    cache_policy: str = field(default="", metadata=_WORD)
    battery: str = field(default="", metadata=_WORD)
    # the setting that it has for its drives' own caches; newer tools tell one for each use
    drive_cache: str = field(default="", metadata=_WORD)
    trouble: str = field(default="", metadata={"max_chars": 300})
    # what the drives themselves say, counted: "6 Enabled, 2 Disabled"
    drives_own: str = field(default="", metadata=_WORD)


def advice(one: Controller) -> Tuple[str, ...]:
    """Lines for an admin; commands among them are printed and never run."""
    lines = [one.trouble] if one.trouble else []
    if not re.fullmatch(r"[0-9]{1,3}", one.name):
        return tuple(lines)  # what came from outside stands in no command
    good = one.battery.lower() in ("optimal", "ok", "ready")
    policy = one.cache_policy.lower()
    if not good and ("wb" in policy or "write-back" in policy or "writeback" in policy):
        lines.append(
            "its cache is in write back without a battery that is known to be good; with data "
            f"that matters: {_by_tool(one, _write_through(one), 'set write through')}"
        )
    if _may_be_on(one):
        lines.append(
            "volumes: the drives' own caches are not known to be off, and a power cut empties "
            f"them; {_by_tool(one, _drive_cache_off(one), 'turn them off')}"
        )
    return tuple(lines)


# The vendors' words for a drive's own cache that is off; all others are not known to be.
_OFF = re.compile(r"(disabled?|off)\b.*")
# mpi3mr's tools, whose words to set a cache are not known here.
_NEWER_TOOLS = ("storcli2", "perccli2")


def _by_tool(one: Controller, line: CommandLine, what: str) -> str:
    return f"{what} with {one.tool}" if one.tool in _NEWER_TOOLS else ticked(line)


def _may_be_on(one: Controller) -> bool:
    """Whether drives of volumes may have their own caches on, as far as anything is told."""
    setting = _of_volumes(one.drive_cache.lower())
    told = [part.strip() for part in setting.split(",") if part.strip()]
    if told and all(_OFF.fullmatch(part) for part in told):
        return False
    own = [part.strip().partition(" ")[2] for part in one.drives_own.lower().split(",")]
    if one.drives_own and all(_OFF.fullmatch(part) for part in own):
        return False
    # without volumes (HBA mode) there is no policy, and what its drives say is their own affair
    return bool(told) or bool(one.drives_own and one.cache_policy)


def _of_volumes(setting: str) -> str:
    """The part that is for drives in volumes: "configured: default; hba: default"."""
    for part in setting.split(";"):
        use, colon, value = part.partition(":")
        if colon and use.strip() == "configured":
            return value
    return "" if ":" in setting else setting


def _by_use(one: Controller) -> bool:
    return "configured:" in one.drive_cache.lower()


def _write_through(one: Controller) -> CommandLine:
    return {
        "ssacli": command("ssacli ctrl slot={} modify nbwc=disable", one.name),
        "arcconf": command("arcconf setcache {} logicaldrive N wt", one.name),
    }.get(one.tool, command("{} /c{}/vall set wrcache=wt", one.tool, one.name))


def _drive_cache_off(one: Controller) -> CommandLine:
    name = one.name
    if one.tool == "ssacli":
        off = command("ssacli ctrl slot={} modify dwc=disable", name)
        return chained([off, command("usage=configured forced")], " ") if _by_use(one) else off
    if one.tool == "arcconf":
        if _by_use(one):
            return command("arcconf setcache {} drivewritecachepolicy configured 2", name)
        return command("arcconf setcache {} deviceall disable", name)
    return command("{} /c{}/vall set pdcache=off", one.tool, name)


# bcache devices that are told of one drive: where there are as many, there may be more.
DEVICES_MAX = 16
# The controller works out the rate anew this often (writeback_rate_update_seconds, by default).
CONTROLLER_S = 5.0
# In parts of the target: dirty data is at it within the first, none that counts below the second,
# and it stands where it moves by less than the third from one look of the controller to the next.
AT_TARGET, CLEAN, STANDS = 0.1, 0.05, 0.05


class Dirty(str, Enum):
    """Where dirty data is to its target."""

    ANY = ""
    CLEAN = "clean"
    BELOW = "below"
    TARGET = "target"
    BEYOND = "beyond"


# Where dirty data comes by writes alone, and what an experiment may write for it at most, in parts
# of the target: not every write gets dirty.
WRITTEN_FOR, WRITTEN_MAX = (Dirty.TARGET, Dirty.BEYOND), 4


@dataclass(frozen=True)
class BcacheState:
    """One bcache device, as seen from one of its drives; None is unknown.

    `is_cache`: the drive is the cache, and not the backing drive.  Each is a cache domain of its
    own, so flushes are counted apart.
    """

    name: str = field(metadata={"max_chars": 64})
    is_cache: bool
    mode: str = field(metadata={"max_chars": 16})
    sequential_cutoff_bytes: Optional[int] = None
    dirty_bytes: Optional[int] = None
    target_bytes: Optional[int] = None
    rate_bytes_s: Optional[int] = None
    # whether the rate also goes by fragmentation (`writeback_consider_fragment`, Linux 5.12)
    considers_fragments: Optional[bool] = None
    busy_ms: Optional[int] = None  # for how long the backing disk was busy so far
    at_s: float = 0.0  # when the mgr was told of it, with a period
    # "no cache", "clean", "dirty" or "inconsistent" (drivers/md/bcache/sysfs.c); "" is unknown
    state: str = field(default="", metadata={"max_chars": 16})

    @property
    def without_cache(self) -> str:
        """Why its mode is not in force, or its data not sound; empty where neither is told."""
        return {
            "no cache": "no cache is attached: its mode is not in force",
            "inconsistent": "it runs without its cache, by force: what was dirty there is lost, or "
            "old",
        }.get(self.state, "")

    @property
    def above_target(self) -> Optional[bool]:
        """Whether more is dirty than bcache wants to keep; None where that is unknown."""
        if self.mode != "writeback" or self.dirty_bytes is None or self.target_bytes is None:
            return None
        return self.dirty_bytes > self.target_bytes

    @property
    def dirty(self) -> Dirty:
        """Where its dirty data is to the target; ANY where that is unknown."""
        if self.above_target is None:
            return Dirty.ANY
        if not self.target_bytes:  # as where all is to be written back, or before its first look
            return Dirty.BEYOND if self.dirty_bytes else Dirty.CLEAN
        share = (self.dirty_bytes or 0) / self.target_bytes
        if share <= CLEAN:
            return Dirty.CLEAN
        if share > 1 + AT_TARGET:
            return Dirty.BEYOND
        return Dirty.BELOW if share < 1 - AT_TARGET else Dirty.TARGET


def begins_nowhere(states: Sequence[BcacheState], wanted: Dirty) -> str:
    """Why dirty data of a backing drive cannot be brought anywhere; empty where it can."""
    modes = sorted({one.mode for one in states if not one.is_cache})
    if wanted is Dirty.ANY or modes == ["writeback"]:
        return ""
    return f"bcache is in mode {', '.join(modes) or 'unknown'}, and keeps dirty data in writeback"


def moves(readings: Sequence[BcacheState], wanted: Dirty = Dirty.ANY) -> str:
    """Why a controller has not settled where it should, by readings of its looks; empty if it has.

    A device that does not tell its dirty data is not waited for, unless it is to be somewhere.
    """
    by_name: Dict[str, List[BcacheState]] = {}
    for one in readings:
        if not one.is_cache:
            by_name.setdefault(one.name, []).append(one)
    if wanted is not Dirty.ANY and not by_name:
        return "no bcache device tells its dirty data"
    for name, seen in sorted(by_name.items()):
        last = seen[-1]
        if wanted not in (Dirty.ANY, last.dirty):
            return f"its dirty data is {_where(last)} and not {wanted.value}: {name}"
        if wanted is Dirty.BEYOND and not last.target_bytes:  # before its first look, for one
            return f"bcache has no target for its dirty data: {name}"
        if last.dirty is Dirty.ANY or wanted is Dirty.BEYOND:  # beyond its target it never stands
            continue
        if len(seen) == 1:
            return f"{name} was looked at once"
        gone = abs((last.dirty_bytes or 0) - (seen[-2].dirty_bytes or 0))
        if gone > STANDS * (last.target_bytes or 0):
            return f"its dirty data still moves, and is {_where(last)}: {name}"
    return ""


def _where(one: BcacheState) -> str:
    if one.dirty is Dirty.ANY:
        return "unknown"
    if not one.target_bytes:
        return f"{one.dirty.value} (the target is 0)"
    return f"{one.dirty.value} ({(one.dirty_bytes or 0) / one.target_bytes:.0%} of the target)"


def crossed_target(readings: Iterable[BcacheState]) -> List[str]:
    """Names of the devices whose dirty data was on both sides of the target."""
    seen: Dict[str, set[bool]] = {}
    for one in readings:
        if one.above_target is not None:
            seen.setdefault(one.name, set()).add(one.above_target)
    return sorted(name for name, sides in seen.items() if len(sides) == 2)

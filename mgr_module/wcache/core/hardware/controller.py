"""A storage controller as its vendor's tool tells it, and what an admin may do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Tuple

from ..shell import CommandLine, chained, command, ticked

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

"""A storage controller as its vendor's tool tells it, and what an admin may do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Tuple

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
    drive_cache: str = field(default="", metadata=_WORD)
    trouble: str = field(default="", metadata={"max_chars": 300})


def advice(one: Controller) -> Tuple[str, ...]:
    """Lines for an admin; commands among them are printed and never run."""
    if one.trouble:
        return (one.trouble,)
    if not re.fullmatch(r"[0-9]{1,3}", one.name):
        return ()  # what came from outside stands in no command
    lines = []
    good = one.battery.lower() in ("optimal", "ok", "ready")
    policy = one.cache_policy.lower()
    if not good and ("wb" in policy or "write-back" in policy or "writeback" in policy):
        lines.append(
            "its cache is in write back without a battery that is known to be good; with data "
            f"that matters: `{_write_through(one)}`"
        )
    if one.drive_cache.lower() not in ("", "disabled", "off"):
        lines.append(
            "volumes: the drives' own caches are not known to be off, and a power cut empties "
            f"them; `{_drive_cache_off(one)}`"
        )
    return tuple(lines)


def _write_through(one: Controller) -> str:
    return {
        "ssacli": f"ssacli ctrl slot={one.name} modify nbwc=disable",
        "arcconf": f"arcconf setcache {one.name} logicaldrive all wt",
    }.get(one.tool, f"{one.tool} /c{one.name}/vall set wrcache=wt")


def _drive_cache_off(one: Controller) -> str:
    return {
        "ssacli": f"ssacli ctrl slot={one.name} modify dwc=disable",
        "arcconf": f"arcconf getconfig {one.name} pd",
    }.get(one.tool, f"{one.tool} /c{one.name}/vall set pdcache=off")

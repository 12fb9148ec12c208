"""What ssacli and arcconf print: lines of `Key : value`."""

from __future__ import annotations

import re
from typing import Dict, Iterator, List, Tuple

from wcache.core.codec import one_line
from wcache.core.hardware.controller import CONTROLLERS_MAX, Controller

from .words import counted, joined, word

LINES_MAX = 60_000
DRIVES_MAX = 1024


def ssacli(tool: str, text: str) -> List[Controller]:
    """ssacli's text (`ctrl all show detail`)."""
    found: List[Dict[str, str]] = []
    for line in text.splitlines()[:LINES_MAX]:
        head = re.fullmatch(r"(\S.{0,80}) in Slot ([0-9]{1,3})\b.*", line)
        if head and len(found) < CONTROLLERS_MAX:
            found.append({"model": head[1], "name": head[2]})
        elif found:
            _take(found[-1], line)
    return [
        Controller(
            tool, one["name"], word(one["model"]), one.get("firmware version", ""),
            one.get("controller mode", ""),
            joined([one.get("cache status", ""), _without_battery(one)]),
            one.get("battery/capacitor status", ""),
            _by_use(one, "{} drive write cache policy") or one.get("drive write cache", ""),
        )
        for one in found
    ]


def _without_battery(one: Dict[str, str]) -> str:
    on = one.get("no-battery write cache", "").lower() == "enabled"
    return "write-back without battery" if on else ""


def arcconf_numbers(text: str) -> List[str]:
    """Numbers of the controllers (`list`)."""
    found = re.findall(r"^\s*Controller ([0-9]{1,3})\s*:", text[:100_000], re.MULTILINE)
    return list(dict.fromkeys(found))[:CONTROLLERS_MAX]


def arcconf(tool: str, name: str, text: str) -> List[Controller]:
    """arcconf's text (`getconfig N`)."""
    one: Dict[str, str] = {}
    policies: List[str] = []
    drives: List[str] = []
    for key, value in _pairs(text):
        one.setdefault(key, value)
        if key in ("write-cache mode", "write cache mode"):
            policies.append(value)
        elif key == "write cache" and len(drives) < DRIVES_MAX:  # of a physical device
            drives.append(value)
    if "controller model" not in one:
        return []
    return [Controller(
        tool, name, one["controller model"], one.get("firmware", ""),
        one.get("controller mode", ""), joined(policies[:256]),
        one.get("overall backup unit status", "") or one.get("backup power status", ""),
        _by_use(one, "{} drives") or one.get("drive write cache", ""), "", counted(drives),
    )]


def _by_use(one: Dict[str, str], key: str) -> str:
    """Newer tools tell a policy for drives in volumes, for unused ones and for those passed on."""
    return joined(
        (f"{use}: {one[key.format(use)]}" for use in ("configured", "unconfigured", "hba")
         if one.get(key.format(use))), "; ",
    )


def _pairs(text: str) -> Iterator[Tuple[str, str]]:
    for line in text.splitlines()[:LINES_MAX]:
        key, colon, value = line[:400].partition(":")
        if colon:
            yield one_line(key, 60).lower(), word(value)


def _take(one: Dict[str, str], line: str) -> None:
    """`Key : value`, the first of each key."""
    for key, value in _pairs(line):
        one.setdefault(key, value)

"""RAID controllers and HBAs by their vendors' tools, where those are installed.  Only reading."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from wcache.core.codec import one_line, parse_json
from wcache.core.errors import MalformedError, WcacheError
from wcache.core.hardware.controller import CONTROLLERS_MAX, Controller

from .tool import OUTPUT_BYTES_MAX, Run, find, run

SECONDS_MAX = 20.0
FRESH_S = 3600.0
LINES_MAX = 20_000
_STORCLI = ("storcli64", "storcli", "perccli64", "perccli")
_NO_VALUE = ("", "n/a", "na", "-")


def storcli(tool: str, text: str) -> List[Controller]:
    """storcli's and perccli's JSON (`/call show all J`); MalformedError where it is none."""
    top = parse_json(text, bytes_max=OUTPUT_BYTES_MAX, what=f"{tool}'s answer")
    rows = top.get("Controllers") if isinstance(top, dict) else None
    if not isinstance(rows, list):
        raise MalformedError(f"{tool}'s answer has no list of controllers")
    found = []
    for row in rows[:CONTROLLERS_MAX]:
        data = row.get("Response Data") if isinstance(row, dict) else None
        if not isinstance(data, dict):
            continue
        basics, version = _section(data, "Basics"), _section(data, "Version")
        capable = _section(data, "Capabilities")
        volumes = [item for item in _rows(data, "VD LIST") if isinstance(item, dict)]
        units = [*_rows(data, "Cachevault_Info"), *_rows(data, "BBU_Info")]
        states = [_word(item.get("State")) for item in units if isinstance(item, dict)]
        found.append(Controller(
            tool, _word(basics.get("Controller")), _word(basics.get("Model")),
            _word(version.get("Firmware Version")),
            _word(basics.get("Current Personality") or capable.get("Current Personality")),
            _joined(_policy(_word(item.get("Cache"))) for item in volumes),
            _joined(states), "",
        ))
    return found


def _policy(cache: str) -> str:
    """NRWBD and its like: read ahead, then the write policy, then the I/O policy."""
    match = re.fullmatch(r"N?R(AWB|FWB|WB|WT)[DC]", cache)
    return match[1] if match else cache


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
            tool, one["name"], _word(one["model"]), one.get("firmware version", ""),
            one.get("controller mode", ""),
            _joined([one.get("cache status", ""), _nbwc(one)]),
            one.get("battery/capacitor status", ""), one.get("drive write cache", ""),
        )
        for one in found
    ]


def _nbwc(one: Dict[str, str]) -> str:
    on = one.get("no-battery write cache", "").lower() == "enabled"
    return "write-back without battery" if on else ""


def arcconf(tool: str, name: str, text: str) -> List[Controller]:
    """arcconf's text (`getconfig N`)."""
    one: Dict[str, str] = {}
    for line in text.splitlines()[:LINES_MAX]:
        _take(one, line)
    if "controller model" not in one:
        return []
    policy = one.get("write-cache mode", "") or one.get("write cache mode", "")
    return [Controller(
        tool, name, one["controller model"], one.get("firmware", ""),
        one.get("controller mode", ""), policy,
        one.get("overall backup unit status", ""), one.get("drive write cache", ""),
    )]


def _take(one: Dict[str, str], line: str) -> None:
    """`Key : value`, the first of each key."""
    key, colon, value = line[:400].partition(":")
    if colon:
        one.setdefault(one_line(key, 60).lower(), _word(value))


def _word(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    # an int of absurd length would take long to print, and no tool has one
    text = one_line(value, 60) if isinstance(value, str) else str(value)[:20]
    return "" if text.lower() in _NO_VALUE else text


def _section(data: Dict[str, Any], name: str) -> Dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _rows(data: Dict[str, Any], name: str) -> Sequence[Any]:
    found = data.get(name)
    return found[:256] if isinstance(found, list) else ()


def _joined(words: Any) -> str:
    return one_line(", ".join(dict.fromkeys(word for word in words if word)), 120)


class ControllerReader:
    """Asks the tools that are there, at most once an hour; a trouble is told, not raised."""

    def __init__(
        self, tool: Callable[[str], Optional[str]] = find, run: Run = run,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tool, self._run, self._clock = tool, run, clock
        self._read: Tuple[float, Tuple[Controller, ...]] = (float("-inf"), ())

    def read(self) -> Tuple[Controller, ...]:
        """Every controller that a tool tells of."""
        asked_at_s, known = self._read
        if self._clock() - asked_at_s > FRESH_S:
            known = tuple(self._ask())[:CONTROLLERS_MAX]
            self._read = (self._clock(), known)
        return known

    def _ask(self) -> Iterator[Controller]:
        for family, ask in (
            (_STORCLI[:2], self._storcli), (_STORCLI[2:], self._storcli),
            (("ssacli",), self._ssacli), (("arcconf",), self._arcconf),
        ):
            path = next((place for place in map(self._tool, family) if place), None)
            if path is None:
                continue
            name = os.path.basename(path)
            try:
                yield from ask(path, name)
            except WcacheError as error:
                yield Controller(name, "", trouble=one_line(error.message, 300))

    def _storcli(self, path: str, name: str) -> List[Controller]:
        return storcli(name, self._run((path, "/call", "show", "all", "J"), SECONDS_MAX))

    def _ssacli(self, path: str, name: str) -> List[Controller]:
        return ssacli(name, self._run((path, "ctrl", "all", "show", "detail"), SECONDS_MAX))

    def _arcconf(self, path: str, name: str) -> List[Controller]:
        return arcconf(name, "1", self._run((path, "getconfig", "1"), SECONDS_MAX))

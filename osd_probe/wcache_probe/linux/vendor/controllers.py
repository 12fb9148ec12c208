"""Storage controllers by their vendors' tools, where those are installed.  Only reading.

storcli and perccli print JSON: the controller, its volumes, its drives.  storcli2 and perccli2
(mpi3mr, MegaRAID 9600 and later) tell the same under other keys.  ssacli and arcconf print lines
of `Key : value`.
"""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from wcache.core.codec import one_line, parse_json
from wcache.core.errors import MalformedError, NotReadyError, WcacheError
from wcache.core.hardware import CONTROLLERS_MAX, Controller

from .tool import OUTPUT_BYTES_MAX, Run, find, run

_NO_VALUE = ("", "n/a", "na", "-")


def word(value: Any) -> str:
    """One value as a line of up to 60 characters; "" where the tool has none."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return ""
    # an int of absurd length would take long to print, and no tool has one
    text = one_line(value, 60) if isinstance(value, str) else str(value)[:20]
    return "" if text.lower() in _NO_VALUE else text


def joined(words: Iterable[str], between: str = ", ") -> str:
    """Each word once, in order."""
    return one_line(between.join(dict.fromkeys(word for word in words if word)), 120)


def counted(words: Iterable[str]) -> str:
    """How many of each ("6 Enabled, 2 not told"); "" where none is told."""
    found = Counter(words)
    if not any(found):
        return ""
    return one_line(
        ", ".join(f"{count} {text or 'not told'}" for text, count in sorted(
            found.items(), key=lambda item: (not item[0], -item[1], item[0])
        )), 120,
    )


SHOW = ("/call", "show", "all", "J")
VOLUMES = ("/call/vall", "show", "all", "J")
# drives in enclosures, and those that are connected directly
DRIVES = (("/call/eall/sall", "show", "all", "J"), ("/call/sall", "show", "all", "J"))
DRIVES_MAX = 1024


def storcli(tool: str, text: str) -> List[Controller]:
    """What SHOW prints; MalformedError where it is no such JSON."""
    found = []
    for name, data in _answers(tool, text):
        basics, version = _section(data, "Basics"), _section(data, "Version")
        capable, status = _section(data, "Capabilities"), _section(data, "Status")
        units = [
            *_rows(data, "Cachevault_Info"), *_rows(data, "BBU_Info"),
            *_rows(data, "Energy Pack Info"),
        ]
        found.append(Controller(
            tool, word(basics.get("Controller")) or name,
            _first(basics, "Model", "Product Name", "Board Name"),
            _first(version, "Firmware Version"),
            _first(basics, "Current Personality") or _first(capable, "Current Personality")
            or _first(status, "Controller Personality"),
            joined(
                _policy(_first(item, "Cache", "CurrentCache"))
                for item in _tables(data, "VD LIST")
            ),
            joined(_first(item, "State", "Status") for item in units if isinstance(item, dict)),
            "",
        ))
    return found


def volumes_told(tool: str, text: str) -> Dict[str, str]:
    """By controller, what its volumes say about their drives' caches: what VOLUMES prints."""
    return {
        name: joined([
            *(
                word(value.get("Disk Cache Policy"))
                for key, value in list(data.items())[:DRIVES_MAX]
                if isinstance(value, dict) and re.fullmatch(r"VD[0-9]{1,4} Properties", key)
            ),
            *(
                word(_section(item, "VD Properties").get("Drive Write Cache Policy"))
                for item in _tables(data, "Virtual Drives")
            ),
        ])
        for name, data in _answers(tool, text)
    }


def drives_told(tool: str, text: str) -> Dict[str, List[str]]:
    """By controller, each drive's own write cache ("" not told): what DRIVES print."""
    return {
        name: [
            _first(attributes, "Write Cache", "Write cache", "Current Write Cache")
            for attributes in _attributes(data)
        ][:DRIVES_MAX]
        for name, data in _answers(tool, text)
    }


def merged(
    one: Controller, volumes: Dict[str, str], drives: Sequence[Dict[str, List[str]]]
) -> Controller:
    """A controller with what was told about the caches of its drives."""
    own = [text for told in drives for text in told.get(one.name, ())]
    return replace(one, drive_cache=volumes.get(one.name, ""), drives_own=counted(own))


def _attributes(data: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """`Drive /c0/e252/s0 - Detailed Information`, in it `... Device attributes`."""
    for key, value in data.items():
        if not key.endswith("Detailed Information") or not isinstance(value, dict):
            continue
        for name, attributes in value.items():
            if name.endswith("Device attributes") and isinstance(attributes, dict):
                yield attributes
    for item in _tables(data, "Drives List"):
        yield _section(_section(item, "Drive Detailed Information"), "LU/NS Properties")


def _answers(tool: str, text: str) -> Iterator[Tuple[str, Dict[str, Any]]]:
    """The number and the answer of each controller that has one."""
    top = parse_json(text, bytes_max=OUTPUT_BYTES_MAX, what=f"{tool}'s answer")
    rows = top.get("Controllers") if isinstance(top, dict) else None
    if not isinstance(rows, list):
        raise MalformedError(f"{tool}'s answer has no list of controllers")
    for row in rows[:CONTROLLERS_MAX]:
        if isinstance(row, dict) and isinstance(row.get("Response Data"), dict):
            name = word(_section(row, "Command Status").get("Controller"))
            yield name, row["Response Data"]


def _policy(cache: str) -> str:
    """NRWBD, "NR,WB" and their like: read ahead, the write policy, then the I/O policy."""
    match = re.fullmatch(r"N?R,?(AWB|FWB|WB|WT)[DC]?", cache)
    return match[1] if match else cache


def _section(data: Dict[str, Any], name: str) -> Dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _tables(data: Dict[str, Any], name: str) -> List[Dict[str, Any]]:
    return [item for item in _rows(data, name) if isinstance(item, dict)]


def _first(data: Dict[str, Any], *keys: str) -> str:
    """The value of the first key that has one."""
    return next((text for text in (word(data.get(key)) for key in keys) if text), "")


def _rows(data: Dict[str, Any], name: str) -> Sequence[Any]:
    found = data.get(name)
    return found[:256] if isinstance(found, list) else ()


LINES_MAX = 60_000


def ssacli(tool: str, text: str) -> List[Controller]:
    """ssacli's text (`ctrl all show detail`)."""
    found: List[Dict[str, str]] = []
    for line in text.splitlines()[:LINES_MAX]:
        head = re.fullmatch(r"(\S.{0,80}) in Slot ([0-9]{1,3})\b.*", line)
        if head and len(found) < CONTROLLERS_MAX:
            found.append({"model": head[1], "name": head[2]})
        elif found:
            for key, value in _pairs(line):
                found[-1].setdefault(key, value)
    return [
        Controller(
            tool, one["name"], word(one["model"]), one.get("firmware version", ""),
            one.get("controller mode", ""),
            joined([
                one.get("cache status", ""),
                "write-back without battery" * (
                    one.get("no-battery write cache", "").lower() == "enabled"
                ),
            ]),
            one.get("battery/capacitor status", ""),
            _by_use(one, "{} drive write cache policy") or one.get("drive write cache", ""),
        )
        for one in found
    ]


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


SECONDS_MAX = 20.0  # for all questions to one tool
FRESH_S = 3600.0
# One of each row: a vendor's generation of adapters has a tool of its own.
_STORCLI = (
    ("storcli64", "storcli"), ("perccli64", "perccli"), ("storcli2",), ("perccli2",),
)

_Ask = Callable[..., str]
"""Runs the tool with some arguments; what it printed."""


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
            known = tuple(self._all())[:CONTROLLERS_MAX]
            self._read = (self._clock(), known)
        return known

    def _all(self) -> Iterator[Controller]:
        for family, read in (
            *((family, _storcli) for family in _STORCLI),
            (("ssacli",), lambda tool, ask: ssacli(tool, ask("ctrl", "all", "show", "detail"))),
            (("arcconf",), _arcconf),
        ):
            path = next((place for place in map(self._tool, family) if place), None)
            if path is None:
                continue
            name = os.path.basename(path)
            try:
                yield from read(name, self._asking(path))
            except WcacheError as error:
                yield Controller(name, "", trouble=one_line(error.message, 300))

    def _asking(self, path: str) -> _Ask:
        """Runs the tool; all of its answers together may take SECONDS_MAX."""
        until_s = self._clock() + SECONDS_MAX

        def ask(*words: str) -> str:
            left_s = until_s - self._clock()
            if left_s <= 0:
                raise NotReadyError(f"{os.path.basename(path)} took more than {SECONDS_MAX:g} s")
            return self._run((path, *words), left_s)

        return ask


def _storcli(tool: str, ask: _Ask) -> List[Controller]:
    found = storcli(tool, ask(*SHOW))
    if not found:
        return []
    trouble = ""
    volumes: Dict[str, str] = {}
    drives: Sequence[Dict[str, List[str]]] = ()
    try:
        volumes = volumes_told(tool, ask(*VOLUMES))
        drives = [drives_told(tool, ask(*words)) for words in DRIVES]
    except WcacheError as error:
        # what is known of the controllers themselves is not hidden by it
        trouble = one_line(f"the caches of its drives could not be read: {error.message}", 300)
    return [replace(merged(one, volumes, drives), trouble=trouble) for one in found]


def _arcconf(tool: str, ask: _Ask) -> List[Controller]:
    # older ones have no `list`
    numbers = arcconf_numbers(ask("list")) or ["1"]
    return [one for name in numbers for one in arcconf(tool, name, ask("getconfig", name))]

"""What storcli and perccli print as JSON: the controller, its volumes, its drives.

storcli2 and perccli2 (mpi3mr, MegaRAID 9600 and later) tell the same under other keys.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from wcache.core.codec import parse_json
from wcache.core.errors import MalformedError
from wcache.core.hardware.controller import CONTROLLERS_MAX, Controller

from .tool import OUTPUT_BYTES_MAX
from .words import counted, joined, word

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
    return Controller(
        one.tool, one.name, one.model, one.firmware, one.mode, one.cache_policy, one.battery,
        volumes.get(one.name, ""), one.trouble, counted(own),
    )


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

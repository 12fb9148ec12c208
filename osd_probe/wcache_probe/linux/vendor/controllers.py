"""RAID controllers and HBAs by their vendors' tools, where those are installed.  Only reading."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from wcache.core.codec import one_line
from wcache.core.errors import NotReadyError, WcacheError
from wcache.core.hardware.controller import CONTROLLERS_MAX, Controller

from .storcli import DRIVES, SHOW, VOLUMES, drives_told, merged, storcli, volumes_told
from .text_tools import arcconf, arcconf_numbers, ssacli
from .tool import Run, find, run

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
            (("ssacli",), _ssacli), (("arcconf",), _arcconf),
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


def _ssacli(tool: str, ask: _Ask) -> List[Controller]:
    return ssacli(tool, ask("ctrl", "all", "show", "detail"))


def _arcconf(tool: str, ask: _Ask) -> List[Controller]:
    # older ones have no `list`
    numbers = arcconf_numbers(ask("list")) or ["1"]
    return [one for name in numbers for one in arcconf(tool, name, ask("getconfig", name))]

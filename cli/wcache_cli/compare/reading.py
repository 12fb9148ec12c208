"""Latencies out of what other tools write: fio JSON, fio latency logs, plain text.

fio's JSON and its logs have modules of their own.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import replace
from itertools import chain
from typing import Dict, Iterable, List, Mapping, Sequence, Tuple

from wcache.core.errors import MalformedError
from wcache.core.model import CacheMode

from ..files import numbered_lines, text_blocks
from .fio_json import DRAWN_MAX, MEDIAN_ADVICE, fio_json, json_start
from .fio_logs import (
    LATENCIES_MAX,
    Log,
    bounded,
    by_measurement,
    latency,
    measurement_of,
    parse_log,
)
from .fio_settings import UNTOLD_SYNCS
from .latency_file import LatencyFile

UNITS: Dict[str, float] = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
FILE_BYTES_MAX = 512 * 2**20
JSON_BYTES_MAX = 64 * 2**20
# fio's outputs for people and for scripts, after lines of warning (fio: stat.c
# `show_thread_status_normal`, `show_thread_status_terse_all`; init.c `add_job`).
FORMS = (
    (re.compile(r"^[0-9]+;fio-", re.MULTILINE), "fio's terse output"),
    (
        re.compile(r"^(fio-[0-9]|.{0,200}: \((g=\d+\): rw=|groupid=\d+, jobs=))", re.MULTILINE),
        "fio's text output (--output-format=normal)",
    ),
)


def read_modes(
    paths: Mapping[CacheMode, Sequence[str]], unit: str, latencies_max: int = LATENCIES_MAX,
    *, synced: bool = False,
) -> Dict[CacheMode, List[LatencyFile]]:
    """What was measured in each mode: a file, or all logs that one run of fio wrote.

    `synced` is the admin's word that files which tell nothing of syncs hold synced writes.
    MalformedError says what is wrong and where, also where all files together hold more than
    `latencies_max` latencies.
    """
    groups = {mode: by_measurement(files) for mode, files in paths.items()}
    room = latencies_max
    # half of the room for what is drawn, so that a JSON never finds it full of others
    drawn_max = latencies_max // (2 * sum(map(len, paths.values())))
    found: Dict[CacheMode, List[LatencyFile]] = {mode: [] for mode in groups}
    for mode, of_mode in groups.items():
        for group in of_mode:
            if len(group) == 1:
                file = read_latencies(group[0], unit, room, drawn_max)
            else:
                file = _jobs(group, room)
            bounded(file.name, len(file.latencies_us), room)
            room -= len(file.latencies_us)
            if synced:
                doubts = tuple(doubt for doubt in file.doubts if doubt != UNTOLD_SYNCS)
                file = replace(file, doubts=doubts)
            found[mode].append(file)
    return found


def read_latencies(
    path: str, unit: str, room: int = LATENCIES_MAX, drawn_max: int = DRAWN_MAX
) -> LatencyFile:
    """The write latencies in a file; MalformedError says what is wrong and where."""
    blocks = text_blocks(path, FILE_BYTES_MAX)
    head = next(blocks, "")
    start = json_start(head)
    if start >= 0:
        return fio_json(path, _whole(path, chain([head[start:]], blocks)), drawn_max)
    for form, name in FORMS:
        if form.search(head):
            raise MalformedError(f"{path} is {name}, which has no distribution", MEDIAN_ADVICE)
    lines = numbered_lines(path, chain([head], blocks))
    for line_number, line in lines:
        if line.strip() and not line.lstrip().startswith("#"):
            every = chain([(line_number, line)], lines)
            if "," in line:
                return measurement_of([parse_log(path, every, room)])
            return _plain(path, every, UNITS[unit], room)
    raise MalformedError(f"{path} holds no latencies")


def _jobs(paths: Sequence[str], room: int) -> LatencyFile:
    logs: List[Log] = []
    for path in paths:
        lines = numbered_lines(path, text_blocks(path, FILE_BYTES_MAX))
        logs.append(parse_log(path, lines, room))
        room -= len(logs[-1].latencies_us)
    return measurement_of(logs)


def _whole(path: str, blocks: Iterable[str]) -> str:
    """All of a JSON, which needs many times its length as objects."""
    parts, length = [], 0
    for block in blocks:
        parts.append(block)
        length += len(block)
        if length > JSON_BYTES_MAX:
            raise MalformedError(f"{path} is JSON of more than {JSON_BYTES_MAX} bytes")
    return "".join(parts)


def _plain(path: str, lines: Iterable[Tuple[int, str]], factor: float, room: int) -> LatencyFile:
    values = array("d")
    for line_number, line in lines:
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        values.append(latency(word, path, line_number, factor))
        bounded(path, len(values), room)
    return LatencyFile(path, values, doubts=(UNTOLD_SYNCS,))

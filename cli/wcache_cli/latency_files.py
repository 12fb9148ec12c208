"""Latencies out of what other tools write: fio JSON, fio latency logs, plain text.

fio's JSON and its logs have modules of their own.
"""

from __future__ import annotations

from array import array
from typing import Dict, List, Sequence

from wcache.analysis.runs import Run
from wcache.core.errors import MalformedError

from .files import read_text
from .fio_json import fio_json
from .fio_logs import bounded, by_run, latency, log_run, parse_log

UNITS: Dict[str, float] = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
FILE_BYTES_MAX = 512 * 2**20


def read_runs(paths: Sequence[str], unit: str) -> List[Run]:
    """The runs of a mode: one for each file, or for all logs that one run of fio wrote."""
    return [
        read_latencies(group[0], unit) if len(group) == 1 else log_run(
            [parse_log(path, read_text(path, FILE_BYTES_MAX).splitlines()) for path in group]
        )
        for group in by_run(paths)
    ]


def read_latencies(path: str, unit: str) -> Run:
    """The write latencies in a file; MalformedError says what is wrong and where."""
    text = read_text(path, FILE_BYTES_MAX)
    start = _json_start(text)
    if start >= 0:
        return fio_json(path, text[start:])
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            if "," in line:
                return log_run([parse_log(path, text.splitlines())])
            return _plain(path, text, UNITS[unit])
    raise MalformedError(f"{path} holds no latencies")


def _json_start(text: str) -> int:
    """Where a JSON object begins; fio may print warnings in front of it.  -1: no JSON."""
    if text.lstrip().startswith("{"):
        return text.index("{")
    place = text.find("\n{", 0, 65_536)
    return place + 1 if place >= 0 else -1


def _plain(path: str, text: str, factor: float) -> Run:
    values = array("d")
    for line_number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        values.append(latency(word, path, line_number, factor))
        bounded(path, len(values))
    return Run(path, values)

"""Every difference between the Ceph releases we run on, found by looking, in one file.

16 and 18 register commands through one `CLICommand`; 20 wants a registry of the module's
own as class attribute `CLICommand` (`CLICommandBase.make_registry_subtype`).  All three
still take a plain `COMMANDS` list and call `handle_command` for what no decorator claims.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import mgr_module

from ..core.codec import as_object
from ..core.loads import (
    COMMIT_COUNTERS,
    MOVE_COUNTERS,
    READ_COUNTER,
    SUBMIT_COUNTERS,
    TRANSACTION_COUNTERS,
)
from .command import CommandFailed, parse, parse_object

Counters = Dict[str, Tuple[float, int]]
_base = getattr(mgr_module, "CLICommandBase", None)

# None where the release has no registry per module.
COMMAND_REGISTRY = None if _base is None else _base.make_registry_subtype("WcacheCLICommand")

# OSDBenchTest::run_test came with the registry's release; it empties the OSD's onode and
# buffer caches at every bench call.
BENCH_EMPTIES_CACHES = _base is not None


def options(plain: List[Dict[str, Any]]) -> List[Any]:
    """Module options; every release takes these keywords."""
    return [mgr_module.Option(**item) for item in plain]


def commit_counters(perf_dump: Mapping[str, Any]) -> Counters:
    """Latency counters of a commit: name to (sum in s, count).

    What counts transactions, begun and committed, is kept under its newest name on every
    release.  The dump may have one of its sections only.
    """
    found: Dict[str, Tuple[float, int]] = {}
    bluestore = as_object(_at(perf_dump, "bluestore"))
    for name in ("kv_sync_lat", *COMMIT_COUNTERS):
        pair = _pair(bluestore.get(name))
        if pair is not None:
            found[TRANSACTION_COUNTERS[0] if name in TRANSACTION_COUNTERS else name] = pair
    for name in SUBMIT_COUNTERS:
        pair = _pair(bluestore.get(name))
        if pair is not None:
            found[SUBMIT_COUNTERS[0]] = pair
    pair = _pair(_at(as_object(_at(perf_dump, "osd")), "op_w_process_latency"))
    if pair is not None:
        found["op_w_process_latency"] = pair
    return found


def load_counters(perf_dump: Mapping[str, Any]) -> Counters:
    """The same, with clients' reads and what was moved: what a rollout is judged by."""
    found = commit_counters(perf_dump)
    osd = as_object(_at(perf_dump, "osd"))
    pair = _pair(_at(osd, READ_COUNTER))
    if pair is not None:
        found[READ_COUNTER] = pair
    return {**found, **move_counters(perf_dump)}


def move_counters(perf_dump: Mapping[str, Any]) -> Counters:
    """What an OSD has sent and got of PGs' data; 16 does not tell the second."""
    osd, found = as_object(_at(perf_dump, "osd")), {}
    for name in MOVE_COUNTERS:
        told = _at(osd, name)
        count = _at(told, "avgcount") if isinstance(told, Mapping) else told
        if isinstance(count, int):
            found[name] = 0.0, count
    return found


def counters_in(
    text: str, read: Callable[[Mapping[str, Any]], Counters]
) -> Optional[Counters]:
    """What is read in a dump; None where it is no JSON."""
    try:
        return read(parse_object(text, "perf dump"))
    except CommandFailed:
        return None


def points(mgr: Any, osd_id: int, name: str) -> Sequence[Sequence[float]]:
    """The mgr's points of an OSD's counter, oldest first; the getter was renamed in 20."""
    read = getattr(mgr, "get_unlabeled_counter", None) or mgr.get_counter
    found = read("osd", str(osd_id), name)
    return list(found.get(name, ())) if isinstance(found, Mapping) else ()


def bench_seconds(text: str) -> Optional[Tuple[float, int]]:
    """(elapsed seconds, bytes written) of an `osd bench` answer, or None.

    The error code of an OSD command is lost on its way to a module, so what is not the
    expected object is a failure.
    """
    try:
        plain = parse(text, "osd bench")
    except CommandFailed:
        return None
    elapsed = as_object(plain).get("elapsed_sec")
    written = as_object(plain).get("bytes_written")
    if not isinstance(elapsed, (int, float)) or not isinstance(written, int):
        return None
    return (float(elapsed), written) if elapsed > 0 else None


def _at(plain: Mapping[str, Any], name: str) -> Any:
    """What is there: a dump of one section has no other, and contracts hold what is read."""
    return plain[name] if name in plain else None  # noqa: SIM401


def _pair(value: Any) -> Optional[Tuple[float, int]]:
    plain = as_object(value)
    total, count = plain.get("sum"), plain.get("avgcount")
    if isinstance(total, (int, float)) and isinstance(count, int):
        return float(total), count
    return None

"""How fio measured, out of the options in its JSON: what must not differ between two modes.

fio writes the options it was given, under their canonical names, for all jobs ("global
options") and for each ("job options"); what was not given has fio's default (fio: options.c).
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping

BLOCK_SIZE = "bs"
SYNCS_ADDED = "syncs added to writes"
AVERAGED = "log_avg_msec"
LATENCIES = "kind of latencies"
JOBS_LOGGED = "jobs logged"
# "" where fio has none, or one that depends on the target.
DEFAULTS: Mapping[str, str] = {
    "rw": "read", BLOCK_SIZE: "4096", "bssplit": "", "iodepth": "1", "numjobs": "1",
    "fsync": "0", "fdatasync": "0", "sync": "0", "direct": "0", "ioengine": "psync",
    "rwmixwrite": "50", "rate": "", "rate_iops": "", "thinktime": "0", "size": "",
}
# codes of comparison.ADVICE
UNSYNCED = "unsynced"
UNTOLD_SYNCS = "syncs untold"
WAITING = ("1", "dsync")  # `sync`: O_SYNC and O_DSYNC, as `_plain` has them
SUFFIXES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
TEXT_MAX = 40


def settings_of(top: Mapping[str, Any], jobs: List[Mapping[str, Any]]) -> Dict[str, str]:
    """The settings of the jobs that wrote; empty where the file does not tell."""
    shared = _options(top.get("global options"))
    each = [{**shared, **_options(job.get("job options"))} for job in jobs]
    if not all(each):
        return {}
    found = {
        name: " and ".join(sorted({_value(options, name) for options in each}))[:TEXT_MAX]
        for name in DEFAULTS
    }
    # jobs that ran together are a load of their own; fio does not say whether it grouped them
    found["jobs reported"] = str(len(jobs))
    return found


def unsynced(settings: Mapping[str, str]) -> bool:
    """Whether a latency is not that of a write that the drive was told to keep.

    `fsync` and `fdatasync` are calls of their own after so many writes, told apart from the
    writes; `sync` opens with O_SYNC or O_DSYNC, so each write waits.  A buffered write ends in
    the page cache, and its sync brings it to the drive: the time of both is that of a commit.
    False where the file does not tell: see `untold_syncs`.
    """
    waits = settings.get("sync") in WAITING
    each = "1" in (settings.get("fsync"), settings.get("fdatasync"))
    added = settings.get(SYNCS_ADDED) == "yes"
    return "rw" in settings and not (waits or (each and added))


def untold_syncs(settings: Mapping[str, str]) -> bool:
    """Whether nothing says that each write was followed by a sync: no options, and no syncs."""
    return "rw" not in settings and settings.get(SYNCS_ADDED) != "yes"


def _options(found: Any) -> Dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {str(name): str(value) for name, value in found.items()}


def _value(options: Mapping[str, str], name: str) -> str:
    if name == "direct" and "direct" not in options and "buffered" in options:
        return "1" if _plain(options["buffered"]) == "0" else "0"
    return _plain(options.get(name, DEFAULTS[name]))


def _plain(text: str) -> str:
    """4k, 4K, 4KiB and 4096 are the same; so are the names and the numbers of `sync`."""
    word = "".join(c if c.isprintable() else "?" for c in text.strip().lower()[:TEXT_MAX])
    size = re.fullmatch(r"([0-9]{1,15})([kmgt]?)(?:i?b)?", word)
    if size:
        return str(int(size[1]) * SUFFIXES[size[2]])
    return {"none": "0", "sync": "1"}.get(word, word)

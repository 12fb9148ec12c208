"""Two files of one cluster at two times: `campaign show` of --observe, or `campaign record`.

Nothing was taken in turn, so it is told that something differs, and not why.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence

from wcache.analysis import pairs as pairing
from wcache.analysis import summary
from wcache.core import codec, versions
from wcache.core.errors import MalformedError
from wcache.core.experiment.two_campaigns import (
    Ratio,
    compare,
    lines,
    of_shown,
    time_passed,
    words,
)
from wcache.core.model import Arm
from wcache.core.options.entries import arms_of
from wcache.core.record import RECORD_BYTES_MAX, RECORD_FORMAT, Pair, Record
from wcache.core.text import latency, table
from wcache.core.verdict import sequential
from wcache.core.verdict.sequential import SAME_ALPHA

from ..files import read_text

BYTES_MAX = max(RECORD_BYTES_MAX, 64 * 2**20)
PERIODS_MIN = 4


def compared(before: str, after: str) -> Dict[str, Any]:
    """The comparison of two files, JSON-ready, with the lines that are printed of it."""
    then, now = _read(before), _read(after)
    kinds = [one.get("format") == RECORD_FORMAT for one in (then, now)]
    if kinds == [True, True]:
        return _of_records(*(versions.take(Record, one, "the record") for one in (then, now)))
    if any(kinds) or not all("observed" in one for one in (then, now)):
        raise MalformedError(
            "these are not two files of one kind",
            "save `ceph wcache campaign show ID --format json` of two campaigns of --observe, or "
            "`ceph wcache campaign record ID` of two experiments",
        )
    times_s = []
    for name, one in ((before, then), (after, now)):
        at_s = one.get("created_at_s")
        if isinstance(at_s, bool) or not isinstance(at_s, (int, float)):
            raise MalformedError(f"{name} does not say when it was measured")
        times_s.append(float(at_s))
    found = compare(of_shown(then["observed"]), of_shown(now["observed"]))
    return {
        "comparison": codec.to_plain(found), "lines": lines(found, _passed(times_s)),
    }


def _passed(times_s: Sequence[float]) -> float:
    if times_s[1] < times_s[0]:
        raise MalformedError("--after was measured earlier than --before", "swap the two")
    return times_s[1] - times_s[0]


def _read(path: str) -> Dict[str, Any]:
    plain = codec.parse_json(read_text(path, BYTES_MAX), bytes_max=BYTES_MAX, what=path)
    if not isinstance(plain, dict):
        raise MalformedError(f"{path} is not a JSON object")
    return plain


def _of_records(before: Record, after: Record) -> Dict[str, Any]:
    """Each arm of two experiments before and after; a period is one measurement of its arm."""
    setups = [record.setup for record in (before, after)]
    if setups[0].load_point is not setups[1].load_point:
        raise MalformedError("the two records are of different loads")
    if setups[0].option != setups[1].option:
        raise MalformedError("the two records do not compare the same two things")
    passed_s = _passed([record.started_at_s for record in (before, after)])
    used = [pairing.usable(record, []) for record in (before, after)]
    counters = [
        pairing.deciding_counter(pairs) if pairing.by_counters(record) else ""
        for record, pairs in zip((before, after), used)
    ]
    if counters[0] != counters[1]:
        raise MalformedError("the two records were decided by different counters of the OSD")
    rows: List[Sequence[str]] = []
    plain: Dict[str, Any] = {}
    arms = arms_of(setups[0].option)
    for arm in Arm:
        levels = [[_level_us(pair, arm, counters[0]) for pair in pairs] for pairs in used]
        ratio = _ratio(*levels)
        middles = [math.exp(math.fsum(one) / len(one)) if one else None for one in levels]
        plain[arms.name(arm)] = {
            "before_us": middles[0], "after_us": middles[1], "ratio": codec.to_plain(ratio),
            "periods": [len(one) for one in levels],
        }
        rows.append((
            arms.name(arm), str(len(levels[0])), str(len(levels[1])), latency(middles[0]),
            latency(middles[1]), words(ratio),
        ))
    what = "CACHE MODE" if setups[0].option is None else "OPTION"
    heads = (what, "PERIODS BEFORE", "PERIODS AFTER", "BEFORE", "AFTER", "CHANGE (95%)")
    notes = [
        f"{name} differs: {one}, then {other}"
        for name, one, other in (
            ("the OSD", f"osd.{setups[0].osd_id}", f"osd.{setups[1].osd_id}"),
            ("the drive", setups[0].drive_id, setups[1].drive_id),
            ("the drive model", str(setups[0].drive_model), str(setups[1].drive_model)),
            ("Ceph", setups[0].ceph_version, setups[1].ceph_version),
        ) if one != other
    ]
    level = f"the mean of {counters[0]}" if counters[0] else "the median"
    return {"modes": plain, "lines": [
        table(heads, rows), "",
        f"the change is of {level} of the periods ({setups[0].load_point.short}): below 0, it is "
        "faster now",
        time_passed(passed_s), *notes,
    ]}


def _level_us(pair: Pair, arm: Arm, counter: str) -> float:
    found = pairing.level(pair.period(arm), counter)
    return found if counter else found - math.log(1e3)


def _ratio(before: Sequence[float], after: Sequence[float]) -> Any:
    """Welch's t on the log level of each period (Biometrika 1947)."""
    if not before or not after:
        return None
    seen = [sequential.moments(one) for one in (before, after)]
    ln = seen[0].mean - seen[1].mean
    if min(len(before), len(after)) < PERIODS_MIN:
        return Ratio(math.exp(ln))
    errors = [max(spread.sd, sequential.SD_FLOOR) ** 2 / spread.n for spread in seen]
    degrees = sum(errors) ** 2 / sum(e**2 / (spread.n - 1) for e, spread in zip(errors, seen))
    half = summary.student(degrees, SAME_ALPHA) * math.sqrt(sum(errors))
    return Ratio(math.exp(ln), math.exp(ln - half), math.exp(ln + half))

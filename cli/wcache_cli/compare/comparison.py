"""Files of latencies, measured by somebody else, compared: no pairs, and no coin.

With one file per mode nothing says how much measurements differ by themselves.  The interval of
the ratio comes from the long-run variance within the files, and a verdict has to outlast a
spread of 5% between measurements on top, which is stated and not measured.  From two files in a
mode on it has to outlast what those say of their spread as well.  With four or more files per
mode the file is the unit, and Welch's t decides.  Such a comparison is never pooled and never
applied: the modes were not measured in turn.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from wcache.analysis import summary
from wcache.analysis.decision import Materiality
from wcache.core.figures.latency_table import quantile
from wcache.core.model import CacheMode, Verdict
from wcache.core.options.entries import CACHE_MODES
from wcache.core.verdict import sequential
from wcache.core.verdict.sequential import (
    DECIDE_ALPHA,
    SAME_ALPHA,
    contradicted_by_tail,
    ratio,
    rounded,
)

from . import latency_file, longrun
from .fio_settings import UNSYNCED, UNTOLD_SYNCS
from .latency_file import STALLS, LatencyFile, Side
from .margin_of_error import (
    REPLICATES_MIN,
    LogRatio,
    MarginOfError,
    clock_margin,
    file_spread,
    files_needed,
    times_needed,
)

COMPARISON_FORMAT = "wcache.comparison"
COMPARISON_VERSION = 1
SPREAD_ASSUMED = 0.05  # between measurements, of the ratio, either way
EFFECTIVE_MIN = 20.0
SAMPLES_MORE_MAX = 10_000_000
# A clock's step is worth a word where it widens an interval by more than this.
STEP_NOTED = 0.01

FIO_LINE = (
    "fio --name=commit --filename=SCRATCH --direct=1 --ioengine=psync --rw=randwrite --bs=4k "
    "--iodepth=1 --fdatasync=1 --time_based --runtime=60 --output-format=json+ --output=FILE"
)

ADVICE = {
    UNSYNCED: (
        "fio's settings show writes without a sync after each: that times memory or the drive's "
        "cache, and an OSD waits for neither. Run in each mode, several times, "
        f"`{FIO_LINE}` (it overwrites SCRATCH, a device that holds nothing)"
    ),
    UNTOLD_SYNCS: (
        "a file does not tell whether each write was followed by a sync: fio's logs leave out the "
        "flushes of --fsync and --fdatasync, text and old JSON tell of none. Give the JSON of the "
        "run (--output-format=json+), or say --synced where each latency holds write and sync, as "
        "with fio --sync=dsync"
    ),
    "unreplicated": (
        "fewer than 4 measurements per mode: a spread of 5% between measurements is assumed, or "
        "more where 2 or 3 show it; alternate between the modes and give 4 or more files of each"
    ),
    "repeated": "a file was given twice, or as a copy: it counts as one measurement",
    "unordered": (
        "histograms keep no order, so 19 samples count as one independent sample; for a narrower "
        "interval measure with --sync=dsync in place of --fdatasync, and give its --write_lat_log "
        "files with --synced"
    ),
    "few samples": f"fewer than {EFFECTIVE_MIN:.0f} effective samples in a mode: measure longer",
    "coarse": (
        "many latencies are equal: the clock is coarse, and the interval is wider for it; measure "
        "with a finer clock"
    ),
    "summed": (
        "fio reports writes and syncs separately; a commit is taken as their sum, as if the two "
        "were independent; measure with --sync=1 to get one figure"
    ),
    "averaged": (
        "the log holds averages over log_avg_msec, so the median and the tail of single commits "
        "are unknown; measure without log_avg_msec"
    ),
    "untold": (
        "a file has no 90th percentile, so tails were not compared; run fio with "
        "--output-format=json+"
    ),
    "stalls": "some latencies exceed ten times the median: look at the maximum, not only at p90",
}


def compare(
    files: Mapping[CacheMode, Sequence[LatencyFile]], options: Materiality
) -> Dict[str, Any]:
    """The comparison of both modes, JSON-ready; ratio is write back over write through.

    `ratio_low` and `ratio_high` are the 95% interval, without the 5% between measurements.
    Raises MalformedError where the files cannot be compared (latency_file.check).
    """
    latency_file.check(files)
    warnings: List[str] = []
    distinct = {mode: latency_file.distinct(files[mode]) for mode in CacheMode}
    fewer = any(len(distinct[mode]) < len(files[mode]) for mode in CacheMode)
    doubts = {doubt for mode in CacheMode for file in files[mode] for doubt in file.doubts}
    if fewer or "repeated" in doubts:
        warnings.append("repeated")
    files = distinct
    back, through = files[CacheMode.WRITE_BACK], files[CacheMode.WRITE_THROUGH]
    replicated = min(len(back), len(through)) >= REPLICATES_MIN
    sides = {mode: latency_file.side(files[mode]) for mode in CacheMode}
    both = sides[CacheMode.WRITE_BACK], sides[CacheMode.WRITE_THROUGH]
    worth = {mode: _worth(sides[mode], 0.5) for mode in CacheMode}
    if replicated:
        middle, tail = _by_files(both, 0.5), _by_files(both, 0.9)
        widen = 0.0
    else:
        middle, tail = _by_samples(both, 0.5), _by_samples(both, 0.9)
        widen = math.log1p(SPREAD_ASSUMED)
        warnings.append("unreplicated")
    if not all(file.ordered for file in (*back, *through)):
        warnings.append("unordered")
    few = min(worth.values()) < EFFECTIVE_MIN
    if few:
        warnings.append("few samples")
    per_mode = {mode.value: latency_file.table(sides[mode]) for mode in CacheMode}
    untold = latency_file.untold((*back, *through))
    if any(_stalled(item) for item in per_mode.values()):
        warnings.append("stalls")
    if "p90" in untold and "averaged" not in doubts:
        doubts.add("untold")
    warnings += sorted(doubts - {"repeated"})
    if sum(middle.step.down) + sum(middle.step.up) > STEP_NOTED:
        warnings.append("coarse")
    verdict = Verdict.INSUFFICIENT if few else _verdict(middle, widen, options.margin)
    why = _why(verdict, middle, widen, few, options)
    contradiction = ""
    if "p90" not in untold:
        contradiction = contradicted_by_tail(verdict, _verdict(tail, widen, options.margin))
    if contradiction:
        verdict, why = Verdict.CONFLICTING, contradiction
    more = _more(verdict, middle, widen, files, worth, replicated, options.margin)
    for code in (UNSYNCED, UNTOLD_SYNCS):
        if code in doubts:  # more of the same would not decide it either
            verdict, why, more = Verdict.INSUFFICIENT, ADVICE[code], None
            break
    near = middle.interval(SAME_ALPHA)
    return {
        "format": COMPARISON_FORMAT,
        "version": COMPARISON_VERSION,
        "verdict": CACHE_MODES.said(verdict),
        "why": why,
        "ratio": ratio(middle.mean),
        "ratio_low": ratio(near.low),
        "ratio_high": ratio(near.high),
        "level": 1 - SAME_ALPHA,
        "tail_ratio": None if "p90" in untold else ratio(tail.mean),
        "n": sum(item["n"] for item in per_mode.values()),
        "n_effective": {mode.value: rounded(worth[mode]) for mode in CacheMode},
        "unit": "run" if replicated else "sample",
        "run_to_run_spread": None if replicated else SPREAD_ASSUMED,
        "more_needed": more,
        "per_mode": per_mode,
        "material_ratio": options.material_ratio,
        "warnings": warnings,
        "advice": [ADVICE[code] for code in warnings],
    }


def _worth(side: Side, part: float) -> float:
    """Effective samples of a mode for one quantile, ordered files by their own correlation."""
    centre = quantile(side.values_us, part)
    kept = [file.latencies_us for file in side.files if file.ordered]
    loose = sum(min(file.n, len(file.latencies_us)) for file in side.files if not file.ordered)
    return longrun.effective_n(kept, centre) + loose / longrun.UNORDERED_TIME


def _by_samples(sides: Tuple[Side, Side], part: float) -> LogRatio:
    worths = [_worth(side, part) for side in sides]
    margins = []
    for alpha in (DECIDE_ALPHA, SAME_ALPHA):
        (one, one_below, one_above), (two, two_below, two_above) = (
            longrun.log_quantile(side.logs, part, worth, alpha)
            for side, worth in zip(sides, worths)
        )
        margins.append(MarginOfError((one_below, two_above), (one_above, two_below)))
    return LogRatio(
        one - two, margins[0], margins[1], _clocks(sides, part), _grain(sides),
        file_spread([_per_file(side.files, part) for side in sides]),
    )


def _per_file(files: Sequence[LatencyFile], part: float) -> List[float]:
    """One log quantile of each file."""
    return [quantile(longrun.logs(file.latencies_us), part) for file in files]


def _by_files(sides: Tuple[Side, Side], part: float) -> LogRatio:
    """Welch's t on one log quantile per file (Biometrika 1947)."""
    seen = [sequential.moments(_per_file(side.files, part)) for side in sides]
    errors = [max(spread.sd, sequential.SD_FLOOR) ** 2 / spread.n for spread in seen]
    degrees = sum(errors) ** 2 / sum(e**2 / (spread.n - 1) for e, spread in zip(errors, seen))
    margins = []
    for alpha in (DECIDE_ALPHA, SAME_ALPHA):
        one, two = (summary.student(degrees, alpha) * math.sqrt(error) for error in errors)
        margins.append(MarginOfError((one, two), (one, two)))
    return LogRatio(
        seen[0].mean - seen[1].mean, margins[0], margins[1], _clocks(sides, part), _grain(sides)
    )


def _stalled(row: Mapping[str, Any]) -> bool:
    """Whether a mode's row shows a stall; where they were not counted, its maximum tells."""
    if row[STALLS] is not None:
        return bool(row[STALLS])
    highest = row["max_us"] or row.get("max_at_least_us") or 0.0
    return bool(highest > summary.STALL_FACTOR * row["p50_us"])


def _clocks(sides: Tuple[Side, Side], part: float) -> MarginOfError:
    back_us, through_us = (math.exp(quantile(side.logs, part)) for side in sides)
    steps = [longrun.step_us(side.logs, part) for side in sides]
    # a quantile between two values may lie below the step that separates them
    return clock_margin(
        back_us, through_us, (min(steps[0], back_us), min(steps[1], through_us))
    )


def _grain(sides: Tuple[Side, Side]) -> float:
    """How far the log ratio may lie off because latencies are known to their bucket only."""
    return math.fsum(math.log1p(max(file.grain for file in side.files)) for side in sides)


def _verdict(found: LogRatio, widen: float, margin: float) -> Verdict:
    far, near = (found.interval(alpha, widen) for alpha in (DECIDE_ALPHA, SAME_ALPHA))
    return sequential.verdict(far, near, margin)


def _why(
    verdict: Verdict, found: LogRatio, widen: float, few: bool, options: Materiality
) -> str:
    if few:
        return ADVICE["few samples"]
    far, near = found.interval(DECIDE_ALPHA, widen), found.interval(SAME_ALPHA, widen)
    stated = replace(found, by_files=None)
    basis = "with a spread of 5% between measurements"
    if not widen:
        basis = "between measurements"
    elif (far, near) != (stated.interval(DECIDE_ALPHA, widen), stated.interval(SAME_ALPHA, widen)):
        basis = "with the spread of these few measurements"
    return sequential.verdict_text(verdict, far, near, options.material_ratio, basis)


def _more(
    verdict: Verdict, found: LogRatio, widen: float,
    files: Mapping[CacheMode, Sequence[LatencyFile]], worth: Mapping[CacheMode, float],
    replicated: bool, margin: float,
) -> Optional[Dict[str, Any]]:
    """About how many more samples (or files) would decide; None if decided.

    `per_mode` says how many of each mode, `count` is the larger one.  Both are None where no
    number would decide: the ratio is too close to the border.
    """
    if verdict is not Verdict.INSUFFICIENT:
        return None
    enough = min(worth.values()) >= EFFECTIVE_MIN
    by_files, files_per_mode = files_needed(found, margin, widen)
    if by_files and enough:
        missing = None if files_per_mode is None else {
            mode.value: max(0, files_per_mode - len(files[mode])) for mode in CacheMode
        }
        count = None if missing is None else max(1, *missing.values())
        return {"what": "runs", "count": count, "per_mode": missing}
    replicated = replicated and enough
    what = "runs" if replicated else "samples"
    per_mode: Dict[str, int] = {}
    for mode, for_spread in zip(CacheMode, times_needed(found, margin, widen)):
        have, times = len(files[mode]), for_spread
        if not replicated:  # enough effective samples, at least
            have = sum(min(file.n, len(file.latencies_us)) for file in files[mode])
            times = max(for_spread, EFFECTIVE_MIN / worth[mode])
        if have * times > SAMPLES_MORE_MAX:
            return {"what": what, "count": None, "per_mode": None}
        per_mode[mode.value] = math.ceil(have * (times - 1))
    return {"what": what, "count": max(1, *per_mode.values()), "per_mode": per_mode}

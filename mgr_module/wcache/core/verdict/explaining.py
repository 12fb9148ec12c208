"""What is explained of a verdict: what would change it, what it costs beside.

Beside what was measured `write through` costs the pin's flushes, and wears flash.  The pin's
flushes are said whatever the verdict is: without them it could be another one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from statistics import fmean, median
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..drive.manual import pin
from ..drive.saved_off import saves_by_itself, saves_off
from ..loads import MATERIAL_RATIO
from ..model import DriveReport, LoadPoint, Transport, Verdict
from ..text import (
    NOTHING,
    CommandLine,
    arguments,
    chained,
    command,
    commented,
    gained,
    many,
    ticked,
)
from .pooling import POOL_DRIVES_MIN, LoadVerdict
from .recommend import Recommendation
from .repeated import standing
from .result import Result

START = "ceph wcache campaign start"
SET = "ceph config set mgr mgr/wcache/"
PAIRS_MOST = 80  # the most that option and argument take
TOO_LITTLE = "too little client traffic"
FOR_SAME = "for showing that there is no difference"
# What a budget's line says of its unit, and the option that sets it.
BUDGETS = (
    ("s of client waiting", "experiment_client_wait_max_s"), ("bytes", "experiment_bytes_max"),
    ("s", "experiment_seconds_max"),
)

Step = Tuple[str, CommandLine]
"""What would do it, and the command for that; '' where there is none."""


def budgets(options: object) -> Dict[str, float]:
    """The present values of the options that bound an experiment."""
    return {name: float(getattr(options, name)) for _, name in BUDGETS}


def expected(
    found: Recommendation, results: Mapping[str, Result]
) -> Optional[Tuple[float, float]]:
    """Latency in us with the cache on and off by a verdict: the mean of drives, and its ratio."""
    load = next((one for one in found.loads if one.verdict is found.verdict), None)
    if load is None or not load.ratio:
        return None
    mine = standing([results[key] for key in found.record_ids if key in results])
    levels = [one.a.level_us for one in mine if one.load_point is load.load_point]
    known = [math.log(us) for us in levels if us]
    on_us = math.exp(fmean(known)) if known else 0.0
    return (on_us, on_us / load.ratio) if known else None


def would_change(
    found: Recommendation, results: Iterable[Result], present: Mapping[str, float] = {}
) -> List[Step]:
    """What would change the verdict, the nearest first; `present` are options as they are."""
    if not found.verdict.decided:
        return settling(found, results, present)
    steps: List[Step] = [
        (_beyond(load), NOTHING) for load in _counted(found)
        if load.verdict is found.verdict and load.estimate.bounded
    ]
    points = {load.load_point for load in found.loads}
    if LoadPoint.OSD_TRAFFIC not in points:
        steps.append((
            "the OSDs' own traffic, which was not measured and takes precedence over benches",
            _start(found, "--loads=traffic"),
        ))
    most = max((load.drives for load in found.loads), default=0)
    if most < POOL_DRIVES_MIN:
        steps.append((
            f"other drives of this model: {most} of them {'is' if most == 1 else 'are'} measured, "
            f"{POOL_DRIVES_MIN} and more are judged together", _start(found),
        ))
    steps.append(("a new firmware, which is another drive model and measured by itself", NOTHING))
    return steps


def settling(
    found: Recommendation, results: Iterable[Result], present: Mapping[str, float] = {}
) -> List[Step]:
    """What would settle an open verdict, the best first; never the same measurement again."""
    if found.measure_on:
        again = command(START + " --scope=host:{}", found.measure_on)
        return [(f"the word of a second host, {found.measure_on}", again)]
    if any(load.doubts for load in found.loads):
        return [("the findings about its drives, resolved", command("ceph wcache status"))]
    traffic = (
        "a measurement of the OSDs' own traffic, while clients write",
        _start(found, "--loads=traffic"),
    )
    if found.verdict is Verdict.CONFLICTING:
        return [traffic]
    undecided = [load for load in _counted(found) if load.verdict is Verdict.INSUFFICIENT]
    if not undecided:
        points = {load.load_point for load in _counted(found)}
        missing = LoadPoint.OSD_TRAFFIC if LoadPoint.OSD_BENCH_DEPTH1 in points else (
            LoadPoint.OSD_BENCH_DEPTH1
        )
        return [(
            f"a measurement of {missing.short}, an OSD's load",
            _start(found, f"--loads={missing.short}"),
        )]
    named = list(results)
    return [_more(found, load, named, present) for load in undecided]


def _more(
    found: Recommendation, load: LoadVerdict, results: Sequence[Result],
    present: Mapping[str, float],
) -> Step:
    """What would decide an undecided load, by why its last experiment ended."""
    name = load.load_point.short
    mine = [r for r in results if r.load_point is load.load_point]
    last = max(mine, key=lambda r: r.ended_at_s, default=None)
    ended = "" if last is None else last.ended
    loads = f"--loads={name}"
    if TOO_LITTLE in ended:
        if any(x.load_point is LoadPoint.OSD_BENCH_DEPTH1 for x in found.loads):
            return (
                f"{name} while clients write more ({ended}), or longer periods "
                f"({ticked(command(SET + 'period_s 10'))})", _start(found, loads),
            )
        return (
            f"a bench, since clients write too little ({ended})",
            _start(found, "--loads=depth1"),
        )
    if FOR_SAME in ended:
        return (f"{name}, with more of the budget for this: {ended}",
                command(SET + "no_difference_share 1"))
    if "budget of" in ended and "pairs" not in ended:
        option = next(option for unit, option in BUDGETS if f" {unit} is spent" in ended)
        most = ended.split("budget of ", 1)[1].split(" ", 1)[0]
        now = present.get(option, 0.0)
        if most.isdecimal() and int(most) < now:
            # `try` has a budget of its own, that no option sets
            return (f"{name} in a campaign, which may take more: {ended}", _start(found, loads))
        larger = command(SET + "{}", option)
        if most.isdecimal():
            larger = command(SET + "{} {}", option, 2 * int(max(int(most), now)))
        return (f"{name}, with a larger budget: {ended}", larger)
    pairs = max((r.pairs for r in mine), default=0)
    if pairs < PAIRS_MOST and load.drives >= POOL_DRIVES_MIN:
        again = _start(found, loads, f"--pairs={PAIRS_MOST}")
        return (f"{name} with more pairs than {pairs}", again)
    return (
        f"{name} on more drives than {load.drives}, with up to {PAIRS_MOST} pairs",
        _start(
            found, loads, f"--pairs={PAIRS_MOST}",
            f"--drives-per-model={max(6, 2 * load.drives)}",
        ),
    )


def _beyond(load: LoadVerdict) -> str:
    """Which figure an interval would have to reach."""
    found, name = load.estimate, load.load_point.short
    less, more = gained(MATERIAL_RATIO), gained(1 / MATERIAL_RATIO)
    if load.verdict is Verdict.NO_DIFFERENCE:
        return f"{name}: an interval beyond {less} or {more}; it is {found.span}"
    edge = less if load.verdict is Verdict.B else more
    return f"{name}: an interval that reaches {edge}; it is {found.span}"


def _counted(found: Recommendation) -> List[LoadVerdict]:
    return [x for x in found.loads if x.load_point is not LoadPoint.FDATASYNC_TIMER]


def _start(found: Recommendation, *options: str) -> CommandLine:
    """A simulated drive is in no class of the cluster."""
    start = command(START)
    if not found.simulated:
        start = command(START + " --scope=class:{}", found.device_class)
    return chained([start, arguments(options)], " ") if options else start


NAND = (
    "endurance: in write through flash may program its cells for each small write separately, "
    "which wears it faster; `ceph wcache plan show` gives the drive's host and NAND writes since "
    "a change, where it reports them"
)


def of_write_through(drive: DriveReport, prices_us: Sequence[float]) -> Tuple[str, ...]:
    """Lines to print beside the advice, for a drive of the drive model."""
    lines = list(_price(drive, prices_us))
    if drive.rotational is False:
        lines.append(NAND)
    return tuple(lines)


def noop_flushes(results: Iterable[Result]) -> Tuple[str, ...]:
    """What part of a commit with the cache off is flushes with nothing to write, at least.

    One flush is counted of each commit: Ceph 16 may send two, and the kernel counts those of all
    OSDs on the drive.  A line for each load point at which that part is material, by the median of
    its drives.
    """
    found: Dict[LoadPoint, List[Tuple[float, float]]] = defaultdict(list)
    for result in results:
        flush_us, commit_us = result.pin_price_us, result.write_through_commit_us
        if flush_us is not None and commit_us is not None and flush_us >= 0 and commit_us > 0:
            found[result.load_point].append((min(flush_us, commit_us), commit_us))
    lines = []
    for point, drives in sorted(found.items(), key=lambda item: item[0].value):
        of_flush_us, of_all_us = (median(values) for values in zip(*drives))
        if of_all_us >= MATERIAL_RATIO * (of_all_us - of_flush_us):
            lines.append(
                f"with the cache off at least {_ms(of_flush_us)} of {_ms(of_all_us)} ms of a "
                f"commit are flushes with nothing to write ({point.short}, "
                f"{many(len(drives), 'drive')}); the kernel sends them since its view stays at "
                "write back"
            )
    return tuple(lines)


def _ms(value_us: float) -> str:
    """Milliseconds, of which two digits count."""
    return f"{value_us / 1e3:.1f}" if value_us >= 1000 else f"{value_us / 1e3:.2g}"


def _price(drive: DriveReport, prices_us: Sequence[float]) -> List[str]:
    if drive.transport is Transport.LOOP:
        return []
    found = sorted(us for us in prices_us if math.isfinite(us) and us >= 0)
    if not found:
        cost = "what that costs was not counted: the kernel counts flushes from Linux 5.5 on"
    else:
        cost_ms = found[len(found) // 2] / 1e3
        cost = f"each of these no-op flushes costs {cost_ms:.2g} ms (measured)"
    lines = [f"with the pin the kernel still flushes; {cost}"]
    return [*lines, *_without(drive)]


def _without(drive: DriveReport) -> Tuple[str, ...]:
    """How to be rid of the pin, or why that is not safe.

    A power-on or a reset brings back the saved page, and the kernel does not look again
    (drivers/scsi/sd.c): without the pin the drive itself has to keep write through.
    """
    dev = drive.dev_name
    if drive.transport is Transport.NVME:
        return (
            "it cannot be avoided: for NVMe the kernel goes by what the controller has, not by "
            "how it is set",
        )
    if not saves_by_itself(drive):
        return ("the pin has to stay: this drive saves no mode that it would keep after a reset",)
    if not saves_off(drive):
        return (
            "to be rid of it, save write through in the drive first (`ceph wcache plan "
            "--persist`, and `apply --persist`); `ceph wcache recommend` then prints how",
        )
    return (
        "the drive saves write through itself, so it can do without the pin, and its commits "
        "without these flushes. The boot rule pins it at each boot, and the probe at each start "
        "as long as its journal has a change of it. On its host, in this order:",
        "  " + commented(
            command("wcache-probe accept {} --yes", drive.domain_id),
            "where a plan has changed it; with the probe stopped",
        ),
        "  " + commented(
            command("wcache-probe unprepare --drive={}", dev),
            "the next boot pins it no more; says what that risks, and refuses where it must",
        ),
        # cache_type_store() ends the override, and then refuses the word: the drive is not asked
        "  " + commented(
            command("for f in /sys/block/{}/device/scsi_disk/*/cache_type; do "
                    'echo no-pin > "$f"; done', dev),
            "says 'Invalid argument'; ends the pin now, and changes nothing else",
        ),
        "  " + commented(
            command("echo 1 > /sys/block/{}/device/rescan; cat /sys/block/{}/queue/write_cache",
                    dev, dev), "write through",
        ),
        "  " + commented(
            chained([command("wcache-probe prepare --drive={}", dev), pin(dev)]),
            "undo it; always before the cache is turned on by hand",
        ),
    )

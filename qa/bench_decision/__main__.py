"""`make bench-decision`: whole experiments against simulated drives, scored by the truth."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import List, NoReturn, Optional, Sequence, Tuple

from wcache.core.errors import WcacheError
from wcache.core.loads import SAMPLES
from wcache.core.model import LoadPoint
from wcache.core.options.entries import CACHE_MODES
from wcache_sim.drive_schema import DriveFile, load_drive_file
from wcache_sim.placement import place

from .baseline import RECIPE_TRIALS, tally_mann_whitney, tally_recipe
from .cells import Cell
from .figures import figures
from .loop import experiment
from .report import report

DRIVE_MODELS = Path(__file__).resolve().parents[1] / "drive_models"
TRIALS_MAX = 100_000


@dataclass(frozen=True)
class Job:
    """One cell to be measured; small enough to be sent to a process."""

    path: str
    drive: str
    load_point: LoadPoint
    trials: int
    seed: int
    baselines: bool


def seeds(job: Job) -> List[int]:
    """A seed for each trial, the same on every machine."""
    digest = hashlib.sha256(f"{job.seed} {job.drive} {job.load_point.value}".encode()).digest()
    start = int.from_bytes(digest[:4], "big")
    return [start + trial for trial in range(job.trials)]


def measure(job: Job) -> Cell:
    """All trials of one cell."""
    drives = load_drive_file(job.path)
    spec = drives.drive(job.drive)
    chosen = seeds(job)
    outcomes = tuple(experiment(drives, spec, job.load_point, seed)[0] for seed in chosen)
    recipe = rank_test = None
    if job.baselines and any(not item.refused for item in outcomes):
        recipe = tally_recipe(drives, spec, chosen[:RECIPE_TRIALS])
        rank_test = tally_mann_whitney(drives, spec, chosen)
    stated = spec.truth.get(job.load_point)
    return Cell(
        job.drive, job.load_point, outcomes,
        CACHE_MODES.said(stated.verdict) if stated else "", recipe, rank_test,
        spec.cache.ignores_flushes and not spec.cache.power_loss_protection,
    )


def jobs(
    paths: Sequence[str], loads: Sequence[LoadPoint], trials: int, seed: int, baselines: bool
) -> List[Job]:
    """A job for each drive that serves an OSD, at each load point."""
    found = []
    for path in paths:
        drives: DriveFile = load_drive_file(path)
        serving = {drive.spec.name for drive in place(drives) if drive.uses}
        for spec in drives.drives:
            for load_point in loads:
                if spec.name in serving:
                    wanted = baselines and load_point is LoadPoint.OSD_BENCH_DEPTH1
                    found.append(Job(path, spec.name, load_point, trials, seed, wanted))
    return found


def run(work: Sequence[Job], processes: int) -> List[Cell]:
    """Measure all cells, in order, on as many processes as asked for."""
    if processes <= 1:
        return [measure(job) for job in work]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(measure, work))


class _Parser(argparse.ArgumentParser):
    """One line for a mistake; the usage is for who asks."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the benchmark; 0 when it ran, 2 for bad arguments."""
    parser = _Parser(prog="bench-decision", description=__doc__)
    parser.add_argument("--drives", action="append", metavar="FILE", help="drive models (TOML)")
    parser.add_argument("--loads", default=",".join(point.value for point in SAMPLES))
    parser.add_argument("--trials", type=int, default=20, help="experiments per drive and load")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=("plain", "json"), default="plain")
    parser.add_argument("--no-baselines", dest="baselines", action="store_false")
    parser.add_argument(
        "--processes", type=int, default=min(4, len(os.sched_getaffinity(0))),
        help="default: %(default)s",
    )
    options = parser.parse_args(arguments)
    if not 1 <= options.trials <= TRIALS_MAX:
        parser.error(f"--trials must be from 1 to {TRIALS_MAX}")
    paths = options.drives or sorted(map(str, DRIVE_MODELS.glob("*.toml")))
    try:
        loads = _loads(options.loads)
        work = jobs(paths, loads, options.trials, options.seed, options.baselines)
    except (WcacheError, ValueError) as error:
        parser.error(error.line() if isinstance(error, WcacheError) else str(error))
    cells = run(work, options.processes)
    held = figures(cells)
    if options.format == "json":
        print(json.dumps({
            "format": "wcache.bench_decision", "version": 1, "seed": options.seed,
            "cells": [cell.as_json() for cell in cells],
            "figures": [item.as_json() for item in held],
        }, indent=1))
        return 0
    print("\n".join(report(cells, held)))
    return 0


def _loads(text: str) -> Tuple[LoadPoint, ...]:
    known = {point.value: point for point in SAMPLES}
    unknown = [name for name in text.split(",") if name not in known]
    if unknown:
        raise ValueError(f"load {unknown[0][:40]!r} is not one of {', '.join(known)}")
    return tuple(known[name] for name in text.split(","))


if __name__ == "__main__":
    sys.exit(main())

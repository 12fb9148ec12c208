"""Rollouts of all drives, judged by clients' load; and fleets that grow.  All with faults.

    make simulate-fleet [OSDS=n] [SEEDS=n] [SEED=s: only that] [JOBS=2]
                        [WHAT=judged|growing|living]

First rollouts of whole fleets: by default 300 seeds of 1,000 OSDs and 5 of 10,000, each with one
that does no harm and one with a planted regression, then a table of what was promised.  Then
as many fleets that grow.  Of eight seeds of these two have no faults.  Every other one judges
its rollouts by the gate; of more than 60 OSDs one of 31, the rest by benches.
Then rollouts of clusters that live: 5% of PGs are being moved always, an OSD is down always, and
some have BlueStore's alert; no drive is changed beside a missing copy.
A seed repeats a failure.  Exit code 1 where something that must hold did not.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Callable, Iterable, Iterator, List, Tuple, TypeVar, Union

from . import living_fleet
from .fleet import Fleet, Outcome
from .judged import Judged, Kind, judged
from .judged_table import kinds, table

FLEETS = ((1_000, 300), (10_000, 5))  # OSDs, and how many seeds of that
LIVING = ((400, 8), (10_000, 1))  # drives, and the same
T = TypeVar("T")


def main() -> int:
    """Run the seeds, print a line for each and what they come to."""
    jobs = int(os.environ.get("JOBS") or os.cpu_count() or 1)
    osds, seeds, what = (os.environ.get(name) for name in ("OSDS", "SEEDS", "WHAT"))
    fleets, living = FLEETS, LIVING
    if osds or seeds or os.environ.get("SEED"):
        fleets = ((int(osds or FLEETS[0][0]), int(seeds or FLEETS[0][1])),)
        living = ((int(osds or LIVING[0][0]), int(seeds or LIVING[0][1])),)
    began_s, failed = time.monotonic(), 0
    with ProcessPoolExecutor(jobs) as pool:
        if what in (None, "", "judged"):
            failed += _judge(pool, fleets)
        for size, count in fleets if what in (None, "", "growing") else ():
            found = list(_told(pool.map(_one, _what(size, count)), _line))
            failed += sum(isinstance(item, str) for item in found)
            _sum_up(size, [item for item in found if isinstance(item, Outcome)])
        if what in (None, "", "living"):
            failed += _live(pool, living)
    print(f"{failed} failed, {time.monotonic() - began_s:.0f} s")
    return 1 if failed else 0


def _judge(pool: ProcessPoolExecutor, fleets: Iterable[Tuple[int, int]]) -> int:
    """Rollouts of all drives; returns how much of what was promised did not hold."""
    asked = [
        (size, seed, kind) for size, count in fleets for size, seed in _what(size, count)
        for kind in kinds(seed)
    ]
    told = list(_told(pool.map(_one_judged, asked), _judged_line))
    lines, broken = table([item for item in told if isinstance(item, Judged)])
    print("\n".join((*lines, *(f"FAILED {line}" for line in broken))), flush=True)
    return len(broken) + sum(isinstance(item, str) for item in told)


def _live(pool: ProcessPoolExecutor, fleets: Iterable[Tuple[int, int]]) -> int:
    """The same of clusters that live."""
    asked = [
        (size, seed, kind) for size, count in fleets for size, seed in _what(size, count)
        for kind in kinds(seed)
    ]
    told = list(_told(pool.map(_one_living, asked), living_fleet.line))
    found = [item for item in told if isinstance(item, living_fleet.Lived)]
    lines, broken = living_fleet.table(found)
    print("\n".join((*lines, *(f"FAILED {line}" for line in broken))), flush=True)
    return len(broken) + len(told) - len(found)


def _what(osds: int, count: int) -> List[Tuple[int, int]]:
    """OSDs and seed of each fleet; SEED is the only one."""
    only = os.environ.get("SEED")
    return [(osds, int(only))] if only else [(osds, seed) for seed in range(count)]


def _one(what: Tuple[int, int]) -> Union[Outcome, str]:
    osds, seed = what
    try:
        return Fleet(osds, seed).run()
    except AssertionError as error:
        return f"FAILED {error}: repeat it with SEED={seed} OSDS={osds} WHAT=growing"


def _one_judged(what: Tuple[int, int, Kind]) -> Union[Judged, str]:
    osds, seed, kind = what
    try:
        return judged(osds, seed, kind)
    except AssertionError as error:
        return f"FAILED {error}: repeat it with SEED={seed} OSDS={osds} WHAT=judged"


def _one_living(what: Tuple[int, int, Kind]) -> Union[living_fleet.Lived, str]:
    drives, seed, kind = what
    try:
        return living_fleet.lived(drives, seed, kind)
    except AssertionError as error:
        return f"FAILED {error}: repeat it with SEED={seed} OSDS={drives} WHAT=living"


def _told(
    found: Iterable[Union[T, str]], line: Callable[[T], str]
) -> Iterator[Union[T, str]]:
    for item in found:
        print(item if isinstance(item, str) else line(item), flush=True)
        yield item


def _judged_line(found: Judged) -> str:
    bad = f", {found.bad} with the regression" if found.bad else ""
    why = f" ({found.why})" if found.ended == "stopped" else ""
    return (
        f"seed {found.seed}: {found.osds} OSDs, {found.scene}, {found.kind.value}: "
        f"{found.ended}{why} with {found.changed} changed{bad}, {found.hours:.1f} h, of "
        f"which {found.held_hours:.1f} h held by faults, {found.steps} steps, "
        f"{found.faults} faults, {found.harm_s:.1f} s of harm"
    )


def _line(found: Outcome) -> str:
    judged = "the gate" if found.gated else "benches"
    return (
        f"seed {found.seed}: {found.osds} OSDs, {found.faults} faults, {found.steps} steps; "
        f"{found.campaigns} campaigns, {_times(found.measuring_s, found.measuring_bound_s)}; "
        f"{found.plans} plans, {found.changes} changes judged by {judged}, "
        f"{_times(found.applying_s, found.applying_bound_s)}; all restored"
    )


def _times(took_s: float, bound_s: float) -> str:
    return f"{took_s:.0f} s, {took_s / max(bound_s, 1e-9):.2f} x the bound"


def _sum_up(osds: int, found: List[Outcome]) -> None:
    for name, took, bound in (
        ("campaigns", "measuring_s", "measuring_bound_s"),
        ("rollouts", "applying_s", "applying_bound_s"),
    ):
        for calm in (True, False):
            ratios = sorted(
                getattr(item, took) / getattr(item, bound) for item in found
                if item.calm is calm and getattr(item, bound)
            )
            if ratios:
                faults = "without faults" if calm else "with faults"
                middle = ratios[len(ratios) // 2]
                print(
                    f"{osds} OSDs, {name} {faults}, {len(ratios)} seeds: {ratios[0]:.2f} to "
                    f"{ratios[-1]:.2f} times the bound, {middle:.2f} in the middle"
                )


if __name__ == "__main__":
    sys.exit(main())

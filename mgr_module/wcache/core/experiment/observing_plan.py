"""What a run that toggles nothing measures: its drives, its loads, its cost at most."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Iterable, List, Mapping, NamedTuple, Tuple

from ..host_report import HostReport
from ..loads import ASSUMED_SAMPLE_S, CAPACITY_CALL_S, WRITE_BYTES
from ..model import DeviceCache, DriveReport, LoadPoint, Role
from ..record import ExperimentSetup
from .run_state import RunSpec


def drives_by_osd(reports: Iterable[HostReport]) -> Dict[int, Dict[Role, DriveReport]]:
    """The drives under each OSD that these hosts report."""
    found: Dict[int, Dict[Role, DriveReport]] = {}
    for report in reports:
        for drive in report.drives:
            for use in drive.uses:
                found.setdefault(use.osd_id, {})[use.role] = drive
    return found


def setting_of(drives: Mapping[Role, DriveReport]) -> str:
    """The cache modes of all drives of an OSD in words; empty where one is not known.

    "write back", or "block write through, db write back" where they differ.
    """
    by_role = {role: mode_words(drive) for role, drive in drives.items()}
    said = set(by_role.values())
    if "" in said:
        return ""
    if len(said) == 1:
        return said.pop()
    return ", ".join(f"{role.value} {by_role[role]}" for role in Role if role in by_role)


def mode_words(drive: DriveReport) -> str:
    """What a drive's cache is set to; empty where that is not known."""
    if drive.mode is not None:
        return drive.mode.value
    return "no volatile cache" if drive.state.device_cache is DeviceCache.NONE else ""


def stack_of(drives: Mapping[Role, DriveReport]) -> str:
    """The drive models under one OSD: "ACME HD1 1.0 with db, wal on ACME N1 2.0"."""
    block = drives[Role.BLOCK]
    if len(drives) == 1:
        return str(block.drive_model)
    on: Dict[str, List[str]] = {}
    for role in (Role.DB, Role.WAL):
        drive = drives.get(role)
        if drive is not None and drive.drive_id != block.drive_id:
            on.setdefault(str(drive.drive_model), []).append(role.value)
    others = [f"{', '.join(names)} on {model}" for model, names in on.items()]
    return " with ".join([str(block.drive_model), *([" and ".join(others)] if others else [])])


def setting_and_stack(osd_id: int, drives: Iterable[DriveReport]) -> Tuple[str, str]:
    """Both of one OSD; empty where its drives are not among these, or not known."""
    by_role = {
        use.role: drive for drive in drives for use in drive.uses if use.osd_id == osd_id
    }
    if Role.BLOCK not in by_role:
        return "", ""
    return setting_of(by_role), stack_of(by_role)


LOADS = "traffic,timer"
OVERHEAD_S = 0.3  # set, read back and close, by the probe's fast polls
# Parts of the OSD's own traffic of which each gives a mean; timed flushes, of which so many
# tell a 99th percentile; and bench writes or calls.
SAMPLES = {
    LoadPoint.OSD_TRAFFIC: 120,
    LoadPoint.OSD_BENCH_DEPTH1: 100,
    LoadPoint.OSD_BENCH_BATCH: 10,
    LoadPoint.OSD_BENCH_4M: 5,
    LoadPoint.FDATASYNC_TIMER: 320,
}
TRAFFIC_S = 30.0
TIMER_S = 10.0
# A load beside the timer is kept up by one round of calls after the other, this many at most.
BESIDE_CALLS = 3
BESIDE_ROUNDS_MAX = 30
# Loads that are kept up beside the timer: a full queue.
_BESIDE = LoadPoint.OSD_BENCH_BATCH


def observing(run: RunSpec) -> RunSpec:
    """The run with the same loads, toggling nothing.

    Where flushes are timed and batches are measured, flushes are timed beside batches as well:
    idle and under load.  A simulated OSD does one thing at a time.
    """
    setups = [_setup(setup) for setup in run.experiments]
    loads = {setup.load_point for setup in setups}
    if LoadPoint.FDATASYNC_TIMER in loads and _BESIDE in loads and not run.measured_by_probe:
        setups += [
            replace(setup, beside=_BESIDE) for setup in setups
            if setup.load_point is LoadPoint.FDATASYNC_TIMER
        ]
    return replace(run, experiments=tuple(setups), observes=True, consent_turn_on=False)


def _setup(setup: ExperimentSetup) -> ExperimentSetup:
    load_point = setup.load_point
    return replace(
        setup, samples_per_period=SAMPLES[load_point], settle_s=0.0, watch_samples=0, crossed=None,
        period_s=TRAFFIC_S if load_point is LoadPoint.OSD_TRAFFIC else 0.0,
    )


class LoadCost(NamedTuple):
    """What a load of a run costs at most, and how long it is expected to take."""

    seconds: float
    seconds_expected: float
    bytes_written: int
    bench_calls: int


def cost_of(setup: ExperimentSetup) -> LoadCost:
    """The cost of a load of a run that toggles nothing; its seconds are assumed."""
    calls = _calls(setup)
    seconds = setup.period_s
    if setup.load_point is LoadPoint.FDATASYNC_TIMER:
        seconds = TIMER_S
    elif setup.load_point is LoadPoint.OSD_BENCH_CAPACITY:
        seconds = setup.samples_per_period * CAPACITY_CALL_S[bool(setup.rotational)]
    elif not seconds:
        seconds = setup.samples_per_period * ASSUMED_SAMPLE_S[setup.load_point]
    seconds += 2 * OVERHEAD_S
    return LoadCost(
        seconds, seconds, sum(n * size for n, size in calls), sum(n for n, _ in calls)
    )


def _calls(setup: ExperimentSetup) -> Tuple[Tuple[int, int], ...]:
    """(bench calls at most, bytes of each) of the load and of what is kept up beside it."""
    found = []
    if WRITE_BYTES[setup.load_point]:
        found.append((setup.samples_per_period, WRITE_BYTES[setup.load_point]))
    if setup.beside is not None:
        found.append((BESIDE_ROUNDS_MAX * BESIDE_CALLS, WRITE_BYTES[setup.beside]))
    return tuple(found)

"""A drive that is faster without its cache until its media cache is full, and slower then.

Which mode is better depends on how long the load lasts.  What a measurement that fills the cache
says must hold afterwards; one that is too short to fill it is about bursts, and its bytes say so.
"""

from concurrent.futures import ProcessPoolExecutor
from itertools import product

import pytest
from bench_decision.loop import experiment
from wcache.core.model import LoadPoint, Verdict
from wcache_sim.drive_schema import parse_drive_file

FILLING = """
schema = 1
[[drive]]
name = "filling"
model = "FILLING-1"
transport = "sas"
rotational = true
noise = {{ between_period_spread = 0.03, autocorrelation = 0.3 }}
media_cache = {{ room_bytes = {room}, drains_mib_s = {drains}, full_factor = 30 }}
[drive.latency]
write = {{ median_us = 100, spread = 0.2 }}
fua_write = {{ median_us = 1000, spread = 0.2 }}
dirty_flush = {{ median_us = 9000, spread = 0.2 }}
"""
SEEDS = range(3)


def outcome(job):
    room, drains, load_point, seed = job
    drives = parse_drive_file(FILLING.format(room=room, drains=drains))
    return experiment(drives, drives.drive("filling"), load_point, seed)[0]


def outcomes(rooms, drains, load_point):
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(outcome, product(rooms, drains, (load_point,), SEEDS)))


@pytest.mark.parametrize("drains", [0.0, 0.5])
def test_traffic_that_fills_the_cache_never_names_the_mode_that_loses_then(drains):
    found = outcomes((1_000_000, 20_000_000), (drains,), LoadPoint.OSD_TRAFFIC)
    said = [(one.verdict.value, one.pairs, one.findings) for one in found]
    assert all(one.verdict is not Verdict.B for one in found), said


def test_a_cache_that_never_empties_is_decided_by_what_comes_after_it():
    found = outcomes((1_000_000, 10_000_000), (0.0,), LoadPoint.OSD_TRAFFIC)
    assert all(one.verdict is Verdict.A for one in found)


def test_single_writes_that_fit_into_the_cache_tell_of_bursts_and_say_how_small():
    found = outcomes((100_000_000,), (0.5,), LoadPoint.OSD_BENCH_DEPTH1)
    assert all(one.verdict is Verdict.B for one in found)
    assert all(0 < one.bytes_written < 5_000_000 for one in found)

"""What a toggle leaves behind for a while, in noise that hides it, is seldom a difference."""

from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import pytest
from bench_decision.loop import experiment
from wcache.core.model import LoadPoint
from wcache_sim.drive_schema import parse_drive_file

MODELS = Path(__file__).resolve().parents[1] / "drive_models" / "carryover.toml"
AS_SHIPPED = {"fading-flash": "after_toggle_factor = 3", "fading-disk": "after_toggle_factor = 2"}
TRIALS = 40


def _named_a_mode(job):
    """How many experiments on a drive of which no mode is better said that one is."""
    name, factor, decay_s, load_point = job
    text = MODELS.read_text(encoding="utf-8").replace("decay_s = 1", f"decay_s = {decay_s}")
    drives = parse_drive_file(text.replace(AS_SHIPPED[name], f"after_toggle_factor = {factor}"))
    spec = drives.drive(name)
    assert (spec.carryover.after_toggle_factor, spec.carryover.decay_s) == (factor, decay_s)
    outcomes = [experiment(drives, spec, load_point, seed)[0] for seed in range(TRIALS)]
    return sum(outcome.verdict.arm is not None for outcome in outcomes)


@pytest.mark.parametrize(("load_point", "of_320"), [
    (LoadPoint.OSD_BENCH_DEPTH1, 9), (LoadPoint.OSD_BENCH_BATCH, 8),
    (LoadPoint.FDATASYNC_TIMER, 6),
])
def test_drives_that_fade_for_a_second_in_noise_are_seldom_named_a_mode(load_point, of_320):
    jobs = product(AS_SHIPPED, (2, 3), (0.7, 1.5), (load_point,))
    with ProcessPoolExecutor(2) as pool:
        assert sum(pool.map(_named_a_mode, jobs)) <= of_320

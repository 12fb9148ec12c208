"""Two values of an option, by the product's own rule, over the noise of each kind of option.

500 times nothing differs, and one value is called better at most 3 times (0.6%); where one is
clearly worse it is found 99 times in 100.  The truth of the simulated drives is known.
SEED=N takes other drives: what is tuned on some has to be shown on others.
"""

import os

import pytest
from bench_decision.loop import experiment
from wcache.core.model import LoadPoint, Verdict
from wcache.core.options.entries import OptionTrial
from wcache_sim.drive_schema import parse_drive_file

TRIALS = 500
CLEAR_TRIALS = 100
FIRST_SEED = int(os.environ.get("SEED", "0"))
# By place: an option, two values, the load, and what the noise there is like.  A queue stalls now
# and then; bcache's controller makes what follows depend on what was before, and dirty data makes
# latency drift; an OSD's own options see periods that differ as a whole.
KINDS = {
    "queue": (
        OptionTrial("nr_requests", "32", "256"), LoadPoint.OSD_BENCH_BATCH,
        "between_period_spread = 0.03, autocorrelation = 0.2",
        "spread = 0.2, stall_probability = 0.02, stall_us = 100000",
    ),
    "bcache": (
        OptionTrial("writeback_rate_p_term_inverse", "40", "120"), LoadPoint.OSD_BENCH_DEPTH1,
        "between_period_spread = 0.05, autocorrelation = 0.9, drift_per_hour = 5.0",
        "spread = 0.3",
    ),
    "osd": (
        OptionTrial("bluestore_prefer_deferred_size_hdd", "0", "65536"),
        LoadPoint.OSD_BENCH_DEPTH1, "between_period_spread = 0.1, autocorrelation = 0.5",
        "spread = 0.3",
    ),
}
DRIVE = """
schema = 1
[[drive]]
name = "disk"
model = "HDD"
transport = "sas"
rotational = true
noise = {{ {noise} }}
[drive.latency]
fua_write = {{ median_us = 5000, {each} }}
dirty_flush = {{ median_us = 8000, {each} }}
[drive.options]
{option}
"""


def said(place, factor, trials):
    trial, load, noise, each = KINDS[place]
    # the simulated drive knows options of hosts; an OSD's is measured with the same drive
    name = trial.name if place != "osd" else "read_ahead_kb"
    option = (
        f'{name} = {{ value = "{trial.b}", slow_value = "{trial.a}", slow_factor = {factor} }}'
    )
    drives = parse_drive_file(DRIVE.format(noise=noise, each=each, option=option))
    compared = OptionTrial(name, trial.a, trial.b)
    found = []
    for seed in range(FIRST_SEED, FIRST_SEED + trials):
        outcome, _ = experiment(drives, drives.drives[0], load, seed, option=compared)
        found.append(outcome.verdict)
    return found


@pytest.mark.long
@pytest.mark.parametrize("place", KINDS)
def test_where_nothing_differs_a_value_is_called_better_at_most_3_times_in_500(place):
    found = said(place, 1.0, TRIALS)
    differs = [verdict for verdict in found if verdict.arm is not None]
    assert len(differs) <= 0.006 * TRIALS, differs
    # and the rule does decide
    assert found.count(Verdict.NO_DIFFERENCE) > 0


@pytest.mark.parametrize("place", KINDS)
def test_a_value_that_is_clearly_worse_is_found(place):
    found = said(place, 2.5, CLEAR_TRIALS)
    assert found.count(Verdict.B) >= 0.99 * CLEAR_TRIALS

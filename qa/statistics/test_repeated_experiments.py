"""Experiments of one drive that are weighed together err no more often than they say.

Each is stopped when it decides, when its budget is spent, or by somebody, at any pair.
"""

import math
import random
from itertools import product

import pytest
from test_repeated import measured, one
from wcache.core.model import Verdict

TRIALS = 500
STOPS = (2, 6, 12, 24)  # pairs after which an experiment ends, decided or not
PAIR_SDS = (0.05, 0.2)
MODES = (Verdict.B, Verdict.A)


def experiment(source, log_ratio, pair_sd, name, at_s):
    """One by the rule, looked at after each pair."""
    seen, stop = [], source.choice(STOPS)
    while True:
        seen.append(source.gauss(log_ratio, pair_sd))
        count, mean = len(seen), math.fsum(seen) / len(seen)
        variance = math.fsum((value - mean) ** 2 for value in seen) / max(1, count - 1)
        found = measured(name, at_s, math.exp(mean), count, max(math.sqrt(variance), 0.002))
        if found.verdict.decided or count >= stop:
            return found


def weighed(ratio, many, between_sd=0.0):
    """What so many experiments say, each time; `between_sd`: the drive varies between them."""
    for pair_sd in PAIR_SDS:
        source = random.Random(f"{ratio} {many} {between_sd} {pair_sd}")
        for _ in range(TRIALS):
            truth = [math.log(ratio) + source.gauss(0.0, between_sd) for _ in range(many)]
            yield one(*(
                experiment(source, log, pair_sd, f"r{i}", i) for i, log in enumerate(truth)
            ))


@pytest.mark.parametrize("many", [1, 2, 3, 5])
def test_the_interval_of_all_pairs_together_misses_once_in_a_hundred(many):
    missed = total = 0
    for ratio in (1.0, 1.05, 1.1, 1.25, 1.6):
        for item in weighed(ratio, many):
            total += 1
            missed += item.ratio_low is not None and not item.ratio_low <= ratio <= item.ratio_high
    assert missed <= 0.01 * total


def test_the_newest_five_alone_are_weighed():
    truth = random.Random(5)
    found = [experiment(truth, math.log(1.05), 0.4, f"r{i}", i) for i in range(40)]
    decided = measured("first", -1, 1.3, pairs=8, sd=0.01)
    telling = [item for item in found if item.ratio_low is not None][-5:]
    alone, all_of_them = one(*telling), one(decided, *found)
    assert (all_of_them.verdict, all_of_them.record_ids) == (alone.verdict, alone.record_ids)


@pytest.mark.parametrize("many", [2, 3, 5])
def test_where_nothing_matters_a_mode_is_named_at_most_12_times_in_2000(many):
    cells = product((1.0, 1.05), (0.0, 0.03))
    found = [item.verdict for ratio, sd in cells for item in weighed(ratio, many, sd)]
    assert sum(verdict in MODES for verdict in found) <= 12 * len(found) / 2000


@pytest.mark.parametrize(("ratio", "least"), [(1.25, 0.8), (1.6, 0.9)])
def test_five_that_were_mostly_stopped_find_what_one_would_not(ratio, least):
    alone = [item.verdict is MODES[0] for item in weighed(ratio, 1)]
    together = [item.verdict is MODES[0] for item in weighed(ratio, 5)]
    assert sum(together) >= least * len(together)
    assert sum(together) > 1.4 * sum(alone)

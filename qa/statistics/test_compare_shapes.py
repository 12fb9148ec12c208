"""Files of latencies of every shape: no verdict on a difference that is not there."""

import math
import random
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from wcache.analysis.decision import Materiality
from wcache.core.model import CacheMode
from wcache_cli.compare.comparison import compare
from wcache_cli.compare.latency_file import LatencyFile

SEEDS = 20
DIFFERS = {"write back", "write through", "conflicting"}


def compared(back, through):
    measured = {CacheMode.WRITE_BACK: back, CacheMode.WRITE_THROUGH: through}
    files = {
        mode: [LatencyFile(f"{i}", us) for i, us in enumerate(found)]
        for mode, found in measured.items()
    }
    return compare(files, Materiality())


def mixture(rng, slow_share, n=1000, slow=10.0):
    return [
        1000 * (slow if rng.random() < slow_share else 1) * math.exp(rng.gauss(0, 0.1))
        for _ in range(n)
    ]


def in_bursts(rng, n=20_000):
    """A tenth of the time, in stretches of about 300 samples, everything takes ten times."""
    values, slow = [], False
    for _ in range(n):
        if rng.random() < (1 / 300 if slow else 1 / 2700):
            slow = not slow
        values.append(1000 * (10 if slow else 1) * math.exp(rng.gauss(0, 0.2)))
    return values


def in_whole_ms(rng, mean_ms, n=3000):
    return [max(1, round(mean_ms * math.exp(rng.gauss(0, 0.3)))) * 1000.0 for _ in range(n)]


# half fast and half slow has its gap at the median, 10% slow has it at the 90th percentile
@pytest.mark.parametrize("slow_share", [0.5, 0.1])
def test_the_same_drive_twice_does_not_differ_where_its_latencies_have_a_gap(slow_share):
    verdicts = Counter()
    for seed in range(SEEDS):
        rng = random.Random(seed)
        result = compared([mixture(rng, slow_share)], [mixture(rng, slow_share)])
        verdicts[result["verdict"]] += 1
    assert not DIFFERS & set(verdicts)


def test_a_clear_difference_of_drives_with_a_gap_is_still_found():
    for seed in range(5):
        rng = random.Random(seed)
        through = [us / 3 for us in mixture(rng, 0.2)]
        assert compared([mixture(rng, 0.2)], [through])["verdict"] == "write through"


def test_slow_stretches_count_for_few_samples_at_the_tail():
    for seed in range(SEEDS):
        rng = random.Random(seed)
        assert compared([in_bursts(rng)], [in_bursts(rng)])["verdict"] not in DIFFERS


@pytest.mark.parametrize("files", [1, 4])
def test_a_clock_of_whole_milliseconds_proves_nothing_finer(files):
    for seed in range(5):
        rng = random.Random(seed)
        back = [in_whole_ms(rng, 1.46) for _ in range(files)]
        through = [in_whole_ms(rng, 1.54) for _ in range(files)]
        result = compared(back, through)
        assert result["verdict"] == "insufficient data"
        assert "coarse" in result["warnings"]
        assert result["ratio_low"] < 1.46 / 1.54 < result["ratio_high"]
        assert result["more_needed"]["count"] is None


def test_a_coarse_clock_still_shows_what_is_many_steps_away():
    rng = random.Random(1)
    result = compared([in_whole_ms(rng, 12)], [in_whole_ms(rng, 3)])
    assert (result["verdict"], "coarse" in result["warnings"]) == ("write through", True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from([1e-3, 1.0, 2.0, 1e4, 1e9]), min_size=1, max_size=40),
                min_size=2, max_size=2))
def test_whatever_values_repeat_the_ratio_lies_in_its_interval(sides):
    assume(sides[0] != sides[1])
    result = compared([sides[0]], [sides[1]])
    for end, sign in (("ratio_low", -1), ("ratio_high", 1)):
        if result[end] is not None:
            assert sign * (result[end] - result["ratio"]) >= 0


def test_of_a_mode_with_one_value_only_the_clock_is_not_known():
    same = compared([[5000.0] * 2000], [[5000.0] * 1000])
    assert (same["verdict"], same["warnings"][-1]) == ("insufficient data", "coarse")
    assert compared([[50_000.0] * 2000], [[5000.0] * 1000])["verdict"] == "write through"


def test_more_samples_are_asked_for_where_they_are_missing():
    rng = random.Random(1)
    few = [1000 * math.exp(rng.gauss(0, 0.5)) for _ in range(100)]
    many = [1000 * math.exp(rng.gauss(0, 0.5)) for _ in range(50_000)]
    more = compared([few], [many])["more_needed"]
    assert more["per_mode"]["write through"] == 0
    assert 0 < more["count"] == more["per_mode"]["write back"] < 1000


def files(rng, middles, sd=0.1, n=200):
    return [[us * math.exp(rng.gauss(0, sd)) for _ in range(n)] for us in middles]


def test_two_or_three_files_of_a_mode_count_for_no_more_than_they_agree():
    rng = random.Random(1)
    result = compared(files(rng, (100, 180, 190)), files(rng, (100.5, 105, 185)))
    assert (result["verdict"], result["more_needed"]["what"]) == ("insufficient data", "runs")
    assert result["ratio_low"] < 1 < result["ratio_high"]
    assert "unreplicated" in result["warnings"]


@pytest.mark.parametrize(("back", "through"), [(2, 2), (3, 3), (1, 3), (2, 1), (2, 9)])
def test_runs_that_differ_by_a_fifth_for_no_reason_hardly_ever_name_a_mode(back, through):
    wrong = 0
    for seed in range(40):
        rng = random.Random(seed)
        sides = [[1000 * math.exp(rng.gauss(0, 0.2)) for _ in range(n)] for n in (back, through)]
        result = compared(*(files(rng, middles, n=40) for middles in sides))
        wrong += result["verdict"] in DIFFERS
    assert wrong <= 1


@pytest.mark.parametrize("count", [2, 3])
def test_a_few_files_that_agree_still_show_a_clear_difference(count):
    for seed in range(5):
        rng = random.Random(seed)
        back = [3000 * math.exp(rng.gauss(0, 0.03)) for _ in range(count)]
        through = [1000 * math.exp(rng.gauss(0, 0.03)) for _ in range(count)]
        assert compared(files(rng, back), files(rng, through))["verdict"] == "write through"


def test_a_tail_that_only_one_of_two_files_shows_is_not_proven():
    rng = random.Random(3)
    calm = files(rng, [1000, 1010, 990, 1005], sd=0.02, n=1000)
    contradiction = [us * (5 if i % 3 == 0 else 1) for i, us in enumerate(calm[0])]
    assert compared([contradiction, calm[1]], calm[2:])["verdict"] not in DIFFERS
    assert compared([contradiction], calm[2:3])["verdict"] == "conflicting"


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_mirror_scale_and_the_order_of_files_change_nothing(count, others, seed):
    rng = random.Random(seed)
    back = files(rng, [1500 * rng.lognormvariate(0, 0.1) for _ in range(count)], n=60)
    through = files(rng, [1000 * rng.lognormvariate(0, 0.1) for _ in range(others)], n=60)
    one = compared(back, through)
    other = compared(
        [[7 * us for us in run] for run in through[::-1]],
        [[7 * us for us in run] for run in back[::-1]],
    )
    mirrored = {"write back": "write through", "write through": "write back"}
    assert other["verdict"] == mirrored.get(one["verdict"], one["verdict"])
    for name, inverse in (
        ("ratio", "ratio"), ("ratio_low", "ratio_high"), ("ratio_high", "ratio_low"),
        ("tail_ratio", "tail_ratio"),
    ):
        if one[name] and other[inverse]:
            assert other[inverse] == pytest.approx(1 / one[name], rel=1e-5)
        else:  # endless in one direction is endless in the other
            assert one[name] in (None, 0) or other[inverse] in (None, 0)

"""Tails of client writes from an OSD's histogram: strict to read, and never more than they show."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from bench_decision import synthetic
from mgr_fakes import histogram as made
from pooled import pooled as pool
from scipy.special import ndtr
from wcache.analysis import summary
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.analysis.pairs import differences
from wcache.core import codec
from wcache.core.errors import MalformedError
from wcache.core.experiment.observed import (
    histogram_gained,
    log_quantile,
    of_histogram,
    parse_histogram,
)
from wcache.core.experiment.run_state import FIRST_LOOK
from wcache.core.model import Arm, Verdict
from wcache.core.options.entries import CACHE_MODES
from wcache.core.record import LatencyHistogram, Period
from wcache.core.verdict import sequential

OPTIONS = Materiality()
UPPER_NS = tuple(100_000 * 2**i for i in range(30))


def drawn(rng, middle_us, *, writes=400, sd=0.4, period_sd=0.03):
    """The histogram of log-normal latencies around `middle_us`."""
    centre = math.log(middle_us * 1e3) + rng.normal(0, period_sd)
    under = ndtr((np.log(UPPER_NS) - centre) / sd)
    chances = np.diff(under, prepend=0.0)
    counts = rng.multinomial(writes, chances / chances.sum())
    return LatencyHistogram(UPPER_NS, tuple(int(count) for count in counts))


def with_histograms(record, draw):
    """`draw(arm)` for each period."""
    def counted(period):
        return replace(period, histogram=draw(period.arm))

    return synthetic.altered(record, counted, counted)


def traffic(pairs, ratio, tail_ratio, seed=1, **spread):
    rng = np.random.default_rng(seed)
    draw = synthetic.lognormal(random.Random(seed), ratio=ratio, period_sd=0.02)
    record = synthetic.counter_record(draw, pairs, ["txc_commit_lat"])
    middles = {"write back": 10_000 * tail_ratio, "write through": 10_000}
    return with_histograms(record, lambda arm: drawn(rng, middles[CACHE_MODES.name(arm)], **spread))


@pytest.mark.parametrize(("tail_ratio", "said"), [
    (3.0, "write through"), (1.0, "insufficient data"),
])
def test_buckets_show_that_a_tail_gains_and_never_that_it_does_not(tail_ratio, said):
    found = analyse(traffic(20, 3.0, tail_ratio, sd=0.1), OPTIONS)
    assert found["tail_verdict"] == said


def test_samples_show_that_a_tail_does_not_gain():
    draw = synthetic.lognormal(random.Random(1), ratio=1.0, sample_sd=0.02, period_sd=0.02)
    record = synthetic.record(draw, 20)
    assert analyse(record, OPTIONS)["tail_verdict"] == "no material difference"


def tail_verdict(found):
    seen = sequential.spread(found)
    return sequential.verdict_of(seen, OPTIONS.margin + sequential.SLACK)


@pytest.mark.slow
@pytest.mark.parametrize("writes", [150, 2000])
@pytest.mark.parametrize("sd", [0.1, 0.4, 1.0])
@pytest.mark.parametrize(
    ("ratio", "verdict"), [(0.5, Verdict.A), (2.0, Verdict.B)]
)
def test_a_tail_twice_as_slow_is_told_wherever_the_edges_lie(ratio, verdict, sd, writes):
    for start in range(8):
        rng = np.random.default_rng(start)
        middle_us = 5_000 * 2 ** (start / 8)
        record = with_histograms(
            synthetic.counter_record(
                synthetic.lognormal(random.Random(1), ratio=1.0), 40, ["txc_commit_lat"]
            ),
            lambda arm, rng=rng, middle_us=middle_us: drawn(
                rng, middle_us * (ratio if arm is Arm.A else 1.0),
                sd=sd, writes=writes,
            ),
        )
        assert tail_verdict(summary.differences(record.pairs)) is verdict, start


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 1.05])
@pytest.mark.parametrize("sd", [0.1, 0.4])
def test_tails_that_do_not_differ_are_told_apart_in_one_experiment_of_a_hundred_at_most(
    ratio, sd
):
    wrong = 0
    experiments = 150
    for seed in range(experiments):
        rng = np.random.default_rng(1000 + seed)
        middle_us = 5_000 * 2 ** rng.random()
        found = []
        for _ in range(20):
            back = drawn(rng, middle_us * ratio, writes=200, sd=sd)
            through = drawn(rng, middle_us, writes=200, sd=sd)
            found.append(log_quantile(back, 0.9) - log_quantile(through, 0.9))
        wrong += any(
            tail_verdict(found[:n]).arm is not None
            for n in range(FIRST_LOOK, len(found) + 1)
        )
    assert wrong <= experiments // 100


def test_percentiles_within_one_bucket_differ_by_less_than_it_spans():
    low, high = ((0, 0, 0, 0, 900, 100), (0, 0, 0, 0, 100, 900))
    of = [log_quantile(LatencyHistogram(UPPER_NS[:6], c), 0.9) for c in (low, high)]
    # 90% lie up to the edge of the last bucket, and up to nine tenths of it
    assert of[0] == pytest.approx(math.log(1_600_000))
    assert 0 < of[1] - of[0] < math.log(2.0)
    first = LatencyHistogram(UPPER_NS[:1], (100,))
    assert math.log(50_000) < log_quantile(first, 0.9) < math.log(100_000)


def test_a_proven_worse_tail_of_client_writes_makes_the_verdict_conflicting():
    record = traffic(12, ratio=3.0, tail_ratio=0.3)
    result = analyse(record, OPTIONS)
    assert result["verdict"] == "conflicting"
    assert "the mean is better in write through, but the 90th percentile is proven better" in (
        result["why"]
    )
    assert result["tail_ratio_high"] < 1 / result["tail_material_ratio"]
    assert analyse(traffic(12, ratio=3.0, tail_ratio=2.0), OPTIONS)["verdict"] == "write through"


def test_a_tail_that_a_bucket_could_hide_contradicts_nothing():
    result = analyse(traffic(20, ratio=3.0, tail_ratio=0.8, writes=5000), OPTIONS)
    assert result["tail_ratio"] < 1
    assert result["verdict"] == "write through"


def test_a_pool_of_traffic_asks_as_much_of_its_tails():
    def results(tail_ratio):
        found = []
        for n in range(4):
            made_of = analyse(traffic(12, ratio=3.0, tail_ratio=tail_ratio, seed=n), OPTIONS)
            found.append({
                **made_of, "record_id": f"r{n}", "verdict": "write through",
                "subject": {**made_of["subject"], "domain_id": f"d{n}"},
                "alike": {**made_of["alike"], "simulated": False},
            })
        return pool(found, OPTIONS)

    assert results(0.3)["verdict"] == "conflicting"
    assert results(0.8)["verdict"] == "write through"


def test_a_period_with_few_writes_or_none_counted_leaves_the_tail_open():
    record = traffic(6, ratio=3.0, tail_ratio=1.0)
    assert len(differences(record.pairs, "txc_commit_lat").tail) == 6
    few = LatencyHistogram(UPPER_NS[:2], (40, summary.WRITES_MIN - 41))
    for lacking in (None, few):
        changed = replace(
            record.pairs[3], a=replace(record.pairs[3].a, histogram=lacking)
        )
        pairs = (*record.pairs[:3], changed, *record.pairs[4:])
        assert differences(pairs, "txc_commit_lat").tail == ()
    # the rest of them is shown all the same
    writes = analyse(replace(record, pairs=pairs), OPTIONS)["per_mode"]["write back"]
    assert writes["client_writes"]["n"] == 5 * 400 + summary.WRITES_MIN - 1


def test_percentiles_of_a_mode_are_said_to_be_about_and_between_what():
    record = traffic(6, ratio=3.0, tail_ratio=1.0)
    writes = analyse(record, OPTIONS)["per_mode"]["write through"]["client_writes"]
    low, high = writes["p90_between_us"]
    assert high == 2 * low
    true_us = 10_000 * math.exp(0.4 * 1.2816)
    assert low <= true_us <= high
    assert low <= writes["p90_about_us"] <= high
    assert writes["p50_about_us"] < writes["p90_about_us"] < writes["p99_about_us"]


def test_the_readers_buckets_are_the_osds_in_nanoseconds():
    found = parse_histogram(made.dump({1: 3, 7: 9}))
    assert found == LatencyHistogram(UPPER_NS[:7], (3, 0, 0, 0, 0, 0, 9))
    assert parse_histogram(made.dump({31: 1})).upper_ns[-1] == 2 * 53_687_091_200_000


def bent(**changes):
    answer = made.plain({3: 5})
    answer["osd"]["op_w_latency_in_bytes_histogram"].update(changes)
    return json.dumps(answer)


AXES = made.plain({})["osd"]["op_w_latency_in_bytes_histogram"]["axes"]
RANGES = AXES[0]["ranges"]


def ranges(*found):
    return [{**AXES[0], "ranges": list(found)}, AXES[1]]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "nan", "[" * 90_000, json.dumps({"osd": {}}), json.dumps({"osd": 3}),
        bent(values=[]), bent(values=7), bent(values=[[1]] * 31), bent(values=["1"] * 32),
        bent(values=[[-1]] * 32), bent(values=[[1.5]] * 32), bent(values=[[True]] * 32),
        bent(values=[[2**62, 2**62]] * 32), bent(values=[[10**400]] * 32),
        bent(axes=[]), bent(axes=7), bent(axes=[{}]), bent(axes=ranges()),
        bent(axes=ranges(*[{"max": -1}] * 32)), bent(axes=ranges(*RANGES[::-1])),
        bent(axes=ranges(RANGES[0], {"min": 0, "max": 9}, {"min": 40, "max": 99}, *RANGES[3:])),
        bent(axes=ranges(RANGES[0], {"min": 0, "max": 9}, *RANGES[2:])),
        bent(axes=ranges(*RANGES, *RANGES)), made.dump({0: 1}), made.dump({3: 5}) + " " * 10**6,
    ],
    ids=lambda text: text[:20],
)
def test_an_answer_that_is_no_such_histogram_is_none(text):
    assert parse_histogram(text) is None


def test_what_is_gained_between_readings_is_never_negative():
    some, more = parse_histogram(made.dump({2: 5})), parse_histogram(made.dump({2: 5, 4: 1}))
    assert histogram_gained(some, more) == LatencyHistogram(UPPER_NS[:4], (0, 0, 0, 1))
    for before, after in ((more, some), (some, some), (None, some), (some, None)):
        assert histogram_gained(before, after) is None
    other = LatencyHistogram((90_000,), (1,))
    assert histogram_gained(other, more) is None


def test_a_record_with_a_histogram_that_is_none_is_refused():
    period = traffic(1, 1.0, 1.0).pairs[0].a
    plain = codec.to_plain(period)
    assert codec.decode(Period, plain, "p") == period
    for upper, counts in (([], []), ([5], []), ([5, 5], [1, 1]), ([5, 11], [1, 1]), ([0], [1])):
        bad = {**plain, "histogram": {"upper_ns": upper, "counts": counts}}
        with pytest.raises(MalformedError, match=r"p\.histogram"):
            codec.decode(Period, bad, "p")


@pytest.mark.parametrize(("times", "told"), [(1, False), (3, True)])
def test_one_histogram_has_the_same_percentiles_wherever_it_is_told(times, told):
    upper = (100_000, 200_000, 400_000, 800_000, 1_600_000, 3_200_000)
    histogram = LatencyHistogram(upper, (0, 0, 0, 90 * times, 0, 10 * times))
    table = of_histogram(histogram)
    assert table.p50 == pytest.approx(587.89, abs=0.01)
    period = replace(traffic(1, 1.0, 1.0).pairs[0].a, histogram=histogram)
    writes = summary.client_writes([period])
    assert writes["p50_about_us"] == pytest.approx(table.p50)
    assert (table.p99 is not None) is ("p99_about_us" in writes) is told

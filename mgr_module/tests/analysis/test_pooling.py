"""Drives are pooled with the drive as the unit, only where alike, and odd ones are named."""

import math
import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from pooled import pooled as pool
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.core.model import Arm
from wcache.core.options.entries import CACHE_MODES, OptionTrial

OPTIONS = Materiality()


def result(drive, ratio, seed=None, **setup):
    draw = synthetic.lognormal(
        random.Random(hash((drive, ratio)) if seed is None else seed),
        ratio=ratio, sample_sd=0.05, period_sd=0.02,
    )
    changed = replace(synthetic.SETUP, domain_id=drive, drive_id=drive, **setup)
    return analyse(synthetic.record(draw, 8, setup=changed), OPTIONS)


def test_drives_that_agree_make_a_verdict_and_predict_the_next_one():
    pooled = pool([result(f"d{i}", 3.0, seed=i) for i in range(6)], OPTIONS)
    assert pooled["verdict"] == "write through"
    assert pooled["next_low"] <= pooled["ratio_low_95"] < 3.0 < pooled["next_high"]


def test_two_drives_are_not_pooled_to_a_verdict():
    pooled = pool([result("a", 3.0, seed=1), result("b", 3.0, seed=2)], OPTIONS)
    assert pooled is None


def test_many_experiments_of_one_drive_stay_one_drive():
    many = [{**result("a", 3.0, seed=i), "record_id": f"r{i}"} for i in range(6)]
    assert pool(many, OPTIONS) is None


def test_an_experiment_given_twice_counts_once():
    others = [result("b", 3.0, seed=2), result("c", 3.0, seed=3)]
    once = {**result("a", 3.2, seed=1), "record_id": "r1"}
    again = {**result("a", 2.8, seed=4), "record_id": "r2"}
    assert pool([once, once, *others], OPTIONS) == pool([once, *others], OPTIONS)
    assert pool([once, again, *others], OPTIONS) != pool([once, *others], OPTIONS)


def with_tail(drive, factor, seed):
    """A drive of equal medians; a fifth of its samples in write back are slower."""
    rng = random.Random(seed)

    def draw(arm, index, count):
        period = rng.gauss(0, 0.2)
        slow = factor if arm is Arm.A else 1.0
        return [
            1000 * math.exp(rng.gauss(0, 0.02)) * (slow * math.exp(period) if n % 5 == 0 else 1.0)
            for n in range(count)
        ]

    setup = replace(synthetic.SETUP, domain_id=drive, drive_id=drive)
    return analyse(synthetic.record(draw, 6, setup=setup), OPTIONS)


def test_a_worse_tail_that_no_single_drive_proves_makes_the_pool_conflicting():
    drives = [with_tail(f"d{i}", 1.8, i) for i in range(8)]
    assert {item["verdict"] for item in drives} == {"no material difference"}
    pooled = pool(drives, OPTIONS)
    assert pooled["verdict"] == "conflicting"
    assert "90th percentile is proven better in write through" in pooled["why"]
    assert pooled["tail_ratio_low"] > 1.1


def test_a_tail_of_too_few_drives_says_nothing():
    drives = [with_tail(f"d{i}", 1.8, i) for i in range(8)]
    silent = [{**item, "tail_log_ratio": None, "tail_pair_sd": None} for item in drives[2:]]
    pooled = pool([*drives[:2], *silent], OPTIONS)
    assert pooled["verdict"] == "no material difference"
    assert pooled["tail_ratio"] is None


@pytest.mark.parametrize(("ratios", "verdict", "says"), [
    ((3.0, 3.1, 2.9), "write through", "nr_requests 256 is "),
    ((1.0, 1.01, 0.99), "no material difference", "; leave it as it is"),
    ((3.0, 0.3, 2.9), "conflicting",
     "2 drives are proven better in nr_requests 256 and 1 in nr_requests 64 (such as h1 d0 and "),
])
def test_drives_that_compared_values_of_an_option_are_pooled_in_its_words(ratios, verdict, says):
    trial = OptionTrial("nr_requests", "64", "256")
    found = [result(f"d{i}", ratio, seed=i, option=trial) for i, ratio in enumerate(ratios)]
    modes = pool([result(f"d{i}", ratio, seed=i) for i, ratio in enumerate(ratios)], OPTIONS)
    values = pool(found, OPTIONS)
    assert says in values["why"]
    assert (modes["verdict"], modes["ratio_low"]) == (verdict, values["ratio_low"])
    assert trial.arms.meant(values["verdict"]) is CACHE_MODES.meant(verdict)


def odd_one_out(ratio, said, *codes):
    """A pool of three drives at one ratio, of which d1 has this verdict and these findings."""
    drives = [{**result(f"d{i}", ratio, seed=i)} for i in range(3)]
    drives[1].update(verdict=said, findings=[{"code": code, "detail": ""} for code in codes])
    pooled = pool(drives, OPTIONS)
    return pooled["verdict"], pooled["why"]


@pytest.mark.parametrize("code", ["WCACHE_CARRYOVER", "WCACHE_FLUSH_TOO_FAST"])
def test_a_drive_in_doubt_keeps_a_pool_from_deciding(code):
    assert odd_one_out(0.3, "insufficient data")[0] == "write back"
    verdict, why = odd_one_out(0.3, "insufficient data", code)
    assert verdict == "insufficient data"
    assert why.startswith(f"h1 d1 raised {code}")
    assert odd_one_out(1.0, "insufficient data")[0] == "no material difference"
    assert odd_one_out(1.0, "insufficient data", code)[0] == "insufficient data"


@pytest.mark.parametrize(("price_us", "verdict"), [
    (300.0, "write back"), (None, "insufficient data")])
def test_flushes_that_were_not_sent_keep_a_pool_from_write_back_until_some_are_counted(
    price_us, verdict
):
    drives = [{**result(f"d{i}", 0.3, seed=i), "record_id": "r2"} for i in range(3)]
    drives[0]["pin_price_us"] = price_us
    unsent = {
        **result("d0", 0.3, seed=4), "record_id": "r1", "verdict": "insufficient data",
        "findings": [{"code": "WCACHE_FLUSH_MISSING", "detail": ""}],
    }
    assert pool([unsent, *drives], OPTIONS)["verdict"] == verdict


def test_a_drive_that_contradicts_itself_makes_the_pool_contradict_itself():
    verdict, why = odd_one_out(3.0, "conflicting", "WCACHE_CARRYOVER")
    assert verdict == "conflicting"
    assert why.startswith("h1 d1 gave contradictory results")


@pytest.mark.parametrize("far", [30.0, 1.0])
def test_an_odd_drive_on_either_side_is_named_and_kept(far):
    drives = [result(f"d{i}", 5.0, seed=i) for i in range(7)] + [result("odd", far, seed=9)]
    pooled = pool(drives, OPTIONS)
    assert pooled["odd_drives"] == ["h1 odd"]
    assert pooled["drives"] == 8


BLANK = result("x", 2.0, seed=1)


def told(drive, log_ratio, error, tail=None):
    """What a drive told, measured in 8 pairs with this error of their mean."""
    return {
        **BLANK, "subject": {"domain_id": drive, "fsid": "f"}, "log_ratio": log_ratio, "pairs": 8,
        "pair_sd": error * 8**0.5, "tail_log_ratio": tail, "tail_pair_sd": error * 8**0.5,
        "verdict": "insufficient data",
    }


def test_where_drives_are_measured_equally_well_weights_would_change_nothing():
    values, error = (0.5, 0.9, 0.4, 0.6), 0.02
    pooled = pool([told(f"d{i}", value, error) for i, value in enumerate(values)], OPTIONS)
    # Paule and Mandel's tau^2 is then the spread less the error, Hartung and Knapp's q is 1
    spread = math.sqrt(sum((value - 0.6) ** 2 for value in values) / 3)
    assert math.log(pooled["ratio"]) == pytest.approx(0.6)
    assert math.log(pooled["ratio_high"]) == pytest.approx(0.6 + 5.8409 * spread / 2, rel=1e-4)
    assert pooled["tau"] == pytest.approx(math.sqrt(spread**2 - error**2))
    same = pool([told(f"d{i}", 0.6, error) for i in range(4)], OPTIONS)
    assert math.log(same["ratio_high"]) == pytest.approx(0.6 + 5.8409 * error / 2, rel=1e-4)
    assert same["tau"] == 0


def test_a_pool_is_the_same_in_any_order_and_the_mirror_of_its_mirror():
    rng = random.Random(13)
    other = {"write through": "write back", "write back": "write through"}
    for _ in range(100):
        drives = [
            told(f"d{i}", rng.gauss(0.3, 0.2), abs(rng.gauss(0, 0.05)), rng.gauss(0.3, 0.2))
            for i in range(rng.choice((3, 4, 6)))
        ]
        turned = [
            {**d, "log_ratio": -d["log_ratio"], "tail_log_ratio": -d["tail_log_ratio"]}
            for d in drives
        ]
        one, mirrored = pool(drives, OPTIONS), pool(turned, OPTIONS)
        assert pool(drives[::-1], OPTIONS) == one
        assert mirrored["verdict"] == other.get(one["verdict"], one["verdict"])
        for low, high in (("ratio_low", "ratio_high"), ("next_low", "next_high"),
                          ("tail_ratio_low", "tail_ratio_high")):
            assert mirrored[low] * one[high] == pytest.approx(1.0)


def test_drives_that_agree_to_the_last_digit_are_no_division_by_zero():
    pooled = pool([told(f"d{i}", 0.0, 0.0) for i in range(5)], OPTIONS)
    assert pooled["verdict"] == "no material difference"
    assert pooled["ratio_low"] < 1 < pooled["ratio_high"]

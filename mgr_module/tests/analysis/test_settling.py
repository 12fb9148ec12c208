"""How long to settle follows from what fades after a toggle, never from the arm."""

import math
import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from hypothesis import given
from hypothesis import strategies as st
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.core.errors import MalformedError
from wcache.core.experiment import settling
from wcache.core.experiment.settling import check_size, checks_at_most, due_check, settled
from wcache.core.loads import spread_at_s
from wcache.core.model import Arm
from wcache.core.record import Period, Settling

A, B = Arm
LEAST_S = 0.4
SETUP = replace(synthetic.SETUP, settle_s=LEAST_S, watch_samples=8)
NS = st.integers(0, 10**12)


def period(arm, at_ns=(), samples_ns=()):
    return Period(arm, 0.0, 0.0, 1.0, tuple(samples_ns), at_ns=tuple(at_ns))


def swapped(watches):
    return [replace(watch, arm=watch.arm.other) for watch in watches]


def watched(rng, factor, fading_s, *, to=B, sd=0.15, base_us=1000.0, stalls=0.0, times=1.0):
    """The watches of a drive that is `factor` times slower after a toggle to `to`."""
    periods = {}
    slot = due_check(SETUP, periods)
    while slot is not None:
        arm = slot.arm(SETUP.seed)
        count, seconds = check_size(SETUP, slot)
        at_s = [spread_at_s(seconds, count, i) for i in range(count)]
        level = math.log(base_us * 1e3 * (times if arm is A else 1.0))
        logs = [
            level + rng.gauss(0, sd) + (rng.random() < stalls) * 4.0
            + (math.log(factor) * math.exp(-t / fading_s) if arm is to else 0.0)
            for t in at_s
        ]
        periods[slot] = period(
            arm, [int(t * 1e9) for t in at_s], [int(math.exp(y)) for y in logs]
        )
        slot = due_check(SETUP, periods)
    return periods


@pytest.mark.slow
@given(st.lists(
    st.tuples(st.sampled_from(Arm), st.lists(st.tuples(NS, NS), max_size=30)), max_size=4
))
def test_the_choice_is_the_same_with_the_modes_swapped_whatever_was_seen(given_watches):
    watches = [
        period(arm, sorted(at for at, _ in seen), [ns for _, ns in seen])
        for arm, seen in given_watches
    ]
    chosen = settling.choose(watches, LEAST_S)
    assert settling.choose(swapped(watches), LEAST_S) == chosen
    assert settling.suspicious(watches[:2], LEAST_S) == settling.suspicious(
        swapped(watches[:2]), LEAST_S
    )
    assert LEAST_S <= chosen.settle_s <= settling.SETTLE_MAX_S


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from(Arm), st.sampled_from([0.1, 0.5, 1.0, 2.0]))
def test_what_fades_is_waited_for_alike_after_either_toggle(seed, arm, fading_s):
    either = {
        to: settled(SETUP, watched(random.Random(seed), 3.0, fading_s, to=to)) for to in Arm
    }
    assert either[arm].settle_s >= LEAST_S
    if either[arm].fading_s:
        left = math.log(3.0) * math.exp(-either[arm].settle_s / fading_s)
        assert left < math.log(3.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fading_s", "left", "of_40"), [(0.3, 0.06, 38), (0.5, 0.06, 34), (1.0, 0.15, 14)]
)
def test_an_effect_that_fades_is_found_and_waited_for(fading_s, left, of_40):
    shifts = []
    for seed in range(40):
        found = settled(SETUP, watched(random.Random(seed), 3.0, fading_s, sd=0.1))
        shifts.append(math.log(3.0) * math.exp(-found.settle_s / fading_s))
    assert sum(shift < left for shift in shifts) >= of_40


@pytest.mark.slow
@pytest.mark.parametrize("stalls", [0.0, 0.03])
@pytest.mark.parametrize("times", [1.0, 3.0])
def test_where_nothing_fades_the_shortest_settling_is_kept(stalls, times):
    chosen = [
        settled(SETUP, watched(random.Random(seed), 1.0, 1.0, stalls=stalls, times=times))
        for seed in range(60)
    ]
    assert sum(found == Settling(LEAST_S) for found in chosen) >= 57


def test_a_watch_lasts_no_longer_than_a_few_seconds_however_long_the_settling():
    setup = replace(SETUP, settle_s=60.0)
    samples, late = 2 * (8 + 16), 8 * 16
    assert checks_at_most(setup) == (12, samples + late, 2 * (2.0 + 4.0) + 8 * 8.0)
    assert checks_at_most(SETUP) == (12, samples + late, 2 * (1.0 + 2.0) + 8 * 4.0)
    short = replace(SETUP, pairs_max=36)
    assert checks_at_most(short) == (8, samples + late // 2, 2 * (1.0 + 2.0) + 4 * 4.0)
    assert checks_at_most(replace(setup, watch_samples=0)) == (0, 0, 0.0)


def test_a_record_whose_settling_does_not_follow_from_its_watches_is_refused():
    watches = tuple(watched(random.Random(3), 3.0, 0.5).values())
    chosen = settling.choose(watches, LEAST_S)
    draw = synthetic.lognormal(random.Random(3), ratio=2.0)
    made = synthetic.record(draw, 8, setup=SETUP)

    def waited(period):
        return replace(period, settle_s=chosen.settle_s)

    record = replace(
        synthetic.altered(made, waited, waited), watches=watches, settling=chosen
    )
    result = analyse(record, Materiality())
    assert result["settling"]["settle_s"] == chosen.settle_s > LEAST_S
    other = replace(record, settling=replace(chosen, settle_s=chosen.settle_s + 1))
    with pytest.raises(MalformedError, match="does not follow"):
        analyse(other, Materiality())
    with pytest.raises(MalformedError, match="settled for 0 s, but the record's settling time is"):
        analyse(replace(record, pairs=made.pairs), Materiality())

"""A record that contradicts its own seed, budget or setup is refused in one clear line."""

import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.core.errors import MalformedError
from wcache.core.record import CounterDelta, Precondition

RECORD = synthetic.record(synthetic.lognormal(random.Random(1), ratio=1.16), 6)


def again(pairs, shift):
    return tuple(replace(pair, index=pair.index + shift) for pair in pairs)


def late(pairs, seconds):
    def moved(period):
        return replace(period, started_at_s=period.started_at_s + seconds)

    return synthetic.altered(replace(RECORD, pairs=pairs), moved, moved).pairs


def altered(**changes):
    """The record with a period of its first pair changed."""
    pair = RECORD.pairs[0]
    changed = replace(pair, a=replace(pair.a, **changes))
    return replace(RECORD, pairs=(changed, *RECORD.pairs[1:]))


def test_a_scrub_is_no_reason_to_refuse_and_what_was_forced_may_miss_anything():
    setup = replace(RECORD.setup, simulated=False)
    for forced, missed in ((False, Precondition.NO_SCRUB), (True, Precondition.CLUSTER_HEALTHY)):
        record = replace(RECORD, setup=setup, forced=forced, missed_preconditions=(missed,))
        analyse(record, Materiality())


HALF = CounterDelta("commit_lat", 0.5, 50)


def of_traffic(half):
    def counted(period):
        return replace(
            period, samples_ns=(), counters=(CounterDelta("commit_lat", 1.0, 100),),
            later_counters=(half,),
        )

    return synthetic.altered(RECORD, counted, counted)


def test_a_half_of_a_period_may_hold_all_of_it():
    assert analyse(of_traffic(replace(HALF, sum_s=1.0, count=100)), Materiality())["pairs"] == 6


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (replace(RECORD, pairs=RECORD.pairs * 2), "pair 0 is in the record 2 times"),
        (replace(RECORD, pairs=RECORD.pairs + again(RECORD.pairs, 6)), "started out of order"),
        (replace(RECORD, pairs=RECORD.pairs + late(again(RECORD.pairs, 6), 11.0)),
         "at the same time as another one"),
        (replace(RECORD, pairs=RECORD.pairs + late(again(RECORD.pairs, 6), 99.0)),
         "not in the order of the record's seed"),
        (replace(RECORD, setup=replace(RECORD.setup, seed=99)), "order of the record's seed"),
        (replace(RECORD, setup=replace(RECORD.setup, pairs_max=3)), "more pairs than the 3 of"),
        (replace(RECORD, setup=replace(RECORD.setup, settle_s=1.0)), "settled for 0 s"),
        (replace(RECORD, pairs=RECORD.pairs[::2]), "pair 1 is missing from the record"),
        (replace(RECORD, pairs=late(RECORD.pairs[:1], 99.0) + RECORD.pairs[1:]),
         "pair 1 started out of order"),
        (altered(started_at_s=1e9), "pair 0 started out of order|pair 1 started out of order"),
        (altered(seconds=-1e9), "impossible duration"),
        (altered(seconds=1.7e308), "impossible duration"),
        (altered(samples_ns=RECORD.pairs[0].a.samples_ns * 2), "its setup allows 16"),
        (replace(RECORD, interrupted_seconds=-1.0), "impossible duration"),
        (replace(RECORD, setup=replace(RECORD.setup, simulated=False),
                 missed_preconditions=(Precondition.CLUSTER_HEALTHY,)), "not marked as forced"),
        (of_traffic(replace(HALF, count=101)), "half a period counts more of commit_lat"),
        (of_traffic(replace(HALF, sum_s=1.5)), "half a period counts more of commit_lat"),
        (of_traffic(replace(HALF, name="other")), "half a period counts more of other"),
    ],
)
def test_what_was_altered_by_hand_is_refused(changed, said):
    analyse(RECORD, Materiality())
    with pytest.raises(MalformedError, match=said):
        analyse(changed, Materiality())

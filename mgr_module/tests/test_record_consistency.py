"""A record that contradicts its own seed, budget or setup is refused in one clear line."""

import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from wcache.analysis.decision import Options
from wcache.analysis.experiment import analyse
from wcache.core.errors import MalformedError

RECORD = synthetic.record(synthetic.lognormal(random.Random(1), ratio=1.16), 6)


def again(pairs, shift):
    return tuple(replace(pair, index=pair.index + shift) for pair in pairs)


def late(pairs, seconds):
    def moved(period):
        return replace(period, started_at_s=period.started_at_s + seconds)

    return tuple(
        replace(
            pair, write_back=moved(pair.write_back), write_through=moved(pair.write_through)
        )
        for pair in pairs
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (replace(RECORD, pairs=RECORD.pairs * 2), "pair 0 is in the record 2 times"),
        (replace(RECORD, pairs=RECORD.pairs + again(RECORD.pairs, 6)), "when another one did"),
        (replace(RECORD, pairs=RECORD.pairs + late(again(RECORD.pairs, 6), 99.0)),
         "not in the order of the record's seed"),
        (replace(RECORD, setup=replace(RECORD.setup, seed=99)), "order of the record's seed"),
        (replace(RECORD, setup=replace(RECORD.setup, pairs_max=3)), "beyond the 3 of its setup"),
        (replace(RECORD, setup=replace(RECORD.setup, settle_s=1.0)), "settled for 0 s"),
    ],
)
def test_what_was_altered_by_hand_is_refused(changed, said):
    analyse(RECORD, Options())
    with pytest.raises(MalformedError, match=said):
        analyse(changed, Options())

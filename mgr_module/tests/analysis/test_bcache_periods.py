"""A verdict falls where dirty data of bcache was on both sides of its target meanwhile."""

import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.core.hardware import BcacheState

GIB = 2**30


def bcache(dirty_gib, mode="writeback"):
    return BcacheState("bcache0", False, mode, 4 * 2**20, int(dirty_gib * GIB), 10 * GIB, 4096)


def verdict(dirty_gib, mode="writeback"):
    """The verdict of a clear record whose periods found so much dirty data, in turn."""
    draw = synthetic.lognormal(random.Random(4), ratio=4.0, sample_sd=0.05, period_sd=0.01)
    record = synthetic.record(draw, 10)
    pairs = tuple(
        replace(pair, a=replace(
            pair.a, bcache=(bcache(dirty_gib[index % len(dirty_gib)], mode),)
        ))
        for index, pair in enumerate(record.pairs)
    )
    return analyse(replace(record, pairs=pairs), Materiality())


@pytest.mark.parametrize("dirty", [[1, 2, 9], [11, 12, 30]])
def test_on_one_side_of_the_target_the_verdict_stands(dirty):
    assert verdict(dirty)["verdict"] == "write through"


def test_across_the_target_nothing_is_decided_and_it_is_said():
    found = verdict([9, 11])
    assert found["verdict"] == "insufficient data"
    assert "the dirty data of bcache0 crossed its target" in found["why"]


def test_in_another_mode_nothing_is_dirty_that_could_cross():
    assert verdict([9, 11], mode="writethrough")["verdict"] == "write through"

"""A long cell sees where a cache of the drive ends, and which mode is better after that."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcache.core.model import CacheMode
from wcache_probe.matrix import sustained
from wcache_probe.matrix.sustained import Slice, falls_at

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


class MediaCache:
    """A drive whose media cache holds `room` writes: fast until it is full, slow then.

    Its time is its own clock.  A write with the volatile cache on costs a flush as well.
    """

    def __init__(self, room, fast_s, slow_s, seed=1):
        self.now, self.room, self.fast_s, self.slow_s = 0.0, room, fast_s, slow_s
        self.draw = random.Random(seed)

    def write(self):
        took = self.fast_s if self.room > 0 else self.slow_s
        self.room -= 1
        self.now += took * self.draw.lognormvariate(0.0, 0.3)

    def clock(self):
        return self.now


def measured(mode, drive, seconds=180.0):
    return sustained.run(mode, seconds, drive.write, lambda: False, drive.clock)


def test_a_media_cache_that_is_full_after_a_minute_is_seen_and_the_answer_turns():
    # off: 1 ms into the media cache, which is full after a minute, then 30 ms
    through = measured(THROUGH, MediaCache(60_000, 0.001, 0.030))
    # on: 9 ms a flush, whatever is full
    back = measured(BACK, MediaCache(0, 0.009, 0.009))
    assert through.falls_at is not None
    assert through.until_s == pytest.approx(63.0, abs=5.0)
    assert through.late < back.late < through.early
    assert back.falls_at is None
    words = sustained.lines((back, through))[-1]
    assert words == (
        "faster at first: write through; faster after a cache of the drive is full: write back; "
        "the faster mode changes"
    )


def test_a_drive_without_an_end_in_sight_is_said_to_have_none():
    back = measured(BACK, MediaCache(0, 0.009, 0.009))
    through = measured(THROUGH, MediaCache(0, 0.004, 0.004))
    assert sustained.lines((back, through))[-1] == (
        "no cache of the drive ended in this time; faster: write through"
    )


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.4))
def test_noise_is_never_taken_for_the_end_of_a_cache(seed, spread):
    draw = random.Random(seed)
    slices = [Slice(1.0, round(1000 * draw.lognormvariate(0, spread))) for _ in range(60)]
    found = falls_at(slices)
    if found is not None:  # only where all that follows really is slower
        typical = sorted(one.rate for one in slices[:found])[found // 2]
        assert max(one.rate for one in slices[found:]) <= typical


def test_a_stall_is_no_end():
    rates = [100] * 20 + [5] * 6 + [100] * 20
    assert falls_at([Slice(1.0, rate) for rate in rates]) is None

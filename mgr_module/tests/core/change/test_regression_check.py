"""What a change did to latency: one figure before, one after, and whether it got worse."""

from wcache.core import events
from wcache.core.change.gate.blocks import error_of, is_worse, latency_of
from wcache.core.record import CounterDelta


def test_latency_is_the_median_sample_or_the_mean_of_a_commit_counter():
    assert latency_of(events.LoadSamples(1.0, (1000, 3000, 50_000))) == 3.0
    both = (CounterDelta("kv_commit_lat", 9.0, 3), CounterDelta("txc_commit_lat", 1.0, 4))
    assert latency_of(events.LoadSamples(1.0, (), both)) == 250_000.0
    idle = (CounterDelta("txc_commit_lat", 0.0, 0),)
    assert latency_of(events.LoadSamples(1.0, (), idle)) is None


def test_a_noisy_difference_is_no_harm_and_a_clear_one_is():
    def samples(middle_us, spread):
        return events.LoadSamples(
            1.0, tuple(int(1000 * middle_us * (1 + spread * (i - 12) / 12)) for i in range(25))
        )

    quiet, noisy = samples(100, 0.1), samples(100, 0.9)
    for before, after_us, worse in (
        (quiet, 105, False), (quiet, 125, False), (quiet, 160, True),
        (noisy, 160, False), (noisy, 400, True),
    ):
        judged = is_worse(latency_of(before), error_of(before), after_us, error_of(before))
        assert judged is worse, (before, after_us)

"""A simulated drive loses what it must, keeps what it must, and is what it states."""

import math
import statistics
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from wcache.core.model import CacheMode
from wcache_sim.drive_schema import (
    CacheSpec,
    CarryoverSpec,
    DeviceSpec,
    DriveModelSpec,
    LatencySpec,
    NoiseSpec,
    OpLatency,
    Restored,
    Toggle,
)
from wcache_sim.media_cache import MediaCacheSpec
from wcache_sim.physics import ResetKind, SimulatedDrive, ToggleOutcome

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


def ops(spread=0.0):
    return LatencySpec(
        read=OpLatency(50, spread),
        write=OpLatency(100, spread),
        fua_write=OpLatency(1000, spread),
        dirty_flush=OpLatency(10_000, spread),
        clean_flush=OpLatency(20, spread),
    )


QUIET = DriveModelSpec(
    name="quiet", model="Q", latency=ops(), device=DeviceSpec(1, 1e5), cache=CacheSpec()
)


def drive(seed=1, **changes):
    return SimulatedDrive(replace(QUIET, **changes), seed)


COMMANDS = st.lists(
    st.sampled_from(
        ["write", "fua", "flush", "read", "back", "through", "cut", "reset", "save"]
    ),
    max_size=60,
)


def run(subject, commands):
    """Play `commands`; returns latencies and, by a model of its own, what was lost."""
    latencies, now, exposed, lost = [], 0, 0, 0
    for command in commands:
        latency = 0
        if command in ("write", "fua"):
            volatile = subject.volatile and command == "write"
            latency = subject.write(now, 4096, fua=command == "fua")
            exposed += volatile
        elif command == "flush":
            latency = subject.flush(now)
            exposed = exposed if subject.spec.cache.ignores_flushes else 0
        elif command == "read":
            latency = subject.read(now, 4096)
        elif command in ("back", "through", "save"):
            subject.set_cache(BACK if command == "back" else THROUGH, now, command == "save")
            exposed = exposed if subject.mode is BACK else 0
        elif command == "cut":
            lost += subject.power_cut()
            exposed = 0
            subject.reset(ResetKind.POWER_ON)
        elif command == "reset":
            subject.reset(ResetKind.RESET)
            exposed = exposed if subject.mode is BACK else 0
        assert subject.dirty_writes == exposed
        latencies.append(latency)
        now += latency + 1000
    return latencies, lost


CACHES = st.builds(
    CacheSpec,
    present=st.booleans(),
    default=st.sampled_from([BACK, THROUGH]),
    savable=st.booleans(),
    saved=st.sampled_from([BACK, THROUGH]),
    toggle=st.sampled_from(Toggle),
    ignores_flushes=st.booleans(),
    after_power_on=st.sampled_from(Restored),
    after_reset=st.sampled_from(Restored),
    power_loss_protection=st.booleans(),
)


@examples(200)
@given(CACHES, COMMANDS)
def test_only_unflushed_plain_writes_in_a_volatile_cache_are_ever_lost(cache, commands):
    subject = drive(cache=cache)
    _, lost = run(subject, commands)
    assert subject.lost_writes == lost
    if cache.power_loss_protection or not cache.present:
        assert lost == 0


@examples(100)
@given(COMMANDS.map(lambda found: [c for c in found if c not in ("back", "through", "save")]))
def test_a_write_followed_by_a_flush_is_never_lost(commands):
    subject = drive()
    _, lost = run(subject, [*commands, "write", "flush", "cut"])
    _, before = run(drive(), [*commands, "flush", "cut"])
    assert lost == before


def test_an_unflushed_write_is_lost_and_a_fua_write_is_not():
    assert run(drive(), ["write", "fua", "cut"])[1] == 1


def test_a_drive_that_ignores_flushes_loses_flushed_writes_and_flushes_fast():
    subject = drive(cache=CacheSpec(ignores_flushes=True))
    latencies, lost = run(subject, ["write", "flush", "cut"])
    assert lost == 1
    assert latencies[1] == 20_000


@examples(50)
@given(st.integers(0, 2**64), COMMANDS)
def test_a_seed_gives_the_same_latencies_again(seed, commands):
    noisy = replace(
        QUIET,
        latency=ops(0.5),
        noise=NoiseSpec(0.1, 0.2, 3.0, 0.5),
        carryover=CarryoverSpec(2.0, 0.5),
    )
    assert run(SimulatedDrive(noisy, seed), commands) == run(
        SimulatedDrive(noisy, seed), commands
    )


def test_two_seeds_and_two_drives_differ():
    noisy = replace(QUIET, latency=ops(0.5))
    runs = [
        run(SimulatedDrive(noisy, seed, index), ["write"] * 5)[0]
        for seed, index in ((1, 0), (2, 0), (1, 1))
    ]
    assert len({tuple(latencies) for latencies in runs}) == 3


def test_each_mode_has_its_own_costs():
    subject = drive()
    assert subject.mode is BACK
    on = [subject.write(0, 0), subject.flush(10**9), subject.flush(2 * 10**9)]
    assert on == [100_000, 10_000_000, 20_000]
    assert subject.set_cache(THROUGH, 3 * 10**9) is ToggleOutcome.CHANGED
    assert [subject.write(4 * 10**9, 0), subject.flush(5 * 10**9)] == [1_000_000, 20_000]
    assert subject.write(6 * 10**9, 0, fua=True) == 1_000_000


def test_bytes_take_the_bandwidth():
    subject = drive(device=DeviceSpec(1, 100.0))
    assert subject.write(0, 100 * 2**20) == 1_000_100_000


def test_writes_queue_for_channels_and_a_flush_waits_for_all():
    subject = drive(device=DeviceSpec(2, 1e5))
    subject.set_cache(THROUGH, 0)
    assert [subject.write(0, 0) for _ in range(5)] == [
        1_000_000, 1_000_000, 2_000_000, 2_000_000, 3_000_000,
    ]
    assert subject.flush(0) == 3_020_000
    assert subject.write(0, 0) == 4_020_000
    assert subject.write_cost(0, count=5) == 3_000_000


def test_toggles_that_do_not_take_change_nothing():
    for toggle, says in ((Toggle.REFUSES, "refused"), (Toggle.IGNORES, "ignored")):
        subject = drive(cache=CacheSpec(toggle=toggle))
        assert subject.set_cache(THROUGH, 0).value == says
        assert subject.mode is BACK
    none = drive(cache=CacheSpec(present=False))
    assert none.set_cache(BACK, 0) is ToggleOutcome.REFUSED
    assert none.mode is THROUGH


def test_only_a_savable_drive_saves_and_a_refused_save_changes_nothing():
    subject = drive()
    assert subject.set_cache(THROUGH, 0, save=True) is ToggleOutcome.REFUSED
    assert subject.mode is BACK
    savable = drive(cache=CacheSpec(savable=True))
    savable.set_cache(THROUGH, 0, save=True)
    savable.set_cache(BACK, 0)
    assert savable.reset(ResetKind.RESET) is THROUGH


def test_a_reset_restores_by_the_rule_of_its_kind():
    cache = CacheSpec(after_power_on=Restored.DEFAULT, after_reset=Restored.CURRENT)
    subject = drive(cache=cache)
    subject.set_cache(THROUGH, 0)
    assert subject.reset(ResetKind.RESET) is THROUGH
    assert subject.reset(ResetKind.POWER_ON) is BACK


def test_a_backend_tells_the_mode_by_the_fua_of_each_write():
    cache = CacheSpec(default=THROUGH)
    subject = SimulatedDrive(
        replace(QUIET, cache=cache, carryover=CarryoverSpec(3.0, 1.0)), 1, as_backend=True
    )
    assert subject.write(0, 0) == 100_000
    assert subject.flush(10**9) == 10_000_000
    carried = subject.write(2 * 10**9, 0, fua=True)
    assert carried == pytest.approx(3_000_000, rel=1e-6)
    assert subject.write(60 * 10**9, 0, fua=True) == 1_000_000
    assert subject.set_cache(THROUGH, 60 * 10**9) is ToggleOutcome.REFUSED
    assert subject.reset(ResetKind.POWER_ON) is BACK


def samples(spec, count=20_000, seed=7):
    """ln latencies in ms of commands 1 ms apart."""
    subject = SimulatedDrive(spec, seed)
    found = []
    for index in range(count):
        found.append(math.log(subject.write(index * 10**9, 0) / 1e6))
    return found


@pytest.mark.slow
def test_spread_and_autocorrelation_are_those_stated():
    for phi in (0.0, 0.5, 0.9):
        values = samples(
            replace(QUIET, latency=ops(0.3), noise=NoiseSpec(autocorrelation=phi))
        )
        mean = statistics.fmean(values)
        variance = statistics.pvariance(values)
        lag1 = statistics.fmean(
            (a - mean) * (b - mean) for a, b in zip(values, values[1:])
        )
        assert mean == pytest.approx(math.log(0.1), abs=0.03)
        assert math.sqrt(variance) == pytest.approx(0.3, rel=0.06)
        assert lag1 / variance == pytest.approx(phi, abs=0.03)


def test_stalls_come_as_often_and_last_as_long_as_stated():
    stalling = replace(
        QUIET.latency, write=OpLatency(100, 0.0, stall_probability=0.05, stall_us=50_000)
    )
    subject = drive(latency=stalling)
    stalls = []
    for index in range(20_000):
        latency = subject.write(index * 10**9, 0)
        if latency > 100_000:
            stalls.append(latency)
    assert len(stalls) / 20_000 == pytest.approx(0.05, rel=0.1)
    assert statistics.median(stalls) == pytest.approx(50_100_000, rel=0.05)


def test_each_period_has_a_random_effect_of_the_spread_stated():
    subject = drive(noise=NoiseSpec(between_period_spread=0.2))
    found = []
    for index in range(4000):
        subject.begin_period()
        first, second = subject.write(index * 10**9, 0), subject.write(index * 10**9 + 10**8, 0)
        assert first == second
        found.append(math.log(first))
    assert statistics.pstdev(found) == pytest.approx(0.2, rel=0.06)


def test_drift_and_carryover_move_the_level_as_stated():
    hour = 3600 * 10**9
    subject = drive(noise=NoiseSpec(drift_per_hour=math.log(2)))
    assert subject.write(7 * hour, 0) == 100_000  # drift counts from the first command
    assert subject.write(8 * hour, 0) == pytest.approx(200_000, abs=2)
    assert subject.write(100 * hour, 0) == pytest.approx(100_000 * math.exp(4), rel=1e-4)
    one_way = drive(carryover=CarryoverSpec(4.0, 2.0, toggled_to=THROUGH))
    one_way.set_cache(THROUGH, 0)
    assert one_way.write(2 * 10**9, 0) == pytest.approx(1e6 * 4 ** math.exp(-1), rel=1e-6)
    assert one_way.write(60 * 10**9, 0) == 1_000_000
    one_way.set_cache(BACK, 70 * 10**9)
    assert one_way.write(70 * 10**9, 0) == 100_000


def test_drives_of_one_model_differ_by_the_spread_stated_and_keep_it():
    spec = replace(QUIET, noise=NoiseSpec(between_drive_spread=0.1))
    costs = [SimulatedDrive(spec, 1, index).write(0, 0) for index in range(800)]
    assert statistics.pstdev(map(math.log, costs)) == pytest.approx(0.1, rel=0.1)
    assert costs[0] == SimulatedDrive(spec.noiseless(), 1, 0).write(0, 0)


def test_a_media_cache_that_is_full_makes_writes_slow_until_it_was_emptied():
    subject = drive(media_cache=MediaCacheSpec(2 * 4096, drains_mib_s=4096 / 2**20, full_factor=30))
    subject.set_cache(THROUGH, 0)
    second = 10**9
    took = [subject.write(0, 4096), subject.write(0, 4096), subject.write(0, 4096)]
    slow_ns = 30 * 10**6
    assert took[2] > slow_ns > took[1] > took[0]
    # what a flush writes goes past it, and it is emptied by one block a second
    subject.set_cache(BACK, second)
    assert subject.write(second, 4096) < 10**6
    subject.set_cache(THROUGH, second)
    assert subject.write(second, 4096) < 2 * 10**6
    assert subject.write(second, 4096) > slow_ns


def test_a_drive_without_a_media_cache_takes_writes_for_ever_alike():
    subject = drive()
    subject.set_cache(THROUGH, 0)
    assert len({subject.write(at * 10**9, 4096) for at in range(1000)}) == 1

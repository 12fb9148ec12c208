"""The division of hosts' memory, against brute force and on OSDs of known curves."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mgr_fakes.memory import cache_bytes
from wcache.core.config_database import Config
from wcache.knobs.memory.advice import _by_rule, _measured
from wcache.knobs.memory.curve import Curve, Point, Share, divide
from wcache.knobs.memory.facts import Facts
from wcache.knobs.memory.reading import (
    GIB,
    STEP_BYTES,
    MemoryOptions,
    equal_split,
    others_bytes,
    room_of,
)

# `make test-statistics` does it on 1,000 hosts (qa/statistics/test_memory_on_1000_hosts.py).
HOSTS_BRUTE, HOSTS_STABLE = 25, 100
FLOOR, CEILING = 2 * GIB, 8 * GIB
GRID = range(FLOOR, CEILING + 1, 256 * 2**20)


def zipf(rng):
    """Misses fall by a power of the cache."""
    rate, power = rng.uniform(10, 5000), rng.uniform(0.2, 1.5)
    return lambda cache: rate * (cache / (128 * 2**20)) ** -power


def cliff(rng):
    """Everything is missed until all of it fits: a plateau with an end."""
    rate, at = rng.uniform(10, 5000), rng.uniform(0.2, 6.0) * GIB
    return lambda cache: rate if cache < at else 0.02 * rate


def scan(rng):
    """Nothing helps."""
    rate = rng.uniform(10, 5000)
    return lambda cache: rate


def mixed(rng):
    """Two cliffs above a tail."""
    first, second = cliff(rng), cliff(rng)
    tail = zipf(rng)
    return lambda cache: first(cache) + second(cache) + 0.2 * tail(cache)


def a_host(rng):
    """Shares of two or three device classes with curves known at each step of the grid."""
    shares = []
    for number in range(rng.choice((2, 2, 3))):
        misses = rng.choice((zipf, cliff, scan, mixed))(rng)
        cost_s = rng.choice((5e-5, 2e-4, 8e-3))
        osds = rng.randint(1, 6)
        points = tuple(
            Point(t, osds * cost_s * misses(cache_bytes(t)), misses(cache_bytes(t)), 0.0, 0.0)
            for t in GRID
        )
        shares.append(Share(f"c{number}", osds, rng.choice(list(GRID)), Curve(points)))
    least = sum(s.osds for s in shares) * FLOOR
    return shares, int(least * rng.uniform(1.0, 3.0))


def wait_of(shares, targets):
    return sum(share.curve.at(targets[share.device_class]).wait for share in shares)


def brute_force(shares, room):
    best = None
    for chosen in itertools.product(GRID, repeat=len(shares)):
        if sum(s.osds * t for s, t in zip(shares, chosen)) <= room:
            wait = sum(s.curve.at(t).wait for s, t in zip(shares, chosen))
            best = wait if best is None else min(best, wait)
    return best


@pytest.mark.slow
def test_a_division_is_within_5_percent_of_brute_force_and_never_overcommits():
    for seed in range(HOSTS_BRUTE):
        rng = random.Random(seed)
        shares, room = a_host(rng)
        targets = divide(shares, room, floor_bytes=FLOOR, ceiling_bytes=CEILING)
        assert targets is not None
        assert sum(s.osds * targets[s.device_class] for s in shares) <= room, seed
        assert all(FLOOR <= t <= CEILING + STEP_BYTES for t in targets.values())
        best = brute_force(shares, room)
        assert wait_of(shares, targets) <= 1.05 * best + 1e-9, seed


def test_a_division_of_its_own_result_moves_nothing():
    for seed in range(HOSTS_STABLE):
        rng = random.Random(10_000 + seed)
        shares, room = a_host(rng)
        targets = divide(shares, room, floor_bytes=FLOOR, ceiling_bytes=CEILING)
        assert sum(s.osds * targets[s.device_class] for s in shares) <= room
        again = divide(
            [Share(s.device_class, s.osds, targets[s.device_class], s.curve) for s in shares],
            room, floor_bytes=FLOOR, ceiling_bytes=CEILING,
        )
        assert again == targets, seed


def test_a_load_that_drifts_by_a_little_does_not_make_a_division_swing():
    for seed in range(20):
        rng = random.Random(20_000 + seed)
        shares, room = a_host(rng)
        targets = divide(shares, room, floor_bytes=FLOOR, ceiling_bytes=CEILING)
        before = wait_of(shares, targets)
        for _ in range(5):
            shares = [
                Share(s.device_class, s.osds, targets[s.device_class], Curve(tuple(
                    Point(p.target_bytes, p.wait * rng.uniform(0.98, 1.0), p.misses, 0.0, 0.0)
                    for p in s.curve.points
                ))) for s in shares
            ]
            targets = divide(shares, room, floor_bytes=FLOOR, ceiling_bytes=CEILING)
            assert sum(s.osds * targets[s.device_class] for s in shares) <= room
            assert wait_of(shares, targets) <= 1.05 * before


def test_where_not_even_the_floors_fit_there_is_no_division():
    shares, _ = a_host(random.Random(1))
    assert divide(shares, FLOOR, floor_bytes=FLOOR, ceiling_bytes=CEILING) is None


def test_the_floor_is_never_under_cephs_own_minimum():
    assert MemoryOptions(memory_floor=1).least_target_bytes == 896 * 2**20


# Hosts as they are: RAM, daemons, OSDs; what cephadm would set, as its own formula says.
HOSTS = {
    "24 HDDs in 251 GB": (251 * 10**9, {"crash": 1}, 24),
    "16 GB single host": (16 * 10**9, {"mon": 1, "mgr": 1, "mds": 1, "crash": 1}, 3),
    "hyperconverged": (256 * 10**9, {"mon": 1, "crash": 1}, 8),
    "mixed classes": (192 * 10**9, {"mon": 1, "mds": 1, "crash": 1}, 16),
    "a probe in a container": (64 * 10**9, {"crash": 1, "container": 1}, 8),
    "the same without it": (64 * 10**9, {"crash": 1}, 8),
}


@pytest.mark.parametrize("name", HOSTS)
def test_what_all_osds_get_by_the_rule_fits_beside_what_cephadm_assumes(name):
    total, daemons, osds = HOSTS[name]
    others = others_bytes(daemons)
    room = room_of(total, others, MemoryOptions())
    ours = equal_split(room, osds, MemoryOptions())
    assert room.osds_bytes <= 0.8 * total
    if room.osds_bytes >= osds * MemoryOptions().least_target_bytes:
        assert ours * osds <= room.osds_bytes


def test_a_probe_in_a_container_costs_its_host_a_gib_of_targets():
    assert others_bytes({"container": 1}) - others_bytes({}) == GIB


LIMITS = MemoryOptions()
HERE = Facts((), Config(()), LIMITS)
NOTHING = Curve((Point(0, 0.0, 0.0, 0.0, 0.0),))


def by_rule(shares, room_bytes, how=_by_rule):
    room = replace(room_of(0, 0, LIMITS), osds_bytes=room_bytes)
    return how(HERE, shares, room, LIMITS.memory_ceiling)


def require_room(shares, room_bytes, divided):
    """What a division gives in all is within the room; where nothing fits it gives no more."""
    classes, fits = divided
    had = sum(share.osds * share.now_bytes for share in shares)
    gets = sum(item.osds * item.target_bytes for item in classes)
    assert gets <= (room_bytes if fits else had)


@pytest.mark.parametrize(("now_gib", "then_gib"), [
    ((6, 1), (6, 2)),  # who has more keeps it, and the other gets what that leaves
    ((6.5, 1), (4, 4)),  # which is less than the least
    ((7, 4), (4, 4)),  # more than there is
    ((3, 4.5), (3.5, 4.5)),
])
def test_by_the_rule_the_rest_gets_what_those_leave_who_have_more(now_gib, then_gib):
    shares = [Share(f"c{i}", 2, int(now * GIB), NOTHING) for i, now in enumerate(now_gib)]
    classes, fits = by_rule(shares, 16 * GIB)
    assert fits
    assert tuple(item.target_bytes / GIB for item in classes) == then_gib


SIZES = st.integers(GIB, 8 * GIB)


@given(st.lists(st.tuples(st.integers(1, 20), SIZES), min_size=1, max_size=4),
       st.integers(0, 300 * GIB))
def test_what_is_given_by_the_rule_fits(osds, room_bytes):
    shares = [Share(f"c{i}", each, now, NOTHING) for i, (each, now) in enumerate(osds)]
    require_room(shares, room_bytes, by_rule(shares, room_bytes))


@st.composite
def measured_shares(draw):
    """Classes whose curves fall at targets below and above the one they have."""
    shares = []
    for number in range(draw(st.integers(1, 3))):
        now = draw(SIZES)
        targets = {now, *draw(st.lists(st.integers(GIB // 4, 2 * now), max_size=4))}
        wait, points = draw(st.floats(0.01, 5.0)), []
        for target in sorted(targets):
            points.append(Point(target, wait, 1e3 * wait, 9e2 * wait, 2e3 * wait))
            wait *= draw(st.sampled_from((0.2, 0.9, 0.99)))
        shares.append(Share(f"c{number}", draw(st.integers(1, 20)), now, Curve(tuple(points))))
    return shares


def falls_at(target_bytes, osds, now_bytes):
    """One point, and half of the waiting from there on."""
    return Share(f"of{osds}", osds, now_bytes, Curve((
        Point(GIB, 2.0, 2e3, 2e3, 2e3), Point(target_bytes, 1.0, 1e3, 1e3, 1e3))))


@given(measured_shares(), st.floats(0.5, 1.2))
# one class is to give up a bit less than a step, of which another one makes a lot
@example([falls_at(2 * GIB, 20, 2 * GIB + STEP_BYTES - 1), falls_at(3 * GIB, 1, 2 * GIB)], 1.0)
def test_what_is_given_by_measurement_fits(shares, share):
    room_bytes = int(share * sum(item.osds * item.now_bytes for item in shares))
    require_room(shares, room_bytes, by_rule(shares, room_bytes, _measured))

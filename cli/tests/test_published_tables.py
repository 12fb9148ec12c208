"""Latency tables that others published, drawn anew and compared: the verdict must be theirs.

The sampler: a quantile function that is log-linear between the published quantiles, its
top quarter bent so that the mean is the published one; n uniform draws go through it.
Where only mean and standard deviation were published, a normal distribution.
"""

import functools
import json
import math
import random
from statistics import pstdev

import pytest
from wcache_cli.main import main

N = 1000

# Linux fdatasync on a disk with a media cache, ms: cache on, then off.
# mean; min, p25, p50, p75, max
CACHE_ON = (21.139, (0.152, 8.029, 9.806, 25.923, 126.596))
CACHE_OFF = (0.395, (0.003, 0.134, 0.203, 0.280, 10.060))
CACHE_SD = {CACHE_ON: 23.446, CACHE_OFF: 1.101}
# A consumer NVMe drive, appends, ms: cache on, then off (mean, standard deviation).
APPEND_ON = (2.628, 0.147)
APPEND_OFF = (5.492, 0.564)


def quantile(points, bend, share):
    """Log-linear through min, p25, p50, p75, max at share in [0, 1]."""
    place = min(3, int(share * 4))
    part = share * 4 - place
    if place == 3:
        part = part**bend
    return points[place] * (points[place + 1] / points[place]) ** part


def mean_of(points, bend):
    return sum(quantile(points, bend, (i + 0.5) / 4000) for i in range(4000)) / 4000


@functools.lru_cache
def bend_for(table):
    """How the top quarter bends so that the mean is the published one."""
    mean, points = table
    low, high = 0.05, 60.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        if mean_of(points, middle) > mean:
            low = middle
        else:
            high = middle
    return high


def draw(table, seed, n=N):
    rng, bend = random.Random(seed), bend_for(table)
    return [quantile(table[1], bend, rng.random()) for _ in range(n)]


def normal(table, seed, n=N):
    rng = random.Random(seed)
    return [rng.gauss(*table) for _ in range(n)]


def compared(tmp_path, capsys, back, through):
    paths = []
    for name, values in (("on", back), ("off", through)):
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(f"{value!r}\n" for value in values))
        paths.append(str(path))
    code = main([
        "compare", "--write-back", paths[0], "--write-through", paths[1], "--unit", "ms",
        "--synced", "--format", "json",
    ])
    assert code == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_the_sampler_has_the_published_mean_and_about_its_standard_deviation():
    for table in (CACHE_ON, CACHE_OFF):
        assert mean_of(table[1], bend_for(table)) == pytest.approx(table[0], rel=1e-3)
        assert pstdev(draw(table, 1, 50_000)) == pytest.approx(CACHE_SD[table], rel=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_disk_that_is_53_times_faster_without_its_cache(tmp_path, capsys, seed):
    result = compared(tmp_path, capsys, draw(CACHE_ON, seed), draw(CACHE_OFF, seed + 100))
    assert result["verdict"] == "write through"
    assert result["ratio_low"] < 9.806 / 0.203 < result["ratio_high"]
    assert result["tail_ratio"] > 1
    assert result["n"] == 2 * N
    for mode, table in (("write back", CACHE_ON), ("write through", CACHE_OFF)):
        seen, (low, *quarters, high) = result["per_mode"][mode], table[1]
        assert seen["mean_us"] == pytest.approx(1000 * table[0], rel=0.3)
        assert seen["min_us"] >= 1000 * low
        assert seen["max_us"] <= 1000 * high
        found = [seen[key] for key in ("p25_us", "p50_us", "p75_us")]
        assert found == pytest.approx([1000 * ms for ms in quarters], rel=0.2)


@pytest.mark.parametrize("seed", range(5))
def test_a_consumer_drive_that_is_twice_as_slow_without_its_cache(tmp_path, capsys, seed):
    result = compared(tmp_path, capsys, normal(APPEND_ON, seed), normal(APPEND_OFF, seed + 100))
    assert result["verdict"] == "write back"
    assert result["ratio"] == pytest.approx(2.628 / 5.492, rel=0.03)
    assert result["ratio_low"] < 2.628 / 5.492 < result["ratio_high"]
    for mode, (mean, sd) in (("write back", APPEND_ON), ("write through", APPEND_OFF)):
        assert result["per_mode"][mode]["mean_us"] == pytest.approx(1000 * mean, rel=0.02)
        assert result["per_mode"][mode]["std_us"] == pytest.approx(1000 * sd, rel=0.1)


def test_the_same_distribution_twice_is_no_material_difference(tmp_path, capsys):
    result = compared(tmp_path, capsys, normal(APPEND_ON, 1), normal(APPEND_ON, 2))
    assert result["verdict"] == "no material difference"


@pytest.mark.parametrize("n", [25, 100])
def test_the_few_samples_of_a_quick_look_do_not_mislead(tmp_path, capsys, n):
    verdicts = {
        compared(tmp_path, capsys, draw(CACHE_ON, seed, n), draw(CACHE_ON, seed + 50, n))["verdict"]
        for seed in range(10)
    }
    assert verdicts <= {"insufficient data", "no material difference"}

"""Each drive model shipped states the truth: what is computed, and what sampling gives."""

import math
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median, pvariance, quantiles, stdev

import pytest
from bench_decision.truth import PERIODS, truth
from wcache.core.loads import MATERIAL_LN, MATERIAL_RATIO, SAMPLES
from wcache.core.model import CacheMode, LoadPoint, Role, Verdict
from wcache_sim.drive_schema import Toggle, load_drive_file
from wcache_sim.osd import SimulatedOsd
from wcache_sim.physics import SimulatedDrive
from wcache_sim.placement import osd_roles, place

FOLDER = Path(__file__).resolve().parents[1] / "drive_models"
FILES = {path.stem: load_drive_file(str(path)) for path in sorted(FOLDER.glob("*.toml"))}
CASES = [
    pytest.param(stem, spec.name, point, id=f"{spec.name}-{point.value}")
    for stem, found in FILES.items()
    for spec in found.drives
    for point in SAMPLES
]
SECOND = 10**9
STEADY_NS = 3600 * SECOND
COARSE = 0.02  # of a log ratio: enough to tell 1.05 from what is material
BENCH_CALLS = (LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_BENCH_4M)


def osd_of(stem, name, seed=11):
    """The first OSD that the drive is placed under, and the drive's role there."""
    drives = FILES[stem]
    placed = place(drives)
    osd_id, role = next(d for d in placed if d.spec.name == name).uses[0]
    by_role = {
        each: SimulatedDrive(there.spec, seed, there.index)
        for each, there in osd_roles(placed)[osd_id].items()
    }
    return SimulatedOsd(by_role, drives.osd, seed), role


@pytest.mark.parametrize(("stem", "name", "point"), CASES)
def test_the_verdict_stated_is_the_one_computed_and_no_borderline_case(stem, name, point):
    stated = FILES[stem].drive(name).truth[point]
    osd, role = osd_of(stem, name)
    found = truth(osd, point, role, COARSE)
    assert stated.verdict is found.verdict
    factor = max(found.ratio, 1 / found.ratio)
    assert factor <= 1.05 or factor >= MATERIAL_RATIO
    if stated.ratio is not None:
        assert found.ratio == pytest.approx(stated.ratio, rel=0.1)


def sampled(stem, name, point, pairs=24, count=0):
    """The log ratio, write back over write through, of some pairs; its standard error."""
    osd, role = osd_of(stem, name)
    traffic = point is LoadPoint.OSD_TRAFFIC
    level = fmean if traffic else median
    if not count:
        count = PERIODS[point].count if point in BENCH_CALLS else 240 if traffic else 60
    now = 0
    logs = {mode: [] for mode in CacheMode}
    for index in range(2 * pairs):
        mode = list(CacheMode)[(index + index // 2) % 2]  # ABBA: a drift cancels
        osd.set_mode(mode, now, role)
        now += 2 * SECOND  # what a toggle leaves behind is over
        found = osd.measure(point, now, count=count, role=role)
        now += found.elapsed_ns
        logs[mode].append(math.log(level(found.latencies_ns)))
    differences = [
        back - through
        for back, through in zip(logs[CacheMode.WRITE_BACK], logs[CacheMode.WRITE_THROUGH])
    ]
    return fmean(differences), stdev(differences) / math.sqrt(pairs)


@pytest.mark.parametrize(("stem", "name", "point"), CASES)
def test_sampling_shows_the_verdict_stated(stem, name, point):
    verdict = FILES[stem].drive(name).truth[point].verdict
    ln_ratio, error = sampled(stem, name, point)
    if verdict is Verdict.B:
        assert ln_ratio > MATERIAL_LN
    elif verdict in (Verdict.A, Verdict.INSUFFICIENT):
        assert ln_ratio < -MATERIAL_LN
    else:
        assert abs(ln_ratio) < MATERIAL_LN + 3 * error
        assert error < 0.3  # stalls of a quarter of a second, in means


# In ms, with the cache on and off: mean, standard deviation, p25, p50, p75, max.
MEDIA_CACHE = {
    CacheMode.WRITE_BACK: (21.139, 23.446, 8.029, 9.806, 25.923, 126.596),
    CacheMode.WRITE_THROUGH: (0.395, 1.101, 0.134, 0.203, 0.280, 10.060),
}


def test_the_media_cache_disk_is_53_times_better_in_the_mean_and_has_the_table_published():
    osd, _ = osd_of("hdd", "media-cache-hdd")
    means = {}
    for mode, (mean, sd, *quarters, most) in MEDIA_CACHE.items():
        osd.set_mode(mode, 0)
        periods = [osd.measure(LoadPoint.FDATASYNC_TIMER, 0, count=500) for _ in range(40)]
        found = [ns / 1e6 for period in periods for ns in period.latencies_ns]
        means[mode] = fmean(found)
        assert means[mode] == pytest.approx(mean, rel=0.1)
        assert stdev(found) == pytest.approx(sd, rel=0.2)
        for part, published in zip(quantiles(found, n=4), quarters):
            assert part == pytest.approx(published, rel=0.2)
        assert max(found[:2000]) == pytest.approx(most, rel=0.3)
    assert means[CacheMode.WRITE_BACK] / means[CacheMode.WRITE_THROUGH] == pytest.approx(
        53, rel=0.1
    )


def test_the_hgst_disk_has_a_better_mean_and_a_worse_maximum_with_its_cache_off():
    osd, _ = osd_of("hdd", "hgst-7k6000")
    found = {}
    for mode in CacheMode:
        osd.set_mode(mode, 0)
        periods = [osd.measure(LoadPoint.OSD_BENCH_DEPTH1, 0, count=200) for _ in range(40)]
        found[mode] = [ns for period in periods for ns in period.latencies_ns]
    back, through = found[CacheMode.WRITE_BACK], found[CacheMode.WRITE_THROUGH]
    assert fmean(back) / fmean(through) == pytest.approx(2.75, rel=0.1)
    assert max(through) / max(back) == pytest.approx(2.1, rel=0.25)


def test_the_consumer_drive_appends_in_2_6_ms_and_in_5_5_without_its_cache():
    osd, _ = osd_of("flash", "consumer-nvme")
    published = {CacheMode.WRITE_BACK: (2.628, 0.147), CacheMode.WRITE_THROUGH: (5.492, 0.564)}
    for mode, (mean, sd) in published.items():
        osd.set_mode(mode, 0)
        periods = [osd.measure(LoadPoint.OSD_BENCH_DEPTH1, 0, count=100) for _ in range(80)]
        found = [ns / 1e6 for period in periods for ns in period.latencies_ns]
        assert fmean(found) == pytest.approx(mean, rel=0.05)
        assert stdev(found) == pytest.approx(sd, rel=0.3)


def commands(name, mode=CacheMode.WRITE_BACK, count=20_000, every_ns=10**6):
    """Log latencies of single writes to a drive of its own, in us, `every_ns` apart."""
    drive = SimulatedDrive(FILES["noisy"].drive(name), 5)
    drive.set_cache(mode, 0)
    start = 0 if drive.spec.carryover.toggled_to else STEADY_NS
    found = []
    for index in range(count):
        drive.advance(start + index * every_ns)
        found.append(math.log(drive.write_cost(0) / 1e3))
    return found


def test_heavy_stalls_are_a_quarter_of_a_second_in_2_of_100_commands():
    stalls = [us for us in map(math.exp, commands("heavy-stalls")) if us > 30_000]
    assert len(stalls) == pytest.approx(0.02 * 20_000, rel=0.15)
    assert median(stalls) == pytest.approx(252_000, rel=0.1)


@pytest.mark.parametrize(("name", "phi"), [("correlated", 0.9), ("half-correlated", 0.5)])
def test_correlated_samples_have_the_autocorrelation_named(name, phi):
    logs = commands(name)
    mean = fmean(logs)
    lagged = fmean((a - mean) * (b - mean) for a, b in zip(logs, logs[1:]))
    assert lagged / pvariance(logs) == pytest.approx(phi, abs=0.03)


def test_the_drifting_drive_gets_slower_by_30_percent_a_minute():
    logs = commands("drifting", count=6000, every_ns=SECOND // 50)  # two minutes
    minutes = [fmean(logs[index : index + 500]) for index in (0, 2750, 5500)]
    # from one stretch of 10 s to the one that begins 55 s later
    for before, after in zip(minutes, minutes[1:]):
        assert math.exp((after - before) * 60 / 55) == pytest.approx(1.3, rel=0.03)


def test_the_carryover_drive_is_three_times_slower_after_it_leaves_write_back():
    costs = commands("carryover", CacheMode.WRITE_THROUGH, 3000)
    drive = FILES["noisy"].drive("carryover")
    settled = fmean(costs[2000:])
    assert fmean(costs[:10]) - settled == pytest.approx(math.log(3), rel=0.1)
    decayed = int(drive.carryover.decay_s * 1000)
    assert fmean(costs[decayed : decayed + 10]) - settled == pytest.approx(
        math.log(3) / math.e, abs=0.15
    )


def test_the_three_percent_drive_differs_by_three_percent():
    osd, _ = osd_of("noisy", "three-percent")
    assert truth(osd, LoadPoint.OSD_BENCH_DEPTH1).ratio == pytest.approx(1.03, abs=0.001)


@pytest.mark.parametrize(("name", "factor"), [("quarter-off", 1.25), ("quarter-on", 1 / 1.25)])
def test_the_quarter_drives_differ_by_a_quarter_in_a_pair_sd_of_at_most_a_fifth(name, factor):
    osd, _ = osd_of("noisy", name)
    ratio = truth(osd, LoadPoint.OSD_BENCH_DEPTH1).ratio
    assert max(ratio, 1 / ratio) == pytest.approx(max(factor, 1 / factor), rel=0.06)
    assert (ratio > 1) is (factor > 1)
    _, error = sampled("noisy", name, LoadPoint.OSD_BENCH_DEPTH1, pairs=200, count=10)
    assert error * math.sqrt(200) <= 0.2


def test_the_drives_that_need_naming_are_there():
    specs = {spec.name: spec for found in FILES.values() for spec in found.drives}
    assert len(specs) >= 12 + len(FILES["demo"].drives) + len(FILES["lab"].drives)
    assert specs["ignores-flushes"].cache.ignores_flushes
    assert all(
        truth.verdict is not Verdict.A
        for truth in specs["ignores-flushes"].truth.values()
    )
    assert specs["ignores-toggle"].cache.toggle is Toggle.IGNORES
    assert specs["correlated"].noise.autocorrelation == 0.9
    assert all(spec.about for spec in specs.values())


@pytest.mark.parametrize("flushes", [1, 2])
def test_the_lab_and_the_demo_have_one_of_each_on_every_release(flushes):
    for stem in ("lab", "demo"):
        verdicts = set()
        for spec in FILES[stem].drives:
            osd = SimulatedOsd(
                {Role.BLOCK: SimulatedDrive(spec, 1)},
                replace(FILES[stem].osd, flushes_per_commit=flushes),
            )
            small = {
                truth(osd, point, ln_ratio_error=COARSE).verdict
                for point in SAMPLES
                if point is not LoadPoint.FDATASYNC_TIMER
            }
            assert len(small) == 1
            verdicts |= small
        assert verdicts == {
            Verdict.B, Verdict.A, Verdict.NO_DIFFERENCE,
        }

"""Each drive model shipped states the truth: what is computed, and what sampling gives."""

import math
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median, stdev

import pytest
from wcache.core.model import CacheMode, LoadPoint, Role, Verdict
from wcache_probe.sim.drive_schema import Toggle, load_drive_file
from wcache_probe.sim.osd import SimulatedOsd
from wcache_probe.sim.physics import SimulatedDrive
from wcache_probe.sim.placement import osd_roles, place
from wcache_probe.sim.truth import PERIODS, truth

FOLDER = Path(__file__).resolve().parents[2] / "qa" / "drive_models"
FILES = {path.stem: load_drive_file(str(path)) for path in sorted(FOLDER.glob("*.toml"))}
CASES = [
    pytest.param(stem, spec.name, point, id=f"{spec.name}-{point.value}")
    for stem, found in FILES.items()
    for spec in found.drives
    for point in LoadPoint
]
SECOND = 10**9
MARGIN = math.log(1.1)
COARSE = 0.02  # of a log ratio: enough to tell 1.05 from 1.1
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
    assert factor <= 1.05 or factor >= 1.1
    if stated.ratio is not None:
        assert found.ratio == pytest.approx(stated.ratio, rel=0.1)


def sampled(stem, name, point):
    """The log ratio, write back over write through, of 24 pairs of periods; its error."""
    osd, role = osd_of(stem, name)
    traffic = point is LoadPoint.OSD_TRAFFIC
    level, count = (fmean, 240) if traffic else (median, 60)
    if point in BENCH_CALLS:
        count = PERIODS[point].count
    now = 0
    logs = {mode: [] for mode in CacheMode}
    for index in range(48):
        mode = list(CacheMode)[(index + index // 2) % 2]  # ABBA: a drift cancels
        osd.set_mode(mode, now, role)
        now += 2 * SECOND  # what a toggle leaves behind is over
        found = osd.measure(point, now, count=count, role=role)
        now += found.elapsed_ns
        logs[mode].append(math.log(level(found.latencies_ns)))
    pairs = [
        back - through
        for back, through in zip(logs[CacheMode.WRITE_BACK], logs[CacheMode.WRITE_THROUGH])
    ]
    return fmean(pairs), stdev(pairs) / math.sqrt(len(pairs))


@pytest.mark.parametrize(("stem", "name", "point"), CASES)
def test_sampling_shows_the_verdict_stated(stem, name, point):
    verdict = FILES[stem].drive(name).truth[point].verdict
    ln_ratio, error = sampled(stem, name, point)
    if verdict is Verdict.WRITE_THROUGH:
        assert ln_ratio > MARGIN
    elif verdict in (Verdict.WRITE_BACK, Verdict.INSUFFICIENT):
        assert ln_ratio < -MARGIN
    else:
        assert abs(ln_ratio) < MARGIN + 3 * error
        assert error < 0.3  # stalls of a quarter of a second, in means


def test_the_media_cache_disk_is_53_times_better_in_the_mean_of_the_timer():
    osd, _ = osd_of("hdd", "media-cache-hdd")
    means = {}
    for mode in CacheMode:
        osd.set_mode(mode, 0)
        periods = [osd.measure(LoadPoint.FDATASYNC_TIMER, 0, count=500) for _ in range(40)]
        means[mode] = fmean(ns for period in periods for ns in period.latencies_ns) / 1e6
    assert means[CacheMode.WRITE_BACK] == pytest.approx(21.1, rel=0.1)
    assert means[CacheMode.WRITE_THROUGH] == pytest.approx(0.395, rel=0.1)


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


@pytest.mark.parametrize(("name", "factor"), [("quarter-off", 1.25), ("quarter-on", 1 / 1.25)])
def test_the_quarter_drives_differ_by_a_quarter_in_a_pair_sd_of_at_most_a_fifth(name, factor):
    osd, _ = osd_of("noisy", name)
    ratio = truth(osd, LoadPoint.OSD_BENCH_DEPTH1).ratio
    assert max(ratio, 1 / ratio) == pytest.approx(max(factor, 1 / factor), rel=0.06)
    assert (ratio > 1) is (factor > 1)
    noise = FILES["noisy"].drive(name).noise
    sigma, phi, k = 0.35, noise.autocorrelation, 16
    assert FILES["noisy"].drive(name).latency.fua_write.spread == sigma
    within = sigma**2 * (1 + phi) / (k - (k - 2) * phi)
    assert (2 * (noise.between_period_spread**2 + within)) ** 0.5 <= 0.2


def test_the_drives_that_need_naming_are_there():
    specs = {spec.name: spec for found in FILES.values() for spec in found.drives}
    assert len(specs) >= 12 + len(FILES["demo"].drives) + len(FILES["lab"].drives)
    assert specs["ignores-flushes"].cache.ignores_flushes
    assert all(
        truth.verdict is not Verdict.WRITE_BACK
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
                for point in LoadPoint
                if point is not LoadPoint.FDATASYNC_TIMER
            }
            assert len(small) == 1
            verdicts |= small
        assert verdicts == {
            Verdict.WRITE_THROUGH, Verdict.WRITE_BACK, Verdict.NO_DIFFERENCE,
        }

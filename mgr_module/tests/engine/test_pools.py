"""A recommendation rests on the pool of its drives, computed by the real analysis."""

import math
import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from mgr_fakes.module import cluster
from scipy import stats
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse, analysed
from wcache.core.model import DriveModel, LoadPoint, Role, Verdict
from wcache.core.options.entries import OptionTrial
from wcache.core.verdict.pooling import POOL_DRIVES_MAX, LoadVerdict
from wcache.core.verdict.recommend import alpha_of, recommend, widened
from wcache.core.verdict.repeated import standing
from wcache.engine.world import World

OPTIONS = Materiality()


def measured(drive, ratio, *, seed=1, pairs=8, period_sd=0.02, **setup):
    """(record, result) of one real drive, analysed as the child does it."""
    draw = synthetic.lognormal(
        random.Random(f"{drive} {seed}"), ratio=ratio, sample_sd=0.05, period_sd=period_sd
    )
    changed = replace(
        synthetic.SETUP, domain_id=drive, drive_id=drive, simulated=False, throwaway=False,
        **setup,
    )
    record = replace(synthetic.record(draw, pairs, setup=changed), record_id=f"r-{drive}")
    return record, analysed(record, analyse(record, OPTIONS)).result


def results(ratios, **more):
    return [measured(f"d{i}", ratio, **more)[1] for i, ratio in enumerate(ratios)]


def test_values_of_an_option_are_pooled_apart_from_cache_modes_and_from_other_values():
    trials = (OptionTrial("nr_requests", "64", "256"), OptionTrial("nr_requests", "64", "128"))
    found = [
        replace(one, record_id=f"{one.record_id} {trial}")
        for trial, ratio in ((None, 3.0), (trials[0], 0.25), (trials[1], 1.0))
        for one in results([ratio] * 3, option=trial)
    ]
    world = World(
        1000.0, lambda: cluster([]), all_results={one.record_id: one for one in found}
    )
    (advice,) = world.recommendations
    assert (advice.verdict, len(advice.record_ids)) == (Verdict.B, 3)
    assert [(one.trial, one.words, one.drives) for one in world.option_verdicts] == [
        (trials[1], "no material difference", 3), (trials[0], "nr_requests 64", 3)]


def test_drives_that_do_not_decide_one_by_one_decide_together_and_predict_the_next():
    found = results([1.28] * 8, pairs=6, period_sd=0.06)
    assert any("more pairs like these would decide" in item.why for item in found)
    (advice,) = recommend(found)
    (load,) = advice.loads
    assert (advice.verdict, load.pooled) == (Verdict.B, True)
    assert load.interval == "99% of the mean of 8 drives"
    assert load.next_low < load.ratio < load.next_high


def test_unlike_drives_are_not_pooled_and_what_differs_is_said():
    found = [*results([3.0, 3.1]), measured("late", 3.0, ceph_version="16.2.15")[1]]
    (advice,) = recommend(found)
    assert not advice.loads[0].pooled
    assert any("Ceph release (16, " in line for line in advice.warnings)


def test_a_disk_with_its_db_elsewhere_is_not_pooled_with_one_that_holds_all():
    found = [
        *results([2.0, 2.1]), measured("d8", 1.0, apart=(Role.DB,))[1],
        measured("d9", 1.0, apart=(Role.DB,))[1],
    ]
    (advice,) = recommend(found)
    assert any("roles on other drives than block (db, nothing)" in line for line in advice.warnings)


def test_an_odd_drive_is_named_and_kept():
    found = results([3.0, 3.05, 3.1, 2.95, 3.0, 9.0], period_sd=0.005)
    (advice,) = recommend(found)
    assert [name.split()[-1] for name in advice.loads[0].odd_drives] == ["d5"]
    assert advice.loads[0].drives == 6


def test_a_pool_of_more_drives_than_it_takes_is_used_all_the_same():
    base = results([3.0, 3.1, 3.2])
    found = [
        replace(base[i % 3], record_id=f"r{i}", drive_id=f"d{i}")
        for i in range(POOL_DRIVES_MAX + 1)
    ]
    (advice,) = recommend(found)
    assert advice.loads[0].pooled
    assert advice.loads[0].interval == f"99% of the mean of {POOL_DRIVES_MAX} drives"


# ---- few that differ, among many


def model(name, ratio, low, high):
    found = results([1.0])[0]
    verdict = Verdict.B if low > 1.1 else Verdict.NO_DIFFERENCE
    return replace(
        found, record_id=f"r-{name}", drive_id=name, verdict=verdict,
        drive_model=DriveModel("V", name, "1"), ratio=ratio, ratio_low=low, ratio_high=high,
    )


def verdicts(found):
    return {item.drive_model.model: item.verdict for item in recommend(found)}


def test_the_one_of_many_drive_models_that_barely_differs_is_not_recommended():
    same = [model(f"m{i}", 1.0, 0.95, 1.05) for i in range(40)]
    barely, clearly = model("barely", 1.2, 1.12, 1.29), model("clearly", 5.0, 4.5, 5.5)
    assert verdicts([barely])["barely"] is Verdict.B
    said = verdicts([*same, barely, clearly])
    assert said["barely"] is Verdict.INSUFFICIENT
    assert said["clearly"] is Verdict.B
    (fallen,) = [i for i in recommend([*same, barely]) if i.drive_model.model == "barely"]
    assert "1 of 41 drive models" in fallen.why


def test_where_many_differ_nothing_is_stricter():
    found = [model(f"m{i}", 1.2, 1.12, 1.29) for i in range(40)]
    assert set(verdicts(found).values()) == {Verdict.B}


@pytest.mark.parametrize("drives", [3, 4, 6, 20, 100])
@pytest.mark.parametrize("among", [6, 20, 100, 1000])
def test_an_interval_is_widened_by_no_less_than_students_t_asks(drives, among):
    alpha = alpha_of(1, among)
    half = math.log(1.2)
    load = LoadVerdict(
        LoadPoint.OSD_BENCH_DEPTH1, Verdict.B, drives, 9.0, 9.0 / 1.2, 9.0 * 1.2,
        "99%", pooled=True,
    )
    wide = widened(load, (), alpha)
    degrees = drives - 1
    asked = stats.t.ppf(1 - alpha / 2, degrees) / stats.t.ppf(1 - 0.01 / 2, degrees)
    assert math.log(9.0 / wide.ratio_low) >= half * asked * (1 - 1e-9)
    assert math.log(wide.ratio_high / 9.0) >= half * asked * (1 - 1e-9)


def test_drives_that_are_not_in_the_pool_widen_it_by_no_less():
    load = LoadVerdict(
        LoadPoint.OSD_BENCH_DEPTH1, Verdict.B, 4, 3.0, 2.0, 4.5,
        "99% of the mean of 3 drives", pooled=True,
    )
    drives = standing([
        measured(f"d{i}", 3.0, pairs=pairs)[1] for i, pairs in enumerate((8, 8, 8, 3))
    ])
    assert widened(load, drives, 0.001) == widened(load, drives[:3], 0.001)
    of_four = widened(load, [*drives[:3], *standing([measured("d3", 3.0)[1]])], 0.001)
    assert of_four.ratio_low > widened(load, drives, 0.001).ratio_low

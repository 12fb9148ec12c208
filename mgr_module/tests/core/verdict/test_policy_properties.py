"""What holds of every recommendation, whatever was measured."""

from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from wcache.core.loads import MATERIAL_RATIO, SAMPLES
from wcache.core.model import DriveModel, Finding, FindingCode, LoadPoint, Severity, Verdict
from wcache.core.verdict.load_profile import HourLoad, LoadProfile
from wcache.core.verdict.recommend import recommend
from wcache.core.verdict.result import Result

STEP = 1.07  # no power of it is a margin, so that rounding decides nothing
MIRRORED = {
    Verdict.B: Verdict.A, Verdict.A: Verdict.B,
}
CARRIED = Finding(FindingCode.CARRYOVER, Severity.WARNING, "h1", "increase settle_s")


@st.composite
def results(draw):
    """A few drives of one drive model at a few loads, among many drive models or alone."""
    found = []
    loads = draw(st.lists(st.sampled_from(list(SAMPLES)), min_size=1, max_size=3, unique=True))
    for load in loads:
        for drive in range(draw(st.integers(1, 4))):
            middle = draw(st.integers(-14, 14))
            down, up = draw(st.integers(1, 9)), draw(st.integers(1, 9))
            low, high = STEP ** (middle - down), STEP ** (middle + up)
            verdict = _verdict(low, high)
            flagged = draw(st.integers(0, 9)) == 0
            if flagged:
                verdict = Verdict.INSUFFICIENT
            elif draw(st.integers(0, 19)) == 0:
                verdict = Verdict.CONFLICTING
            found.append(_result(
                load, drive, verdict, (low, STEP ** middle, high),
                findings=(CARRIED,) if flagged else (), ended_at_s=draw(st.integers(0, 2)),
            ))
    return found + quiet(draw(st.sampled_from([0, 8, 40])))


def _verdict(low, high):
    if low > MATERIAL_RATIO:
        return Verdict.B
    if high < 1 / MATERIAL_RATIO:
        return Verdict.A
    same = low > 1 / MATERIAL_RATIO and high < MATERIAL_RATIO
    return Verdict.NO_DIFFERENCE if same else Verdict.INSUFFICIENT


def _result(load, drive, verdict, ratios, **changes):
    low, ratio, high = ratios
    found = Result(
        f"r {load.value} {drive}", "c1", "h1", drive, "ssd", f"d{drive}", f"d{drive}", make.MODEL,
        load, verdict, 20, 5.0, 1000, "decided", ratio, low, high, "why",
    )
    return replace(found, **changes)


def quiet(count):
    """Results of as many drive models that do not differ."""
    return [
        _result(
            LoadPoint.OSD_BENCH_DEPTH1, 0, Verdict.NO_DIFFERENCE, (0.98, 1.0, 1.02),
            drive_model=DriveModel("V", f"quiet {i}", "1"), record_id=f"q{i}", drive_id=f"q{i}",
        )
        for i in range(count)
    ]


def profiles():
    """Load profiles of the drive model, known or not."""
    hour = st.builds(
        lambda writes, together, size: (writes, int(writes / together), writes * size),
        st.sampled_from([50, 10_000, 100_000]), st.sampled_from([1.0, 1.02, 3.0, 30.0]),
        st.sampled_from([4096, 200_000, 4_000_000]),
    )
    return st.lists(hour, max_size=9).map(
        lambda hours: {("ssd", str(make.MODEL)): {0: LoadProfile(tuple(
            HourLoad(n, writes, commits, writes, size)
            for n, (writes, commits, size) in enumerate(hours)
        ))}}
    )


def _mirrored(result):
    return replace(
        result, verdict=MIRRORED.get(result.verdict, result.verdict), ratio=1 / result.ratio,
        ratio_low=1 / result.ratio_high, ratio_high=1 / result.ratio_low,
    )


@pytest.mark.slow
@examples(100)
@given(results(), profiles())
def test_swapping_the_modes_of_all_results_mirrors_the_recommendations(found, known):
    there = [MIRRORED.get(item.verdict, item.verdict) for item in recommend(found, known)]
    assert [i.verdict for i in recommend([_mirrored(r) for r in found], known)] == there


@examples(50)
@given(results(), profiles(), st.randoms(use_true_random=False))
def test_the_order_of_the_results_never_matters(found, known, rng):
    shuffled = list(found)
    rng.shuffle(shuffled)
    assert recommend(shuffled, known) == recommend(found, known)


def test_of_results_that_ended_at_once_the_same_one_counts_in_any_order():
    load = LoadPoint.OSD_BENCH_DEPTH1
    one = _result(load, 0, Verdict.B, (1.2, 1.3, 1.4))
    other = _result(load, 0, Verdict.A, (0.5, 0.6, 0.7), record_id="r other")
    assert recommend([one, other]) == recommend([other, one])


def test_among_many_drive_models_each_drive_is_widened_about_its_own_estimate():
    load = LoadPoint.OSD_BENCH_DEPTH1
    two = [
        _result(load, 0, Verdict.B, (1.25, 1.3, 1.35)),
        _result(load, 1, Verdict.B, (2.9, 3.0, 3.1)),
    ]
    (advice,) = [item for item in recommend([*two, *quiet(39)]) if item.drive_model == make.MODEL]
    assert advice.verdict is Verdict.B
    mirrored = recommend([_mirrored(item) for item in two] + quiet(39))
    assert [item.verdict for item in mirrored if item.mode] == [Verdict.A]
    assert 1.1 < advice.loads[0].ratio_low < 1.25
    assert 3.1 < advice.loads[0].ratio_high < 3.5

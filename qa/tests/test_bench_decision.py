"""The decision benchmark scores as it says, and its experiments are the product's own."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from bench_decision.__main__ import main
from bench_decision.cells import MARGIN, Cell
from bench_decision.figures import figures
from bench_decision.loop import PLANS, Outcome, experiment
from bench_decision.minimum import least_pairs, pair_variance
from bench_decision.report import report
from bench_decision.score import Score, score, wilson
from bench_decision.truth import OF_MEDIANS, PERIODS, LoadTruth
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse
from wcache.core import codec
from wcache.core.model import LoadPoint, Verdict
from wcache.core.options.entries import CACHE_MODES
from wcache.core.record import Record
from wcache_sim.drive_schema import load_drive_file

BACK, THROUGH = Verdict.A, Verdict.B
SAME, OPEN = Verdict.NO_DIFFERENCE, Verdict.INSUFFICIENT
RIGHT, WRONG, UNDECIDED = Score.RIGHT, Score.WRONG, Score.UNDECIDED
MODELS = Path(__file__).resolve().parents[1] / "drive_models"


@pytest.mark.parametrize(
    ("ratio", "scores"),
    [
        (1.00, {THROUGH: WRONG, BACK: WRONG, SAME: RIGHT, OPEN: UNDECIDED}),
        (1.04, {THROUGH: WRONG, BACK: WRONG, SAME: RIGHT, OPEN: UNDECIDED}),
        (1.08, {THROUGH: WRONG, BACK: WRONG, SAME: RIGHT, OPEN: RIGHT}),
        (1.15, {THROUGH: RIGHT, BACK: WRONG, SAME: WRONG, OPEN: RIGHT}),
        (1.30, {THROUGH: RIGHT, BACK: WRONG, SAME: WRONG, OPEN: UNDECIDED}),
        (0.50, {THROUGH: WRONG, BACK: RIGHT, SAME: WRONG, OPEN: UNDECIDED}),
    ],
)
def test_each_verdict_is_scored_by_how_large_the_truth_is(ratio, scores):
    truth = LoadTruth(ratio, BACK)
    assert {verdict: score(verdict, truth) for verdict in scores} == scores


def test_holding_back_is_the_only_right_answer_to_a_drive_that_lies():
    truth = LoadTruth(0.04, OPEN)
    assert score(OPEN, truth) is RIGHT
    assert score(BACK, truth) is WRONG


def test_the_minimum_is_that_of_its_formula():
    assert pair_variance(0.0, 0.3, 0.0, 9) == pytest.approx(2 * 0.09 / 9)
    # A = 4.177 for errors of 1% and 5%
    gap = math.log(2) - math.log(1.1)
    assert least_pairs(2.0, 1.0, math.log(1.1)) == pytest.approx(2 * 4.177 / gap**2, rel=1e-3)
    assert least_pairs(50.0, 0.01, math.log(1.1)) == 4.0


def test_wilsons_interval_holds_the_share():
    low, high = wilson(0, 20)
    assert (low, high) == (0.0, pytest.approx(0.161, abs=0.001))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "drive", "load_point", "verdict"),
    [
        ("hdd", "media-cache-hdd", LoadPoint.OSD_BENCH_DEPTH1, THROUGH),
        ("hdd", "plain-hdd", LoadPoint.OSD_BENCH_BATCH, BACK),
        ("flash", "consumer-nvme", LoadPoint.OSD_TRAFFIC, BACK),
        ("plp", "plp-nvme", LoadPoint.OSD_BENCH_DEPTH1, SAME),
        ("odd", "ignores-flushes", LoadPoint.OSD_BENCH_BATCH, OPEN),
    ],
)
def test_an_experiments_record_decides_the_same_offline(file, drive, load_point, verdict):
    drives = load_drive_file(str(MODELS / f"{file}.toml"))
    outcome, record = experiment(drives, drives.drive(drive), load_point, seed=5)
    assert outcome.verdict is verdict
    again = codec.loads(Record, codec.dumps(record), bytes_max=10**7, what="record")
    result = analyse(again, Materiality())
    assert result["verdict"] == CACHE_MODES.said(verdict)
    assert result["stop"]


def test_a_drive_that_does_not_obey_is_refused():
    drives = load_drive_file(str(MODELS / "odd.toml"))
    outcome, record = experiment(
        drives, drives.drive("ignores-toggle"), LoadPoint.OSD_BENCH_DEPTH1, seed=1
    )
    assert record is None
    assert outcome.refused == "the toggle does not take"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(capsys):
    arguments = [
        "--drives", str(MODELS / "plp.toml"), "--trials", "2", "--format", "json", "--seed", "7",
        "--loads", "osd_bench_depth1,osd_bench_batch",
    ]
    main([*arguments, "--processes", "1"])
    first = capsys.readouterr().out
    main([*arguments, "--processes", "2"])
    assert capsys.readouterr().out == first
    cells = json.loads(first)["cells"]
    assert [cell["load_point"] for cell in cells[:2]] == ["osd_bench_depth1", "osd_bench_batch"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--drives", "nowhere.toml"], "nowhere.toml"),
        (["--trials", "0"], "--trials must be"),
        (["--trials", "many"], "'many'"),
        (["--seed", "x"], "'x'"),
        (["--format", "xml"], "'xml'"),
        (["--loads", "everything"], "'everything' is not one of"),
    ],
)
def test_bad_arguments_are_one_clear_line_and_code_2(capsys, arguments, said):
    assert said in refusal(capsys, arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = ", "drives.toml"),
        ("schema = 2\ndrive = []", "schema"),
        ("schema = 1\n[[drive]]\nname = 'a'\n", "model"),
    ],
)
def test_a_bad_file_of_drives_is_one_clear_line_and_code_2(tmp_path, capsys, text, said):
    path = tmp_path / "drives.toml"
    path.write_text(text)
    assert said in refusal(capsys, ["--drives", str(path)])


def refusal(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    return line


def test_the_truth_is_that_of_the_periods_which_the_benchmark_measures():
    for load_point, plan in PLANS.items():
        shape = PERIODS[load_point]
        if load_point not in OF_MEDIANS:  # the median of any period is after the median
            assert (shape.count, shape.seconds) == (plan.samples, plan.period_s)


@pytest.mark.slow
def test_plain_output_has_an_interval_for_every_share_and_sums_up_in_its_last_line(capsys):
    main([
        "--drives", str(MODELS / "odd.toml"), "--trials", "2", "--processes", "1",
        "--loads", "osd_bench_depth1",
    ])
    lines = capsys.readouterr().out.splitlines()
    cell = next(line for line in lines if line.startswith("ignores-flushes"))
    assert "100 34.2-100" in cell
    assert cell.count("0 0-65.8") == 2
    assert any("refused: the toggle does not take" in line for line in lines)
    assert "600.0 s" in next(line for line in lines if line.startswith("docs' recipe, all"))
    assert lines[-1].startswith("summary: ")
    assert "drives 1, loads 1, experiments 2: 100 34.2-100 right" in lines[-1]


TWICE = LoadTruth(2.0, THROUGH)


def outcome(verdict, pairs, truth=TWICE):
    return Outcome(
        verdict, truth, pair_sd=0.2, pairs=pairs, seconds=pairs + 1.0, pair_seconds=1.0,
        samples=20 * pairs,
    )


def test_giving_up_is_charged_the_whole_budget_and_beside_the_pairs_there_are_seconds():
    cell = Cell("d", LoadPoint.OSD_BENCH_DEPTH1, (outcome(THROUGH, 6),) * 39 + (
        outcome(OPEN, 10),), "")
    budget = PLANS[LoadPoint.OSD_BENCH_DEPTH1]
    assert cell.used_pairs == (39 * 6 + budget.pairs_max) / 40
    assert cell.used_seconds == (39 * 7 + min(budget.pairs_max, budget.seconds_max)) / 40
    assert cell.over_minimum == cell.used_pairs / 4
    assert cell.over_minimum_seconds == pytest.approx(cell.used_seconds / 4)
    fine = LoadTruth(1.15, THROUGH)  # where to hold back is no mistake, and costs all the same
    assert Cell("d", cell.load_point, (outcome(OPEN, 9, fine),), "").used_pairs == 80


def test_the_minimum_takes_the_smaller_of_the_variance_by_formula_and_as_observed():
    seen = replace(outcome(THROUGH, 6, LoadTruth(1.25, THROUGH)), pair_sd=0.1)
    for by_formula, counted in ((0.0, 0.01), (0.005, 0.005), (0.5, 0.01)):
        cell = Cell("d", LoadPoint.OSD_TRAFFIC, (replace(seen, least_variance=by_formula),), "")
        assert cell.least_pairs == pytest.approx(least_pairs(1.25, counted, MARGIN))


def trials(name, verdict, truth, pair_sd=0.1, **cell):
    """Twenty times the same verdict."""
    outcomes = (replace(outcome(verdict, 6, truth), pair_sd=pair_sd),) * 20
    return Cell(name, LoadPoint.OSD_BENCH_DEPTH1, outcomes, "", **cell)


EASY = tuple(trials(f"easy{n}", THROUGH, LoadTruth(10.0, THROUGH)) for n in range(30))


def missed(*cells):
    """What is told as missed beside thirty easy drives, and what the last line says."""
    found = figures([*EASY, *cells])
    names = [item.name for item in found if item.held is False]
    last = report([*EASY, *cells], found)[-1]
    assert all(name in last for name in names)
    return names


@pytest.mark.parametrize(("ratio", "better"), [(1.26, THROUGH), (1 / 1.3, BACK)])
def test_easy_drives_do_not_hide_one_that_is_denied_a_quarter(ratio, better):
    truth = LoadTruth(ratio, better)
    assert missed(trials("quarter", better, truth)) == []
    (name,) = missed(trials("quarter", SAME, truth))
    assert name.startswith("right from 1.25 to 1.35 ")
    assert missed(trials("quarter", OPEN, truth)) == [name]
    noisy = trials("quarter", OPEN, truth, pair_sd=0.3)  # nobody promises anything there
    assert missed(noisy) == []


@pytest.mark.parametrize(("ratio", "slower", "better"), [
    (1.15, BACK, THROUGH), (1.6, BACK, THROUGH), (0.6, THROUGH, BACK),
])
def test_a_verdict_for_the_slower_mode_counts_however_noisy_the_drive(ratio, slower, better):
    truth = LoadTruth(ratio, better)
    assert missed(trials("d", better, truth, pair_sd=0.5)) == []
    (name,) = missed(trials("d", slower, truth, pair_sd=0.5))
    assert name == "for the slower mode where a ratio is beyond 1.1, share"


@pytest.mark.parametrize(("ratio", "true", "lying"), [
    (0.04, OPEN, False), (1.0, SAME, True), (0.04, OPEN, True),
])
def test_one_write_back_on_a_drive_that_ignores_flushes_is_one_too_many(ratio, true, lying):
    held_back = trials("liar", OPEN, LoadTruth(ratio, true), flushes_nothing=lying)
    assert missed(held_back) == []
    name = "verdicts `write back` on drives that ignore flushes"
    (figure,) = [item for item in figures([held_back]) if item.name == name]
    assert (figure.found, figure.held, figure.experiments) == (0.0, True, 20)
    one = replace(held_back.outcomes[0], verdict=BACK)
    assert name in missed(replace(held_back, outcomes=(*held_back.outcomes[1:], one)))


def test_what_no_drive_shows_is_not_told_as_held():
    (same,) = [item for item in figures(EASY) if "ignore flushes" in item.name]
    assert same.held is None

"""`wcache compare`: what others measured, with the doubts that belong to it."""

import json
import math
import os
import random

import pytest
from wcache_cli.main import main


def write(path, values):
    path.write_text("".join(f"{value:.6f}\n" for value in values))
    return str(path)


def latencies(seed, middle, n=400, sd=0.2, phi=0.0):
    rng = random.Random(seed)
    z = rng.gauss(0, 1)
    values = []
    for _ in range(n):
        z = phi * z + math.sqrt(1 - phi * phi) * rng.gauss(0, 1)
        values.append(middle * math.exp(sd * z))
    return values


def asked(capsys, back, through, *more):
    code = main(
        ["compare", "--write-back", *back, "--write-through", *through, "--format", "json",
         "--synced", *more]
    )
    assert code == 0
    return json.loads(capsys.readouterr().out)


def test_the_answer_has_what_programs_need(tmp_path, capsys):
    back = write(tmp_path / "on", latencies(1, 1000))
    through = write(tmp_path / "off", latencies(2, 300))
    result = asked(capsys, [back], [through])
    assert result["verdict"] == "write through"
    assert result["ratio_low"] < result["ratio"] < result["ratio_high"]
    assert result["ratio"] == pytest.approx(1000 / 300, rel=0.1)
    assert result["tail_ratio"] == pytest.approx(1000 / 300, rel=0.2)
    assert result["n"] == 800
    assert result["warnings"] == ["unreplicated"]


@pytest.mark.slow
def test_two_runs_may_differ_by_five_percent_for_no_reason(tmp_path, capsys):
    # a difference that the samples prove but a run-to-run spread could make
    back = write(tmp_path / "on", latencies(1, 1125, n=20_000, sd=0.1))
    through = write(tmp_path / "off", latencies(2, 1000, n=20_000, sd=0.1))
    result = asked(capsys, [back], [through])
    assert result["ratio_low"] > 1.1
    assert result["verdict"] == "insufficient data"


def test_with_four_files_of_each_the_run_is_the_unit(tmp_path, capsys):
    back = [write(tmp_path / f"on{i}", latencies(i, 1300)) for i in range(5)]
    through = [write(tmp_path / f"off{i}", latencies(50 + i, 1000)) for i in range(5)]
    result = asked(capsys, back, through)
    assert (result["unit"], result["verdict"]) == ("run", "write through")
    assert "unreplicated" not in result["warnings"]


def test_runs_that_differ_by_themselves_are_not_outvoted_by_their_samples(tmp_path, capsys):
    back = [write(tmp_path / f"on{i}", latencies(i, 1000 * 1.5**i)) for i in range(4)]
    through = [write(tmp_path / f"off{i}", latencies(9 + i, 900 * 1.5**i)) for i in range(4)]
    assert asked(capsys, back, through)["verdict"] == "insufficient data"


def test_correlated_samples_count_for_what_they_are_worth(tmp_path, capsys):
    back = write(tmp_path / "on", latencies(1, 1000, n=300, phi=0.95))
    through = write(tmp_path / "off", latencies(2, 100, n=300, phi=0.95))
    result = asked(capsys, [back], [through])
    assert result["verdict"] == "insufficient data"
    assert "few samples" in result["warnings"]
    assert result["more_needed"]["count"] > 0


@pytest.mark.parametrize("n", [25, 100])
def test_the_few_samples_of_a_quick_look_do_not_mislead(tmp_path, capsys, n):
    verdicts = {
        asked(
            capsys, [write(tmp_path / "on", latencies(seed, 1000, n, sd=1.0))],
            [write(tmp_path / "off", latencies(seed + 50, 1000, n, sd=1.0))],
        )["verdict"] for seed in range(10)
    }
    assert verdicts <= {"insufficient data", "no material difference"}


def test_an_undecided_case_says_how_many_more_samples_would_do(tmp_path, capsys):
    back = write(tmp_path / "on", latencies(1, 1400, n=100, sd=0.6))
    through = write(tmp_path / "off", latencies(2, 1300, n=100, sd=0.6))
    main(["compare", "--synced", "--write-back", back, "--write-through", through])
    shown = capsys.readouterr().out
    assert "verdict: insufficient data" in shown
    assert "samples per mode" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no latencies"),
        ("1.0\nfast\n", "line 2: 'fast' is not a number"),
        ("1.0\n-3\n", "line 2: a latency must be above 0"),
        ("nan\n", "line 1: a latency must be above 0"),
        ('{"jobs": 3}', "no list of jobs"),
        ("{", "is not JSON"),
        ("1, 2\n", "line 1: a fio latency log has 4 or more fields"),
        ("0, 100, 0, 4096\n", "with no writes"),
    ],
)
def test_a_bad_file_is_one_clear_line_and_code_2(tmp_path, capsys, text, said):
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.write_text(text)
    good.write_text("1\n2\n3\n")
    code = main(["compare", "--write-back", str(bad), "--write-through", str(good)])
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1


def test_a_missing_or_binary_file_is_one_clear_line_too(tmp_path, capsys):
    binary = tmp_path / "bin"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    for path, said in ((tmp_path / "none", "cannot be read"), (binary, "is not text")):
        assert main(["compare", "--write-back", str(path), "--write-through", str(path)]) == 2
        assert said in capsys.readouterr().err


def test_a_worse_tail_beside_equal_medians_is_shown_as_such(tmp_path, capsys):
    calm = latencies(1, 1000, n=4000, sd=0.1)
    other = latencies(2, 1000, n=4000, sd=0.1)
    slow = [us * (5 if i % 4 == 0 else 1) for i, us in enumerate(other)]
    result = asked(
        capsys, [write(tmp_path / "on", slow)], [write(tmp_path / "off", calm)],
        "--material-ratio", "1.3",
    )
    assert result["verdict"] == "conflicting"
    assert "90th percentile is proven better in write through" in result["why"]


def test_runs_of_one_sample_decide_nothing_however_many_they_are(tmp_path, capsys):
    back = [write(tmp_path / f"on{i}", [1000 + i]) for i in range(5)]
    through = [write(tmp_path / f"off{i}", [300 + i]) for i in range(5)]
    result = asked(capsys, back, through)
    assert result["verdict"] == "insufficient data"
    assert "few samples" in result["warnings"]
    assert result["more_needed"]["what"] == "samples"


def test_a_file_and_its_copies_are_one_run(tmp_path, capsys):
    back = write(tmp_path / "on", latencies(1, 1000))
    through = write(tmp_path / "off", latencies(2, 950))
    copy = write(tmp_path / "copy", latencies(1, 1000))
    once = asked(capsys, [back], [through])
    result = asked(capsys, [back, copy, back, back], [through] * 4)
    assert {"repeated", "unreplicated"} <= set(result["warnings"])
    assert (result["ratio_low"], result["ratio_high"]) == (once["ratio_low"], once["ratio_high"])


def said(capsys, *words):
    assert main(["compare", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_what_no_run_can_have_measured_is_one_clear_line(tmp_path, capsys):
    good = write(tmp_path / "good", latencies(2, 300))
    big = tmp_path / "big"
    big.write_text("1e308\n" * 40)
    assert "more than a day" in said(
        capsys, "--write-back", str(big), "--write-through", good, "--unit", "s"
    )
    failed = tmp_path / "failed.json"
    bins = {"lat_ns": {"N": 4, "bins": {"1000": 4}}}
    failed.write_text(json.dumps({"jobs": [{"error": 5, "write": bins}]}))
    assert "ended with error '5'" in said(
        capsys, "--write-back", str(failed), "--write-through", good
    )
    below = tmp_path / "below.json"
    bins = {"lat_ns": {"N": 4, "bins": {"-5": 2, "1000": 2}}}
    below.write_text(json.dumps({"jobs": [{"write": bins}]}))
    assert "bin of -5" in said(capsys, "--write-back", str(below), "--write-through", good)
    assert "257 files" in said(capsys, "--write-back", *[good] * 257, "--write-through", good)


def test_a_fifo_nobody_writes_to_and_a_device_are_not_waited_for(tmp_path, capsys):
    good = write(tmp_path / "good", latencies(2, 300))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "no latencies" in said(capsys, "--write-back", str(fifo), "--write-through", good)
    assert "is no file" in said(capsys, "--write-back", "/dev/zero", "--write-through", good)


@pytest.mark.slow
def test_a_histogram_of_many_says_how_many_there_were(tmp_path, capsys):
    bins = {"lat_ns": {"N": 10**9, "bins": {"300000": 5 * 10**8, "310000": 5 * 10**8}}}
    many = tmp_path / "many.json"
    many.write_text(json.dumps({"jobs": [{"write": bins}]}))
    result = asked(capsys, [str(many)], [write(tmp_path / "off", latencies(2, 300))])
    assert result["per_mode"]["write back"]["n"] == 10**9
    assert result["n"] == 10**9 + 400


def test_a_log_of_several_jobs_one_after_the_other_has_no_order(tmp_path, capsys):
    lines = [f"{ms}, {int(us * 1e3)}, 1, 4096, 0" for ms, us in enumerate(latencies(1, 1000))]
    log = tmp_path / "lat.log"
    log.write_text("\n".join(lines + lines) + "\n")
    result = asked(capsys, [str(log)], [write(tmp_path / "off", latencies(2, 300))])
    assert "unordered" in result["warnings"]

"""`wcache compare`: what others measured, with the doubts that belong to it."""

import json
import math
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
        ["compare", "--write-back", *back, "--write-through", *through, "--format", "json", *more]
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


def test_a_proven_worse_tail_is_conflicting(tmp_path, capsys):
    through = latencies(2, 300, n=2000)
    through = [value * 100 if i % 5 == 0 else value for i, value in enumerate(through)]
    result = asked(
        capsys, [write(tmp_path / "on", latencies(1, 1000, n=2000))],
        [write(tmp_path / "off", through)],
    )
    assert result["verdict"] == "conflicting"


def test_an_undecided_case_says_how_many_more_samples_would_do(tmp_path, capsys):
    back = write(tmp_path / "on", latencies(1, 1400, n=100, sd=0.6))
    through = write(tmp_path / "off", latencies(2, 1300, n=100, sd=0.6))
    main(["compare", "--write-back", back, "--write-through", through])
    shown = capsys.readouterr().out
    assert "verdict: insufficient data" in shown
    assert "samples per mode" in shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no latencies"),
        ("1.0\nfast\n", "line 2: 'fast' is no number"),
        ("1.0\n-3\n", "line 2: a latency must be above 0"),
        ("nan\n", "line 1: a latency must be above 0"),
        ('{"jobs": 3}', "no list of jobs"),
        ("{", "is not JSON"),
        ("1, 2\n", "line 1: a fio latency log has 4 or more fields"),
        ("0, 100, 0, 4096\n", "without writes"),
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

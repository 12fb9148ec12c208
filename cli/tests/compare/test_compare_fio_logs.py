"""The logs that one run of fio wrote are one run, however many jobs it had."""

import json
import math
import random

import pytest
from wcache_cli.main import main


def job(folder, name, seed, middle_us=300.0, n=400, common=None, kind="lat", number=1):
    """A job's log, a write each ms; `common` is what all jobs of the run feel, in logs."""
    rng = random.Random(seed)
    path = folder / f"{name}_{kind}.{number}.log"
    path.write_text("".join(
        f"{i}, {int(1e3 * middle_us * math.exp((common or [0] * n)[i] + rng.gauss(0, 0.1)))}, "
        f"1, 4096, 0, 0\n" for i in range(n)
    ))
    return str(path)


def jobs(folder, name, seed, count=4, **more):
    return [job(folder, name, 100 * seed + k, number=k, **more) for k in range(1, count + 1)]


def answer(capsys, back, through):
    words = ["--write-back", *back, "--write-through", *through, "--format", "json", "--synced"]
    assert main(["compare", *words]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, back, through):
    assert main(["compare", "--write-back", *back, "--write-through", *through]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    return shown.err


def test_the_jobs_of_one_run_are_one_run(tmp_path, capsys):
    on, off = jobs(tmp_path, "on", 1, middle_us=345), jobs(tmp_path, "off", 2)
    result = answer(capsys, on, off)
    # nothing is known of how runs differ, and 15% is too close to 10% and 5%
    assert (result["unit"], result["verdict"]) == ("sample", "insufficient data")
    assert "unreplicated" in result["warnings"]
    assert result["per_mode"]["write back"]["n"] == 1600
    assert answer(capsys, on[::-1], [off[2], off[0], off[3], off[1]]) == result


def test_four_runs_of_each_are_still_the_unit(tmp_path, capsys):
    on = [path for i in range(4) for path in jobs(tmp_path, f"on{i}", i, 2, middle_us=400)]
    off = [path for i in range(4) for path in jobs(tmp_path, f"off{i}", 9 + i, 2)]
    result = answer(capsys, on, off)
    assert (result["unit"], result["verdict"]) == ("run", "write through")


def test_runs_in_folders_of_their_own_are_runs_of_their_own(tmp_path, capsys):
    on, off = [], []
    for i in range(4):
        for files, middle_us in ((on, 400), (off, 300)):
            folder = tmp_path / f"{middle_us}-{i}"
            folder.mkdir()
            files.append(job(folder, "x", i + middle_us, middle_us))
    assert answer(capsys, on, off)["unit"] == "run"


def test_what_all_jobs_feel_at_once_is_not_worth_more_for_being_logged_by_each(tmp_path, capsys):
    rng, level, common = random.Random(5), 0.0, []
    for _ in range(400):
        level = 0.9 * level + rng.gauss(0, 0.5)
        common.append(level)
    result = answer(
        capsys, jobs(tmp_path, "on", 1, common=common), jobs(tmp_path, "off", 2, common=common)
    )
    alone = answer(
        capsys, jobs(tmp_path, "one", 1, 1, common=common),
        jobs(tmp_path, "two", 2, 1, common=common),
    )
    once = alone["n_effective"]["write back"]
    assert result["n_effective"]["write back"] < 1.5 * once


def test_two_kinds_of_latencies_of_one_run_are_refused(tmp_path, capsys):
    whole, off = jobs(tmp_path, "on", 1), jobs(tmp_path, "off", 2)
    parts = jobs(tmp_path, "on", 3, kind="clat")
    said = refused(capsys, whole + parts, off)
    assert f"{whole[0]} and {parts[0]} hold two kinds of latency of one fio run" in said
    assert "give only its _lat logs" in said
    assert "kind of latencies (clat, lat)" in refused(capsys, parts, off)
    submitting = jobs(tmp_path, "sub", 4, kind="slat")
    assert "holds submission latencies" in refused(capsys, submitting, off)


def test_a_run_given_by_some_of_its_jobs_is_not_compared_with_all_of_another(tmp_path, capsys):
    on, off = jobs(tmp_path, "on", 1), jobs(tmp_path, "off", 2)
    assert "jobs logged (4, 1)" in refused(capsys, on, off[:1])


def test_a_job_given_twice_or_with_nothing_written_adds_nothing(tmp_path, capsys):
    on, off = jobs(tmp_path, "on", 1), jobs(tmp_path, "off", 2)
    once = answer(capsys, on, off)
    empty = tmp_path / "on_lat.5.log"
    empty.write_text("")
    twice = answer(capsys, [*on, str(empty), on[2]], off)
    assert twice["warnings"] == ["repeated", *once["warnings"]]
    assert twice["per_mode"] == once["per_mode"]
    other = tmp_path / "none_lat.1.log"
    other.write_text("5, 100, 0, 4096, 0\n")
    assert "with no writes" in refused(capsys, [str(other), str(other)], off)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["on_bw.1.log", "on.log", "lat.1.log", "on_lat.x.log"])
def test_a_name_that_is_not_that_of_a_latency_log_says_nothing(tmp_path, capsys, name):
    named = tmp_path / name
    with open(job(tmp_path, "on", 1), encoding="utf-8") as log:
        named.write_text(log.read())
    result = answer(capsys, [str(named)], jobs(tmp_path, "off", 2))
    assert result["verdict"] == "no material difference"

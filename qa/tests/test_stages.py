"""`make test`: stages in order, two rows beside each other, an end to all at a failure; and the
long tests that take turns in it.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from rotation import SECONDS_MAX, STAGES, TURNS, chosen, stage

PROJECT = Path(__file__).resolve().parents[2]
RUNNER = PROJECT / "qa" / "stages.py"
MAKEFILE = """
say-%:
\t@echo "$* says $(WORD)"; sleep 0.2; echo "$* is done"
nice:
\t@echo "priority $$(nice)"
fail:
\t@until [ -e long.pid ]; do sleep 0.05; done; echo broken; exit 3
tests:
\t@$(PYTHON) -m pytest -q test_that_counts.py
long:
\t@trap 'echo cleaned > cleaned; exit 1' TERM; echo $$$$ > long.pid; sleep 60 & wait
"""


@pytest.fixture
def stages(tmp_path):
    (tmp_path / "Makefile").write_text(MAKEFILE)

    def run(*words):
        return subprocess.run(
            [sys.executable, str(RUNNER), *words], cwd=tmp_path, capture_output=True, text=True,
            timeout=50, check=False, env={"PATH": os.environ["PATH"]},
        )

    return run


# Counts what of it is done; one of two fails the first time, or each time.
COUNTED = """
import pathlib

def done(name):
    with open(name, "a") as file:
        file.write("x")
    return len(pathlib.Path(name).read_text())

def test_good():
    assert done("good")

def test_unsteady():
    assert done("unsteady") > %d
"""


def lines(done):
    return [line for line in done.stdout.splitlines() if not line.startswith("==")]


@pytest.mark.slow
def test_groups_run_in_order_and_each_stage_says_what_it_took(stages):
    done = stages("WORD=hello", "say-a say-b", "say-c")
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done) == [
        f"{name} {what}" for name in "abc" for what in ("says hello", "is done")
    ]
    for name in "abc":
        assert f"== say-{name}: done in" in done.stdout
    assert "== all done in" in done.stdout


@pytest.mark.slow
def test_rows_run_beside_each_other_and_their_output_is_not_mixed(stages):
    done = stages("WORD=x", "say-a say-b | say-c say-d")
    assert done.returncode == 0
    said = lines(done)
    assert sorted(said) == sorted(
        f"{name} {what}" for name in "abcd" for what in ("says x", "is done")
    )
    for name in "abcd":
        at = said.index(f"{name} says x")
        assert said[at + 1] == f"{name} is done"
    before, _, _ = done.stdout.partition(": done in")
    assert "say-a: begins" in before
    assert "say-c: begins" in before


@pytest.mark.slow
@pytest.mark.parametrize("group", ["{} | say-a", "say-a | {}", "{}"])
def test_only_what_comes_after_a_tilde_has_a_low_priority(stages, group):
    own = os.nice(0)
    assert f"priority {own}" in lines(stages(group.format("nice")))
    assert f"priority {min(19, own + 10)}" in lines(stages(group.format("~nice")))


@pytest.mark.slow
@pytest.mark.parametrize("group", ["long | fail", "fail | long"])
def test_a_stage_that_fails_ends_the_other_which_cleans_up_and_nothing_follows(
    stages, tmp_path, group
):
    done = stages(group, "say-a")
    assert done.returncode == 1
    assert "broken" in done.stdout
    assert "== fail: FAILED" in done.stdout
    assert "== long: stopped" in done.stdout
    assert "say-a" not in done.stdout
    assert (tmp_path / "cleaned").exists()
    pid = int((tmp_path / "long.pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("bad_times", "code"), [(0, 0), (1, 0), (9, 1)])
def test_what_fails_beside_others_after_a_plus_decides_by_itself_at_the_end(
    stages, tmp_path, bad_times, code
):
    (tmp_path / "test_that_counts.py").write_text(COUNTED % bad_times)
    done = stages(f"PYTHON={sys.executable}", "+tests say-a | say-b", "say-c")
    assert done.returncode == code, done.stdout
    assert (tmp_path / "good").read_text() == "x"
    assert (tmp_path / "unsteady").read_text() == "x" * (1 + bool(bad_times))
    assert "a is done" in done.stdout
    assert ("c is done" in done.stdout) == (code == 0)
    assert ("unsteady: FAILED beside other stages, passed alone" in done.stdout) == (bad_times == 1)
    assert ("== tests: FAILED twice" in done.stdout) == bool(code)


@pytest.mark.slow
def test_each_that_takes_turns_is_there_and_all_of_it_is_marked_long():
    def collected(*marks):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-qq", *marks,
             *(turn.test for turn in TURNS)],
            cwd=PROJECT, capture_output=True, text=True, check=False, timeout=100,
        )
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-500:]
        return done.stdout

    assert collected("-m", "long") == collected()


def test_each_gets_its_turn_as_commits_go_by_and_about_as_often_as_the_others():
    commits = [hashlib.sha1(b"%d" % n).hexdigest() for n in range(100 * len(TURNS))]
    for turn_of, all_of_them in ((chosen, TURNS), (stage, STAGES)):
        times = Counter(map(turn_of, commits))
        assert set(times) == set(all_of_them)
        assert min(times.values()) > 0.7 * max(times.values())


def test_each_long_test_comes_with_each_stage():
    commits = [f"{number:040x}" for number in range(len(STAGES) * len(TURNS))]
    both = {(chosen(commit), stage(commit)) for commit in commits}
    assert len(both) == len(commits)


def test_none_takes_longer_than_make_test_has_room_for():
    assert [turn for turn in TURNS if not 0 < turn.seconds <= SECONDS_MAX] == []


def test_make_test_has_them_as_a_stage():
    text = (PROJECT / "Makefile").read_text()
    recipe = text[text.index("\ntest:\n") : text.index("\ntest-all:")]
    assert "test-rotating" in recipe
    assert "rotation.py" in text[text.index("\ntest-rotating:\n") :]


@pytest.mark.slow
def test_what_failed_is_done_again_whatever_the_commits_turn_is(tmp_path):
    name = str(Path(__file__).relative_to(PROJECT))
    kept = tmp_path / "v" / "cache" / "lastfailed"
    kept.parent.mkdir(parents=True)
    failed = f"{name}::{test_make_test_has_them_as_a_stage.__name__}"
    kept.write_text(json.dumps({failed: True}))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "--last-failed", "-o",
         f"cache_dir={tmp_path}", "-p", "no:xdist", str(Path(__file__))],
        cwd=PROJECT, capture_output=True, text=True, timeout=50, check=False,
        env={**os.environ, "WCACHE_TURNS": "1000000"},
    )
    assert f"{name}: 1\n" in done.stdout, done.stdout + done.stderr

"""`wcache watch` shows each change once, is quiet in a log, and ends with what it follows."""

from __future__ import annotations

import io

import pytest
from module_answers import FakeAnswers, campaign
from wcache.core.errors import MalformedError, NotFoundError, NotReadyError
from wcache_cli import watch
from wcache_cli.following import look, what_now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Answers:
    """Answers in turn; an error among them is raised, and the last one stays."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def ask(self, *words):
        self.asked.append(" ".join(words))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def followed(out, *states, name="c1", interval_s=2.0):
    now_s = [0.0]

    def pause(seconds):
        now_s[0] += seconds

    answers = Answers(*states)
    code = watch.follow(
        answers, name, out, interval_s=interval_s, pause=pause, clock=lambda: now_s[0]
    )
    return code, out.getvalue()


SILENT = NotReadyError("`ceph wcache campaign show c1` failed", "is the cluster reachable?")
RUNNING = [campaign("running", 2), campaign("running", 2), campaign("running", 5)]


def test_in_a_log_a_change_is_one_line_and_nothing_else_for_a_minute():
    code, text = followed(io.StringIO(), *RUNNING, campaign("done", 8))
    lines = text.splitlines()
    assert code == 0
    assert lines[0] == "c1.0 h1 sda?[2J: running"
    assert lines[1] == (
        "campaign c1: 0 of 1 drive done, 2 of about 8 periods, about 30 s left, at most 10 min"
    )
    assert lines[2] == "c1.0 h1 sda?[2J: done"
    assert lines[3].startswith("campaign c1: done, 17.6 s of drive time, 96.0 KiB written")
    assert "write through, cache off 4.75 ms -> 500 us (-89%, 99%: -92 to -86)" in lines[4]
    assert len(lines) == 5
    assert "\x1b" not in text


def test_in_a_log_there_is_a_line_a_minute():
    states = [campaign("running", 2)] * 91 + [campaign("done", 8)]
    _, text = followed(io.StringIO(), *states)
    assert sum("periods, about" in line for line in text.splitlines()) == 4  # of 182 s


def test_a_narrow_terminal_has_all_of_the_headline(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, text = followed(Terminal(), *RUNNING, campaign("done", 8))
    assert "about 30 s left, at most\n10 min\n" in text
    assert text.count("\x1b[3A") == 3


def test_on_a_terminal_bars_are_drawn_in_place(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, text = followed(Terminal(), *RUNNING, campaign("done", 8))
    assert code == 0
    assert text.count("\x1b[2A") == 3
    assert "[#######.......................    2/8" not in text
    assert "[#######.......................]    2/8" in text
    assert "[##############################]" in text


def test_text_of_a_drive_cannot_move_the_cursor():
    _, text = followed(Terminal(), campaign("done", 8))
    assert "\x1b[2J" not in text


def test_an_aborted_campaign_has_its_own_exit_code():
    code, text = followed(io.StringIO(), campaign("aborted", 3))
    assert code == 2
    assert "campaign c1: aborted" in text


@pytest.mark.parametrize("out", [io.StringIO, Terminal])
def test_a_mgr_that_takes_over_is_waited_for(out):
    loading = NotFoundError("there is no campaign 'c1'")
    states = [campaign("running", 2), SILENT, SILENT, loading, campaign("done", 8)]
    code, text = followed(out(), *states)
    assert code == 0
    assert text.count("waiting for the mgr: ") == (2 if out is Terminal else 1)
    assert "campaign c1: done" in text


def test_a_mgr_that_stays_away_is_an_error_after_ten_minutes():
    with pytest.raises(NotReadyError, match="failed"):
        followed(io.StringIO(), campaign("running", 2), SILENT)


def test_a_cluster_that_never_answered_is_an_error_at_once():
    answers = Answers(SILENT)
    with pytest.raises(NotReadyError):
        watch.follow(answers, "c1", io.StringIO(), interval_s=2.0, pause=lambda s: None)
    assert len(answers.asked) == 1


def rollout(status, left, applied=1, **more):
    return {
        "plan_id": "p1", "status": status, "reason": "", "changes": 3, "applied": applied,
        "seconds_left_least": left, "seconds_left_most": left, "waiting_for": [],
        "waves": [
            {"name": "h1 sda", "changes": 1, "statuses": {"applied": 1}},
            {"name": "host h2", "changes": 2, "statuses": {"planned": 3 - applied}},
        ], **more,
    }


def test_a_plan_is_followed_with_its_waves():
    code, text = followed(
        io.StringIO(), rollout("running", 90), rollout("running", 60, waiting_for=["no scrub"]),
        rollout("done", None, applied=3), name="p1",
    )
    assert code == 0
    assert "plan p1: running, 1 of 3 changes in place, 2 min left" in text
    assert "wave 1 h1 sda: 1 applied" in text
    assert "no scrub" in text
    assert text.splitlines()[-1] == "plan p1: done, 3 of 3 changes in place"


def test_a_plan_says_its_end_what_steps_say_together_and_why_the_next_is_so_large():
    so_far = {"kind": "hdd", "of": "commit", "ratio": 0.5, "low": 0.4, "high": 0.6}
    code, text = followed(
        io.StringIO(), rollout(
            "running", 90, ends_at_s=1_795_700_000, evidence=[so_far],
            next_step={"size": 4, "why": "as many as are proven\x1b"},
        ), rollout("done", None, applied=3), name="p1",
    )
    assert code == 0
    assert "expected end 2026-11-26" in text
    assert "next step: 4 changes, as many as are proven?" in text
    assert "so far: hdd: commit latency changed by -50% (-60% to -40%)" in text


def test_a_plan_that_went_back_has_its_own_exit_code():
    code, text = followed(
        io.StringIO(), rollout("rolled back", None, reason="slower\x1b[2J"), name="p1"
    )
    assert code == 2
    assert "plan p1: rolled back (slower?[2J)" in text


def test_a_memory_trial_is_followed_to_its_verdict():
    trial = {"trial_id": "t1", "status": "running", "periods": [{}], "blocks": 1, "reason": "",
             "device_class": "hdd"}
    running = {"trial": trial, "results": []}
    over = {"trial": None, "results": [{"trial_id": "t1", "verdict": "fewer misses"}]}
    code, text = followed(io.StringIO(), running, over, name="t1")
    assert code == 0
    assert "memory trial t1: running, 1 of 4 periods" in text
    assert text.splitlines()[-1] == "memory trial t1: fewer misses"
    with pytest.raises(NotFoundError, match="no campaign, plan or trial 'x9'"):
        followed(io.StringIO(), running, name="x9")


def test_a_plan_that_is_only_tried_is_followed_by_its_trial():
    plan = rollout("planned", None, trials=[{"trial_id": "t2"}])
    answers = {"rollout show p1": plan, "memory trial show": {
        "trial": None, "results": [{"trial_id": "t2", "verdict": "fewer misses"}],
    }}
    seen = look(FakeAnswers(answers), "p1")
    assert (seen.over, seen.code, seen.ending) == (True, 0, ("memory trial t2: fewer misses",))


def test_what_is_under_way_is_followed_else_the_newest_campaign():
    assert what_now(Answers({"rollout": "p2", "campaign": ""})) == "p2"
    assert what_now(Answers({"rollout": "p2, p3", "campaign": "c4"})) == "p2"
    assert what_now(Answers({"rollout": "", "campaign": "c7"})) == "c7"
    idle = {"rollout": "", "campaign": ""}
    listed = {"campaigns": [{"campaign_id": "c1"}, {"campaign_id": "c2"}]}
    for trial, followed in (
        (None, "c2"), ({"trial_id": "t1", "status": "done"}, "c2"),
        ({"trial_id": "t1", "status": "running"}, "t1"),
    ):
        answers = {"status": idle, "campaign ls": listed, "memory trial show": {"trial": trial}}
        assert what_now(FakeAnswers(answers)) == followed
    answers["campaign ls"], answers["memory trial show"] = {"campaigns": []}, {"trial": None}
    with pytest.raises(NotFoundError, match="no campaign yet"):
        what_now(FakeAnswers(answers))


def test_an_answer_that_is_no_campaign_is_one_line_of_error():
    with pytest.raises(MalformedError, match="not understood"):
        followed(io.StringIO(), {"format_version": 1})

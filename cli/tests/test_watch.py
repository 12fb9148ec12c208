"""`wcache watch` shows each change once, and ends with its campaign."""

from __future__ import annotations

import io

import pytest
from module_answers import FakeAnswers, campaign
from wcache.core.errors import MalformedError, NotFoundError
from wcache_cli import watch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def followed(out: io.StringIO, *states):
    pauses = []
    answers = FakeAnswers({"campaign show c1": list(states)})
    code = watch.follow(answers, "c1", out, interval_s=2.0, pause=pauses.append)
    return code, out.getvalue(), pauses


RUNNING = [campaign("running", 2), campaign("running", 2), campaign("running", 5)]


def test_without_a_terminal_each_change_is_one_line():
    code, text, pauses = followed(io.StringIO(), *RUNNING, campaign("done", 8))
    lines = text.splitlines()
    assert code == 0
    assert [line.split()[1] for line in lines[:3]] == ["2/8", "5/8", "8/8"]
    assert lines[3].startswith("campaign c1: done, 17.6 s of drive time, 96.0 KiB written")
    assert "write through, write back 5.00 ms, write through 500 us" in lines[4]
    assert pauses == [2.0] * 3
    assert "\x1b" not in text


def test_on_a_terminal_bars_are_drawn_in_place():
    code, text, _ = followed(Terminal(), *RUNNING, campaign("done", 8))
    assert code == 0
    assert text.count("\x1b[1A") == 3
    assert "[#######......................." in text
    assert "[##############################]" in text


def test_text_of_a_drive_cannot_move_the_cursor():
    _, text, _ = followed(Terminal(), campaign("done", 8))
    assert "\x1b[2J" not in text


def test_an_aborted_campaign_has_its_own_exit_code():
    code, text, _ = followed(io.StringIO(), campaign("aborted", 3))
    assert code == 2
    assert "campaign c1: aborted" in text


def test_the_newest_campaign_is_the_last_listed():
    answers = FakeAnswers({"campaign ls": {"campaigns": [{"campaign_id": "c1"},
                                                         {"campaign_id": "c2"}]}})
    assert watch.newest(answers) == "c2"
    with pytest.raises(NotFoundError, match="no campaign yet"):
        watch.newest(FakeAnswers({"campaign ls": {"campaigns": []}}))


def test_an_answer_that_is_no_campaign_is_one_line_of_error():
    with pytest.raises(MalformedError, match="not a campaign"):
        followed(io.StringIO(), {"format_version": 1})

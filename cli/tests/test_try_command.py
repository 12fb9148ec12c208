"""`wcache try` follows what it began, and prints the module's own words."""

from __future__ import annotations

import io

import pytest
from module_answers import FakeAnswers, campaign
from wcache.core.errors import MalformedError
from wcache_cli.try_command import tried

FORECAST = {"state": "forecast", "lines": ["this would measure"], "next": "ceph wcache try -y"}
MEASURING = {"state": "measuring", "campaign_id": "c1", "lines": ["10%"], "next": "again"}
ANSWER = {"state": "answer", "lines": ["turn it off", "\x1b[2J"], "next": "ceph wcache plan"}


def run(answers, accept_cost=False):
    out = io.StringIO()
    code = tried(FakeAnswers(answers), "cluster", accept_cost, out, pause=lambda seconds: None)
    return code, out.getvalue()


def test_without_consent_it_says_what_it_would_cost():
    told = "this would measure\nnext: ceph wcache try -y\n"
    assert run({"try cluster --dry-run": [FORECAST]}) == (0, told)


def test_with_consent_it_follows_to_the_answer():
    code, text = run({
        "try cluster --accept-cost": [MEASURING], "try cluster --dry-run": [ANSWER],
        "campaign show c1": [campaign("running", 2), campaign("done", 8)],
    }, accept_cost=True)
    assert code == 0
    assert "2 of about 8 periods" in text
    assert text.endswith("turn it off\n?[2J\nnext: ceph wcache plan\n")


def test_an_aborted_one_has_its_own_exit_code():
    code, _ = run({
        "try cluster --dry-run": [MEASURING, ANSWER], "campaign show c1": [campaign("aborted", 3)],
    })
    assert code == 2


def test_an_answer_of_another_version_is_one_line_of_error():
    with pytest.raises(MalformedError, match="not that of"):
        run({"try cluster --dry-run": [{"format_version": 1}]})

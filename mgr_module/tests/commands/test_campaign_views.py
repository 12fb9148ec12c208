"""What is said of a campaign between the end of its last run and its last result."""

import pytest
from module_world import LateAnalysis, a_mgr, ok, said, start
from wcache.engine.evidence.analyses import RETRY_S
from wcache.engine.persistence import SAVE_RETRY_S


@pytest.fixture
def stopped(monkeypatch):
    """A campaign of which a record was made, and is not analysed yet: (mgr, analysis)."""
    mgr = a_mgr()
    start(mgr)
    while said(mgr, "campaign show", campaign_id="c1")["periods_done"] < 2:
        mgr.step()
    late = LateAnalysis(mgr.analysis)
    monkeypatch.setattr(mgr.inside.analyses, "_analysis", late)
    ok(mgr.command("campaign stop", campaign_id="c1"))
    mgr.settle()
    return mgr, late


@pytest.mark.parametrize("error", ["", "no numpy"])
def test_a_campaign_goes_on_until_what_it_measured_is_analysed_or_cannot_be(stopped, error):
    mgr, late = stopped
    shown = said(mgr, "campaign show", campaign_id="c1")
    assert {run["status"] for run in shown["run_list"]} == {"aborted"}
    assert [result["why"] for result in shown["results"]] == ["being analysed"]
    assert shown["status"] == "running"
    late.answer(error)
    assert said(mgr, "campaign show", campaign_id="c1")["status"] == "aborted"


def test_a_record_whose_analysis_failed_is_analysed_though_others_were_since(stopped):
    mgr, late = stopped
    for _ in range(2):  # it is tried again at once
        late.answer("killed by signal 9")
        mgr.step()
    mgr.inside.analyses.error = ""  # a look at another experiment has succeeded
    mgr.step(RETRY_S)
    late.answer()
    mgr.step()
    (result,) = said(mgr, "campaign show", campaign_id="c1")["results"]
    assert result["why"] == "few pairs"


def test_a_campaign_goes_on_until_its_last_record_is_stored():
    mgr = a_mgr()
    start(mgr)
    mgr.store.fails = lambda key: key.startswith("record/c1.2")
    mgr.settle()
    shown = said(mgr, "campaign show", campaign_id="c1")
    assert {run["status"] for run in shown["run_list"]} == {"done"}
    assert (shown["status"], len(shown["results"])) == ("running", 2)
    mgr.store.fails = lambda key: False
    mgr.steps(3, SAVE_RETRY_S)
    shown = said(mgr, "campaign show", campaign_id="c1")
    assert (shown["status"], len(shown["results"])) == ("done", 3)


def test_time_and_bytes_of_a_run_under_way_are_counted():
    mgr = a_mgr()
    start(mgr)
    seen = []
    for _ in range(40):
        mgr.step()
        (row,) = said(mgr, "campaign ls")["campaigns"]
        seen.append((row["seconds"], row["bytes_written"]))
    assert min(seen[-1]) > 0
    mgr.settle()
    (row,) = said(mgr, "campaign ls")["campaigns"]
    seen.append((row["seconds"], row["bytes_written"]))
    assert seen == sorted(seen)
    assert len(set(seen)) > 5

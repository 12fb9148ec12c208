"""`ab`: two values of an option compared by a campaign, and nothing of it in the cache mode's."""

import re

import pytest
from compared_world import decided, options_before, options_of, slow_with, tunable, with_drives
from mgr_fakes.module import FakeMgr
from module_world import RealAnalysis, refused, said, unconsented, until
from wcache.core.model import CacheMode

DISK = "domain-sda"
BEFORE = options_before()


def compared(mgr, **arguments):
    found = said(mgr, "ab", option="scheduler=none,mq-deadline", **arguments)
    mgr.settle()
    return found["campaign_id"]


@pytest.mark.parametrize("option", ["scheduler=none,mq-deadline", "wbt_lat_usec=0,2000"])
def test_the_way_that_writes_nothing_is_named_and_is_not_refused(option):
    mgr = with_drives()
    asked = {"option": option, "loads": "batch", "pairs": 4}
    error, _ = unconsented(mgr, "ab", **asked)
    way = re.search(r"; --loads=([a-z,]+) writes nothing: add --accept-cost$", error)
    assert mgr.command("ab", **{**asked, "loads": way[1]})[0] == 0


class Undecided(RealAnalysis):
    def start(self, record, done):
        done({"verdict": "insufficient data", "stop": False, "why": "few pairs"}, "")


def test_it_ends_within_what_it_says_is_the_most_however_slow_each_sample_is():
    mgr = FakeMgr(("h0", (tunable(0),)), make_analysis=Undecided)
    mgr.report_all()
    asked = {"option": "scheduler=none,mq-deadline", "loads": "batch", "accept_cost": True}
    most_s = said(mgr, "ab", dry_run=True, **asked)["forecast"]["seconds"]
    began_s = mgr.now_s
    campaign_id = said(mgr, "ab", **asked)["campaign_id"]
    while said(mgr, "campaign show", campaign_id=campaign_id)["status"] == "running":
        mgr.step(3.0)
    assert mgr.now_s - began_s <= most_s


@pytest.mark.slow
def test_two_values_are_compared_decided_by_class_and_model_and_taken_back():
    mgr = with_drives(hosts=2)
    seen = set()
    campaign_id = said(mgr, "ab", option="scheduler=none,mq-deadline")["campaign_id"]
    for _ in range(400):
        mgr.step()
        seen.add(options_of(mgr)[0].value)
    mgr.settle()
    assert seen == {"none", "mq-deadline"}
    assert (options_of(mgr), options_of(mgr, "h1")) == (BEFORE, BEFORE)
    assert mgr.probes["h0"].leased_options == {}
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    assert shown["status"] == "done"
    assert shown["results"] == []
    assert {one["verdict"] for one in shown["option_results"]} == {"scheduler mq-deadline"}
    (verdict,) = said(mgr, "option ls")["verdicts"]
    assert (verdict["verdict"], verdict["drives"]) == ("scheduler mq-deadline", 2)
    assert verdict["drive_model"] == "ACME HD1 1.0"
    assert 1.4 < verdict["ratio_low"] < verdict["ratio_high"] < 1.6
    assert verdict["interval"] == "widest 99% of 2 drives"
    assert "write through" not in mgr.command("campaign show", campaign_id=campaign_id)[1]
    assert mgr.exceptions == []


@pytest.mark.slow
def test_three_drives_of_a_model_are_pooled_and_other_values_are_not_among_them():
    mgr = with_drives(hosts=4)
    said(mgr, "ab", option="scheduler=none,mq-deadline", scope="host:h3")
    mgr.settle()
    said(mgr, "ab", option="scheduler=kyber,mq-deadline")
    mgr.settle()
    found = {
        (one["option"]["a"], one["drives"]): one
        for one in said(mgr, "option ls")["verdicts"]
    }
    assert set(found) == {("none", 1), ("kyber", 4)}
    assert found["none", 1]["verdict"] == "insufficient data", "the word of one of four hosts"
    assert "only h3 reached this verdict" in found["none", 1]["why"]
    assert found["none", 1]["interval"] == "99% of one drive"
    assert found["kyber", 4]["verdict"] == "no material difference"
    assert found["kyber", 4]["interval"] == "99% of the mean of 4 drives"
    mgr.restart()  # pools are computed anew
    slow_with(mgr)
    mgr.step()
    again = said(mgr, "option ls")["verdicts"]
    assert sorted(one["interval"] for one in again) == [
        "99% of one drive", "99% of the mean of 4 drives",
    ]


def test_no_verdict_about_an_option_becomes_one_about_cache_modes():
    mgr = with_drives()
    compared(mgr)
    assert said(mgr, "recommend")["recommendations"] == []
    assert "nothing was measured yet" in refused(mgr, "plan")
    assert mgr.probes["h0"].modes() == {DISK: CacheMode.WRITE_BACK}
    assert mgr.probes["h0"].set_count == 0


def test_a_probe_that_is_killed_and_a_mgr_that_is_lost_leave_the_option_as_it_was():
    mgr = with_drives()
    said(mgr, "ab", option="scheduler=none,mq-deadline")
    until(mgr, lambda: options_of(mgr)[0].value == "none", seconds=0.3)
    mgr.probes["h0"].crash()
    assert options_of(mgr) == BEFORE
    mgr.restart()
    slow_with(mgr)
    mgr.settle()
    assert options_of(mgr) == BEFORE
    assert decided(mgr) == "scheduler mq-deadline"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("write_cache=0,1", "durable"), ("fua=0,1", "durable"), ("scheduler=none", "OPTION=A,B"),
        ("cache_mode=writeback,writethrough", "an admin's plan alone"),
        ("scheduler=none,cfq", "its values"),
        ("scheduler=none,none", "no other value"),
        ("max_sectors_kb=4,8", "there is no option"),
        ("writeback_percent=10,20", "has no writeback_percent"),
        ("scheduler=none,kyber timer", "does nothing to the load timer"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_what_cannot_be_compared_is_refused_by_name(option, words, dry_run):
    mgr = with_drives()
    option, _, loads = option.partition(" ")
    more = {"loads": loads} if loads else {}
    assert words in refused(mgr, "ab", option=option, dry_run=dry_run, **more)
    assert said(mgr, "campaign ls")["campaigns"] == []

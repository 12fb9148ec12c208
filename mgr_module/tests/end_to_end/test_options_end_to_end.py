"""`ab`: two values of an option compared by a campaign, and nothing of it in the cache mode's."""

import errno
import re
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import RealAnalysis, said
from wcache.core.hardware import OptionValue
from wcache.core.model import CacheMode, DriveModel

BEFORE = (
    OptionValue("scheduler", "mq-deadline"), OptionValue("nr_requests", "128"),
    OptionValue("wbt_lat_usec", "0"),
)
DISK = "domain-sda"


def tunable(name, osd_id, **more):
    drive = make.drive(name, osd_id, drive_model=DriveModel("ACME", "HD1", "1.0"), **more)
    return replace(drive, state=replace(drive.state, options=BEFORE))


def a_mgr(slow="none", factor=1.5, hosts=1):
    """A cluster whose commits take longer while a scheduler is set."""
    mgr = FakeMgr(
        *((f"h{i}", (tunable("sda", i),)) for i in range(hosts)), make_analysis=RealAnalysis
    )
    wire(mgr, slow, factor)
    mgr.report_all()
    return mgr


def wire(mgr, slow="none", factor=1.5):
    """Commits take so much longer with a scheduler; each time a little different."""
    calls = iter(range(10**6))

    def latency_ns(osd_id):
        (drive,) = mgr.probes[f"h{osd_id}"].drives.values()
        worse = factor if drive.state.option("scheduler") == slow else 1.0
        return int(5_000_000 * worse * (1 + next(calls) % 7 / 1000))

    mgr.loads.latency_ns = latency_ns


def options_of(mgr, hostname="h0"):
    (drive,) = mgr.probes[hostname].drives.values()
    return drive.state.options


def compared(mgr, **arguments):
    found = said(mgr, "ab", option="scheduler=none,mq-deadline", **arguments)
    mgr.settle()
    return found["campaign_id"]


def test_what_it_costs_is_said_before_anything_is_touched():
    mgr = a_mgr()
    cost = said(mgr, "ab", option="scheduler=none,mq-deadline", dry_run=True)
    assert cost["compares"] == "scheduler=none,mq-deadline"
    assert (cost["forecast"]["drives"], cost["forecast"]["factorials"]) == (1, 0)
    assert said(mgr, "campaign ls")["campaigns"] == []


@pytest.mark.parametrize("option", ["scheduler=none,mq-deadline", "wbt_lat_usec=0,2000"])
def test_the_way_that_writes_nothing_is_named_and_is_not_refused(option):
    mgr = a_mgr()
    asked = {"option": option, "loads": "batch", "pairs": 4}
    code, _, error = mgr.command("ab", **asked)
    assert code == -errno.EPERM
    way = re.search(r"; --loads=([a-z,]+) writes nothing: add --accept-cost$", error)
    assert mgr.command("ab", **{**asked, "loads": way[1]})[0] == 0


class Undecided(RealAnalysis):
    def start(self, record, done):
        done({"verdict": "insufficient data", "stop": False, "why": "few pairs"}, "")


def test_it_ends_within_what_it_says_is_the_most_however_slow_each_sample_is():
    mgr = FakeMgr(("h0", (tunable("sda", 0),)), make_analysis=Undecided)
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
    mgr = a_mgr(hosts=2)
    seen, campaign_id = set(), None
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
    for command in ("option ls", "campaign show"):
        text = mgr.command(command, **({"campaign_id": campaign_id} if "show" in command else {}))
        assert "scheduler mq-deadline" in text[1]
        assert "write through" not in text[1]
    assert mgr.exceptions == []


@pytest.mark.slow
def test_three_drives_of_a_model_are_pooled_and_other_values_are_not_among_them():
    mgr = a_mgr(hosts=4)
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
    wire(mgr)
    mgr.step()
    again = said(mgr, "option ls")["verdicts"]
    assert sorted(one["interval"] for one in again) == [
        "99% of one drive", "99% of the mean of 4 drives",
    ]


def test_no_verdict_about_an_option_becomes_one_about_cache_modes():
    mgr = a_mgr()
    compared(mgr)
    assert said(mgr, "recommend")["recommendations"] == []
    code, _, error = mgr.command("plan")
    assert code != 0
    assert "nothing was measured yet" in error
    assert mgr.probes["h0"].modes() == {DISK: CacheMode.WRITE_BACK}
    assert mgr.probes["h0"].set_count == 0


def test_where_nothing_differs_no_value_is_called_better():
    mgr = a_mgr(factor=1.0)
    compared(mgr)
    (verdict,) = said(mgr, "option ls")["verdicts"]
    assert verdict["verdict"] == "no material difference"


def test_a_probe_that_is_killed_and_a_mgr_that_is_lost_leave_the_option_as_it_was():
    mgr = a_mgr()
    said(mgr, "ab", option="scheduler=none,mq-deadline")
    for _ in range(40):
        mgr.step()
        if options_of(mgr)[0].value == "none":
            break
    assert options_of(mgr)[0].value == "none"
    mgr.probes["h0"].crash()
    assert options_of(mgr) == BEFORE
    mgr.restart()
    wire(mgr)
    mgr.settle()
    assert options_of(mgr) == BEFORE
    (verdict,) = said(mgr, "option ls")["verdicts"]
    assert verdict["verdict"] == "scheduler mq-deadline"


@pytest.mark.slow
def test_what_somebody_else_sets_meanwhile_is_noticed():
    mgr = a_mgr()
    campaign_id = said(mgr, "ab", option="scheduler=none,mq-deadline")["campaign_id"]
    probe = mgr.probes["h0"]
    for _ in range(2000):
        mgr.step()
        if probe.leased_options:
            probe.set_options(DISK, (OptionValue("scheduler", "kyber"),))
    shown = said(mgr, "campaign show", campaign_id=campaign_id)
    (run,) = shown["run_list"]
    assert run["status"] == "aborted"
    assert options_of(mgr) == BEFORE


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("write_cache=0,1", "durable"), ("fua=0,1", "durable"), ("scheduler=none", "OPTION=A,B"),
        ("cache_mode=writeback,writethrough", "an admin's plan alone"),
        ("scheduler=none,cfq", "its values"),
        ("scheduler=none,none", "no other value"),
        ("max_sectors_kb=4,8", "there is no option"),
        ("writeback_percent=10,20", "has no writeback_percent"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_what_cannot_be_compared_is_refused_by_name(option, words, dry_run):
    mgr = a_mgr()
    code, _, error = mgr.command("ab", option=option, dry_run=dry_run)
    assert code != 0
    assert words in error
    assert said(mgr, "campaign ls")["campaigns"] == []


def test_a_load_that_an_option_does_not_touch_is_refused():
    mgr = a_mgr()
    code, _, error = mgr.command("ab", option="scheduler=none,kyber", loads="timer")
    assert code != 0
    assert "does nothing to the load timer" in error
    assert "traffic,batch,4m" in error

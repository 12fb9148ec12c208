"""One host's word is not enough for what is recommended to another."""

import math
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import ok, said, settled, start
from test_recommendations import BACK, BATCH, FEW, SAME, THROUGH, TIMER, result
from wcache.core.host_report import DriveKind
from wcache.core.model import Role, Transport, Verdict
from wcache.core.verdict.hosts_by_model import hosts_by_model
from wcache.core.verdict.recommend import recommend
from wcache.core.verdict.result import PoolTerm

KEY = DriveKind("hdd", str(make.MODEL), False)
TWO = {KEY: frozenset({"h1", "h2"})}


def advice(*results, at_home=TWO):
    (found,) = recommend(results, at_home=at_home)
    return found


def on(hostname, **changes):
    return result(hostname=hostname, record_id=f"r-{hostname}", **changes)


@pytest.mark.parametrize("verdict", [THROUGH, BACK, SAME])
def test_a_model_on_two_hosts_is_decided_by_two_of_them(verdict):
    assert advice(on("h1", verdict=verdict)).verdict is Verdict.INSUFFICIENT
    assert advice(on("h1", verdict=verdict), on("h2", verdict=verdict)).verdict is verdict


def test_the_host_to_measure_next_is_named():
    found = advice(on("h1"))
    assert found.mode is None
    said = "only h1 reached this verdict, and a second host must confirm it (h1, h2 have"
    assert said in found.why
    assert "`ceph wcache campaign start --scope=host:h2`" in found.why


def test_a_host_that_was_measured_and_is_undecided_is_named_where_no_other_is_left():
    found = advice(on("h1"), on("h2", verdict=FEW, ratio=5.0))
    assert found.verdict is Verdict.INSUFFICIENT
    assert "measure on h2, which is undecided, with more pairs" in found.why


def test_two_drives_of_one_host_are_one_word_and_so_is_another_load_than_that_which_decides():
    first, second = on("h1"), replace(on("h1"), drive_id="w1", record_id="r2")
    assert advice(first, second).mode is None
    assert advice(on("h1"), on("h2", load=TIMER)).mode is None
    assert advice(on("h1"), on("h2", load=BATCH)).mode is not None


def test_a_model_on_one_host_needs_no_other():
    other = {KEY._replace(device_class="ssd"): frozenset({"h1", "h2"})}
    for at_home in ({KEY: frozenset({"h1"})}, {}, other):
        assert advice(on("h1"), at_home=at_home).verdict is THROUGH
    assert advice(on("gone"), at_home={KEY: frozenset({"h1"})}).mode is None, "no such drive now"


TERM = PoolTerm(math.log(1.25), 0.01, Transport.SCSI, Role.BLOCK, "20", 1)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [((1.3, 1.25, 1.05), THROUGH), ((1.9, 1.05, 1.02), Verdict.INSUFFICIENT)],
)
def test_where_only_a_pool_decides_two_hosts_must_lie_on_its_side(ratios, verdict):
    each = [
        on(f"h{i}", verdict=FEW, ratio=ratio, ratio_low=0.9, ratio_high=2.0, pool_term=TERM)
        for i, ratio in enumerate(ratios)
    ]
    found = advice(*each)
    assert found.loads[0].pooled
    assert found.verdict is verdict


def test_a_drive_that_cannot_be_switched_makes_its_host_no_home():
    reports, cluster = make.fleet(3, 1)
    shared = replace(reports[1].drives[0], foreign_uses=("a file system",))
    reports[1] = replace(reports[1], drives=(shared,))
    assert hosts_by_model(reports, cluster, throwaway=False) == {KEY: frozenset({"h0", "h2"})}


def test_simulated_and_real_drives_have_homes_of_their_own():
    reports, cluster = make.fleet(2, 1)
    reports[1] = replace(reports[1], simulated=True)
    found = hosts_by_model(reports, cluster, throwaway=False)
    assert found[KEY] == frozenset({"h0"})
    assert found[("", str(make.MODEL), True)] == frozenset({"h1"})


def test_a_campaign_on_one_of_two_hosts_plans_nothing_and_the_other_one_settles_it():
    mgr = FakeMgr(("h1", (make.drive("sda", 0),)), ("h2", (make.drive("sdb", 1),)))
    mgr.report_all()
    start(mgr, scope="host:h1")
    settled(mgr)
    (found,) = said(mgr, "recommend")["recommendations"]
    assert (found["verdict"], found["mode"]) == ("insufficient data", None)
    assert "--scope=host:h2" in ok(mgr.command("recommend"))
    plan = said(mgr, "plan")
    assert plan["changes"] == []
    assert "--scope=host:h2" in plan["left_alone"][0]
    start(mgr, scope="host:h2")
    settled(mgr)
    assert len(said(mgr, "plan")["changes"]) == 2

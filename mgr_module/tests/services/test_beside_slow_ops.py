"""Slow operations are when people ask: what costs their clients little is measured beside them."""

import errno
import random
from dataclasses import replace

import pytest
from bench_decision import synthetic
from module_world import WB, a_mgr, all_modes, fine, ok, refused, said, settled, start
from pooled import pooled as pool
from wcache.analysis.decision import Materiality
from wcache.analysis.experiment import analyse, analysed
from wcache.core.cluster import SlowOsd
from wcache.core.record import Precondition
from wcache.core.verdict.pooling import unlike
from wcache.core.verdict.repeated import standing
from wcache.engine.storing.archive import RECORD

SLOW, CLEAN = Precondition.NO_SLOW_OPS, Precondition.PGS_CLEAN


def miss(mgr, *items):
    """What does not hold; slow operations are those of every OSD."""
    slow = frozenset(mgr.view.state.osds) if SLOW in items else frozenset()
    mgr.view.state = replace(mgr.view.state, missed=items, slow_op_osds=slow)


def records(mgr):
    return [mgr.inside.archive.get(RECORD, name) for name in mgr.inside.archive.names(RECORD)]


def test_a_bench_is_refused_beside_slow_operations_and_what_is_not_is_named():
    mgr = a_mgr()
    miss(mgr, SLOW)
    said_so = refused(mgr, "campaign start", errno.EPERM, loads="traffic,depth1", accept_cost=True)
    assert (
        "3 drives passed over, of which an OSD has slow operations (SLOW_OPS): osd.0, osd.1, osd.2"
    ) in said_so
    for way in ("--loads=traffic", "--observe", "ceph wcache try"):
        assert way in said_so


@pytest.mark.slow
@pytest.mark.parametrize("others", [(), (Precondition.NO_SCRUB,)])
def test_traffic_is_measured_beside_them_and_its_records_say_so(others):
    mgr = a_mgr()
    miss(mgr, SLOW, *others)
    start(mgr, loads="traffic")
    mgr.settle()
    found = records(mgr)
    assert len(found) == 3
    assert all(SLOW in record.missed_preconditions for record in found)
    assert not any(record.forced for record in found)
    fine(mgr)


def test_a_try_works_beside_them():
    mgr = a_mgr()
    miss(mgr, SLOW)
    assert said(mgr, "try", dry_run=True)["in_the_way"] == []
    said(mgr, "try", accept_cost=True)
    settled(mgr)
    assert {record.setup.load_point.value for record in records(mgr)} == {"osd_bench_depth1"}
    assert all(SLOW in record.missed_preconditions for record in records(mgr))
    assert said(mgr, "try")["state"] == "answer"


def test_a_look_that_toggles_nothing_works_beside_them_and_each_table_says_so():
    mgr = a_mgr()
    miss(mgr, SLOW)
    campaign_id = said(mgr, "campaign start", observe=True)["campaign_id"]
    mgr.settle()
    tables = said(mgr, "campaign show", campaign_id=campaign_id)["observed"]
    assert tables
    assert all(one["unmet"] == [SLOW.value] for one in tables)
    plain = ok(mgr.command("campaign show", campaign_id=campaign_id))
    assert "OSDs or mons have slow operations (SLOW_OPS) meanwhile" in plain


@pytest.mark.parametrize("arguments", [
    {"loads": "traffic"}, {"observe": True},
])
def test_in_a_cluster_that_is_not_healthy_nothing_is_measured(arguments):
    mgr = a_mgr()
    miss(mgr, SLOW, Precondition.CLUSTER_HEALTHY)
    refused(mgr, "campaign start", errno.EPERM, **arguments)
    refused(mgr, "try", errno.EPERM, accept_cost=True)


def under_way(loads, steps=8):
    mgr = a_mgr()
    mgr.now_s += 60.0  # a mgr this old has heard from every PG
    mgr.report_all()
    start(mgr, loads=loads)
    mgr.steps(steps)
    assert mgr.engine.is_active()
    return mgr


@pytest.mark.slow
@pytest.mark.parametrize("other", [
    CLEAN, Precondition.NO_RECOVERY, Precondition.NO_SCRUB, SLOW, Precondition.NO_SLOW_BLUESTORE,
])
def test_what_goes_on_elsewhere_forbids_nothing_and_is_recorded_but_for_slow_operations(other):
    mgr = a_mgr()
    mgr.view.state = replace(mgr.view.state, missed=(other,), checks=("OSD_DOWN", "SLOW_OPS"))
    start(mgr, loads="depth1")
    mgr.settle()
    found = records(mgr)
    slow = other in (SLOW, Precondition.NO_SLOW_BLUESTORE)
    assert {record.missed_preconditions for record in found} == {() if slow else (other,)}
    assert {record.checks for record in found} == {("OSD_DOWN", "SLOW_OPS")}


def test_an_osd_that_moves_data_or_has_the_alert_is_measured_and_its_records_say_so():
    mgr = a_mgr()
    mgr.view.state = replace(
        mgr.view.state, busy=frozenset([0]), slow_osds=(SlowOsd(1, 1.0, 2.0),)
    )
    start(mgr, loads="depth1", drives_per_model=4)
    mgr.settle()
    found = {record.setup.osd_id: record.missed_preconditions for record in records(mgr)}
    busy, alert = (Precondition.NOT_BUSY,), (Precondition.NO_SLOW_BLUESTORE,)
    assert found == {0: busy, 1: alert, 2: ()}
    words = "an OSD on the drive moved data meanwhile"
    for record in records(mgr):
        told = analyse(record, Materiality())["warnings"]
        assert (words in told) is (record.setup.osd_id == 0)


def test_slow_operations_that_come_meanwhile_are_noted_and_end_nothing_gentle():
    mgr = under_way("traffic")
    miss(mgr, SLOW)
    mgr.step(6.0)
    miss(mgr)
    mgr.restart()  # what was noted outlives the mgr
    mgr.settle()
    found = records(mgr)
    assert [SLOW in record.missed_preconditions for record in found].count(True) >= 1
    assert all(run.state.reason == "" for run in mgr.inside.runs.values())
    fine(mgr)


@pytest.mark.parametrize(("loads", "missed", "words"), [
    ("depth1", (SLOW,), "has slow operations"),
    ("traffic", (SLOW, Precondition.CLUSTER_HEALTHY), "preconditions no longer met"),
])
def test_what_it_does_not_bear_ends_it_and_the_drive_is_given_back(loads, missed, words):
    mgr = under_way(loads)
    miss(mgr, *missed)
    mgr.step(6.0)
    mgr.settle()
    reasons = {run.state.reason for run in mgr.inside.runs.values()}
    assert any(words in reason for reason in reasons)
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_a_record_of_quiet_times_says_nothing_of_slow_operations():
    mgr = a_mgr()
    miss(mgr, SLOW)
    start(mgr, loads="traffic")
    miss(mgr)  # before the first run began
    mgr.settle()
    assert not any(SLOW in record.missed_preconditions for record in records(mgr))


def results(*slow):
    """A result for each: whether it was measured beside slow operations."""
    found = []
    for number, missed in enumerate(slow):
        draw = synthetic.lognormal(random.Random(number), ratio=4.0, sample_sd=0.05, period_sd=0.01)
        setup = replace(
            synthetic.SETUP, domain_id=f"d{number}", drive_id=f"w{number}", hostname=f"h{number}"
        )
        record = replace(
            synthetic.record(draw, 8, setup=setup), record_id=f"r{number}",
            missed_preconditions=(SLOW,) if missed else (),
        )
        answer = analyse(record, Materiality())
        found.append((answer, analysed(record, answer).result))
    return found


def test_they_are_pooled_with_their_like_only():
    alike, mixed = results(True, True, True), results(True, True, False)
    assert pool([answer for answer, _ in alike], Materiality())["drives"] == 3
    assert len({str(answer["alike"]) for answer, _ in mixed}) == 2

    def told(found):
        return unlike(standing([result for _, result in found]))

    assert told(alike) == ""
    assert told(mixed) == "they differ in slow operations meanwhile (no, yes)"
    assert any("beside slow operations" in line for line in alike[0][1].warnings)


def test_of_one_drive_they_are_weighed_with_their_like_only():
    (_, one), (_, other), (_, quiet) = results(True, True, False)
    other, quiet = (
        replace(result, hostname=one.hostname, drive_id=one.drive_id, ended_at_s=one.ended_at_s - n)
        for n, result in enumerate((other, quiet), 1)
    )
    (found,) = standing([one, other, quiet])
    assert set(found.record_ids) == {one.record_id, other.record_id}

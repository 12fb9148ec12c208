"""OSDs that are not well: left alone, waited for, and another drive is measured in their place."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, all_modes, ok, said, start, taken_over, until
from module_world import of_one_model as a_mgr
from wcache.core.experiment.observing_run import NO_SAMPLE
from wcache.core.experiment.period import Stage
from wcache.core.experiment.run import ILL_WAIT_S
from wcache.core.experiment.run_state import RunStatus
from wcache.core.model import DriveModel, Role, Transport
from wcache.core.record import Precondition
from wcache.engine.storing.archive import CAMPAIGN, RECORD

ILL = "has PGs that are active+undersized+degraded"


def is_ill(mgr, *osd_ids):
    mgr.view.state = replace(mgr.view.state, ill=dict.fromkeys(osd_ids, ILL))


STALE = "PGs are stale"


def is_sick(mgr, *why):
    """As long as PGs of an OSD that went down are not reported by another."""
    missed = (Precondition.CLUSTER_HEALTHY,) if why else ()
    mgr.view.state = replace(mgr.view.state, missed=missed, sick=why)


def runs(mgr):
    return mgr.inside.runs


def statuses(mgr):
    return [run.state.status.value for run in runs(mgr).values()]


def pairs_of(mgr):
    found = mgr.inside.archive.all(RECORD)
    return {name: len(record.pairs) for name, record in found.items()}


def measuring(mgr, **arguments):
    """The OSD of a run that is in its third pair."""
    start(mgr, **{"loads": "depth1", "drives_per_model": 2, **arguments})
    until(mgr, lambda: len(runs(mgr)["c1.0"].periods[0]) >= 5, seconds=0.3)
    return runs(mgr)["c1.0"].spec.experiments[0].osd_id


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
def test_the_drive_goes_back_at_once_and_the_run_goes_on_when_its_osd_is_well(restarts):
    mgr = a_mgr()
    osd_id = measuring(mgr)
    run = runs(mgr)["c1.0"]
    is_ill(mgr, osd_id)
    until(mgr, lambda: runs(mgr)["c1.0"].state.ill_since_s)
    mgr.steps(4)
    drive = next(iter(mgr.probes[run.spec.hostname].drives.values()))
    assert drive.mode is WB
    assert runs(mgr)["c1.0"].state.priors == ()
    show = said(mgr, "campaign show", campaign_id="c1")["run_list"][0]
    assert show["status"] == "running"
    assert ILL in show["reason"]
    assert show["given_back"]
    told = ok(mgr.command("campaign show", campaign_id="c1"))
    (line,) = [each for each in told.splitlines() if each.startswith("c1.0 ")]
    assert "under lease" not in line
    for words in (f"waiting, {show['waits_s']:.0f}", "given back", f"waiting: osd.{osd_id} {ILL}"):
        assert words in line
    if restarts:
        mgr.restart()
        mgr.now_s += 61.0
    is_ill(mgr)
    mgr.settle()
    assert {one.state.status for one in runs(mgr).values()} == {RunStatus.DONE}
    assert len(runs(mgr)) == 2
    assert all_modes(mgr) == {WB}
    assert mgr.exceptions == []


@pytest.mark.slow
def test_one_that_stays_ill_keeps_its_pairs_and_another_drive_is_measured_in_its_place():
    mgr = a_mgr()
    osd_id = measuring(mgr)
    is_ill(mgr, osd_id)
    mgr.settle()
    ill, taken = runs(mgr)["c1.0"], runs(mgr)["c1.2"]
    assert ill.state.status is RunStatus.ABORTED
    assert ill.state.ill_since_s
    assert taken.spec.instead_of == "c1.0"
    assert taken.state.status is RunStatus.DONE
    assert taken.spec.osd_ids.isdisjoint({osd_id, *runs(mgr)["c1.1"].spec.osd_ids})
    assert 1 <= pairs_of(mgr)["c1.0.0"] < pairs_of(mgr)["c1.2.0"]
    assert mgr.inside.archive.all(CAMPAIGN)["c1"].run_ids == ("c1.0", "c1.1", "c1.2")
    shown = ok(mgr.command("campaign show", campaign_id="c1"))
    assert "in the place of c1.0" in shown
    assert all_modes(mgr) == {WB}
    taken_over(mgr)
    mgr.steps(20)
    assert len(runs(mgr)) == 3, "a new mgr takes no other one for it"


@pytest.mark.slow
def test_a_drive_that_is_ill_when_its_turn_comes_is_passed_over():
    mgr = a_mgr()
    mgr.options = replace(mgr.options, parallel_hosts_max=1)
    start(mgr, loads="depth1", drives_per_model=2)
    waits = runs(mgr)["c1.1"]
    is_ill(mgr, *waits.spec.osd_ids)
    mgr.settle()
    assert "not measured" in runs(mgr)["c1.1"].state.reason
    assert runs(mgr)["c1.2"].spec.instead_of == "c1.1"
    assert runs(mgr)["c1.2"].state.status is RunStatus.DONE


def test_no_more_drives_are_taken_than_were_sampled_and_none_that_is_ill():
    mgr = a_mgr()
    mgr.options = replace(mgr.options, parallel_hosts_max=1)
    start(mgr, loads="depth1", drives_per_model=2)
    is_ill(mgr, *range(8))
    mgr.settle()
    assert [one.spec.osd_ids for one in runs(mgr).values()][2:] == [{8}]
    assert runs(mgr)["c1.2"].state.status is RunStatus.DONE
    many = a_mgr()
    many.options = replace(many.options, parallel_hosts_max=1)
    start(many, loads="depth1", drives_per_model=2)
    for osd_id in range(9):
        is_ill(many, *[one for one in range(9) if one != osd_id])
        until(many, lambda: len(runs(many)) > 1)
    is_ill(many, *range(9))
    many.settle()
    assert len(runs(many)) <= 4


def test_an_osd_that_restarts_ends_nothing_where_its_pgs_are_out_of_reach_for_seconds():
    mgr = a_mgr()
    osd_id = measuring(mgr)
    well = mgr.view.state
    mgr.view.state = replace(well, osds={**well.osds, osd_id: replace(well.osds[osd_id], up=False)})
    is_sick(mgr, STALE)
    until(mgr, lambda: runs(mgr)["c1.0"].state.ill_since_s)
    mgr.steps(8)
    assert all_modes(mgr) == {WB}
    assert "waiting: preconditions no longer met: the cluster is not healthy: PGs are stale" in (
        run.state.reason for run in runs(mgr).values()
    )
    is_sick(mgr)
    until(mgr, lambda: "is not up and in" in runs(mgr)["c1.0"].state.reason)
    mgr.view.state = well
    mgr.settle()
    assert statuses(mgr) == ["done", "done"]
    assert all_modes(mgr) == {WB}


@pytest.mark.parametrize("stays", [False, True])
def test_a_cluster_that_is_sick_is_waited_for_by_all_runs_and_not_for_ever(stays):
    mgr = a_mgr(hosts=4, each=2)
    mgr.options = replace(mgr.options, parallel_hosts_max=2)
    measuring(mgr, drives_per_model=4)
    assert statuses(mgr) == ["running", "running", "waiting", "waiting"]
    is_sick(mgr, STALE)
    begun_s = mgr.now_s
    until(mgr, lambda: mgr.now_s > begun_s + ILL_WAIT_S - 10.0)
    assert statuses(mgr) == ["running", "running", "waiting", "waiting"]
    assert all_modes(mgr) == {WB}
    if not stays:
        is_sick(mgr)
    mgr.settle()
    assert statuses(mgr) == (["aborted"] * 4 if stays else ["done"] * 4)
    assert all(STALE in run.state.reason for run in runs(mgr).values()) is stays
    assert mgr.now_s < begun_s + ILL_WAIT_S + 20.0 or not stays
    assert all_modes(mgr) == {WB}


@pytest.mark.parametrize("stays", [False, True])
def test_runs_whose_turn_comes_in_a_sick_cluster_wait_and_say_for_what(stays):
    mgr = a_mgr()
    start(mgr, loads="depth1", drives_per_model=2)
    is_sick(mgr, STALE)
    mgr.steps(20)
    assert statuses(mgr) == ["waiting", "waiting"]
    words = "preconditions not met: the cluster is not healthy: PGs are stale"
    assert {run.state.reason for run in runs(mgr).values()} == {f"waiting: {words}"}
    if not stays:
        is_sick(mgr)
    mgr.settle()
    assert statuses(mgr) == (["aborted"] * 2 if stays else ["done"] * 2)
    if stays:
        assert {run.state.reason for run in runs(mgr).values()} == {f"not measured: {words}"}


@contextmanager
def observing(mgr, loads):
    """A run that observes is in its load, which does not end."""
    start(mgr, scope="osd.0", observe=True, loads=loads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mgr.loads, "run", lambda: None)
        until(mgr, lambda: runs(mgr)["c1.0"]._now.phase is Stage.MEASURING, seconds=0.3)
        patch.setattr(mgr, "probes", {})
        yield


@pytest.mark.parametrize("loads", ["traffic", "timer"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_observed_waits_too_and_is_observed_anew(loads, restarts):
    mgr = a_mgr(hosts=1, each=1)
    with observing(mgr, loads):
        is_ill(mgr, 0)
        until(mgr, lambda: runs(mgr)["c1.0"].state.ill_since_s)
    run = runs(mgr)["c1.0"]
    assert mgr.inside.measuring.under_way == {}, "the load is called back"
    assert mgr.inside.hosts.tasks == {}
    if restarts:
        mgr.restart()
        mgr.now_s += 61.0
    mgr.steps(10)
    shown = said(mgr, "campaign show", campaign_id="c1")["run_list"][0]
    assert (shown["status"], shown["given_back"]) == ("running", False)
    assert ILL in shown["reason"]
    is_ill(mgr)
    mgr.settle()
    assert statuses(mgr) == ["done"]
    (seen,) = runs(mgr)["c1.0"].state.observed
    assert seen.note == ("" if seen.table.n else NO_SAMPLE), "this mgr has no samples of traffic"
    assert seen.started_at_s >= run.state.ill_since_s + ILL_WAIT_S


@pytest.mark.parametrize(("loads", "why"), [("traffic", "stays"), ("depth1", "writes")])
def test_what_is_observed_ends_where_osds_stay_ill_or_it_would_write_twice(loads, why):
    mgr = a_mgr(hosts=1, each=1)
    begun_s = mgr.now_s
    with observing(mgr, loads):
        is_ill(mgr, 0)
        until(mgr, lambda: mgr.now_s > begun_s + 10.0)
    until(mgr, lambda: runs(mgr)["c1.0"].over)
    assert runs(mgr)["c1.0"].state.unfit
    assert runs(mgr)["c1.0"].state.reason == f"stopped: osd.0 {ILL}"
    assert (mgr.now_s - begun_s < 20.0) is (why == "writes")


def test_what_is_sick_beside_maintenance_ends_runs_at_once():
    mgr = a_mgr()
    measuring(mgr)
    is_sick(mgr, STALE)
    missed = (Precondition.CLUSTER_HEALTHY, Precondition.NO_MAINTENANCE)
    mgr.view.state = replace(mgr.view.state, missed=missed)
    until(mgr, lambda: runs(mgr)["c1.0"].over)
    assert runs(mgr)["c1.0"].state.reason == (
        "stopped: preconditions no longer met: the cluster is not healthy: PGs are stale; "
        "noout is set"
    )


def test_another_drive_is_taken_though_the_cluster_is_sick_when_the_first_ends():
    mgr = a_mgr()
    mgr.options = replace(mgr.options, parallel_hosts_max=1)
    start(mgr, loads="depth1", drives_per_model=2)
    until(mgr, lambda: len(runs(mgr)["c1.0"].periods[0]) >= 5, seconds=0.3)
    is_ill(mgr, *runs(mgr)["c1.0"].spec.osd_ids)
    until(mgr, lambda: runs(mgr)["c1.0"].state.ill_since_s)
    until(mgr, lambda: mgr.now_s > runs(mgr)["c1.0"].state.ill_since_s + ILL_WAIT_S - 3.0)
    is_sick(mgr, STALE)
    until(mgr, lambda: runs(mgr)["c1.0"].over)
    mgr.steps(20)
    assert len(runs(mgr)) == 2
    is_sick(mgr)
    mgr.settle()
    assert runs(mgr)["c1.2"].spec.instead_of == "c1.0"
    assert runs(mgr)["c1.2"].state.status is RunStatus.DONE


@pytest.mark.parametrize("how", ["stop", "blocked", "frozen"])
def test_none_is_taken_where_an_admin_ended_it_or_nothing_is_measured_anyway(how):
    mgr = a_mgr()
    osd_id = measuring(mgr)
    if how == "blocked":
        mgr.view.state = replace(mgr.view.state, missed=(Precondition.CLUSTER_HEALTHY,))
    else:
        is_ill(mgr, osd_id)
        until(mgr, lambda: runs(mgr)["c1.0"].state.ill_since_s)
        stop = {"stop": ("campaign stop", {"campaign_id": "c1"}), "frozen": ("freeze", {})}[how]
        ok(mgr.command(stop[0], **stop[1]))
    mgr.settle()
    assert len(runs(mgr)) == 2
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_what_another_may_write_is_what_is_left_of_what_was_consented_to():
    mgr = a_mgr()
    mgr.options = replace(mgr.options, experiment_bytes_max=2_000_000)
    measuring(mgr)
    is_ill(mgr, *runs(mgr)["c1.0"].spec.osd_ids)
    mgr.settle()
    ill, taken = runs(mgr)["c1.0"], runs(mgr)["c1.2"]
    assert 0 < taken.spec.bytes_max < ill.spec.bytes_max
    assert ill.bytes_spent + taken.spec.bytes_max <= ill.spec.bytes_max


DB = DriveModel("ACME", "DB1", "2")


def with_db():
    """A host with a DB drive of ten OSDs, and their block drives."""
    drives = [make.drive(f"sd{chr(97 + n)}", n, drive_id=f"wwn-b{n}") for n in range(10)]
    drives.append(make.drive(
        "nvme0n1", *range(10), roles=(Role.DB,), drive_model=DB, transport=Transport.NVME,
        rotational=False, drive_id="wwn-db",
    ))
    mgr = FakeMgr(("h1", tuple(drives)))
    mgr.now_s += 61.0
    mgr.view.state = make.cluster([
        make.osd(n, "h1", dedicated_db=True) for n in range(10)
    ])
    mgr.report_all()
    return mgr


def of_db(mgr):
    return next(one for one in runs(mgr).values() if len(one.spec.osd_ids) == 10)


def test_all_osds_that_share_a_drive_must_be_allowed_to_stop_and_one_alone_is_not_asked_for():
    mgr = with_db()
    mgr.stops.most = 0
    start(mgr, loads="depth1", drives_per_model=1)
    mgr.steps(40)
    shared = [groups for groups in mgr.stops.asked if len(groups[0]) > 1]
    assert {*shared} == {(tuple(range(10)),)}
    assert [groups for groups in mgr.stops.asked if len(groups[0]) == 1] == []
    assert len(shared) <= 2, "the mons are asked now and then"
    waiting = [one for one in runs(mgr).values() if not one.over]
    assert {one.state.status for one in waiting} == {RunStatus.WAITING}
    assert all("ok-to-stop` does not allow osd.0" in one.state.reason for one in waiting)
    assert all_modes(mgr) == {WB}
    mgr.stops.most = 1000
    mgr.settle()
    assert of_db(mgr).state.status is RunStatus.DONE
    assert of_db(mgr).state.reason == ""


@pytest.mark.parametrize("allowed", [True, False])
def test_the_mons_are_asked_again_before_a_run_goes_on(allowed):
    mgr = with_db()
    mgr.stops.most = 1000
    start(mgr, loads="depth1", drives_per_model=1)
    until(mgr, lambda: of_db(mgr).state.status is RunStatus.RUNNING)
    is_ill(mgr, 9)
    until(mgr, lambda: of_db(mgr).state.ill_since_s)
    asked = len(mgr.stops.asked)
    mgr.stops.most = 1000 if allowed else 0
    is_ill(mgr)
    until(mgr, lambda: of_db(mgr).over or not of_db(mgr).state.ill_since_s)
    assert {len(groups[0]) for groups in mgr.stops.asked[asked:]} == {10}
    if not allowed:
        assert of_db(mgr).state.unfit
        assert "stopped: `ceph osd ok-to-stop` does not allow osd.0" in of_db(mgr).state.reason
    mgr.settle()
    wanted = RunStatus.DONE if allowed else RunStatus.ABORTED
    assert of_db(mgr).state.status is wanted
    assert all_modes(mgr) == {WB}


@pytest.mark.slow
def test_of_a_db_drive_each_of_its_osds_counts():
    mgr = with_db()
    is_ill(mgr, 9)
    code, _, error = mgr.command("campaign start", scope="osd.0", loads="timer")
    assert code == 0, error
    assert all(9 not in one.spec.osd_ids for one in runs(mgr).values())
    told = said(mgr, "campaign show", campaign_id="c1")["skipped"]
    assert any(f"an OSD {ILL}: osd.9" in line for line in told)
    mgr.settle()
    is_ill(mgr)
    start(mgr, scope="osd.0", loads="timer")
    until(mgr, lambda: of_db(mgr).state.status is RunStatus.RUNNING)
    is_ill(mgr, 9)
    until(mgr, lambda: of_db(mgr).state.ill_since_s)
    is_ill(mgr)
    mgr.settle()
    assert all_modes(mgr) == {WB}


def test_what_an_osd_tells_of_data_that_it_moves_is_recorded_of_its_run():
    """The target of a backfill is in no acting set, so no map shows it busy."""
    mgr = a_mgr()
    measuring(mgr, drives_per_model=1)
    assert Precondition.NOT_BUSY not in runs(mgr)["c1.0"].state.unmet
    mgr.loads.moved = True
    mgr.settle()
    assert Precondition.NOT_BUSY in runs(mgr)["c1.0"].state.unmet
    (name,) = mgr.inside.archive.names(RECORD)
    assert Precondition.NOT_BUSY in mgr.inside.archive.get(RECORD, name).missed_preconditions

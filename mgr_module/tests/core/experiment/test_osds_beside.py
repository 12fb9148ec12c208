"""A drive that serves several OSDs is watched through all of them while it is toggled."""

from dataclasses import replace

import pytest
from campaign_world import a_host, options, runs_of
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import all_modes, fine, start
from run_world import begun
from wcache.core import events
from wcache.core.errors import NotFoundError
from wcache.core.experiment.budget import client_wait_s
from wcache.core.experiment.run_state import RunStatus
from wcache.core.experiment.schedule import TrySample, cheapest
from wcache.core.loads import WATCHED_MAX
from wcache.core.model import Arm, LoadPoint, Role
from wcache.core.protocol import ReleaseRequest
from wcache.core.record import CounterDelta

TRAFFIC, D1, M4, TIMER = (
    LoadPoint.OSD_TRAFFIC, LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_4M,
    LoadPoint.FDATASYNC_TIMER,
)
DB = "domain-nvme0n1"


class Watched:
    """A run, and the watches that it asked for."""

    def __init__(self, load, **changes):
        self.mgr = begun(make.setup(load), beside=(4, 7), **changes)
        self.watches = []
        execute = self.mgr.execute

        def noted(action):
            if isinstance(action, events.WatchOsds):
                self.watches.append(action)
            else:
                execute(action)

        self.mgr.execute = noted
        while not self.mgr.measures():
            self.mgr.answer()


@pytest.mark.parametrize(("load", "osd_ids"), [
    (D1, (4, 7)),  # a bench fills the queue of its own OSD
    (M4, (4, 7)),
    (TIMER, (0, 4, 7)),
    (TRAFFIC, (0, 4, 7)),
])
def test_every_osd_on_the_drive_is_watched_from_the_toggle_on(load, osd_ids):
    run = Watched(load)
    (watch,) = run.watches
    assert watch.request.treated == osd_ids
    assert watch.request.latency_limit_ms == 2000.0


def test_one_watch_spans_all_periods_of_an_experiment_and_the_next_has_its_own():
    """A period of 0.1 s and a limit of 2 s: an OSD that stalls would never be seen to."""
    run = Watched(D1)
    run.mgr.finish()
    assert len(run.watches) == len(run.mgr.machine.spec.experiments)
    assert len({watch.token for watch in run.watches}) == len(run.watches)


@pytest.mark.parametrize("load", [D1, TIMER, TRAFFIC])
def test_an_osd_beside_that_is_past_the_limit_ends_the_run_and_the_drive_is_given_back(load):
    run = Watched(load)
    why = "osd.7 took 2500 ms, past the limit of 2000 ms"
    run.mgr.give(events.BlocksEnded("of another run", "too late", True))
    assert run.mgr.measures()
    run.mgr.give(events.BlocksEnded(run.watches[-1].token, why, True))
    assert isinstance(run.mgr.task.request, ReleaseRequest)
    run.mgr.finish()
    assert (run.mgr.machine.state.status, run.mgr.machine.state.reason) == (
        RunStatus.ABORTED, why
    )


def test_a_drive_of_one_osd_costs_no_watch():
    mgr = begun(make.setup(D1))
    while not mgr.machine.over:
        mgr.answer()  # its executor knows no WatchOsds
    assert mgr.records


def test_a_db_drive_is_watched_through_all_its_osds_and_a_block_drive_through_its_own():
    runs, _ = runs_of(a_host(blocks=4), options(TRAFFIC, TIMER))
    found = {
        (run.domain_ids, setup.load_point): (setup.osd_id, run.beside)
        for run in runs for setup in run.experiments
    }
    assert found[(DB,), TIMER] == (0, (1, 2, 3))
    assert found[("domain-sda", DB), TRAFFIC] == (0, (1, 2, 3))
    assert found[("domain-sdb",), TIMER] == (1, ())


def test_a_drive_of_more_osds_than_can_be_watched_is_left_alone():
    db = make.drive("nvme0n1", *range(WATCHED_MAX + 1), roles=(Role.DB,))
    cluster = make.cluster(make.osd(n, "h1") for n in range(WATCHED_MAX + 1))
    world = [make.report("h1", db)], cluster
    with pytest.raises(NotFoundError, match="65 OSDs share it, more than the 64"):
        runs_of(world, options(D1))
    assert runs_of(world, options(D1, observe=True))


def test_what_the_others_wait_longer_in_the_slower_mode_is_client_wait():
    def period(arm, each_s):
        beside = CounterDelta("txc_commit_lat", 1000 * each_s, 1000)
        return replace(make.period(arm), seconds=0.25, settle_s=0.25, beside=beside)

    periods = [period(Arm.A, 0.030), period(Arm.B, 0.010)]
    assert client_wait_s(make.setup(D1), periods) == pytest.approx(20.0)


def test_many_osds_of_little_traffic_have_enough_between_them():
    runs, _ = runs_of(a_host(blocks=4), options(TRAFFIC, D1))
    (alone,) = [run for run in runs if run.domain_ids == ("domain-sdb",)]
    crossed = [run for run in runs if len(run.domain_ids) == 2]
    sample = TrySample(dict.fromkeys(range(4), 30.0), enough_per_s=100.0)
    picked, _ = cheapest([alone, *crossed], options(), sample)
    loads = [setup.load_point for run in picked for setup in run.experiments]
    assert loads == [TRAFFIC]
    assert sample.busy_osds == frozenset()


def shared_db():
    db = make.drive("nvme0n1", 0, 1, 2, roles=(Role.DB,))
    mgr = FakeMgr(("h1", (db,)))
    mgr.report_all()
    return mgr


@pytest.mark.parametrize("loads", ["depth1", "timer", "traffic"])
def test_the_mgr_watches_for_as_long_as_the_drive_is_in_a_mode_of_ours(loads):
    mgr = shared_db()
    before = all_modes(mgr)
    start(mgr, loads=loads)
    while not (mgr.blocks.waiting and any(probe.leased for probe in mgr.probes.values())):
        assert mgr.engine.is_active(), "it was over, and nothing was watched"
        mgr.step()
    (token,) = mgr.blocks.waiting
    request, _, on_end = mgr.blocks.waiting[token]
    assert {1, 2} <= set(request.treated)
    mgr.blocks.cancel(token)
    on_end("osd.2 took 2500 ms, past the limit of 2000 ms", True, False)
    mgr.settle()
    (run,) = mgr.inside.runs.values()
    assert "osd.2" in run.state.reason
    assert all_modes(mgr) == before
    assert mgr.blocks.waiting == {}
    fine(mgr)


@pytest.mark.parametrize("loads", ["depth1", "timer", "traffic"])
def test_no_step_ends_the_watch_but_the_end_of_the_run(loads):
    mgr = shared_db()
    start(mgr, loads=loads)
    tokens = []
    while mgr.engine.is_active():
        mgr.step()
        tokens += mgr.blocks.waiting
    assert len(tokens) > 10
    assert len(set(tokens)) == 1
    assert mgr.blocks.waiting == {}

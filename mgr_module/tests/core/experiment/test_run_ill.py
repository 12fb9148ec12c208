"""OSDs that fall ill in a run: its pair is thrown away, its drives go back, and it waits."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from run_world import OTHER_DRIVE, WB, WT, Mgr
from wcache.core import events
from wcache.core.experiment.run import ILL_TIMES_MAX, ILL_WAIT_S
from wcache.core.experiment.run_state import RunStatus
from wcache.core.loads import WRITE_BYTES
from wcache.core.model import LoadPoint
from wcache.core.protocol import FailureOutcome, ReleaseRequest, SetModeRequest

PLAIN = make.setup(pairs_max=4, watch_samples=8)
CROSSED = make.setup(pairs_max=4, crossed=OTHER_DRIVE)
TIMED = make.setup(LoadPoint.FDATASYNC_TIMER, pairs_max=4)
SLOW = "osd.0 has slow operations"


class Cluster(Mgr):
    """A mgr whose OSDs fall ill at times."""

    def __init__(self, *setups):
        self.ill_at_s = []
        super().__init__(make.run_spec(*setups))
        self.give(events.Begin())

    def falls_ill(self, why=SLOW, lost_after=None, event=None):
        self.ill_at_s.append(self.now_s)
        self.give(event or events.Ill(why), lost_after)
        index = self.machine.state.index
        if not self.machine.over and index < len(self.machine.periods):
            # what is thrown away may be measured anew
            kept = {
                (index, slot.index, slot.second) for slot in self.machine.periods[index]
            }
            self.measured = {key for key in self.measured if key[0] < index} | kept

    @property
    def goes_back(self):
        return self.task is not None and isinstance(self.task.request, ReleaseRequest)

    def goes_back_wholly(self):
        """Whatever is asked for is answered, until nothing is asked for any more."""
        for _ in range(20):
            if not self.goes_back:
                break
            assert self.machine.state.status is RunStatus.RUNNING
            before = self.task
            self.answer()
            if self.task is before:
                self.task = None
        assert set(self.modes.values()) == {WB}
        self.began_release = False

    def waits(self):
        """The drives are not touched, whatever comes late."""
        self.task = self.load = self.look = None
        for event in [*self.stale, events.Tick(), events.LeaseLost("it restarted"),
                      events.BlocksEnded("s.1", "silent", silent=True), events.Ill(""),
                      events.Ill(SLOW)]:
            self.now_s += 0.01
            assert not any(
                isinstance(action, (events.GiveTask, events.MeasureLoad))
                for action in self.machine.handle(event, self.now_s)
            ), event
        assert self.machine.state.ill_since_s
        assert self.machine.wake_at_s is None

    def check(self):
        assert set(self.modes.values()) == {WB}
        assert self.machine.state.restored
        self.check_records()
        for record in self.records.values():
            starts = [[p.started_at_s for p in (pair.a, pair.b)]
                      for pair in record.pairs]
            if record.setup.crossed is not None:
                starts = [one + two for one, two in zip(starts[::2], starts[1::2])]
            for at_s in self.ill_at_s:
                assert all(max(one) < at_s or min(one) >= at_s for one in starts)

    def pairs(self):
        return [len(record.pairs) for record in self.records.values()]


def each_moment(*setups):
    """A run before each answer that it waits for."""
    whole = Cluster(*setups)
    answers = 0
    while not whole.machine.over:
        whole.answer()
        answers += 1
    for count in range(answers):
        mgr = Cluster(*setups)
        for _ in range(count):
            mgr.answer()
        if mgr.machine.state.status is RunStatus.RUNNING:
            yield mgr


def each_failure(*setups):
    """A run that waits since a load of it failed, at each load, and of which no map says why."""
    for mgr in each_moment(*setups):
        if mgr.load is not None:
            failed = events.LoadFailed("osd.0 does not answer")
            mgr.falls_ill(event=events.Answered(mgr.load.token, failed))
            assert mgr.machine.state.ill_since_s
            assert "osd.0 does not answer" in mgr.machine.state.reason
            yield mgr


SHAPES = [(PLAIN,), (CROSSED,), (TIMED, PLAIN)]


@pytest.mark.slow
@pytest.mark.parametrize(("setups", "restarts", "lost_after"), [
    *((setups, restarts, None) for setups in SHAPES for restarts in (False, True)),
    *(((PLAIN,), False, actions) for actions in range(4)),  # the mgr is lost meanwhile
])
def test_at_whatever_moment_they_fall_ill_all_is_measured_once_when_they_are_well(
    setups, restarts, lost_after
):
    count = 0
    for mgr in each_moment(*setups):
        count += 1
        mgr.falls_ill(lost_after=lost_after)
        if not mgr.machine.state.ill_since_s:
            mgr.falls_ill()
        if restarts:
            mgr.restart()
        mgr.goes_back_wholly()
        if restarts:
            mgr.restart()
        mgr.waits()
        assert mgr.machine.state.status is RunStatus.RUNNING
        assert mgr.machine.state.priors == (), "nothing is owed while it waits"
        mgr.now_s += ILL_WAIT_S
        mgr.give(events.Ill(""))
        assert mgr.machine.state.reason == ""
        mgr.finish()
        assert mgr.machine.state.status is RunStatus.DONE
        assert set(mgr.pairs()) == {4}
        mgr.check()
    assert count > 20


@pytest.mark.slow
@pytest.mark.parametrize("setups", SHAPES)
def test_those_that_stay_ill_end_it_with_its_complete_pairs(setups):
    kept = set()
    for mgr in each_moment(*setups):
        mgr.falls_ill()
        mgr.goes_back_wholly()
        mgr.now_s += ILL_WAIT_S
        mgr.give(events.Ill(SLOW))
        mgr.finish()
        state = mgr.machine.state
        assert state.status is RunStatus.ABORTED
        assert state.unfit
        assert SLOW in state.reason
        mgr.check()
        kept |= {*mgr.pairs()}
    assert {2, 4} & kept


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("setups", [(PLAIN,), (CROSSED,)])
def test_an_osd_that_fails_its_load_before_the_maps_show_it_ill_is_waited_for(
    setups, stays, restarts
):
    count = 0
    for mgr in each_failure(*setups):
        count += 1
        mgr.goes_back_wholly()
        mgr.now_s += 20.0
        mgr.give(events.Ill("osd.0 is not up and in"))
        assert mgr.machine.state.reason == "waiting: osd.0 is not up and in"
        if restarts:
            mgr.restart()
            mgr.goes_back_wholly()
        mgr.waits()
        mgr.now_s += ILL_WAIT_S
        mgr.give(events.Ill(SLOW if stays else ""))
        mgr.finish()
        status = RunStatus.ABORTED if stays else RunStatus.DONE
        assert (mgr.machine.state.status, mgr.machine.state.unfit) == (status, stays)
        assert stays or {*mgr.pairs()} == {4}
        mgr.check()
    assert count >= 8


@pytest.mark.parametrize("restarts", [False, True])
def test_where_no_map_shows_it_ill_within_the_wait_it_ends_for_the_load_that_failed(restarts):
    kept = set()
    for mgr in each_failure(PLAIN):
        if restarts:
            mgr.restart()
        mgr.goes_back_wholly()
        mgr.now_s += ILL_WAIT_S - 1.0
        mgr.give(events.Ill(""))
        assert mgr.task is None or not mgr.goes_back
        assert mgr.machine.state.status is RunStatus.RUNNING
        mgr.now_s += ILL_WAIT_S
        mgr.give(events.Ill(""))
        mgr.finish()
        state = mgr.machine.state
        assert (state.status, state.unfit) == (RunStatus.ABORTED, False)
        assert state.reason == "osd.0 does not answer"
        mgr.check()
        kept |= {*mgr.pairs()}
    assert {1, 2} <= kept


@pytest.mark.parametrize("spec", [{"forced": True}, {"simulated": True}])
def test_a_load_that_fails_ends_a_run_of_which_no_map_counts(spec):
    mgr = Mgr(make.run_spec(PLAIN, **spec))
    mgr.give(events.Begin())
    while mgr.load is None and not mgr.machine.over:
        mgr.answer()
        if spec.get("simulated") and mgr.machine.state.status is not RunStatus.RUNNING:
            return
    mgr.give(events.Answered(mgr.load.token, events.LoadFailed("osd.0 does not answer")))
    mgr.finish()
    assert mgr.machine.state.status is RunStatus.ABORTED
    assert not mgr.machine.state.ill_since_s


def measuring():
    """A run in its second pair's first period."""
    mgr = Cluster(PLAIN)
    while len([key for key in mgr.periods if key[1] < 1000]) < 3:
        mgr.answer()
    return mgr


def test_what_was_thrown_away_is_paid_for_and_not_counted_by_the_next_mgr():
    mgr = measuring()
    before = mgr.machine.seconds_spent
    mgr.falls_ill()
    assert mgr.machine.seconds_spent >= before
    assert len(mgr.periods) == len({*mgr.periods}), "what is stored of it stays until it is anew"
    stored = mgr.machine.periods[0].keys()
    mgr.restart()
    assert mgr.machine.periods[0].keys() == stored
    assert mgr.machine.seconds_spent >= before


def test_it_goes_on_in_no_less_than_two_minutes_and_only_where_all_are_well():
    mgr = measuring()
    mgr.falls_ill()
    mgr.goes_back_wholly()
    began_s = mgr.now_s
    mgr.now_s = mgr.ill_at_s[0] + ILL_WAIT_S - 0.1
    assert mgr.machine.handle(events.Ill(""), mgr.now_s) == []
    assert began_s < mgr.now_s
    mgr.now_s += 0.1
    mgr.give(events.Ill(""))
    assert mgr.task is not None


def test_a_drive_is_looked_at_anew_before_it_is_touched_and_goes_back_to_what_it_was_then():
    mgr = measuring()
    mgr.falls_ill()
    mgr.goes_back_wholly()
    mgr.modes["domain-sda"] = WT  # somebody's own hand, meanwhile
    mgr.now_s += ILL_WAIT_S
    mgr.give(events.Ill(""))
    assert not isinstance(mgr.task.request, SetModeRequest)
    mgr.finish()
    assert mgr.modes == {"domain-sda": WT}
    assert mgr.machine.state.restored


def test_a_drive_that_does_not_go_back_ends_it():
    mgr = measuring()
    mgr.falls_ill()
    assert mgr.goes_back
    mgr.give(events.Answered(mgr.task.task_id, FailureOutcome("it does not answer")))
    assert mgr.machine.state.status is RunStatus.RELEASING
    mgr.give(events.Answered(mgr.task.task_id, FailureOutcome("it does not answer")))
    assert mgr.machine.over
    assert not mgr.machine.state.restored
    assert mgr.pairs() == [1]


@pytest.mark.parametrize("event", [
    events.Halt("stopped by an admin", by_will=True), events.AgentSilent("nobody answers"),
])
@pytest.mark.parametrize("back", [False, True])
def test_one_that_waits_can_be_ended(event, back):
    mgr = measuring()
    mgr.falls_ill()
    if back:
        mgr.goes_back_wholly()
    mgr.give(event)
    if not mgr.machine.over:
        mgr.answer()
    assert mgr.machine.over
    silent = isinstance(event, events.AgentSilent)
    assert mgr.machine.state.restored is (back or not silent)
    assert mgr.pairs() == [1]


def test_a_drive_that_makes_its_osds_ill_again_and_again_is_left():
    mgr = measuring()
    for _ in range(ILL_TIMES_MAX):
        mgr.falls_ill()
        mgr.goes_back_wholly()
        mgr.now_s += ILL_WAIT_S
        mgr.give(events.Ill(""))
        assert mgr.machine.state.status is RunStatus.RUNNING
    mgr.restart()
    mgr.falls_ill()
    mgr.finish()
    assert mgr.machine.state.unfit
    assert mgr.machine.state.restored


def test_the_bytes_of_what_was_thrown_away_count():
    setup = replace(PLAIN, watch_samples=0)
    mgr = Cluster(setup)
    while len(mgr.periods) < 1:
        mgr.answer()
    written = setup.samples_per_period * WRITE_BYTES[setup.load_point]
    assert mgr.machine.bytes_spent == written
    mgr.falls_ill()
    assert mgr.machine.bytes_spent >= written
    assert mgr.machine.periods == [{}]

"""A run measures each period once, within its budgets, and always ends with a release."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mgr_fakes import builders as make
from wcache.core import actions as act
from wcache.core import codec
from wcache.core.experiment import Slot, coin
from wcache.core.factorial import OTHER, both_sides, measured_in
from wcache.core.loads import SAMPLES, WRITE_BYTES
from wcache.core.model import CacheMode, DeviceCache, FlushCounters, LoadPoint, Role, Transport
from wcache.core.protocol import (
    CountersRequest,
    FailureOutcome,
    ReleaseRequest,
    ReportOutcome,
    SamplesOutcome,
    SetModeRequest,
    StateOutcome,
    TimerRequest,
)
from wcache.core.record import CounterDelta, CrossedDrive, Period, Record
from wcache.core.run import RunMachine
from wcache.core.run_budget import client_wait_s, cost_of
from wcache.core.run_state import RunState, RunStatus

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
OTHER_DRIVE = CrossedDrive(
    "domain-nvme0n1", "wwn-nvme0n1", make.MODEL, Transport.NVME, Role.DB, False
)


def counters():
    return (FlushCounters(1, 2, 3, 4),)


class Mgr:
    """What Engine does with a run's actions; the mgr can be lost after any of them.

    Everything stored goes through the codec, as in the archive.
    """

    def __init__(self, spec):
        self.now_s = 1000.0
        self.stored = codec.dumps(RunState(spec, RunStatus.WAITING))
        self.periods = {}
        self.records = {}
        self.measured = set()
        self.restarts = 0
        self.ended_by = ""
        self.began_release = False
        self.released = set()
        self.bytes_begun = Counter()
        self.modes = {domain_id: WB for domain_id in spec.domain_ids}
        self.stale = []
        self.asked = False  # whether the machine waits for an answer, and not for time
        self._start()

    def _start(self):
        state = codec.loads(RunState, self.stored, bytes_max=10**6, what="run")
        periods = [{} for _ in state.spec.experiments]
        for (index, pair, second), text in self.periods.items():
            found = codec.loads(Period, text, bytes_max=10**6, what="period")
            periods[index][Slot(pair, second)] = found
        self.machine = RunMachine(state, periods, str(self.restarts))
        self.task = self.load = self.look = None

    def restart(self):
        self.restarts += 1
        self.keep_stale()
        self._start()
        self.give(act.Begin())

    def cost(self):
        """What the experiment under way has cost."""
        machine, index = self.machine, self.machine.experiment_index
        setup, waste = machine.spec.experiments[index], machine.state.waste[index]
        return cost_of(setup, machine.periods[index], waste)

    def keep_stale(self):
        if self.task:
            self.stale.append(act.TaskAnswered(self.task.task_id, self.good_outcome()))
        if self.load:
            self.stale.append(act.LoadMeasured(self.load.token, self.good_samples()))
        if self.look:
            self.stale.append(act.Decided(self.look.token, True))

    def give(self, event, lost_after=None):
        """Feed an event and carry out the actions, or only the first `lost_after` of them."""
        todo = self.machine.handle(event, self.now_s)
        self.asked = any(
            isinstance(action, (act.GiveTask, act.MeasureLoad, act.AskAnalysis)) for action in todo
        )
        for index, action in enumerate(todo):
            if lost_after is not None and index >= lost_after:
                self.restart()
                return
            self.execute(action)

    def execute(self, action):
        machine = self.machine
        if isinstance(action, act.GiveTask):
            self.keep_stale()
            self.task, self.load, self.look = action, None, None
            if isinstance(action.request, SetModeRequest):
                assert not self.began_release, "a mode is set after the release began"
                assert self.cost().seconds < machine.spec.seconds_max
            if isinstance(action.request, ReleaseRequest):
                self.began_release = True
                self.released.add(action.request.domain_id)
            if isinstance(action.request, TimerRequest):
                assert action.request.count > 0
        elif isinstance(action, act.MeasureLoad):
            self.load, self.task = action, None
            point = action.request.load_point
            index = machine.experiment_index
            self.bytes_begun[index] += action.request.count * WRITE_BYTES[point]
            assert self.bytes_begun[index] <= machine.spec.bytes_max
        elif isinstance(action, act.AskAnalysis):
            self.look, self.task = action, None
        elif isinstance(action, act.SavePeriod):
            key = (action.experiment_index, action.pair_index, action.second)
            assert key not in self.measured, f"{key} is measured twice"
            self.measured.add(key)
            self.periods[key] = codec.dumps(action.period)
        elif isinstance(action, act.SaveRecord):
            for side in both_sides(action.record):
                text = codec.dumps(side)
                self.records[side.record_id] = codec.loads(
                    Record, text, bytes_max=10**7, what="record"
                )
        elif isinstance(action, act.SaveRun):
            self.stored = codec.dumps(machine.state)
            for key in [k for k in self.periods if k[0] < machine.experiment_index]:
                del self.periods[key]
        elif isinstance(action, act.Note):
            assert action.text

    # ---- answers

    def good_samples(self):
        request = self.load.request
        return act.LoadSamples(
            0.4, (1_000_000,) * request.count, (),
            request.count * WRITE_BYTES[request.load_point],
            at_ns=tuple(range(request.count)) if request.spread else (),
        )

    def good_outcome(self):
        request = self.task.request
        if isinstance(request, SetModeRequest):
            before = self.modes[request.domain_id]
            self.modes[request.domain_id] = request.mode
            after = (make.state(request.mode),)
            changed = before is not request.mode
            return StateOutcome((make.state(before),), after, counters(), changed)
        if isinstance(request, (CountersRequest, ReleaseRequest)):
            now = (make.state(self.modes[request.domain_id]),)
            return StateOutcome(now, now, counters(), False)
        return SamplesOutcome((1_000_000,) * request.count, 0.3, 0)

    def answer(self, lost_after=None):
        """Whatever is waited for comes, and it is good."""
        self.now_s += 0.3
        if self.task:
            task = self.task
            if isinstance(task.request, ReleaseRequest):
                self.ended_by = "release"
            self.give(act.TaskAnswered(task.task_id, self.good_outcome()), lost_after)
        elif self.load:
            token, samples = self.load.token, self.good_samples()
            self.give(act.LoadMeasured(token, samples), lost_after)
        elif self.look:
            self.give(act.Decided(self.look.token, False), lost_after)
        if not self.machine.over and not self.asked and self.machine.wake_at_s is not None:
            self.now_s = max(self.now_s, self.machine.wake_at_s)
            self.give(act.Tick())

    def measures(self):
        """Whether a measurement is under way, so that the next wake is the budget's end."""
        timed = self.task and isinstance(self.task.request, TimerRequest)
        return bool(self.load or timed)

    def finish(self, answers=2000):
        for _ in range(answers):
            if self.machine.over:
                return
            self.answer()
        raise AssertionError(f"not over after {answers} answers: {self.machine}")

    def check_records(self):
        for record in self.records.values():
            assert [pair.index for pair in record.pairs] == list(range(len(record.pairs)))
            assert len(record.pairs) <= record.setup.pairs_max
            for pair in record.pairs:
                assert pair.write_back.mode is WB
                assert pair.write_through.mode is WT
                if record.setup.crossed is None:
                    assert pair.first is coin(record.setup.seed, pair.index)
            if record.setup.crossed is not None:
                check_factorial(self.records, record)


def check_factorial(records, record):
    """Whole replicates, and a record of either drive that tells of the same periods."""
    twin = records[measured_in(record.record_id) or record.record_id + OTHER]
    assert twin.setup.domain_id == record.setup.crossed.domain_id
    assert len(record.pairs) == len(twin.pairs)
    assert len(record.pairs) % 2 == 0
    assert math.isclose(record.seconds - record.interrupted_seconds,
                        twin.seconds - twin.interrupted_seconds)
    for pair in record.pairs:
        for period in (pair.write_back, pair.write_through):
            states = period.crossed.state_before + period.crossed.state_after
            assert {state.device_cache.value for state in states} == {period.crossed.mode.value}
            assert period.crossed.mode is list(CacheMode)[pair.index % 2]


def begun(*setups, **changes):
    mgr = Mgr(make.run_spec(*(setups or (make.setup(),)), **changes))
    mgr.give(act.Begin())
    return mgr


EVENTS = st.sampled_from(
    ["answer"] * 12
    + ["lost mgr"] * 3
    + ["lease", "fail", "load fails", "slow", "unusable", "decided", "no numpy", "silent", "halt",
       "odd", "wrong mode", "stale", "tick", "empty"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_whatever_happens_no_period_is_measured_twice_and_the_run_ends_with_a_release(data):
    setups = [
        make.setup(
            point, seed=index, pairs_max=data.draw(st.integers(4, 8)),
            watch_samples=data.draw(st.sampled_from([0, 6])),
        )
        for index, point in enumerate(
            data.draw(st.lists(st.sampled_from(list(LoadPoint)), min_size=1, max_size=3))
        )
    ]
    if data.draw(st.booleans()):
        setups = [replace(setup, crossed=OTHER_DRIVE) for setup in setups]
    mgr = begun(
        *setups,
        seconds_max=data.draw(st.sampled_from([3.0, 12.0, 1e6])),
        bytes_max=data.draw(st.sampled_from([10**5, 10**7, 2**40])),
    )
    for _ in range(data.draw(st.integers(0, 80))):
        if mgr.machine.over:
            break
        happens(mgr, data.draw(EVENTS), data)
    mgr.finish()
    mgr.check_records()
    assert mgr.machine.state.status in (RunStatus.DONE, RunStatus.ABORTED)
    assert mgr.ended_by
    if "release" in mgr.ended_by and "lasted" not in mgr.ended_by:
        assert mgr.released == set(mgr.machine.spec.domain_ids)
    assert codec.loads(RunState, mgr.stored, bytes_max=10**6, what="run") == mgr.machine.state
    for event in (act.Tick(), act.Begin(), act.Halt("again"), act.LeaseLost("x"), *mgr.stale):
        assert mgr.machine.handle(event, mgr.now_s + 1) == []


def happens(mgr, what, data):  # noqa: C901
    mgr.now_s += 0.1
    if what == "answer":
        mgr.answer()
    elif what == "lost mgr":
        mgr.answer(lost_after=data.draw(st.integers(0, 4)))
    elif what == "lease":
        releasing = isinstance(mgr.task and mgr.task.request, ReleaseRequest)
        mgr.give(act.LeaseLost("the probe was restarted"))
        if releasing and mgr.machine.over:
            mgr.ended_by = "no release that lasted"
            assert not mgr.machine.state.restored
    elif what == "fail" and mgr.task:
        if isinstance(mgr.task.request, ReleaseRequest):
            mgr.ended_by = "failed release"
        outcome = FailureOutcome("x" * 1024, "y" * 1024, restored=False)
        mgr.give(act.TaskAnswered(mgr.task.task_id, outcome))
    elif what == "load fails" and mgr.load:
        mgr.give(act.LoadFailed(mgr.load.token, "osd.0 said\n\x1b[31mno" + "!" * 3000))
    elif what in ("slow", "unusable", "empty") and mgr.load:
        words = {"slow": {"aborted": "too slow"}, "unusable": {"unusable": "no traffic"}}
        found = mgr.good_samples()
        if what == "empty":
            found = replace(found, samples_ns=())
        mgr.give(act.LoadMeasured(mgr.load.token, replace(found, **words.get(what, {}))))
    elif what in ("decided", "no numpy") and mgr.look:
        failed = "" if what == "decided" else "numpy is missing\n"
        mgr.give(act.Decided(mgr.look.token, what == "decided", failed))
    elif what == "silent":
        mgr.ended_by = "silence"
        mgr.give(act.AgentSilent("not heard"))
    elif what == "halt":
        mgr.give(act.Halt("frozen"))
    elif what == "odd" and mgr.task:
        if isinstance(mgr.task.request, ReleaseRequest):
            mgr.ended_by = "failed release"
        mgr.give(act.TaskAnswered(mgr.task.task_id, ReportOutcome(make.report("h1"))))
    elif what == "wrong mode" and mgr.task and isinstance(mgr.task.request, CountersRequest):
        now = (make.state(mgr.modes[mgr.task.request.domain_id].other),)
        mgr.give(act.TaskAnswered(mgr.task.task_id, StateOutcome(now, now, counters(), False)))
    elif what == "stale" and mgr.stale:
        before = mgr.machine.state
        assert mgr.machine.handle(data.draw(st.sampled_from(mgr.stale)), mgr.now_s) == []
        assert mgr.machine.state == before
    elif what == "tick":
        mgr.give(act.Tick())


def test_each_pair_is_in_the_record_once_and_in_the_order_of_the_coin():
    mgr = begun(make.setup(pairs_max=8, seed=3))
    mgr.finish()
    (record,) = mgr.records.values()
    assert len(record.pairs) == 8
    mgr.check_records()
    assert {pair.first for pair in record.pairs} == {WB, WT}
    assert mgr.machine.state.status is RunStatus.DONE
    assert record.bytes_written == 8 * 2 * SAMPLES[LoadPoint.OSD_BENCH_DEPTH1] * 4096


def fading(mgr):
    """What a drive says that is slower for half a second after each toggle."""
    request = mgr.load.request
    at_ns = [int(1e9 * request.seconds * i / request.count) for i in range(request.count)]
    samples = [int(1e6 * (1 + 2 * 2.718 ** (-at / 5e8))) for at in at_ns]
    return replace(mgr.good_samples(), samples_ns=tuple(samples), at_ns=tuple(at_ns))


def watch_it(mgr, disturbed=False):
    """Answer until the first pair begins; what was set before each watch was answered."""
    steps = [[]]
    while not (mgr.load and not mgr.load.request.spread):
        if mgr.task and isinstance(mgr.task.request, SetModeRequest):
            steps[-1].append((mgr.task.request.domain_id, mgr.task.request.mode))
        if mgr.load:
            if disturbed and len(mgr.measured) == 1:
                mgr.give(act.LeaseLost("the probe was restarted"))
                disturbed = False
            elif mgr.load:
                mgr.give(act.LoadMeasured(mgr.load.token, fading(mgr)))
                steps.append([])
        else:
            mgr.answer()
    return steps[:-1]


@pytest.mark.parametrize("crossed", [None, OTHER_DRIVE])
@pytest.mark.parametrize("seed", range(4))
def test_each_watch_begins_with_a_toggle_of_every_drive_of_the_experiment(seed, crossed):
    mgr = begun(make.setup(seed=seed, settle_s=0.4, watch_samples=12, crossed=crossed))
    modes = [coin(seed, 1000), coin(seed, 1000).other, coin(seed, 1001), coin(seed, 1001).other]
    domains = mgr.machine.spec.domain_ids
    assert len(domains) == (1 if crossed is None else 2)
    assert watch_it(mgr) == [
        [(domain_id, mode.other) for domain_id in domains]
        + [(domain_id, mode) for domain_id in domains]
        for mode in modes
    ]


@pytest.mark.parametrize("crossed", [None, OTHER_DRIVE])
def test_the_settling_is_frozen_and_the_same_whatever_interrupts_the_watches(crossed):
    found = []
    for disturbed in (False, True):
        mgr = begun(
            make.setup(seed=1, settle_s=0.4, watch_samples=12, pairs_max=8, crossed=crossed)
        )
        if disturbed:
            mgr.answer()
            mgr.restart()
        watch_it(mgr, disturbed)
        if disturbed:
            mgr.restart()
        mgr.finish()
        record = next(iter(mgr.records.values()))
        assert record.interrupted_periods == (3 if disturbed else 0)
        assert {p.settle_s for p in record.watches} == {0.0}
        assert {p.settle_s for p in record.periods[4:]} == {record.settling.settle_s}
        assert all(p.seconds >= record.settling.settle_s for p in record.periods[4:])
        assert {side.settling for side in mgr.records.values()} == {record.settling}
        found.append((record.settling, [watch.samples_ns for watch in record.watches]))
    assert found[0] == found[1]
    assert 1.0 < found[0][0].settle_s < 4.0


def test_no_numpy_means_a_fixed_number_of_pairs_and_a_record_that_says_so():
    mgr = begun(make.setup(pairs_max=40))
    while not mgr.machine.over:
        if mgr.look:
            mgr.give(act.Decided(mgr.look.token, False, "numpy is missing"))
        mgr.answer()
    (record,) = mgr.records.values()
    assert len(record.pairs) == 8
    assert "numpy is missing" in record.ended


def test_a_halt_during_a_bench_counts_what_the_bench_may_still_write():
    mgr = begun(make.setup(LoadPoint.OSD_BENCH_BATCH))
    while not mgr.load:
        mgr.answer()
    mgr.give(act.Halt("stopped by an admin"))
    assert isinstance(mgr.task.request, ReleaseRequest)
    assert mgr.machine.bytes_spent == sum(mgr.bytes_begun.values())
    mgr.finish()
    assert mgr.machine.state.status is RunStatus.ABORTED
    assert mgr.machine.state.reason == "stopped by an admin"


def test_the_first_period_after_a_restart_is_the_one_that_was_cut_off():
    mgr = begun()
    for _ in range(7):
        mgr.answer()
    done = set(mgr.measured)
    mgr.restart()
    mode = mgr.task.request.mode
    slot = Slot(len(done) // 2, bool(len(done) % 2))
    assert mode is slot.mode(7)


def test_a_restart_while_the_analysis_looks_asks_again_instead_of_measuring_on():
    mgr = begun(make.setup(pairs_max=20))
    while not mgr.look:
        mgr.answer()
    mgr.restart()
    assert mgr.look is not None
    assert len(mgr.look.record.pairs) == 4


def test_budgets_outlive_a_restart_after_an_experiment_was_recorded():
    first, second = make.setup(pairs_max=4), make.setup(pairs_max=4, seed=8)
    mgr = begun(first, second)
    while not mgr.records:
        mgr.answer()
    spent_s, spent_bytes = mgr.machine.seconds_spent, mgr.machine.bytes_spent
    assert spent_bytes == 4 * 2 * SAMPLES[LoadPoint.OSD_BENCH_DEPTH1] * 4096
    mgr.restart()
    assert mgr.machine.seconds_spent >= spent_s
    assert mgr.machine.bytes_spent >= spent_bytes


def test_a_probe_that_restarts_while_it_releases_is_asked_to_prove_the_restore():
    mgr = begun()
    mgr.give(act.Halt("stop"))
    old = mgr.task
    mgr.give(act.LeaseLost("the probe was restarted"))
    assert not mgr.machine.over
    assert mgr.task.task_id != old.task_id
    mgr.give(act.TaskAnswered(mgr.task.task_id, FailureOutcome("no such drive", restored=False)))
    assert mgr.machine.over
    assert not mgr.machine.state.restored


def test_a_probe_that_keeps_restarting_while_it_releases_ends_the_run_unrestored():
    mgr = begun()
    mgr.give(act.Halt("stop"))
    for _ in range(10):
        mgr.give(act.LeaseLost("the probe was restarted"))
    assert mgr.machine.over
    assert not mgr.machine.state.restored


@pytest.mark.parametrize("phase", [SetModeRequest, CountersRequest])
def test_a_probe_that_shows_no_drive_or_the_wrong_mode_proves_nothing(phase):
    for states in ((), (make.state(WB, device_cache=DeviceCache.UNKNOWN),)):
        mgr = begun()
        while not (mgr.task and isinstance(mgr.task.request, phase)):
            mgr.answer()
        saved = set(mgr.measured)
        answer = StateOutcome(states, states, counters(), True)
        mgr.give(act.TaskAnswered(mgr.task.task_id, answer))
        assert mgr.measured == saved


def test_a_drive_changed_behind_our_back_is_measured_again_a_bounded_number_of_times():
    mgr = begun()
    wrong = 0
    while not isinstance(mgr.task and mgr.task.request, ReleaseRequest):
        if mgr.task and isinstance(mgr.task.request, CountersRequest):
            now = (make.state(mgr.modes[mgr.task.request.domain_id].other),)
            outcome = StateOutcome(now, now, counters(), False)
            mgr.give(act.TaskAnswered(mgr.task.task_id, outcome))
            wrong += 1
        else:
            mgr.answer()
    assert wrong == 3
    assert mgr.measured == set()
    assert "3 times in one period" in mgr.machine.state.reason


def test_a_hostile_duration_neither_ends_a_budget_nor_escapes_it():
    timer = make.setup(LoadPoint.FDATASYNC_TIMER)
    mgr = begun(timer, seconds_max=30.0)
    while not mgr.machine.over:
        if mgr.task and isinstance(mgr.task.request, TimerRequest):
            outcome = SamplesOutcome((1,) * 32, -1e12, 0)
            mgr.give(act.TaskAnswered(mgr.task.task_id, outcome))
        else:
            mgr.answer()
    assert mgr.machine.seconds_spent > 0


def test_traffic_is_kept_as_counters():
    mgr = begun(make.setup(LoadPoint.OSD_TRAFFIC, pairs_max=4))
    while not mgr.machine.over:
        if mgr.load:
            delta = (CounterDelta("kv_commit_lat", 1.0, 100),)
            half = (CounterDelta("kv_commit_lat", 0.4, 50),)
            samples = act.LoadSamples(2.0, (), delta, later_counters=half)
            mgr.give(act.LoadMeasured(mgr.load.token, samples))
        else:
            mgr.answer()
    (record,) = mgr.records.values()
    assert record.pairs[0].write_back.counters[0].count == 100
    assert record.pairs[0].write_back.later_counters == half
    assert record.bytes_written == 0


def traffic_until_over(mgr, wait_s, *, same=False):
    """Feed 100 commits a period, `wait_s` of write back and of write through; say `same`."""
    while not mgr.machine.over:
        if mgr.load:
            mode = mgr.modes["domain-sda"]
            delta = (CounterDelta("txc_commit_lat", 100 * wait_s[mode], 100),)
            mgr.give(act.LoadMeasured(mgr.load.token, act.LoadSamples(2.0, (), delta)))
        elif mgr.look:
            mgr.give(act.Decided(mgr.look.token, False, same=same))
        else:
            mgr.answer()
    (record,) = mgr.records.values()
    return record


def test_what_clients_may_wait_is_a_budget_of_its_own():
    setup = make.setup(LoadPoint.OSD_TRAFFIC, pairs_max=40)
    record = traffic_until_over(begun(setup, client_wait_max_s=50.0), {WB: 0.08, WT: 0.01})
    assert "50 s of clients' waiting is spent" in record.ended
    # 7 s longer in each period in write back
    assert len(record.pairs) == 7
    periods = [p for pair in record.pairs for p in (pair.write_back, pair.write_through)]
    assert client_wait_s(setup, periods) == pytest.approx(49.0)


def test_showing_that_nothing_differs_has_a_smaller_budget_than_finding_a_difference():
    setup = make.setup(LoadPoint.OSD_TRAFFIC, pairs_max=40)
    ended = {
        same: traffic_until_over(
            begun(setup, seconds_max=60.0, same_share=0.5), {WB: 0.01, WT: 0.01}, same=same
        )
        for same in (False, True)
    }
    assert "budget of 60 s is spent" in ended[False].ended
    assert "budget of 30 s for showing that nothing differs is spent" in ended[True].ended
    assert 50 < ended[False].seconds <= 60
    assert 20 < ended[True].seconds <= 30


def test_a_budget_is_not_exceeded_by_the_pair_that_would_be_next():
    each = SAMPLES[LoadPoint.OSD_BENCH_DEPTH1] * 4096
    mgr = begun(make.setup(pairs_max=20), bytes_max=9 * each)
    mgr.finish()
    (record,) = mgr.records.values()
    assert len(record.pairs) == 4, "a fifth would have taken ten periods' bytes"
    assert record.bytes_written == 8 * each


def hangs(mgr, period):
    """Answer all but the measurement of one period, and let time pass until the next wake."""
    seen = 0
    while mgr.machine.experiment_index == 0:
        if mgr.measures():
            seen += 1
            if seen > period:
                assert mgr.now_s < mgr.machine.wake_at_s
                mgr.now_s = mgr.machine.wake_at_s
                mgr.give(act.Tick())
                return
        mgr.answer()


@pytest.mark.parametrize("period", [0, 3, 9])
@pytest.mark.parametrize("point", [LoadPoint.OSD_BENCH_4M, LoadPoint.OSD_TRAFFIC])
def test_a_period_that_does_not_end_is_cut_off_where_the_budget_ends(point, period):
    mgr = begun(make.setup(point, pairs_max=40), make.setup(seed=8), seconds_max=60.0)
    began_s = mgr.now_s
    hangs(mgr, period)
    assert mgr.machine.seconds_spent == pytest.approx(60.0)
    assert mgr.now_s - began_s >= 60.0
    (record,) = mgr.records.values()
    assert record.ended == "the budget is spent within a period"
    assert record.interrupted_periods == 1 + period % 2
    assert len(record.pairs) == period // 2
    assert isinstance(mgr.task.request, SetModeRequest)
    mgr.finish()
    assert mgr.machine.state.status is RunStatus.DONE


def test_a_bench_is_cut_off_where_clients_have_waited_enough():
    setup = make.setup(LoadPoint.OSD_BENCH_4M, pairs_max=40)
    mgr = begun(setup, make.setup(seed=8), client_wait_max_s=20.0)
    hangs(mgr, 5)
    (record,) = mgr.records.values()
    periods = [p for pair in record.pairs for p in (pair.write_back, pair.write_through)]
    waited_s = client_wait_s(setup, periods)
    assert waited_s < 20.0
    assert record.interrupted_seconds + waited_s < 25.0


def late(mgr, request, period):
    """Let the answer to a task of one period come 100 s late, with a tick before it or not."""
    while len(mgr.measured) < period or not isinstance(mgr.task and mgr.task.request, request):
        mgr.answer()
    mgr.now_s += 100.0


@pytest.mark.parametrize("ticks", [True, False])
@pytest.mark.parametrize("request_of", [SetModeRequest, CountersRequest])
def test_a_probe_that_answers_late_does_not_stretch_the_budget(request_of, ticks):
    mgr = begun(make.setup(pairs_max=40), make.setup(seed=8), seconds_max=60.0)
    late(mgr, request_of, 6)
    measured = set(mgr.measured)
    if ticks:
        mgr.give(act.Tick())
    else:
        mgr.answer()
    assert mgr.machine.experiment_index == 1
    assert mgr.measured == measured
    (record,) = mgr.records.values()
    assert record.ended == "the budget is spent within a period"
    mgr.finish()
    assert mgr.machine.state.status is RunStatus.DONE


def test_restarts_of_the_mgr_do_not_stretch_the_budget():
    mgr = begun(make.setup(LoadPoint.OSD_BENCH_4M, pairs_max=40), seconds_max=60.0)
    began_s = mgr.now_s
    while mgr.machine.experiment_index == 0 and not mgr.machine.over:
        assert mgr.now_s - began_s < 200.0
        if mgr.measures():
            mgr.now_s += 25.0
            mgr.restart()
        else:
            mgr.answer()
    assert mgr.now_s - began_s <= 60.0 + 25.0
    assert mgr.machine.seconds_spent <= 60.0


@pytest.mark.parametrize("crossed", [None, OTHER_DRIVE])
def test_a_record_that_ends_in_the_middle_of_a_pair_tells_of_all_it_cost(crossed):
    setup = replace(make.setup(LoadPoint.OSD_BENCH_4M, pairs_max=40), crossed=crossed)
    mgr = begun(setup, make.setup(seed=8), seconds_max=60.0)
    hangs(mgr, 7)
    record = next(r for r in mgr.records.values() if not measured_in(r.record_id))
    assert record.seconds == pytest.approx(mgr.machine.seconds_spent)
    assert record.bytes_written == mgr.machine.bytes_spent
    assert record.interrupted_periods == (2 if crossed is None else 4)


def test_a_timer_is_given_no_more_time_than_the_budget_has_left():
    mgr = begun(make.setup(LoadPoint.FDATASYNC_TIMER, pairs_max=40), seconds_max=8.0)
    while not isinstance(mgr.task.request, TimerRequest):
        mgr.answer()
    asked = mgr.task.request.seconds_max
    assert asked == pytest.approx(mgr.machine.wake_at_s - mgr.now_s)
    assert 0 < asked < 8.0


def test_a_run_that_never_began_ends_without_touching_anything():
    mgr = Mgr(make.run_spec(make.setup()))
    todo = mgr.machine.handle(act.Halt("frozen"), 1.0)
    assert not [a for a in todo if isinstance(a, act.GiveTask)]
    assert mgr.machine.state.restored

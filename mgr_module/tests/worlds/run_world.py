"""What a run happens in: an engine, a mgr that can be lost, drives that obey."""

import math
from collections import Counter

from mgr_fakes import builders as make
from wcache.core import codec, events
from wcache.core.experiment.budget import Experiment
from wcache.core.experiment.comparing_run import ComparingRun
from wcache.core.experiment.design import Slot, coin
from wcache.core.experiment.factorial import OTHER, both_sides, measured_in
from wcache.core.experiment.run_state import RunState, RunStatus
from wcache.core.hardware import FlushCounters
from wcache.core.loads import WRITE_BYTES
from wcache.core.model import Arm, CacheMode, Role, Transport
from wcache.core.protocol import (
    CountersRequest,
    DrivesOutcome,
    LookRequest,
    ReleaseRequest,
    SamplesOutcome,
    SetModeRequest,
    StateOutcome,
    TimerRequest,
)
from wcache.core.record import CrossedDrive, Period, Record

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
        self.touched = set()
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
        self.machine = ComparingRun(state, periods, str(self.restarts))
        self.task = self.load = self.look = None

    def restart(self):
        self.restarts += 1
        self.keep_stale()
        self._start()
        self.give(events.Begin())

    def cost(self):
        """What the experiment under way has cost."""
        index = self.machine.state.index
        return Experiment(self.machine.state, index, self.machine.periods[index]).cost

    def keep_stale(self):
        if self.task:
            self.stale.append(events.Answered(self.task.task_id, self.good_outcome()))
        if self.load:
            self.stale.append(events.Answered(self.load.token, self.good_samples()))
        if self.look:
            self.stale.append(events.Decided(self.look.token, True))

    def give(self, event, lost_after=None):
        """Feed an event and carry out the actions, or only the first `lost_after` of them."""
        todo = self.machine.handle(event, self.now_s)
        self.asked = any(
            isinstance(action, (events.GiveTask, events.MeasureLoad, events.AskAnalysis))
            for action in todo
        )
        for index, action in enumerate(todo):
            if lost_after is not None and index >= lost_after:
                self.restart()
                return
            self.execute(action)

    def execute(self, action):
        machine = self.machine
        if isinstance(action, events.GiveTask):
            self.keep_stale()
            self.task, self.load, self.look = action, None, None
            if isinstance(action.request, (SetModeRequest, ReleaseRequest)):
                stored = codec.loads(RunState, self.stored, bytes_max=10**6, what="run")
                assert action.request.prior.known
                assert action.request.prior in stored.priors, "touched before it is stored"
            if isinstance(action.request, SetModeRequest):
                assert not self.began_release, "a mode is set after the release began"
                assert self.cost().seconds < machine.spec.seconds_max
                self.touched.add(action.request.domain_id)
            if isinstance(action.request, ReleaseRequest):
                self.began_release = True
                self.released.add(action.request.domain_id)
            if isinstance(action.request, TimerRequest):
                assert action.request.count > 0
        elif isinstance(action, events.MeasureLoad):
            self.load, self.task = action, None
            point = action.request.load_point
            index = machine.state.index
            self.bytes_begun[index] += action.request.count * WRITE_BYTES[point]
            assert self.bytes_begun[index] <= machine.spec.bytes_max
        elif isinstance(action, events.AskAnalysis):
            self.look, self.task = action, None
        elif isinstance(action, events.SavePeriod):
            key = (action.experiment_index, action.pair_index, action.second)
            assert key not in self.measured, f"{key} is measured twice"
            self.measured.add(key)
            self.periods[key] = codec.dumps(action.period)
        elif isinstance(action, events.SaveRecord):
            for side in both_sides(action.record):
                text = codec.dumps(side)
                self.records[side.record_id] = codec.loads(
                    Record, text, bytes_max=10**7, what="record"
                )
        elif isinstance(action, events.SaveRun):
            self.stored = codec.dumps(machine.state)
            for key in [k for k in self.periods if k[0] < machine.state.index]:
                del self.periods[key]
        elif isinstance(action, events.Note):
            assert action.text

    # ---- answers

    def good_samples(self):
        request = self.load.request
        return events.LoadSamples(
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
            ids = (f"wwn-{request.domain_id}",)
            return StateOutcome((make.state(before),), after, counters(), changed, ids)
        if isinstance(request, LookRequest):
            now = make.state(self.modes[request.domain_id])
            name = request.domain_id
            return DrivesOutcome((
                make.drive("sda", 0, drive_id=f"wwn-{name}", domain_id=name, state=now),
            ))
        if isinstance(request, (CountersRequest, ReleaseRequest)):
            if isinstance(request, ReleaseRequest):
                self.modes[request.domain_id] = request.prior.drives[0].mode
            now = (make.state(self.modes[request.domain_id]),)
            return StateOutcome(now, now, counters(), False, (f"wwn-{request.domain_id}",))
        return SamplesOutcome((1_000_000,) * request.count, 0.3, 0)

    def answer(self, lost_after=None):
        """Whatever is waited for comes, and it is good."""
        self.now_s += 0.3
        if self.task:
            task = self.task
            if isinstance(task.request, ReleaseRequest):
                self.ended_by = "release"
            self.give(events.Answered(task.task_id, self.good_outcome()), lost_after)
        elif self.load:
            token, samples = self.load.token, self.good_samples()
            self.give(events.Answered(token, samples), lost_after)
        elif self.look:
            self.give(events.Decided(self.look.token, False), lost_after)
        if not self.machine.over and not self.asked and self.machine.wake_at_s is not None:
            self.now_s = max(self.now_s, self.machine.wake_at_s)
            self.give(events.Tick())

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
                assert pair.a.arm is Arm.A
                assert pair.b.arm is Arm.B
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
        for period in (pair.a, pair.b):
            states = period.crossed.state_before + period.crossed.state_after
            assert {state.device_cache.value for state in states} == {period.crossed.mode.value}
            assert period.crossed.mode is list(CacheMode)[pair.index % 2]


def begun(*setups, **changes):
    mgr = Mgr(make.run_spec(*(setups or (make.setup(),)), **changes))
    mgr.give(events.Begin())
    return mgr

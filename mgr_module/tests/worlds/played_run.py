"""A run's machine played through everything that can happen to it, from where it stands."""

from copy import copy
from dataclasses import replace

from mgr_fakes import builders as make
from run_world import OTHER_DRIVE, WB, counters
from wcache.core import events
from wcache.core.drive.prior import PriorDoubt
from wcache.core.experiment.design import Slot
from wcache.core.experiment.run_state import FIRST_LOOK, RunState, RunStatus
from wcache.core.hardware import BcacheState, Dirty, OptionValue
from wcache.core.model import LoadPoint
from wcache.core.options.entries import OptionTrial
from wcache.core.protocol import (
    DrivesOutcome,
    FailureOutcome,
    LookRequest,
    MeasureRequest,
    ReportOutcome,
    SamplesOutcome,
    SetModeRequest,
    SetOptionRequest,
    StateOutcome,
    TimerRequest,
)
from wcache.engine.run_queue import machine_of

RATE = "writeback_rate_minimum"
FACTOR = OptionTrial("writeback_rate_p_term_inverse", "40", "4000", Dirty.CLEAN)
OSD = OptionTrial("osd_mclock_profile", "balanced", "high_client_ops")
TIMED, TRAFFIC = LoadPoint.FDATASYNC_TIMER, LoadPoint.OSD_TRAFFIC
MOST = {"seconds_max": 10_000.0, "client_wait_max_s": 10_000.0}
PAIRS = make.setup(TIMED, pairs_max=6)
SPECS = {
    "pairs": make.run_spec(PAIRS, beside=(1,), **MOST),
    "checks": make.run_spec(make.setup(TRAFFIC, pairs_max=4, watch_samples=8), **MOST),
    "factorial": make.run_spec(make.setup(pairs_max=4, crossed=OTHER_DRIVE), **MOST),
    "two": make.run_spec(PAIRS, make.setup(TRAFFIC, pairs_max=4), **MOST),
    "osd": make.run_spec(make.setup(TRAFFIC, pairs_max=4, option=OSD), **MOST),
    "clean": make.run_spec(
        make.setup(TRAFFIC, pairs_max=4, option=FACTOR), dirty=Dirty.CLEAN, **MOST),
    "target": make.run_spec(
        make.setup(TRAFFIC, pairs_max=4, option=replace(FACTOR, dirty=Dirty.TARGET)),
        dirty=Dirty.TARGET, starting_bytes=10**9, **MOST),
    "simulated": make.run_spec(make.setup(pairs_max=4, simulated=True), simulated=True, **MOST),
}
DIRTY = {"clean": 0, "below": 5, "target": 10}
SAMPLES = events.LoadSamples(0.4, (1_000_000,) * 8, at_ns=tuple(range(8)))
BENCHED = events.LoadSamples(0.4, bytes_written=4096)


def phase(machine):
    """Where it stands, in words; a run that has given its drives back waits until OSDs are well."""
    if machine.state.status is not RunStatus.RUNNING:
        return machine.state.status.value
    stage = machine._now.phase.value
    if machine.state.ill_since_s:
        return {"idle": "ill", "releasing": "giving back"}[stage]
    return stage


class Played:
    """A machine with what it waits for, and drives that obey it."""

    def __init__(self, machine):
        self.machine = machine
        self.now_s = 1000.0
        self.asked = None  # the task, load or look that is waited for
        self.modes = {}
        self.options = {}

    @classmethod
    def of(cls, name, periods=()):
        spec = SPECS[name]
        found = [dict(periods), *({} for _ in spec.experiments[1:])]
        return cls(machine_of(RunState(spec, RunStatus.WAITING), found, "0"))

    def give(self, event, after_s=0.3):
        """The world after an event; this one stays as it is."""
        found = copy(self)
        found.machine = copy(self.machine)
        for name, value in vars(self.machine).items():
            if name.startswith("_"):
                setattr(found.machine, name, copy(value))
        found.now_s += after_s
        if isinstance(event, events.Answered) and isinstance(self.asked, events.GiveTask):
            found.modes, found.options = dict(self.modes), dict(self.options)
            found.obey()
            found.asked = None
        for action in found.machine.handle(event, found.now_s):
            if isinstance(action, (events.GiveTask, events.MeasureLoad, events.AskAnalysis)):
                found.asked = action
        return found

    def restarted(self):
        state, periods = self.machine.state, [dict(one) for one in self.machine.periods]
        found = copy(self)
        found.machine, found.asked = machine_of(state, periods, "1"), None
        return found.give(events.Begin())

    def obey(self):
        request = self.asked.request
        if isinstance(request, SetModeRequest):
            self.modes[request.domain_id] = request.mode
        if isinstance(request, SetOptionRequest):
            self.options[request.name] = request.value

    def state(self, domain_id, mode=None):
        values = {RATE: "16", FACTOR.name: "50", OSD.name: "as configured", **self.options}
        return make.state(
            mode or self.modes.get(domain_id, WB),
            options=tuple(OptionValue(*item) for item in values.items()),
        )

    def outcome(self, dirty=0):
        request = self.asked.request
        domain_id = request.domain_id
        if isinstance(request, (TimerRequest, MeasureRequest)):
            return SamplesOutcome((1_000_000,) * request.count, 0.3, 0, at_ns=(1,) * request.count)
        now = self.state(domain_id)
        if isinstance(request, LookRequest):
            return DrivesOutcome((make.drive(
                "sda", 0, drive_id=f"wwn-{domain_id}", domain_id=domain_id, state=now,
            ),))
        if isinstance(request, SetModeRequest):
            now = self.state(domain_id, request.mode)
        if isinstance(request, SetOptionRequest):
            kept = tuple(one for one in now.options if one.name != request.name)
            now = replace(now, options=(*kept, OptionValue(request.name, request.value)))
        above = (BcacheState("bcache0", False, "writeback", 0, dirty, 10, 4096),)
        ids = (f"wwn-{domain_id}",)
        return StateOutcome((now,), (now,), counters(), True, ids, bcache=above)

    def offers(self):
        """(word, what is there then) of everything that may happen now."""
        for word, event in (
            ("begin", events.Begin()), ("tick", events.Tick()),
            ("lease lost", events.LeaseLost("it restarted")),
            ("silent", events.AgentSilent("not heard")), ("halt", events.Halt("stop")),
            ("past limit", self.ended(silent=False)), ("no answer", self.ended(silent=True)),
            ("ill", events.Ill("osd.0 is down")), ("well", events.Ill("")),
            ("unmet", events.Unmet(())), ("waits", events.Waits("for its turn")),
        ):
            if word != "begin" or self.machine.state.status is RunStatus.WAITING:
                yield word, self.give(event)
        yield "tick, settled", self.give(events.Tick(), 130.0)
        yield "tick, too late", self.give(events.Tick(), 10**6)
        yield "well, later", self.give(events.Ill(""), 130.0)
        yield "ill, later", self.give(events.Ill("osd.0 is down"), 130.0)
        if not self.machine.over:
            yield "mgr lost", self.restarted()
        yield from self.answers()

    def ended(self, *, silent):
        return events.BlocksEnded(self.machine._watch_of[1], "osd.1", silent=silent)

    def answers(self):
        asked = self.asked
        if isinstance(asked, events.AskAnalysis):
            for word, stop in (("decided", True), ("goes on", False)):
                yield word, self.give(events.Decided(asked.token, stop))
        elif isinstance(asked, events.MeasureLoad):
            writes = phase(self.machine) == "writing"
            for word, samples in (
                ("measured", BENCHED if writes else SAMPLES),
                ("nothing", replace(SAMPLES, samples_ns=())),
                ("aborted", replace(SAMPLES, aborted="slow")),
                ("unusable", replace(SAMPLES, unusable="too little")),
            ):
                yield word, self.give(events.Answered(asked.token, samples))
            failed = events.LoadFailed("no answer")
            yield "load failed", self.give(events.Answered(asked.token, failed))
        elif isinstance(asked, events.GiveTask):
            wrong = StateOutcome((), (), (), False)
            outcomes = {
                "failed": FailureOutcome("broken"), "odd": ReportOutcome(make.report("h1")),
                "other state": FailureOutcome("x", doubt=PriorDoubt.OTHER_STATE),
                "not so": wrong,
            }
            good = self.outcome()
            if isinstance(good, StateOutcome) and self.machine.spec.waits_for_controller:
                outcomes.update((f"answered, {word}", self.outcome(n)) for word, n in DIRTY.items())
            else:
                outcomes["answered"] = good
            for word, outcome in outcomes.items():
                yield word, self.give(events.Answered(asked.task_id, outcome))


def before_a_look(name):
    """The periods of a run's first experiment until one is left before the analysis looks."""
    setup, found = SPECS[name].experiments[0], {}
    slot = Slot(0, False)
    while slot.following != Slot(FIRST_LOOK, False):
        found[slot] = make.period(slot.arm(setup.seed), started_at_s=1.0 + slot.number)
        slot = slot.following
    return found

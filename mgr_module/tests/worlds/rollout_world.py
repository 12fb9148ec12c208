"""A mgr that executes a rollout against drives which obey."""

from dataclasses import replace

from mgr_fakes import builders as make
from wcache.core import codec, events
from wcache.core.change.change import Change
from wcache.core.change.gate.gate_state import GateSettings
from wcache.core.change.rollout import RolloutMachine
from wcache.core.change.rollout_state import Rollout
from wcache.core.change.waves import arranged
from wcache.core.model import CacheMode, LoadPoint, Transport
from wcache.core.protocol import (
    ApplyRequest,
    DrivesOutcome,
    LookRequest,
    MeasureRequest,
    SamplesOutcome,
    StateOutcome,
)
from wcache.core.setting.domain_settings import CacheModeSetting
from wcache.core.setting.setting import CacheDomain

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH


DOMAIN = CacheDomain("h0", "domain-0", ("sd0",), Transport.SCSI, (0,), ("d",))


def mode_change(action_id, domain, before=WB, after=WT, **fields):
    """A change of a cache mode, of an OSD of its domain."""
    known = {
        "device_class": "hdd", "why": "faster", "osd_id": domain.osd_ids[0],
        "load_point": LoadPoint.OSD_BENCH_DEPTH1,
    }
    return Change(action_id, CacheModeSetting(domain, before, after), **{**known, **fields})


def change(index, **changes):
    """The same of a host and drive of that number; `changes` are of it, or of its domain."""
    of_domain = {name: changes.pop(name) for name in {*changes} & {*DOMAIN.__dataclass_fields__}}
    numbered = {
        "hostname": f"h{index}", "domain_id": f"domain-{index}", "dev_names": (f"sd{index}",),
        "osd_ids": (index,),
    }
    return mode_change(f"p1.{index}", replace(DOMAIN, **{**numbered, **of_domain}), **changes)


def plan_of(*changes, **fields):
    """A plan of these changes in waves, host after host, judged by benches."""
    found, waves = arranged(changes, make.cluster(()))
    known = {"plan_id": "p1", "created_at_s": 1.0, "changes": found, "waves": waves}
    return Rollout(**{**known, "gate": GateSettings(by_load=False), **fields})


def drive_of(domain_id, mode):
    """The drive of a change, as a probe reads it."""
    osd_id = int(domain_id.split("-")[1])
    return make.drive(
        f"sd{osd_id}", osd_id, drive_id="d", domain_id=domain_id, state=make.state(mode)
    )


class Mgr:
    """Executes a rollout against drives that obey; the mgr can be lost after any action."""

    def __init__(self, *changes, gain=5.0, **fields):
        self.now_s = 1000.0
        self.restarts = 0
        self.modes = {c.domain_id: WB for c in changes}
        self.prior = {}  # the probes' journals: action id to mode
        self.gain = gain
        self.log = []
        self.notes = []
        self.missed = ()  # preconditions that do not hold now
        self.stored = codec.dumps(plan_of(*changes, canary_wait_s=60.0, **fields))
        self._start()

    def _start(self):
        rollout = codec.loads(Rollout, self.stored, bytes_max=10**6, what="rollout")
        self.machine = RolloutMachine(rollout, str(self.restarts))
        self.task = self.load = None

    def restart(self):
        self.restarts += 1
        self._start()
        if not self.machine.over:
            self.give(events.Begin())

    def give(self, event, lost_after=None):
        self.run(self.machine.handle(event, self.now_s), lost_after)

    def run(self, todo, lost_after=None):
        for index, action in enumerate(todo):
            if lost_after is not None and index >= lost_after:
                self.restart()
                return
            if isinstance(action, events.GiveTask):
                self.task, self.load = action, None
            elif isinstance(action, events.MeasureLoad):
                self.load, self.task = action, None
            elif isinstance(action, events.SaveRun):
                self.save()
            elif isinstance(action, events.LookAtCluster):
                self.give(events.ClusterSeen(action.token, self.missed))
            else:
                self.notes.append(action)

    def save(self):
        self.stored = codec.dumps(self.machine.rollout)

    def apply_now(self, request):
        """What the probe does; the same action twice changes nothing more."""
        before = self.modes[request.domain_id]
        if isinstance(request, LookRequest):
            return DrivesOutcome((drive_of(request.domain_id, before),))
        stored = codec.loads(Rollout, self.stored, bytes_max=10**6, what="rollout")
        assert request.prior.known
        assert request.prior in [c.prior for c in stored.changes], "touched before it is stored"
        if isinstance(request, ApplyRequest):
            if before is not request.mode:
                self.prior.setdefault(request.action_id, before)
            self.modes[request.domain_id] = request.mode
        else:
            self.modes[request.domain_id] = self.prior.pop(
                request.action_id, request.prior.drives[0].mode
            )
        after = self.modes[request.domain_id]
        self.log.append((type(request).__name__, request.domain_id))
        states = (make.state(before),), (make.state(after),)
        return StateOutcome(*states, (), before is not after, ("d",))

    def answer(self, lost_after=None, lose_answer=False):
        self.now_s += 1.0
        if self.task:
            task, self.task = self.task, None
            if isinstance(task.request, MeasureRequest):
                outcome = SamplesOutcome((self.latency(task.request.domain_id),) * 9, 0.1, 0)
            else:
                outcome = self.apply_now(task.request)
            if lose_answer:
                self.restart()
                return
            self.give(events.Answered(task.task_id, outcome), lost_after)
        elif self.load:
            domain_id, load = self.machine.current.domain_id, self.load
            self.load = None
            samples = events.LoadSamples(0.1, (self.latency(domain_id),) * 9, (), 4096)
            self.give(events.Answered(load.token, samples), lost_after)
        elif self.machine.wake_at_s is not None:
            self.now_s = max(self.now_s, self.machine.wake_at_s)
            self.give(events.Tick(), lost_after)

    def latency(self, domain_id):
        base = 20_000_000
        return int(base / self.gain) if self.modes[domain_id] is WT else base

    def finish(self):
        for _ in range(500):
            if self.machine.over:
                return
            self.answer()
        raise AssertionError(f"never over: {self.machine}")

    @property
    def statuses(self):
        return [c.status for c in self.machine.rollout.changes]

    def until(self, kind):
        for _ in range(100):
            if self.task and isinstance(self.task.request, kind):
                return
            self.answer()
        raise AssertionError(f"no {kind.__name__} was asked for")


def begun(*changes, **options):
    mgr = Mgr(*(changes or (change(0),)), **options)
    mgr.give(events.Begin())
    return mgr

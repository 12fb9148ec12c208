"""A gated rollout on drives that obey, in virtual time, with a fault at any of its states."""


from copy import deepcopy
from dataclasses import replace
from functools import cache

from rollout_world import WB, WT, Mgr, change
from wcache.core import codec, events
from wcache.core.change.gate.gate_state import GateSettings
from wcache.core.change.gate.judge import BLOCKS_BEFORE
from wcache.core.change.rollout_state import Rollout, Wave, WaveKind
from wcache.core.loads import Block, OsdBlock
from wcache.core.model import CachePage, LoadPoint
from wcache.core.protocol import ApplyRequest, FailureOutcome
from wcache.core.record import Precondition

FAULTS = (
    "failover", "answer lost", "lost between actions", "probe silent", "refused", "unhealthy",
    "watch ends", "past the limit", "OSD silent", "pause", "abort", "freeze", "rollback",
    "host reset",
)
CHANGES = 4
CONTROLS = (10, 11, 12, 13)
WAVES = (
    Wave(WaveKind.CANARY, "h0", 1), Wave(WaveKind.DOMAIN, "a", 2), Wave(WaveKind.DOMAIN, "b", 1)
)


class GatedMgr(Mgr):
    """Carries out what a gated rollout asks for; faults come between any two steps.

    `ratio` is what write through does to latency.
    """

    def __init__(self, ratio=0.5, persist=False, together=4):
        self.ratio = ratio
        self.noise = 0.0
        self.together, self.controls = together, CONTROLS
        self.watch = None
        self.blocks = 0
        self.silent = False
        self.refuses_once = False
        self._read = "", set()
        super().__init__(
            *(change(i, load_point=LoadPoint.OSD_TRAFFIC) for i in range(CHANGES)),
            waves=WAVES, gate=GateSettings(True, 1, 1), parallel_max=2, consent_persist=persist,
        )

    def _start(self):
        super()._start()
        self.watch = None

    def run(self, todo, lost_after=None):
        for index, action in enumerate(todo):
            if lost_after is not None and index >= lost_after:
                self.restart()
                return
            if isinstance(action, events.WatchBlocks):
                self.watch, self.blocks, self.task, self.load = action, 0, None, None
            elif isinstance(action, events.LookAtCluster):
                missed = self.missed
                if self.silent:
                    missed += (Precondition.PROBES_HEARD,)
                many = min(self.together, len(action.groups))
                self.give(events.ClusterSeen(action.token, missed, many, self.controls))
            else:
                if isinstance(action, (events.GiveTask, events.MeasureLoad)):
                    self.watch = None
                super().run([action])
        self._look()

    def _look(self):
        """What must hold at every moment."""
        changed = {int(name.split("-")[1]) for name, mode in self.modes.items() if mode is WT}
        rollout = self.machine.rollout
        if self.stored != self._read[0]:
            stored = codec.loads(Rollout, self.stored, bytes_max=10**7, what="rollout")
            self._read = self.stored, {c.domain_id for c in stored.touched}
        touched = self._read[1]
        for index in changed:
            assert f"domain-{index}" in touched, "a changed drive that no store knows of"
        unjudged = {
            rollout.wave_of(i) for i, c in enumerate(rollout.changes)
            if c.status.value in ("applying", "made, not judged yet")
        }
        assert len(unjudged) <= 1, "two failure domains are in doubt at once"
        for item in rollout.changes:
            if item.lasts:
                assert item.status.value in ("applied", "rolling back", "rollback failed",
                                             "made, not judged yet")

    def apply_now(self, request):
        """What is to last is read back as saved."""
        outcome = super().apply_now(request)
        if isinstance(request, ApplyRequest) and request.consent_persist:
            saved = CachePage(saved=request.mode)
            return replace(outcome, after=tuple(replace(s, page=saved) for s in outcome.after))
        return outcome

    def block(self):
        watch = self.watch
        self.now_s += watch.request.block_s
        self.blocks += 1

        def us(osd_id):
            mode = self.modes.get(f"domain-{osd_id}", WB)
            wobble = 1.0 + 0.01 * ((self.blocks * 7 + osd_id * 3) % 5)
            return 1000.0 * wobble * (self.ratio if mode is WT else 1.0)
        ids = (*watch.request.treated, *watch.request.controls)
        if self.blocks >= watch.request.blocks:
            self.watch = None
        found = Block(watch.request.block_s, tuple(OsdBlock(o, us(o), 100) for o in ids))
        self.give(events.BlockSeen(watch.token, found))

    def fault(self, name, lost_after=0):  # noqa: C901  one line each
        if name == "failover":
            self.restart()
        elif name == "answer lost":
            if self.task:
                self.answer(lose_answer=True)
            else:
                self.restart()
        elif name == "lost between actions":
            self.step(lost_after=lost_after)
        elif name == "probe silent":
            self.silent = True
            if self.machine.waited_for:
                self.task = None
                self.give(events.AgentSilent("the probe has not responded"))
        elif name == "refused":
            if self.task:
                task, self.task = self.task, None
                self.give(events.Answered(task.task_id, FailureOutcome("no", refused=True)))
        elif name == "unhealthy":
            self.missed = (Precondition.CLUSTER_HEALTHY,)
        elif name == "watch ends":
            if self.watch:
                watch, self.watch = self.watch, None
                self.give(events.BlocksEnded(watch.token, "osd.1 does not answer"))
        elif name in ("past the limit", "OSD silent"):
            if self.watch:
                watch, self.watch = self.watch, None
                silent = name == "OSD silent"
                self.give(events.BlocksEnded(watch.token, "osd.1: 9000 ms", True, silent))
        elif name == "pause":
            self.run(self.machine.pause("by an admin"))
            if self.machine.paused:
                self.task = self.watch = None
        elif name in ("abort", "freeze"):
            self.give(events.Halt(name))
        elif name == "host reset":
            for item in self.machine.rollout.changes:
                if item.status.value in ("applying", "made, not judged yet"):
                    self.modes[item.domain_id] = WB
        elif name == "rollback" and self.machine.rollout.touched:
            self.watch = None
            self.run(self.machine.start_rollback())

    def heal(self):
        self.silent, self.missed = False, ()

    def step(self, lost_after=None):
        if self.watch and self.task is None:
            self.block()
        elif self.silent and self.task is not None:
            self.task = None
            self.now_s += 5.0
            self.give(events.AgentSilent("the probe has not responded"))
        elif self.task or self.load:
            self.answer(lost_after=lost_after)
        elif self.machine.wake_at_s is not None:
            self.now_s = max(self.now_s + 0.1, self.machine.wake_at_s)
            self.give(events.Tick(), lost_after)
        else:
            return False
        return True

    @property
    def where(self):
        """The state for the purpose of faults: phase, change, and whether something is made."""
        return (self.machine.phase.value, self.machine.rollout.current_index,
                len(self.machine.rollout.step.indices))

    def to_the_end(self, limit=4000, resume=True):
        """Heal, go on, resume what is paused a few times; True where it is over."""
        self.heal()
        resumed = 0
        for _ in range(limit):
            if self.machine.over:
                return True
            if self.machine.paused:
                if not resume or resumed > 3:
                    return False
                resumed += 1
                self.run(self.machine.resume(self.now_s))
                continue
            assert self.step(), f"stuck: {self.machine}"
        raise AssertionError(f"never ends: {self.machine.rollout.status}")


@cache
def states():
    """The mgr in each state of an undisturbed rollout, by the state machine's own word.

    Of the blocks of a watch, the first, one in the middle, and the last.
    """
    found = {}
    for persist in (False, True):
        mgr = GatedMgr(persist=persist)
        mgr.give(events.Begin())
        for _ in range(3000):
            if mgr.machine.over:
                break
            part = mgr.blocks if mgr.watch and mgr.blocks in (0, 5, BLOCKS_BEFORE - 1) else -1
            state = (*mgr.where, part)
            if (persist, *state) not in found and (not persist or (False, *state) not in found):
                found[(persist, *state)] = deepcopy(mgr)
            mgr.step()
    return found

"""The table of a rollout's machine: what each event leads to in each phase, played from it."""

import random
from dataclasses import replace

import pytest
from gated_plan import FAULTS, GatedMgr
from wcache.core import codec, events
from wcache.core.change.rollout import ANSWERED, DUE, SEEN
from wcache.core.change.rollout_base import TIMED, Phase
from wcache.core.change.rollout_state import Rollout
from wcache.core.model import LoadPoint
from wcache.core.setting.drive_setting import DriveSetting

ANSWERS = (events.Answered, events.BlockSeen, events.BlocksEnded)
# What each event leads to: a phase, or how a plan stands of which nothing is under way.
TABLE = {
    ("after", "answer"): "back, reading",
    ("back", "answer"): "back, paused back, rolled back, stopped",
    ("before", "answer"): "checking",
    ("blocks after", "answer"): "back, blocks after, reading",
    ("blocks before", "answer"): "blocks before, checking, held, paused",
    ("changing", "answer"): "checking, finishing, stopped, waiting",
    ("held", "answer"): "held",
    ("idle", "answer"): "paused, stopped",
    ("lasting", "answer"): "back, checking, done, paused, reading",
    ("looking", "answer"): "changing, stopped",
    ("reading", "answer"): "back, checking, checking what is to last, done, paused, reading",
    ("checking", "ClusterSeen"): "before, blocks before, changing, held, looking, reading",
    ("checking what is to last", "ClusterSeen"): "lasting",
    ("back", "Tick"): "back",
    ("finishing", "Tick"): "changing",
    ("held", "Tick"): "checking",
    ("paused back", "Tick"): "back",
    ("waiting", "Tick"): "after, blocks after",
    ("after", "AgentSilent"): "held",
    ("back", "AgentSilent"): "back",
    ("before", "AgentSilent"): "held",
    ("changing", "AgentSilent"): "held",
    ("looking", "AgentSilent"): "held, stopped",
    ("reading", "AgentSilent"): "held",
    ("waiting", "AgentSilent"): "held",
    ("after", "Halt"): "back",
    ("back", "Halt"): "back",
    ("before", "Halt"): "stopped",
    ("blocks before", "Halt"): "stopped",
    ("changing", "Halt"): "back",
    ("finishing", "Halt"): "back",
    ("held", "Halt"): "stopped",
    ("idle", "Halt"): "done, rolled back, stopped",
    ("lasting", "Halt"): "back",
    ("looking", "Halt"): "stopped",
    ("paused back", "Halt"): "paused back",
    ("reading", "Halt"): "back",
    ("waiting", "Halt"): "back",
    ("idle", "Begin"): "back, changing, checking, paused, reading, waiting",
}


class Walk(GatedMgr):
    """A rollout with faults at random, that notes each step of its phases."""

    def __init__(self, seed, played):
        self.rng, self.played = random.Random(seed), played
        super().__init__(self.rng.choice([0.5, 1.0, 1.5]), self.rng.random() < 0.5)
        plan = codec.loads(Rollout, self.stored, bytes_max=10**6, what="rollout")
        by_bench = self.rng.random() < 0.4
        self.stored = codec.dumps(replace(
            plan, trial=self.rng.random() < 0.1,
            gate=replace(plan.gate, by_load=not by_bench), changes=tuple(replace(
                change, back_wait_s=self.rng.choice([0.0, 9.0]),
                load_point=LoadPoint.OSD_BENCH_DEPTH1 if by_bench else change.load_point,
            ) for change in plan.changes),
        ))
        self._start()

    def give(self, event, lost_after=None):
        before = self.machine.phase
        todo = self.machine.handle(event, self.now_s)
        phase, status = self.machine.phase, self.machine.rollout.status
        what = "answer" if isinstance(event, ANSWERS) else type(event).__name__
        self.played.setdefault((before.value, what), set()).add(
            status.value if phase is Phase.IDLE else phase.value
        )
        self.run(todo, lost_after)


def played(monkeypatch, seeds):
    """By phase and event: what followed; drives have dirty data to write back at times."""
    found, rng = {}, random.Random(7)
    monkeypatch.setattr(
        DriveSetting, "left", lambda *_: "dirty data" if rng.random() < 0.1 else ""
    )
    for seed in range(seeds):
        walk = Walk(seed, found)
        walk.give(events.Begin())
        for _ in range(walk.rng.randint(1, 8)):
            for _ in range(walk.rng.choice([0, 1, 2, 5, 20, 60])):
                walk.step()
            walk.fault(walk.rng.choice(FAULTS), walk.rng.randint(0, 3))
            if walk.rng.random() < 0.5:
                walk.heal()
        walk.to_the_end(resume=walk.rng.random() < 0.8)
    return {key: ", ".join(sorted(phases)) for key, phases in found.items()}


@pytest.mark.slow
def test_nothing_follows_that_is_not_in_the_table(monkeypatch):
    for key, phases in played(monkeypatch, 40).items():
        assert {*phases.split(", ")} <= {*TABLE[key].split(", ")}, key


@pytest.mark.slow
def test_all_that_is_in_the_table_follows(monkeypatch):
    assert played(monkeypatch, 400) == TABLE


def test_a_phase_that_nothing_is_due_in_wakes_nobody():
    assert {*TIMED} == {*DUE} - {Phase.BACK}  # it is woken where its probe was silent
    assert {*ANSWERED} & {*SEEN} == {*()}

"""The time left is told by the steps that the machine really makes, on fleets of several shapes."""

import time
from dataclasses import replace

import pytest
from gated_plan import GatedMgr
from mgr_fakes import builders as make
from rollout_world import WB, change, drive_of
from wcache.core import events
from wcache.core.change.change import ChangeStatus
from wcache.core.change.gate.evidence import Sums
from wcache.core.change.gate.gate_state import GateSettings
from wcache.core.change.rollout import RolloutMachine
from wcache.core.change.rollout_state import Rollout
from wcache.core.change.stepping import steps_left, time_left
from wcache.core.change.waves import arranged
from wcache.core.model import LoadPoint
from wcache.core.protocol import ApplyRequest, DrivesOutcome, StateOutcome
from wcache.core.record import Precondition


def a_plan(hosts, drives, racks=0, models=1, **values):
    """A plan for all drives; copies are spread over racks where there are any, else over hosts."""
    changes, osds = [], []
    for osd_id in range(hosts * drives):
        name = f"h{osd_id // drives:03d}"
        rack = [("rack", f"r{osd_id // drives * racks // hosts}")] if racks else []
        osds.append(make.osd(osd_id, name, location=(("host", name), *rack)))
        changes.append(change(
            osd_id, hostname=name, load_point=LoadPoint.OSD_TRAFFIC,
            drive_model=f"model {osd_id % drives % models}",
        ))
    cluster = make.cluster(osds, failure_types=("rack" if racks else "host",))
    found, waves = arranged(changes, cluster)
    return replace(Rollout(
        "p1", 0.0, found, waves=waves, gate=GateSettings(True, 5.0, 60.0), parallel_max=2,
        canary_wait_s=600.0, settle_s=2.0,
    ), **values)


class Fleet(GatedMgr):
    """Drives of a plan that commit faster for it; the plan is not stored."""

    def __init__(self, rollout, together=10**6):
        self.plan = rollout
        # of each step: its changes, those told then of it and of what follows, when it began,
        # and the time left
        self.made, self.told, self.began_s, self.left = [], [], [], []
        super().__init__(together=together)
        self.controls = range(10_000, 10_008)

    def _start(self):
        self.machine = RolloutMachine(self.plan)
        self.task = self.load = self.watch = None

    def _look(self):
        pass

    def save(self):
        pass

    def to_the_end(self):
        self.give(events.Begin())
        while not self.machine.over:
            assert not self.machine.paused, self.machine.rollout.reason
            assert self.step()
        assert self.machine.rollout.status.value == "done"
        return self

    def give(self, event, lost_after=None):
        todo = self.machine.handle(event, self.now_s)
        step = self.machine.rollout.step.indices
        if step and step not in self.made:
            steps = [*self.machine.steps_left()]
            self.made.append(step)
            self.told.append([each.indices for each in steps])
            self.began_s.append(self.now_s)
            self.left.append(time_left(self.machine.rollout, steps, self.now_s))
        self.run(todo)

    def apply_now(self, request):
        before = self.modes.get(request.domain_id, WB)
        if not isinstance(request, ApplyRequest):
            return DrivesOutcome((drive_of(request.domain_id, before),))
        self.modes[request.domain_id] = request.mode
        states = (make.state(before),), (make.state(request.mode),)
        return StateOutcome(*states, (), before is not request.mode, ("d",))


KIND = Sums(a_plan(1, 1).changes[0].pooled_as)
FLEETS = {
    "a thousand in five racks": a_plan(100, 10, racks=5),
    "three hosts of eight": a_plan(3, 8),
    "one host": a_plan(1, 12),
    "two models": a_plan(4, 6, models=2),
    "nothing is judged by load": a_plan(2, 3, overridden=(Precondition.CLIENT_LOAD,)),
    # the first host has proven all of its own, which count as half of that for others at most
    "begun": replace(a_plan(4, 8), evidence=(KIND.having_proven({"h000": 8}),), changes=tuple(
        replace(item, status=ChangeStatus.APPLIED) if item.hostname == "h000" else item
        for item in a_plan(4, 8).changes
    )),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FLEETS if not name.startswith("nothing")])
def test_the_steps_that_are_told_are_those_that_the_machine_makes(name):
    told = [step.indices for step in steps_left(FLEETS[name])]
    fleet = Fleet(FLEETS[name]).to_the_end()
    assert fleet.made == told
    # as it was told whenever a step began
    assert fleet.told == [fleet.made[at:] for at in range(len(fleet.made))]
    for began_s, left in zip(fleet.began_s, fleet.left):
        assert left.least_s <= fleet.now_s - began_s <= left.most_s


def test_a_thousand_drives_in_five_racks_are_more_than_a_few_large_steps():
    steps = [len(step.indices) for step in steps_left(FLEETS["a thousand in five racks"])]
    assert sum(steps) == 1000
    assert steps[:4] == [1, 2, 3, 4]  # the canary's host; of others, half of that at first
    assert len(steps) > 25
    assert max(steps) == 48


@pytest.mark.slow
def test_a_limit_of_the_mons_holds_for_the_steps_to_come_until_more_go_together():
    fleet = Fleet(a_plan(3, 8), together=3).to_the_end()
    assert max(map(len, fleet.made)) == 3
    limited = next(
        at for at in range(1, len(fleet.made)) if fleet.told[at - 1][1] != fleet.made[at]
    )
    assert fleet.told[limited:] == [fleet.made[at:] for at in range(limited, len(fleet.made))]


def test_what_load_does_not_judge_is_told_one_by_one():
    steps = list(steps_left(FLEETS["nothing is judged by load"]))
    assert [step.indices for step in steps] == [(index,) for index in range(6)]
    assert not any(step.by_load for step in steps)


@pytest.mark.slow
def test_the_steps_of_ten_thousand_drives_are_found_in_a_moment():
    rollout = a_plan(1000, 10, racks=40)
    began_s = time.thread_time()
    assert sum(len(step.indices) for step in steps_left(rollout)) == 10_000
    assert time.thread_time() - began_s < 1.0  # 0.08 s on a quiet machine

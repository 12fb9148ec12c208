"""Values in the config database (memory, mClock) are judged by clients' reads and writes."""

import itertools
import random
import re

import pytest
from memory_world import GIB, TARGET, a_mgr
from memory_world import watch as read_memory
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import apply_plan, ok, said, until
from wcache.core.record import Precondition

pytestmark = pytest.mark.slow  # whole rollouts

HDD = "osd_mclock_max_capacity_iops_hdd"
CLASS = ("osd/class:hdd", HDD)
STEP_S = 5.0


class Clients:
    """Their reads and writes, slower by a factor on OSDs that a test names."""

    def __init__(self, mgr, slow=lambda osd_id: False, reads=400.0, writes=10_000.0):
        self.slow, self.reads, self.writes = slow, reads, writes
        self.slower_reads, self.slower_writes = 1.5, 1.0
        self.random = random.Random(7)
        mgr.blocks.latency_us = lambda o: self._us(o, self.writes, self.slower_writes)
        mgr.blocks.read_us = lambda o: self._us(o, self.reads, self.slower_reads)

    def _us(self, osd_id, usual, factor):
        noise = self.random.lognormvariate(0.0, 0.02)
        return usual * noise * (factor if self.slow(osd_id) else 1.0)


def memory_mgr(**options):
    """Three hosts with two OSDs: the starved class gets more, the idle one less, in steps."""
    given = {"memory_floor": GIB, "memory_step_s": STEP_S, **options}
    mgr = a_mgr(
        hosts=3, ram_bytes=int(7.8 * GIB), gate_by_load=True, gate_block_s=0.5, canary_wait_s=0.0,
        **given,
    )
    read_memory(mgr)
    return mgr


def begin(mgr, **plan):
    plan_id = apply_plan(mgr, **plan)
    return mgr.inside.rollouts[plan_id]


def end(mgr, machine, seconds=0.5):
    until(mgr, lambda: not machine.under_way, 8000, seconds)
    return machine.rollout.status.value


def notes(mgr):
    return [entry["text"] for entry in said(mgr, "history", limit=400)["history"]]


def smaller(mgr):
    """Whether an OSD has less memory than it had."""
    before = {osd_id: mgr.osd_memory.target_of(osd_id) for osd_id in mgr.osd_memory.osds}
    return lambda osd_id: mgr.osd_memory.target_of(osd_id) < before[osd_id]


@pytest.mark.parametrize(("which", "writes"), [
    ("reads", 10_000.0), ("writes", 10_000.0), ("reads", 0.0),
], ids=["reads", "writes", "no writes"])
def test_memory_that_slows_clients_goes_back_to_what_it_was(which, writes):
    mgr = memory_mgr()
    kept = dict(mgr.config.kept)
    clients = Clients(mgr, smaller(mgr), writes=writes)
    if which == "writes":
        clients.slower_reads, clients.slower_writes = 1.0, 1.5
    machine = begin(mgr, knob="memory")
    assert end(mgr, machine) == "rolled back"
    judged = "read" if which == "reads" else "commit"
    assert f"worse: {judged} latency changed by +" in machine.rollout.reason
    assert mgr.config.kept == kept
    assert smaller(mgr)(1) is False


def unlike_hosts(hosts=20):
    """Hosts of which one has a value of its own, so that each is to have one."""
    mgr = a_mgr(
        hosts=hosts, ram_bytes=int(7.8 * GIB), gate_by_load=True, gate_block_s=0.5,
        canary_wait_s=0.0, memory_floor=GIB, memory_step_s=STEP_S,
    )
    mgr.config.kept[("osd/host:h0/class:ssd", TARGET)] = f"{4 * GIB}.000000"
    mgr.inside.config.read_soon()
    mgr.step()
    read_memory(mgr)
    return mgr


def felt(places):
    """The hosts that sections, or commands with them, name."""
    return set(re.findall(r"host:(h\d+)", " ".join(places)))


def steps_of(machine):
    """The hosts of each step of a memory plan, one value in several changes being one."""
    return [
        (falls, set().union(*(felt(edit.who for edit in change.edits) for change in changes)))
        for (falls, _), changes in itertools.groupby(
            machine.rollout.changes, key=lambda c: (c.wait_s > 0.0, c.setting.touches))
    ]


def test_hosts_with_values_of_their_own_get_them_in_groups_that_grow():
    mgr = unlike_hosts()
    Clients(mgr)
    steps = steps_of(begin(mgr, knob="memory"))
    assert [len(hosts) for falls, hosts in steps if falls] == [1, 1, 2, 3, 3, 3, 3, 3, 1]


@pytest.mark.parametrize("at", [0, 3])
def test_memory_that_slows_clients_of_a_group_goes_back_there_and_no_later_host_is_touched(at):
    mgr = unlike_hosts()
    kept = dict(mgr.config.kept)
    machine = begin(mgr, knob="memory")
    steps = [hosts for falls, hosts in steps_of(machine) if falls]
    less = smaller(mgr)
    hurt = {
        osd_id for osd_id, osd in mgr.view.state.osds.items() if osd.hostname in steps[at]
    }
    Clients(mgr, lambda osd_id: osd_id in hurt and less(osd_id))
    assert end(mgr, machine) in ("rolled back", "stopped")
    assert "worse: read latency" in machine.rollout.reason
    assert felt(mgr.config.writes) == set().union(*steps[:at + 1])
    left = [who for who, name in mgr.config.kept.items() if kept.get(who) != name]
    assert felt(who for who, _ in left) == set().union(*steps[:at])


def test_the_steps_of_one_value_are_judged_together_and_wait_between_them():
    mgr = memory_mgr()
    Clients(mgr)
    machine = begin(mgr, knob="memory")
    sizes, written_at_s = set(), []
    for _ in range(8000):
        if not machine.under_way:
            break
        before = len(mgr.config.writes)
        mgr.step(0.5)
        sizes.add(len(machine.rollout.step.indices))
        written_at_s += [mgr.now_s] * (len(mgr.config.writes) - before)
    assert machine.rollout.status.value == "done"
    assert max(sizes) > 5
    assert len(written_at_s) == len(machine.rollout.changes)
    falls = [
        at_s for at_s, change in zip(written_at_s, machine.rollout.changes) if change.wait_s
    ]
    assert min(b - a for a, b in zip(falls, falls[1:])) >= STEP_S


def test_without_clients_it_is_read_back_and_that_is_said_once_for_a_value():
    mgr = memory_mgr()
    machine = begin(mgr, knob="memory")
    assert end(mgr, machine) == "done"
    said_so = [text for text in notes(mgr) if text.endswith("it is only read back")]
    assert 1 <= len(said_so) <= 3
    assert all("clients write too little" in text for text in said_so)


# ---- mClock


def mclock_mgr(osds=5):
    mgr = FakeMgr(
        *((f"h{i}", (make.drive("sda", i),)) for i in range(osds)), gate_by_load=True,
        gate_block_s=0.5, canary_wait_s=0.0,
    )
    mgr.report_all()
    for osd_id in range(osds):
        mgr.config.kept[(f"osd.{osd_id}", HDD)] = "120.500000"
    mgr.step()
    ok(mgr.command("campaign start", loads="capacity", accept_cost=True))
    mgr.settle()
    mgr.inside.config.read_soon()
    mgr.step()
    return mgr


def test_a_capacity_that_slows_clients_goes_back():
    mgr = mclock_mgr()
    kept = dict(mgr.config.kept)
    Clients(mgr, lambda osd_id: CLASS in mgr.config.kept)
    machine = begin(mgr, knob="mclock")
    assert end(mgr, machine) == "rolled back"
    assert "worse: read latency changed by +" in machine.rollout.reason
    assert mgr.config.kept == kept


def test_a_capacity_that_hurts_nobody_is_set_and_an_admin_may_leave_clients_out():
    mgr = mclock_mgr()
    Clients(mgr)
    machine = begin(mgr, knob="mclock")
    assert end(mgr, machine) == "done"
    assert {who for who, name in mgr.config.kept if name == HDD} == {CLASS[0]}
    assert any(text.startswith("step judged") for text in notes(mgr))
    other = mclock_mgr()
    Clients(other, lambda osd_id: CLASS in other.config.kept)
    plan_id = said(other, "plan", knob="mclock")["plan_id"]
    name = Precondition.CLIENT_LOAD.name.lower()
    ok(other.command("apply", plan_id=plan_id, override=name))
    assert end(other, other.inside.rollouts[plan_id]) == "done"


def test_what_a_section_reaches_is_no_control_of_it_though_only_some_are_watched():
    mgr = mclock_mgr(osds=12)
    Clients(mgr)
    begin(mgr, knob="mclock")
    while not mgr.blocks.requests:
        mgr.step(0.5)
    (request,) = mgr.blocks.requests
    assert len(request.treated) == 8
    # the whole class has it, so none of its OSDs stands for what would have been
    assert request.controls == ()

"""A task that hangs in the kernel: calls go on, its lease ends, and it switches nothing late."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, List, Optional, Union

import pytest
from probe_process import ProbeProcess
from process_bench import marks, mode_of, set_mode
from sim_drives import (
    BACK,
    DRIVES,
    NVME,
    OBEYS,
    THROUGH,
    FakeStop,
    Probe,
    StopNever,
    WorkHere,
    hold,
    lease,
)
from wcache.core.errors import NotReadyError
from wcache.core.host_report import Waiting
from wcache.core.protocol import (
    ApplyRequest,
    FailureOutcome,
    Lease,
    ReleaseRequest,
    SetModeRequest,
    StateOutcome,
)
from wcache_probe.agent import ProbeLoop
from wcache_probe.stop_signal import StopSignal
from wcache_probe.switching import steps
from wcache_probe.switching.lease import TASK_MAX_S
from wcache_probe.worker import Job, Worker


@pytest.fixture
def probe(tmp_path: Path):
    made = ProbeProcess(tmp_path, DRIVES)
    yield made
    made.kill()


# ---- in a process of its own


@pytest.mark.slow
def test_an_fsync_that_hangs_stops_no_call_and_renews_no_lease_beyond_its_task(probe, mgr):
    mgr.say()
    probe.start()
    mgr.wait_for(lambda: mgr.hellos())
    (probe.hangs / "fsync").write_text("")
    mgr.say(SetModeRequest(OBEYS, THROUGH), "t1", Lease("L1", OBEYS, 4.0))
    mgr.wait_for(lambda: mgr.hellos()[-1]["lease_id"] == "L1")
    told = mgr.wait_for(lambda: mgr.hellos()[-1]["waiting"])
    assert told["what"].startswith(f"set_mode of {OBEYS}: fsync of /")
    # the mgr goes on naming it
    mgr.wait_for(lambda: mgr.hellos()[-1]["lease_id"] == "" and mgr.hellos()[-1]["waiting"])
    called = len(mgr.hellos())
    mgr.wait_for(lambda: len(mgr.hellos()) > called + 1)
    assert {hello["lease_id"] for hello in mgr.hellos()[called:]} == {""}
    assert mode_of(probe) is BACK
    (probe.hangs / "fsync").unlink()
    answer = mgr.answer_to("t1")
    assert (answer["kind"], answer["restored"]) == ("failure", True)
    assert "task t1 was not done within its 4 s" in answer["message"]
    assert mode_of(probe) is BACK
    assert list((probe.state / "journal").glob("*.json")) == []
    set_mode(mgr, THROUGH)
    assert probe.stop() == 0
    assert mode_of(probe) is BACK


@pytest.mark.slow
def test_a_stop_takes_its_time_and_no_longer_and_names_what_it_cannot_end(probe, mgr):
    both = Lease("L1", OBEYS, 60.0, NVME)
    probe.start()
    mgr.say(SetModeRequest(NVME, THROUGH), "t1", both)
    assert mgr.answer_to("t1")["kind"] == "state"
    (probe.hangs / OBEYS).write_text("")
    mgr.say(SetModeRequest(OBEYS, THROUGH), "t2", both)
    mgr.wait_for(lambda: mgr.hellos() and mgr.hellos()[-1]["waiting"])
    assert probe.stop(seconds=30.0) == 1
    assert mode_of(probe, NVME) is BACK, "a drive that hangs holds up no other"
    log = probe.log.read_text()
    said = "this cannot be ended, and the kernel keeps the process until it is over"
    assert f"{said}: set_mode of {OBEYS}" in log


@pytest.mark.slow
def test_a_stop_beside_a_disk_that_is_slow_to_sync_leaves_the_drive_as_it_was(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    (probe.hangs / "fsync").write_text("")
    assert probe.stop(seconds=30.0) == 0
    assert mode_of(probe) is BACK
    # its child still waits for the disk, and then takes the mark away
    assert marks(probe)
    (probe.hangs / "fsync").unlink()
    mgr.wait_for(lambda: not marks(probe))


@pytest.mark.slow
def test_nothing_restores_beside_a_change_that_hangs_and_it_goes_back_by_itself(probe, mgr):
    lease_ = Lease("L1", OBEYS, 3.0)
    probe.start()
    set_mode(mgr, THROUGH, lease_)
    (probe.hangs / OBEYS).write_text("")
    mgr.say(SetModeRequest(OBEYS, BACK), "t2", lease_)
    mgr.wait_for(lambda: mgr.hellos()[-1]["lease_id"] == "" and mgr.hellos()[-1]["waiting"])
    called = len(mgr.hellos())
    mgr.wait_for(lambda: len(mgr.hellos()) > called + 2)
    children = Path(f"/proc/{probe.process.pid}/task/{probe.process.pid}/children").read_text()
    assert children.split() == []
    (probe.hangs / OBEYS).unlink()
    assert mgr.answer_to("t2")["restored"] is True
    assert mode_of(probe) is BACK
    assert probe.stop() == 0


# ---- who wakes up late


class Late:
    """A step of a change takes so long."""

    def __init__(self, probe: Probe, kind: type, seconds: float) -> None:
        self.done: List[type] = []
        do = probe.switcher._do

        def slow(step: steps.Step) -> object:
            result = do(step)
            self.done.append(type(step))
            if isinstance(step, kind) and self.done.count(kind) == 1:
                probe.clock.now_s += seconds
            return result

        probe.switcher._do = slow  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(("leased", "kind"), [
    (True, steps.WriteJournal), (True, steps.ReadState), (True, steps.Pin), (True, steps.Flush),
    (False, steps.WriteJournal), (False, steps.Pin), (False, steps.Flush),
])
def test_a_change_that_wakes_up_late_switches_nothing_and_goes_back(leased, kind):
    """Under a lease, or decided by a plan."""
    probe = Probe()
    probe.mgr.lease = lease(ttl_s=30.0) if leased else None
    decided = ApplyRequest(OBEYS, "a1", BACK, THROUGH)
    probe.mgr.ask("t1", SetModeRequest(OBEYS, THROUGH) if leased else decided)
    late = Late(probe, kind, 31.0 if leased else TASK_MAX_S)
    probe.agent(StopNever(probe)).run_turn()
    outcome = probe.mgr.outcome("t1")
    assert isinstance(outcome, FailureOutcome)
    assert (outcome.restored, probe.mode(OBEYS), probe.journal.entries) == (True, BACK, {})
    assert steps.SetCache not in late.done


def test_a_change_goes_on_where_a_step_is_slow_and_its_lease_lives():
    probe = Probe()
    probe.mgr.lease = lease(ttl_s=30.0)
    probe.mgr.ask("t1", SetModeRequest(OBEYS, THROUGH))
    Late(probe, steps.WriteJournal, 20.0)
    probe.agent(StopNever(probe)).run_turn()
    assert isinstance(probe.mgr.outcome("t1"), StateOutcome)
    assert probe.mode(OBEYS) is THROUGH


def test_a_way_back_goes_on_however_late_it_is():
    probe = Probe()
    hold(probe)
    Late(probe, steps.ReadState, 10_000.0)
    probe.mgr.ask("r1", ReleaseRequest(OBEYS))
    probe.agent(StopNever(probe)).run_turn()
    assert (probe.mode(OBEYS), probe.journal.entries) == (BACK, {})


def test_a_domain_that_a_task_is_changing_is_left_to_that_task():
    probe = Probe()
    hold(probe)
    probe.keeper.stopping()
    with probe.switcher.alone(OBEYS):
        results = probe.restoring.restore_owed()
        assert isinstance(results[OBEYS], NotReadyError)
        assert probe.mode(OBEYS) is THROUGH
    probe.clock.now_s += 60.0
    assert probe.restoring.restore_owed() == {OBEYS: None}
    assert probe.mode(OBEYS) is BACK


# ---- what waits behind a look around that hangs


class Hanging(WorkHere):
    """A worker that hangs in the first that it is given, until it is let go."""

    def __init__(self) -> None:
        self.jobs: List[Job] = []

    @property
    def busy(self) -> bool:  # type: ignore[override]
        return bool(self.jobs)

    def give(self, job: Job) -> None:
        self.jobs.append(job)

    def waiting(self, over_s: float) -> Optional[Waiting]:
        return Waiting("looking around", 5.0) if self.jobs else None

    def let_go(self) -> None:
        while self.jobs:
            self.jobs.pop(0)()

    def wait(self, seconds: float) -> bool:
        self.let_go()
        return True


def behind_a_hanging_look(
    probe: Probe, worker: Hanging, stop: Optional[Union[FakeStop, StopNever]] = None
) -> ProbeLoop:
    probe.mgr.next_poll_s = 2.0
    agent = probe.agent(stop or StopNever(probe))
    agent.worker = worker
    return agent


def withdrawn(probe: Probe, agent: ProbeLoop) -> None:
    probe.mgr.tasks.clear()
    agent.run_turn()


def replaced(probe: Probe, agent: ProbeLoop) -> None:
    probe.mgr.tasks.clear()
    probe.mgr.ask("t2", ReleaseRequest(NVME))
    agent.run_turn()


def overdue(probe: Probe, agent: ProbeLoop) -> None:
    until_s = probe.clock.now_s + TASK_MAX_S
    while probe.clock.now_s < until_s:
        agent.run_turn()


def unheard(probe: Probe, agent: ProbeLoop) -> None:
    probe.mgr.error = NotReadyError("gone")
    overdue(probe, agent)
    probe.mgr.error = None


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (withdrawn, "the mgr no longer asks for task t1"),
        (replaced, "the mgr no longer asks for task t1"),
        (overdue, "task t1 was not done within its 300 s"),
        (unheard, "task t1 was not done within its 300 s"),
    ],
)
def test_a_decided_change_that_waited_too_long_for_its_turn_is_not_begun(
    meanwhile: Callable[[Probe, ProbeLoop], None], why: str
):
    probe, worker = Probe(), Hanging()
    probe.mgr.ask("t1", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    agent = behind_a_hanging_look(probe, worker)
    agent.run_turn()
    meanwhile(probe, agent)
    worker.let_go()
    assert (probe.mode(OBEYS), probe.journal.entries) == (BACK, {})
    agent.run_turn()
    outcome = probe.mgr.outcome("t1")
    assert isinstance(outcome, FailureOutcome)
    assert (outcome.message, outcome.restored) == (f"it was not begun: {why}", True)


def test_a_change_that_waited_a_little_for_its_turn_is_made():
    probe, worker = Probe(), Hanging()
    probe.mgr.ask("t1", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    agent = behind_a_hanging_look(probe, worker)
    for _ in range(10):
        agent.run_turn()
    worker.let_go()
    assert probe.mode(OBEYS) is THROUGH


def test_an_answer_does_not_say_that_its_task_still_waits_where_what_follows_hangs():
    probe, worker = Probe(), Hanging()
    probe.mgr.ask("t1", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    agent = behind_a_hanging_look(probe, worker)
    agent.run_turn()
    worker.let_go()
    worker.give(lambda: None)
    agent.run_turn()
    assert [(post.task_id, post.waiting) for post in probe.mgr.posts] == [("t1", None)]
    agent.run_turn()
    assert probe.mgr.hellos[-1].waiting == Waiting("looking around", 5.0)


def test_a_change_of_one_lease_is_not_begun_under_the_next():
    probe, worker = Probe(), Hanging()
    probe.mgr.lease = lease()
    probe.mgr.ask("t1", SetModeRequest(OBEYS, THROUGH))
    agent = behind_a_hanging_look(probe, worker)
    agent.run_turn()
    probe.mgr.lease = lease(lease_id="L2")
    agent.run_turn()
    worker.let_go()
    agent.run_turn()
    assert probe.mgr.outcome("t1").message == "it was not begun: lease L1 has ended"
    assert (probe.mode(OBEYS), probe.journal.entries, probe.keeper.held) == (BACK, {}, ())


def test_a_change_whose_turn_comes_after_the_stop_is_not_begun():
    probe, worker = Probe(), Hanging()
    probe.mgr.ask("t1", ApplyRequest(OBEYS, "a1", BACK, THROUGH))
    behind_a_hanging_look(probe, worker, FakeStop(probe.clock)).run()
    assert (probe.mode(OBEYS), probe.journal.entries) == (BACK, {})
    assert worker.jobs == []


def test_a_way_back_is_begun_however_long_it_waited():
    probe, worker = Probe(), Hanging()
    hold(probe)
    probe.mgr.ask("r1", ReleaseRequest(OBEYS))
    agent = behind_a_hanging_look(probe, worker)
    agent.run_turn()
    overdue(probe, agent)
    worker.let_go()
    agent.run_turn()
    assert isinstance(probe.mgr.outcome("r1"), StateOutcome)
    assert (probe.mode(OBEYS), probe.journal.entries) == (BACK, {})


def test_no_call_renews_a_lease_beyond_the_time_of_a_look_around_that_hangs():
    probe, worker = Probe(), Hanging()
    hold(probe)
    agent = behind_a_hanging_look(probe, worker)
    agent.run_turn()
    assert probe.keeper.lease(probe.clock()) is not None
    overdue(probe, agent)
    assert probe.keeper.lease(probe.clock()) is None
    probe.restoring.restore_owed()  # as the guard does
    assert probe.mode(OBEYS) is BACK
    assert "a look around did not end within its 300 s" in probe.said[-1]


# ---- the worker


def test_a_worker_tells_what_it_is_at_and_since_when_and_raises_what_a_job_raised(tmp_path):
    clock = [100.0]
    worker = Worker(lambda: clock[0])
    reads, writes = os.pipe()

    def job() -> None:
        worker.begin("look")
        worker.at("/dev/sdq is opened")
        os.read(reads, 1)
        raise KeyError("what")

    worker.give(job)
    while worker.waiting(-1.0) is None or "sdq" not in worker.waiting(-1.0).what:
        assert worker.busy
    clock[0] += 7.0
    assert worker.waiting(7.0) is None
    told = worker.waiting(2.0)
    assert (told.what, told.seconds) == ("look: /dev/sdq is opened", 7.0)
    worker.at("another thread is at something")
    assert worker.waiting(2.0) == told
    assert not worker.wait(0.0)
    os.write(writes, b".")
    with pytest.raises(KeyError):
        worker.wait(60.0)
    os.close(reads)
    os.close(writes)


def test_a_wait_is_ended_by_a_worker_that_has_an_answer():
    stop = StopSignal()
    stop.wake(end=True)
    stop.wait(3600.0)

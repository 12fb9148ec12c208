"""`restore --all` beside a running probe: the probe obeys, and nothing is claimed before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sim_drives import BACK, NVME, OBEYS, THROUGH, Probe, StopNever, hold
from wcache.core.protocol import Lease, SetModeRequest
from wcache_probe.commands.restore import AskedToRestore, RestoreRequests, _ask_running_probe
from wcache_probe.journal.journal_file import StateFolder
from wcache_probe.restoring import owed
from wcache_probe.restoring.owed import guard, step_in

BUSY = """
import signal, sys
from wcache_probe.journal.journal_file import StateFolder
ends = sys.argv[3] == "ends"
signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0) if ends else None)
state = StateFolder(sys.argv[1], sys.argv[2])
state.lock()
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def requests(tmp_path: Path) -> RestoreRequests:
    return RestoreRequests(str(tmp_path))


def holder(state: StateFolder, root: Path, when_asked: str) -> subprocess.Popen:
    """A process in the place of the probe, that is asked."""
    made = subprocess.Popen(
        [sys.executable, "-c", BUSY, state.path, str(root / "run"), when_asked],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert made.stdout.readline() == "locked\n"
    return made


def asked_of(probe: Probe, requests: RestoreRequests) -> AskedToRestore:
    return AskedToRestore(
        requests=requests, keeper=probe.keeper, restoring=probe.restoring,
        journal=probe.journal, say=probe.said.append,
    )


def test_a_probe_that_is_busy_with_a_drive_is_made_to_restore_by_its_guard(probe, requests):
    asked = asked_of(probe, requests)
    busy_s = [1.0]
    hold(probe)
    request_id = requests.ask(0)
    step_in(asked.look, lambda: busy_s[0])
    assert requests.pending(), "the worker does it"
    busy_s[0] = 3.0
    step_in(asked.look, lambda: busy_s[0])
    (line,) = requests.wait(request_id, 1.0, lambda: True)
    assert line.restored
    assert probe.mode(OBEYS) is BACK
    probe.mgr.ask("next", SetModeRequest(OBEYS, THROUGH))
    probe.agent(StopNever(probe)).run_turn()
    assert probe.mgr.outcome("next").refused
    assert probe.mode(OBEYS) is BACK


def test_an_answer_that_cannot_be_written_keeps_the_guard_from_no_restore(probe, monkeypatch):
    monkeypatch.setattr(owed, "EVERY_S", 0.01)
    written, hangs = threading.Event(), threading.Event()

    def answer() -> None:
        hangs.set()
        written.wait()

    busy_s = [3.0]
    hold(probe)
    guard(probe.restoring, lambda: busy_s[0], answer)
    assert hangs.wait(30.0)
    assert probe.mode(OBEYS) is THROUGH, "its lease lives"
    probe.clock.now_s += 60.0
    for _ in range(3000):
        if probe.mode(OBEYS) is BACK:
            break
        time.sleep(0.01)
    busy_s[0] = 0.0
    assert probe.mode(OBEYS) is BACK
    written.set()


def test_no_task_is_done_while_a_request_to_restore_stands(probe, requests):
    """The mgr has a task ready at once for each answer, so that the turn goes on and on."""
    probe.mgr.lease = Lease("L1", OBEYS, 30.0, NVME)
    probe.mgr.ask("one", SetModeRequest(OBEYS, THROUGH))
    probe.mgr.ask("two", SetModeRequest(NVME, THROUGH))
    agent = probe.agent(StopNever(probe))
    agent.at_turn = asked_of(probe, requests).look
    ids = []

    def after_step(_number: int, _step: object) -> None:
        if not ids:
            ids.append(requests.ask(0))

    probe.switcher.after_step = after_step
    agent.run_turn()
    assert probe.mgr.outcome("two").refused
    (line,) = requests.wait(ids[0], 1.0, lambda: True)
    assert line.restored
    assert (probe.mode(OBEYS), probe.mode(NVME)) == (BACK, BACK)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": "r"}', "[" * 200_000])
def test_an_answer_that_makes_no_sense_is_none(tmp_path, text):
    (tmp_path / "restore.answer").write_text(text)
    requests = RestoreRequests(str(tmp_path))
    assert requests.wait("r", 0.1, lambda: False, lambda _seconds: None) is None


@pytest.mark.slow
@pytest.mark.parametrize("holds", [True, False])
def test_a_request_that_is_not_answered_stands_and_nothing_is_claimed_to_be_back(
    probe, tmp_path, holds
):
    state = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"))
    if holds:
        hold(probe)
        for key, text in probe.journal.entries.items():
            state.journal.write(key, text)
    busy = holder(state, tmp_path, "answers nothing")
    try:
        lines = _ask_running_probe(state, 0.3)
    finally:
        busy.communicate()
    assert [line.restored for line in lines] == [False]
    assert f"the probe with pid {busy.pid} is busy" in lines[0].text
    assert ("sim-sd0 to write back" in lines[0].text) == holds
    requests = RestoreRequests(state.path)
    assert requests.pending()
    # what it still holds, and whatever it changed meanwhile, comes back when it goes on
    if not holds:
        hold(probe)
    asked_of(probe, requests).look()
    assert probe.mode(OBEYS) is BACK
    assert not requests.pending()


def test_a_probe_that_ends_while_it_is_asked_leaves_the_restoring_to_who_asked(tmp_path):
    state = StateFolder(str(tmp_path / "state"), str(tmp_path / "run"))
    busy = holder(state, tmp_path, "ends")
    assert _ask_running_probe(state, 30.0) is None
    assert state.locked
    busy.communicate()
    assert busy.returncode == 0

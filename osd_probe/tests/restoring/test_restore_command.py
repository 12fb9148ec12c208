"""`wcache-probe restore` beside a real probe process, and without one."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import pytest
from probe_process import ProbeProcess
from process_bench import LEASE, holding, marks, mode_of, set_mode
from sim_drives import BACK, DRIVES, OBEYS, THROUGH
from wcache.core.protocol import (
    ApplyRequest,
    Lease,
    SetModeRequest,
)

pytestmark = pytest.mark.slow

ENDS = """
import ctypes, signal, threading, time
signal.signal(signal.SIGUSR1, lambda number, frame: None)
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def probe(tmp_path: Path):
    made = ProbeProcess(tmp_path, DRIVES)
    yield made
    made.kill()


@pytest.mark.parametrize("runs", [True, False])
def test_an_applied_change_survives_a_restore_of_leases_which_names_what_takes_it_back(
    probe, mgr, runs
):
    probe.start()
    mgr.say(ApplyRequest(OBEYS, "a1", BACK, THROUGH), "t1")
    assert mgr.answer_to("t1")["changed"] is True
    if not runs:
        assert probe.stop() == 0
    done = probe.restore_all()
    assert "nothing to restore\n" in done.stdout
    assert mode_of(probe) is THROUGH
    last = done.stdout.splitlines()[-1]
    assert last.startswith("applied, and not taken back: sim-sd0; was in write back: `")
    one = probe.command(*shlex.split(last.split("`")[1])[1:])
    assert one.returncode == 0, one.stderr
    assert mode_of(probe) is BACK
    assert "applied" not in probe.restore_all().stdout


def test_an_applied_change_is_not_taken_back_under_a_lease(probe, mgr):
    probe.start()
    mgr.say(ApplyRequest(OBEYS, "a1", BACK, THROUGH), "t1")
    assert mgr.answer_to("t1")["changed"] is True
    mgr.say(SetModeRequest(OBEYS, BACK, consent_turn_on=True), "t2", LEASE)
    assert mgr.answer_to("t2")["changed"] is True
    one = probe.command(*probe.words("restore"), "--action", "a1")
    assert one.returncode == 1
    assert "lease L1 holds" in one.stderr
    assert "restore --all` first" in one.stderr


def test_restore_all_has_a_running_probe_restore_and_give_up_its_lease(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    done = probe.restore_all()
    assert (done.returncode, done.stderr) == (0, "")
    assert f"asking the probe with pid {probe.process.pid}" in done.stdout
    assert "to write back" in done.stdout
    assert mode_of(probe) is BACK
    # the mgr still names the lease: nothing is done under it any more
    mgr.say(SetModeRequest(OBEYS, THROUGH), "again", LEASE)
    assert "no live lease" in mgr.answer_to("again")["message"]
    assert mode_of(probe) is BACK
    other = Lease("L2", OBEYS, 30.0)
    mgr.say(SetModeRequest(OBEYS, THROUGH), "anew", other)
    assert mgr.answer_to("anew")["kind"] == "state"
    assert probe.stop() == 0


def test_restore_all_says_that_a_running_probe_has_nothing_to_restore(probe, mgr):
    mgr.say()
    probe.start()
    mgr.wait_for(lambda: mgr.instances() == 1)
    done = probe.restore_all()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("nothing to restore\n")


def test_restore_all_stops_a_running_probe_where_told_to(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    done = probe.restore_all("--stop")
    assert done.returncode == 0, done.stderr
    assert probe.wait() == 0
    assert mode_of(probe) is BACK


def test_restore_all_restores_beside_a_probe_that_does_nothing_any_more(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    probe.process.send_signal(signal.SIGSTOP)
    done = probe.restore_all()
    assert done.returncode == 0, done.stderr
    assert "restoring without it" in done.stderr
    assert mode_of(probe) is BACK
    request = probe.state / "restore.request"
    assert request.exists(), "what it is in the middle of, it undoes when it goes on"
    probe.process.send_signal(signal.SIGCONT)
    mgr.wait_for(lambda: not request.exists())
    assert probe.stop() == 0


def test_a_program_that_does_not_know_the_request_is_not_signalled(probe, mgr):
    with holding(probe.state, probe.run_dir) as holder:
        done = probe.restore_all()
        assert done.returncode == 2
        assert f"pid {holder.pid}" in done.stderr
        assert holder.poll() is None


def test_restore_all_tells_a_probe_that_ended_and_is_in_the_kernel_from_a_suspended_one(
    probe, mgr
):
    probe.start()
    set_mode(mgr, THROUGH)
    probe.kill()
    # its first thread has ended, and another one keeps its files: as after a kill -9 in an fsync
    with holding(probe.state, probe.run_dir, ENDS) as holder:
        status = Path(f"/proc/{holder.pid}/status")
        mgr.wait_for(lambda: "State:\tZ" in status.read_text())
        done = probe.restore_all()
    assert done.returncode == 0, done.stderr
    assert f"(pid {holder.pid}) has ended, but the kernel keeps it" in done.stderr
    assert "suspended" not in done.stderr
    assert mode_of(probe) is BACK


def test_restore_all_names_a_damaged_entry_leaves_it_and_restores_the_others(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    probe.kill()
    folder = probe.state / "journal"
    (folder / "lease%2Fdamaged.json").write_text('{"version": 1')
    done = probe.restore_all()
    assert done.returncode == 1
    assert "lease/damaged is damaged" in done.stderr
    assert mode_of(probe) is BACK
    assert [path.name for path in folder.glob("*.json")] == ["lease%2Fdamaged.json"]
    assert marks(probe)

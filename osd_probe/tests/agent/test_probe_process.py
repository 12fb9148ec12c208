"""Faults of a real probe process: after each, the drives are as they were."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from probe_process import ProbeProcess
from process_bench import LEASE, marks, mode_of, set_mode
from sim_drives import BACK, DRIVES, NVME, OBEYS, OFF, THROUGH
from wcache.core.model import CacheMode, FindingCode
from wcache.core.protocol import (
    ApplyRequest,
    CountersRequest,
    Lease,
    ReleaseRequest,
    ReportRequest,
    SetModeRequest,
)
from wcache_probe.changes import PAUSE_S, SETTLE_S

SIMULATED = (sys.executable, "-m", "wcache_sim")
NO_LIBRADOS = """
import sys
sys.modules["rados"] = None
from wcache_sim.probe import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def probe(tmp_path: Path):
    made = ProbeProcess(tmp_path, DRIVES)
    yield made
    made.kill()


@pytest.mark.parametrize(
    "mode", [CacheMode.WRITE_THROUGH, pytest.param(CacheMode.WRITE_BACK, marks=pytest.mark.slow)]
)
def test_kill_9_in_each_mode_is_repaired_at_the_next_start(probe, mgr, mode):
    probe.start()
    set_mode(mgr, THROUGH)
    set_mode(mgr, mode)
    probe.kill()
    assert mode_of(probe) is mode
    assert marks(probe)
    mgr.say()
    probe.start()
    mgr.wait_for(lambda: "the prior state is back" in json.dumps(mgr.posts()))
    assert mode_of(probe) is BACK
    assert not marks(probe)
    assert probe.stop() == 0


# journal, read, pin, read, flush, set, flush, read; test_agent_leases.py crashes after each
@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 3, 6])
def test_a_crash_in_a_toggle_is_repaired_with_no_mgr(probe, mgr, step):
    mgr.say(SetModeRequest(OBEYS, THROUGH), "t1", LEASE)
    probe.start(crash_after=step)
    assert probe.wait() == -9
    mgr.fall_silent()
    done = probe.restore_all()
    assert done.returncode == 0, done.stderr
    assert "restored" in done.stdout
    assert mode_of(probe) is BACK
    assert list((probe.state / "journal").glob("*.json")) == []


# read (it is pinned), flush, set, flush, read, journal
@pytest.mark.slow
@pytest.mark.parametrize("step", [3, 6])
def test_a_crash_in_a_restore_is_repaired_by_the_next_start(probe, mgr, step):
    probe.start()
    set_mode(mgr, THROUGH)
    probe.kill()
    mgr.fall_silent()
    probe.start(crash_after=step)
    mgr.wait_for(lambda: "ended with code -9" in probe.log.read_text())
    assert probe.process.poll() is None, "what restores is a process of its own"
    probe.kill()
    mgr.say()
    probe.start()
    mgr.wait_for(lambda: mgr.instances() == 2)
    # a start waits for a restore only so long: on a busy machine it goes on beside the first call
    mgr.wait_for(lambda: not list((probe.state / "journal").glob("*.json")), 60.0)
    assert mode_of(probe) is BACK


@pytest.mark.slow
def test_a_lease_that_runs_out_restores_with_no_mgr_and_tells_it_later(probe, mgr):
    lease = Lease("L1", OBEYS, 1.0)
    probe.start()
    set_mode(mgr, THROUGH, lease)
    mgr.fall_silent()
    mgr.wait_for(lambda: mode_of(probe) is BACK)
    mgr.say()
    mgr.wait_for(lambda: "ran out after 1 s" in json.dumps(mgr.posts()))


@pytest.mark.slow
def test_a_clean_stop_restores_and_exits_with_0(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    assert probe.stop() == 0
    assert mode_of(probe) is BACK
    assert "the probe was stopped" in json.dumps(mgr.posts())


@pytest.mark.slow
def test_a_start_pins_what_was_applied_and_waits_for_no_drive_that_hangs(probe, mgr):
    probe.start()
    for domain_id, was in ((OBEYS, BACK), (OFF, THROUGH)):
        applied = ApplyRequest(domain_id, f"a {domain_id}", was, was.other, consent_turn_on=True)
        mgr.say(applied, f"t {domain_id}")
        assert mgr.answer_to(f"t {domain_id}")["kind"] == "state"
    probe.kill()
    state = probe.state / "sim-drives.json"
    plain = json.loads(state.read_text())
    for drive in plain["drives"]:
        drive.update(pinned=False, kernel_view="write through")
    state.write_text(json.dumps(plain))
    (probe.hangs / OFF).write_text("")
    mgr.say()
    probe.start()
    mgr.wait_for(lambda: mgr.instances() == 2, 60.0)

    def pinned(drive_id):
        drives = json.loads(state.read_text())["drives"]
        return next(drive["pinned"] for drive in drives if drive["drive_id"] == drive_id)

    mgr.wait_for(lambda: pinned(OBEYS), 60.0)  # beside the first call, where the machine is busy
    assert not pinned(NVME), "it is not in the journal"
    wait_for_report(mgr, "while it hangs", ["sim-sd4"])
    (probe.hangs / OFF).unlink()
    wait_for_report(mgr, "when it goes on", [])
    assert pinned(OFF)
    assert probe.stop() == 0


def wait_for_report(mgr, name, not_pinned):
    """Wait until a report tells of these drives as not pinned, and of no other."""
    numbers = itertools.count()

    def told():
        task_id = f"{name} {next(numbers)}"
        mgr.say(ReportRequest(), task_id)
        findings = mgr.answer_to(task_id)["report"]["findings"]
        code = FindingCode.NOT_PINNED.value
        return [one["subject"] for one in findings if one["code"] == code] == not_pinned

    mgr.wait_for(told, 60.0)


@pytest.mark.slow
def test_a_drive_that_hangs_is_left_behind_and_the_others_are_restored(probe, mgr):
    both = Lease("L1", OBEYS, 30.0, NVME)
    probe.start()
    for number, domain_id in enumerate((OBEYS, NVME)):
        mgr.say(SetModeRequest(domain_id, THROUGH), f"t{number}", both)
        assert mgr.answer_to(f"t{number}")["kind"] == "state"
    (probe.hangs / OBEYS).write_text("")
    mgr.say(lease=None)
    mgr.wait_for(lambda: mode_of(probe, NVME) is BACK)
    assert mode_of(probe, OBEYS) is THROUGH
    # the loop goes on once it has waited for a while, and says what hangs
    mgr.wait_for(lambda: "still running after" in json.dumps(mgr.posts()), 60.0)
    mgr.say(CountersRequest(NVME), "c")
    assert mgr.answer_to("c")["kind"] == "state"
    assert len(marks(probe)) == 1
    (probe.hangs / OBEYS).unlink()
    back = "the prior state is back"
    mgr.wait_for(lambda: json.dumps(mgr.posts()).count(back) == 2, 60.0)
    assert mode_of(probe, OBEYS) is BACK
    assert probe.stop() == 0


@pytest.mark.slow
def test_a_lease_ends_though_the_loop_hangs_in_another_drive(probe, mgr):
    both = Lease("L1", OBEYS, 3.0, NVME)
    probe.start()
    mgr.say(SetModeRequest(NVME, THROUGH), "t1", both)
    assert mgr.answer_to("t1")["kind"] == "state"
    (probe.hangs / OBEYS).write_text("")
    mgr.say(SetModeRequest(OBEYS, THROUGH), "t2", both)
    mgr.wait_for(lambda: mode_of(probe, NVME) is BACK)
    assert probe.process.poll() is None
    assert not [post for post in mgr.posts() if post["task_id"] == "t2"], "the loop hangs"
    (probe.hangs / OBEYS).unlink()
    mgr.say()
    mgr.wait_for(lambda: "the prior state is back" in json.dumps(mgr.posts()))
    assert probe.stop() == 0
    assert mode_of(probe, OBEYS) is BACK


@pytest.mark.slow
def test_a_new_start_restores_what_it_can_though_the_way_to_the_mgr_is_missing(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    probe.kill()
    done = subprocess.run(
        [sys.executable, "-c", NO_LIBRADOS, str(probe.drive_file), *probe.words("run")],
        env=probe.environment(), capture_output=True, text=True, timeout=60, check=False,
    )
    assert done.returncode == 2
    assert "librados" in done.stderr
    assert mode_of(probe) is BACK


@pytest.mark.slow
def test_two_probes_on_one_state_folder_are_one_too_many(probe, mgr):
    mgr.say()
    probe.start()
    mgr.wait_for(lambda: mgr.instances() == 1)
    second = probe.command(*probe.words("run"))
    assert second.returncode == 2
    assert f"a probe (pid {probe.process.pid}) is running with" in second.stderr
    assert probe.process.poll() is None


@pytest.mark.slow
def test_a_drive_that_was_off_is_off_again_after_a_crash_in_write_back(probe, mgr):
    lease = Lease("L1", OFF, 30.0)
    probe.start()
    mgr.say(SetModeRequest(OFF, BACK, consent_turn_on=True), "t1", lease)
    assert mgr.answer_to("t1")["kind"] == "state"
    probe.kill()
    assert mode_of(probe, OFF) is BACK
    assert probe.restore_all().returncode == 0
    assert mode_of(probe, OFF) is THROUGH


@pytest.mark.slow
def test_a_release_that_is_asked_for_again_finds_nothing_to_do(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    mgr.say(ReleaseRequest(OBEYS), "r1", LEASE)
    assert mgr.answer_to("r1")["changed"] is True
    mgr.say(ReleaseRequest(OBEYS), "r2", LEASE)
    assert mgr.answer_to("r2")["changed"] is False


@pytest.mark.slow
def test_look_and_status_need_no_mgr_and_change_nothing(probe, mgr):
    probe.start()
    set_mode(mgr, THROUGH)
    files = {p: p.read_bytes() for p in probe.state.rglob("*.json")}
    nowhere = probe.state.parent / "new"
    # on the real drives of whatever host this is: 1 says that one of them is unsafe
    words = [sys.executable, "-m", "wcache_probe", "look", "--state-dir", str(nowhere)]
    real = subprocess.run(
        words, env=probe.environment(), capture_output=True, timeout=30, check=False
    )
    assert real.returncode in (0, 1), real.stderr
    assert not nowhere.exists()
    look = probe.command(*probe.words("look"), "--format", "json")
    drives = {drive["wwn"]: drive for drive in json.loads(look.stdout)["drives"]}
    assert drives[OBEYS]["state"]["device_cache"] == "write through"
    assert drives[OBEYS]["state"]["kernel_view"] == "write back"
    folders = ["--state-dir", str(probe.state), "--run-dir", str(probe.run_dir)]
    status = probe.command("status", *folders)
    assert f"running with pid {probe.process.pid}" in status.stdout
    assert "L1" in status.stdout
    assert files == {p: p.read_bytes() for p in probe.state.rglob("*.json")}


@pytest.mark.slow
def test_a_table_is_aligned(probe):
    lines = probe.command(*probe.words("look")).stdout.splitlines()
    column = lines[0].index("DEVICE CACHE")
    assert {line[column - 2 : column] for line in lines} == {"  "}
    assert all(line[column] != " " for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["restore", "--action", "a9"], "no change with the action id a9"),
        (["status", "--state-dir", "/dev/null/x"], "/dev/null/x"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(probe, words, said):
    folders = ["--state-dir", str(probe.state), "--run-dir", str(probe.run_dir)]
    done = probe.command(words[0], *folders, *words[1:])
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_reading_into_a_closed_pipe_is_no_traceback(probe):
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    with os.fdopen(write_fd, "wb") as pipe:
        done = subprocess.run(
            [*SIMULATED, str(probe.drive_file), *probe.words("look")], stdout=pipe,
            stderr=subprocess.PIPE, env=probe.environment(), check=False, timeout=30,
        )
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_what_the_journal_names_is_pinned_at_a_start_before_anybody_is_spoken_to(probe, mgr):
    """A new kernel has no pin; this start gets as far as looking for the cluster."""
    probe.start()
    mgr.say(ApplyRequest(OBEYS, "a1", BACK, THROUGH), "apply")
    assert mgr.answer_to("apply")["kind"] == "state"
    assert probe.stop() == 0
    path = probe.state / "sim-drives.json"
    settings = json.loads(path.read_text())
    (drive,) = [one for one in settings["drives"] if one["drive_id"] == OBEYS]
    drive.update(pinned=False, kernel_view=THROUGH.value)
    path.write_text(json.dumps(settings))
    ended = subprocess.run(
        [*SIMULATED, str(probe.drive_file), *probe.words("run"), "--conf", "/nonexistent"],
        env=probe.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    (after,) = [one for one in json.loads(path.read_text())["drives"] if one["drive_id"] == OBEYS]
    assert (after["pinned"], after["mode"]) == (True, THROUGH.value)


@pytest.mark.slow
def test_what_restore_has_done_beside_a_running_probe_is_told_to_the_mgr_at_once(probe, mgr):
    def changed():
        return [hello for hello in mgr.hellos() if hello["changed"]]

    probe.start()
    mgr.say(ApplyRequest(OBEYS, "a1", BACK, THROUGH), "apply", next_poll_s=0.1)
    mgr.answer_to("apply")
    mgr.say(ReportRequest(), "look", next_poll_s=120.0)
    mgr.answer_to("look")  # the next turn is two minutes from now, and the next glance 10 s
    before, reported_s = len(changed()), time.monotonic()
    done = probe.command(*probe.words("restore"), "--action", "a1")
    due_s = max(time.monotonic() + SETTLE_S, reported_s + PAUSE_S)
    assert (done.returncode, mode_of(probe)) == (0, BACK), done.stderr
    mgr.wait_for(lambda: len(changed()) > before)
    assert time.monotonic() - due_s < 8.0
    assert probe.stop() == 0

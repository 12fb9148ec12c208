"""kill -9 of the probe after every step of a change: nothing acknowledged is ever lost.

Each crash is the real program on a drive that really toggles, killed by SIGKILL between two
steps; what is on the medium is asked of the drive after a power cut.
"""

import json
import time

import pytest
from probe_bench import BACK, OTHER, THROUGH
from wcache.core.drive.journal import JOURNAL_VERSION

pytestmark = pytest.mark.lab

SIGKILL = -9
STEPS_MAX = 20
# journal, read, pin, read, flush, set, flush, read; an NVMe drive has no pin to set
STEPS = {"scsi": 8, "sas": 8, "sata": 8, "nvme": 6}
# the same, after every path was pinned in case nothing else can be done
BACK_STEPS = {"scsi": 9, "sas": 9, "sata": 9, "nvme": 6}
ALL = range(1, STEPS_MAX)
# what a container's runtime gives between SIGTERM and SIGKILL, and what is promised of it
KILLED_AFTER_S = 10.0
RESTORED_S = 8.0
# the entry and nothing else; pinned; switched (an NVMe drive has no pin to set)
SOME = {"scsi": (1, 3, 6), "sas": (1, 3, 6), "sata": (1, 3, 6), "nvme": (1, 4)}
LONG = pytest.mark.long


def case(name, prior, *marks, steps=ALL):
    words = f"{name} was {prior.value}" + ("" if steps is ALL else ", some steps")
    return pytest.param(name, prior, steps, id=words, marks=marks)


CASES = pytest.mark.parametrize(
    ("name", "prior", "steps"),
    [
        case("scsi", BACK),
        case("nvme", THROUGH, steps=SOME["nvme"]),
        *(case(name, THROUGH, LONG, steps=SOME[name]) for name in ("sas", "sata")),
        case("scsi", THROUGH, LONG),
        *(case(name, prior, LONG) for name in ("sas", "sata", "nvme") for prior in OTHER),
    ],
)


def check_restored(probe, prior):
    assert probe.mode() is prior
    assert probe.journal() == []
    assert probe.bench.sh(f"[ -z \"$(ls {probe.folders[3]}/leases)\" ]").returncode == 0


@CASES
def test_kill_9_after_every_step_of_a_change(probe_of, name, prior, steps):
    probe = probe_of(name)
    probe.begin(prior)
    outcome = None
    for step in steps:
        outcome = probe.set_mode(OTHER[prior], crash_after=step)
        if outcome is not None:
            break
        assert probe.running.wait() == SIGKILL
        assert len(probe.journal()) == 1, "what was there is written down first"
        probe.check_safe(f"crashed-{step}")
        # the two ways back by turns: a new start of the probe, and the command by hand
        if step % 2:
            code, said = probe.restart()
        else:
            code, said = probe.restore_all()
        assert code == 0, said
        check_restored(probe, prior)
        probe.check_safe(f"restored-{step}")
    if steps is ALL:
        assert step == STEPS[name] + 1, "every step was tried"
    else:
        outcome = probe.set_mode(OTHER[prior])
    assert outcome["kind"] == "state", outcome
    assert probe.mode() is OTHER[prior]
    assert [s["kernel_view"] for s in outcome["after"]] == ["write back"]

    probe.running.kill()
    probe.check_safe("killed-while-held")
    code, said = probe.restore_all()
    assert (code, probe.mode()) == (0, prior), said


@CASES
def test_kill_9_after_every_step_of_the_way_back(probe_of, name, prior, steps):
    probe = probe_of(name)
    probe.begin(prior)
    code = 1
    for step in steps:
        outcome = probe.set_mode(OTHER[prior])
        assert outcome["kind"] == "state", outcome
        assert probe.running.kill() == SIGKILL
        code, said = probe.restore_all(crash_after=step)
        if code == 0:
            break
        # what restores a drive is a process of its own: that one was killed
        assert (code, "ended with code -9" in said) == (1, True), said
        probe.check_safe(f"crashed-{step}")
        code, said = probe.restore_all()
        assert code == 0, said
        check_restored(probe, prior)
        probe.check_safe(f"restored-{step}")
    if steps is ALL:
        assert (code, step) == (0, BACK_STEPS[name] + 1), "every step was tried"
    check_restored(probe, prior)


@pytest.mark.long
def test_crash_upon_crash_ends_where_it_began(probe_of):
    probe = probe_of("scsi")
    probe.begin(BACK)
    assert probe.set_mode(THROUGH, crash_after=6) is None
    for step in (1, 2, 3, 4, 5, 3, 4):  # the fifth turned it on: less is left to do
        assert "ended with code -9" in probe.restore_all(crash_after=step)[1]
        probe.check_safe(f"crashed-again-{step}")
    assert probe.restore_all()[0] == 0
    check_restored(probe, BACK)


# ---- an older probe was installed meanwhile


@pytest.mark.long
@pytest.mark.parametrize("name", ["scsi", "sas", "sata"])
def test_a_lease_of_a_later_probe_is_pinned_and_told_and_waits_for_it(bench, probe_of, name):
    probe = probe_of(name)
    disk = probe.begin(THROUGH)
    outcome = probe.set_mode(BACK)
    assert outcome["kind"] == "state", outcome
    assert probe.running.kill() == SIGKILL
    (entry,) = probe.journal()
    path = f"{probe.folders[1]}/journal/{entry}"
    number = f'"version": *{JOURNAL_VERSION}'
    bench.sh(f"cp -a '{path}' /tmp/own; grep -q '{number}' /tmp/own").checked()
    bench.sh(f"sed -i 's/{number}/\"version\": 99/' '{path}'").checked()
    # as after a boot on which the drive had no rule of ours
    bench.sh(f"echo 'write through' > /sys/block/{disk.name}/queue/write_cache").checked()
    assert (probe.mode(), disk.kernel_view()) == (BACK, "write through")
    _, said = probe.restart()
    assert "version 99" in said
    assert (probe.mode(), disk.kernel_view()) == (BACK, "write back")
    probe.check_safe("pinned")
    outcome = probe.set_mode(THROUGH)
    assert (outcome["kind"], "version 99" in json.dumps(outcome)) == ("failure", True), outcome
    probe.running.kill()
    code, said = probe.restore_all()
    assert (code, "version 99" in said) == (1, True), said
    assert (probe.mode(), probe.journal()) == (BACK, [entry])
    bench.sh(f"cp -a /tmp/own '{path}'").checked()
    code, said = probe.restore_all()
    assert code == 0, said
    check_restored(probe, THROUGH)
    probe.check_safe("restored-by-its-own")


# ---- stopped as a container is: SIGTERM, and SIGKILL ten seconds later

STOPPED = pytest.mark.parametrize(
    ("name", "prior"),
    [
        ("scsi", BACK),
        *(pytest.param(name, BACK, marks=LONG) for name in ("nvme", "sata")),
        pytest.param("sas", THROUGH, marks=LONG),
    ],
)  # fmt: skip


@STOPPED
def test_a_probe_that_is_asked_to_end_gives_its_drive_back_in_time(probe_of, name, prior):
    probe = probe_of(name)
    probe.begin(prior)
    outcome = probe.set_mode(OTHER[prior])
    assert outcome["kind"] == "state", outcome
    assert probe.mode() is OTHER[prior]
    began_s = time.monotonic()
    assert probe.running.kill("TERM") == 0
    took_s = time.monotonic() - began_s
    check_restored(probe, prior)
    assert took_s < RESTORED_S
    probe.check_safe("stopped")


@STOPPED
def test_a_hung_probe_that_is_killed_after_ten_seconds_leaves_its_drive_flushed(
    bench, probe_of, name, prior
):
    probe = probe_of(name)
    probe.begin(prior)
    outcome = probe.set_mode(OTHER[prior])
    assert outcome["kind"] == "state", outcome
    # it gets no further, like one that waits for a drive which does not answer
    probe.running.send("STOP")
    probe.running.send("TERM")
    time.sleep(KILLED_AFTER_S)
    assert probe.running.ended() is None
    assert probe.running.kill() == SIGKILL
    assert (probe.mode(), len(probe.journal())) == (OTHER[prior], 1)
    assert bench.disk(name).kernel_view() == "write back"
    probe.check_safe("killed")
    # the next start of the container, with the same state folder, restores it
    code, said = probe.restart()
    assert code == 0, said
    check_restored(probe, prior)
    probe.check_safe("started-anew")

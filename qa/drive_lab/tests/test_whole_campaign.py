"""``make lab`` as it is called: every verdict is the one that its drive was made for, every
cache is what it was, and nothing is left, however it ends."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from drive_lab import artefacts
from drive_lab.lab import PROJECT
from harness.releases import ensure_release

pytestmark = pytest.mark.lab

LAB_DRIVES = PROJECT / "qa" / "drive_models" / "lab.toml"
LOADS = {
    "depth1": "osd_bench_depth1",
    "batch": "osd_bench_batch",
    "traffic": "osd_traffic",
}
END_S = 900
LONG = pytest.mark.long


class LabCommand:
    """One run of the command, in a temporary folder of its own."""

    def __init__(self, folder, release, *words):
        # short: socket paths end at 107 bytes
        self.temporary = Path(tempfile.mkdtemp(prefix="wl.", dir="/tmp"))
        self.out = folder
        self.said = []
        self.network = 0
        paths = ("qa", "osd_probe", "mgr_module", "vstart-tests")
        self.process = subprocess.Popen(
            [
                # it ends, and cleans up, with us
                "setpriv", "--pdeathsig", "TERM", "--",
                sys.executable, "-m", "drive_lab", str(LAB_DRIVES), str(folder),
                "--release", str(release), *words,
            ],
            cwd=PROJECT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
            env={
                **os.environ,
                "TMPDIR": str(self.temporary),
                "PYTHONPATH": ":".join(str(PROJECT / path) for path in paths),
                "PYTHONUNBUFFERED": "1",
            },
        )  # fmt: skip

    def read_until(self, words):
        """Read what it says up to these words, or to its end."""
        for line in self.process.stdout:
            self.said.append(line)
            if "mon and mgr up" in line:
                self.network = os.stat(f"/proc/{self.process.pid}/ns/net").st_ino
            if words in line:
                return

    def end(self):
        """Its exit code."""
        try:
            self.read_until("\0")
            return self.process.wait(timeout=END_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()

    def left_behind(self):
        """Files, loop devices, and processes in its network, which lives as long as they do."""
        assert self.network, "".join(self.said)
        assert self.network != os.stat("/proc/self/ns/net").st_ino
        left = [str(path) for path in self.temporary.iterdir()]
        for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
            if str(self.temporary) in backing.read_text():
                left.append(str(backing))
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino == self.network:
                    left.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
            except OSError:
                continue  # it has ended
        if not left:
            self.temporary.rmdir()
        return left


class Outcome:
    def __init__(self, command, loads):
        self.said = "".join(command.said)
        self.loads = loads
        self.left = command.left_behind()
        self.result = json.loads((command.out / "result.json").read_text())
        self.drives = self.result["drives"]

    def load(self, drive, load):
        (row,) = [row for row in drive["loads"] if row["load_point"] == LOADS[load]]
        return row


RUNS = [
    pytest.param((16, ("depth1",)), id="16-depth1", marks=LONG),  # the shortest
    *[pytest.param((each, tuple(LOADS)), id=str(each), marks=LONG) for each in (16, 18, 20)],
]


@pytest.fixture(scope="module", params=RUNS)
def outcome(request, tmp_path_factory):
    number, loads = request.param
    artefacts.ensure(number)
    ensure_release(number)
    command = LabCommand(tmp_path_factory.mktemp("lab"), number, "--loads", ",".join(loads))
    code = command.end()
    assert code == 0, "".join(command.said)
    return Outcome(command, loads)


def test_every_verdict_is_what_the_drive_was_made_for_at_each_load(outcome):
    assert len(outcome.drives) == 3
    wrong = [
        (drive["name"], load, row["verdict"], row["expected"], row["why"])
        for drive in outcome.drives
        for load in outcome.loads
        for row in [outcome.load(drive, load)]
        if row["verdict"] != row["expected"]
    ]
    assert not wrong, outcome.said


def test_recommendations_follow_from_what_the_drives_were_made_for(outcome):
    advised = {row["device_class"]: row["verdict"] for row in outcome.result["recommendations"]}
    assert advised == {
        "hdd": "write through", "nvme": "write back", "ssd": "no material difference",
    }  # fmt: skip


def test_passive_and_bench_agree_where_they_measure_one_write_at_a_time(outcome):
    if "traffic" not in outcome.loads:
        pytest.skip("this run had no clients")
    for drive in outcome.drives:
        passive, bench = (outcome.load(drive, load) for load in ("traffic", "depth1"))
        assert passive["verdict"] == bench["verdict"], (passive, bench)
        assert passive["ratio_low"] <= bench["ratio_high"], (passive, bench)
        assert bench["ratio_low"] <= passive["ratio_high"], (passive, bench)


def test_nothing_is_written_to_measure_passively_and_the_rest_is_accounted_for(outcome):
    for drive in outcome.drives:
        for load in outcome.loads:
            row = outcome.load(drive, load)
            assert row["seconds"] > 0
            assert (row["bytes_written"] == 0) == (load == "traffic")


def test_every_cache_is_what_it_was_by_all_witnesses(outcome):
    for drive in outcome.drives:
        before, after = drive["before"], drive["after"]
        for side in ("by_drive_on", "by_qmp_on", "by_kernel"):
            assert before[side] == after[side], drive["name"]
        assert before["by_drive_on"] is before["by_qmp_on"] is True
        assert set(before["by_kernel"].values()) == {"write back"}
        for seen in (before, after):
            counted = seen["by_counters"]
            assert counted["write"] > 0, drive["name"]
            assert counted["fua"] == 0, drive["name"]
            assert counted["flush"] > 0, drive["name"]
            assert not seen["unsafe"]


def test_nothing_is_left_behind(outcome):
    assert outcome.left == []


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=LONG)])
@pytest.mark.parametrize("stage", [pytest.param("mon and mgr up", marks=LONG), "guest up"])
def test_a_lab_that_is_stopped_leaves_nothing_behind(tmp_path, release, number, stage):
    artefacts.ensure(release)
    ensure_release(release)
    command = LabCommand(tmp_path, release)
    command.read_until(stage)
    command.process.send_signal(number)
    assert command.end() == 128 + number
    assert command.left_behind() == []
    assert list(tmp_path.iterdir()) == []

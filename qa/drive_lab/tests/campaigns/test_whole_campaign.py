"""``make lab`` as it is called: every verdict is the one that its drive was made for, every
cache is what it was, and nothing is left, however it ends."""

import signal

import pytest
from drive_lab.images import artefacts
from drive_lab.lab import PROJECT
from harness.releases import ensure_release
from lab_command import LOADS, SAME, LabCommand, Outcome

pytestmark = pytest.mark.lab

LAB_DRIVES = PROJECT / "qa" / "drive_models" / "lab.toml"
LONG = pytest.mark.long

MADE_FOR = {"hdd": "write through", "nvme": "write back", "ssd": SAME}
# The last of them has no difference.  To show that takes a machine of its own, and minutes.
CLEAR, ALL = 2, 3
RUNS = [
    pytest.param((20, ("depth1",), CLEAR), id="20-clear"),
    *[pytest.param((each, tuple(LOADS), ALL), id=str(each), marks=LONG) for each in (16, 18, 20)],
]


@pytest.fixture(scope="module", params=RUNS)
def outcome(request, tmp_path_factory):
    number, loads, drives = request.param
    artefacts.ensure(number)
    ensure_release(number)
    folder = tmp_path_factory.mktemp("lab")
    drive_file = folder / "drives.toml"
    head = LAB_DRIVES.read_text().split("[[drive]]")[: 1 + drives]
    drive_file.write_text("[[drive]]".join(head))
    command = LabCommand(drive_file, folder, number, "--loads", ",".join(loads))
    code = command.end()
    assert code == 0, "".join(command.said)
    outcome = Outcome(command, loads)
    assert len(outcome.drives) == drives
    return outcome


def test_every_verdict_is_what_the_drive_was_made_for_at_each_load(outcome):
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
    assert advised == dict(list(MADE_FOR.items())[: len(outcome.drives)])


def test_passive_and_bench_agree_where_they_measure_one_write_at_a_time(outcome):
    if "traffic" not in outcome.loads:
        pytest.skip("this run had no clients")
    for drive in outcome.drives:
        passive, bench = (outcome.load(drive, load) for load in ("traffic", "depth1"))
        assert passive["verdict"] == bench["expected"], (passive, bench)
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


@LONG
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stage", ["mon and mgr up", "guest up"])
def test_a_lab_that_is_stopped_leaves_nothing_behind(tmp_path, release, number, stage):
    artefacts.ensure(release)
    ensure_release(release)
    command = LabCommand(LAB_DRIVES, tmp_path, release)
    command.read_until(stage)
    command.process.send_signal(number)
    assert command.end() == 128 + number
    assert command.left_behind() == []
    assert list(tmp_path.iterdir()) == []

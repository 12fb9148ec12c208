"""An OSD with its DB on another drive, measured as it is called: both drives are toggled in
all four combinations, each is decided, and both caches are what they were."""

import pytest
from drive_lab.images import artefacts
from drive_lab.lab import PROJECT
from harness.releases import ensure_release
from lab_command import LabCommand, Outcome

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = PROJECT / "qa" / "drive_models" / "lab-crossed.toml"
WANTED = ("depth1", "traffic")


@pytest.fixture(scope="module", params=[16, 20])
def outcome(request, tmp_path_factory):
    artefacts.ensure(request.param)
    ensure_release(request.param)
    command = LabCommand(
        DRIVES, tmp_path_factory.mktemp("crossed"), request.param, "--loads", ",".join(WANTED)
    )
    code = command.end()
    assert code == 0, "".join(command.said)
    return Outcome(command, WANTED)


def test_both_drives_are_decided_as_they_were_made_at_each_load(outcome):
    found = {
        (drive["name"], load): outcome.load(drive, load) for drive in outcome.drives
        for load in WANTED
    }
    assert {row["verdict"] for row in found.values()} == {"write through"}, outcome.said
    assert all("interaction" in row["why"] for row in found.values())


def test_they_were_measured_at_once(outcome):
    block, db = outcome.drives
    for load in WANTED:
        ids = sorted(outcome.load(drive, load)["record_id"] for drive in (block, db))
        assert ids[1] == ids[0] + ".other"
        assert outcome.load(block, load)["seconds"] == outcome.load(db, load)["seconds"]


def test_both_caches_are_what_they_were_and_nothing_is_left(outcome):
    for drive in outcome.drives:
        for side in ("by_drive_on", "by_qmp_on", "by_kernel"):
            assert drive["before"][side] == drive["after"][side], drive["name"]
        assert not drive["after"]["unsafe"]
    assert outcome.left == []

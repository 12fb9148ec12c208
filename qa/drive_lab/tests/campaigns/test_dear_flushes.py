"""A drive whose clean flush is dear: what the kernel's flushes cost is said beside the verdict."""

import re

import pytest
from drive_lab.images import artefacts
from drive_lab.lab import PROJECT
from harness.releases import ensure_release
from lab_command import SAME, LabCommand, Outcome

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = PROJECT / "qa" / "drive_models" / "lab-dear-flush.toml"
FLUSH_MS = 25.0  # of the drive model


def test_nearly_all_of_a_commit_with_the_cache_off_is_flushes_with_nothing_to_write(
    tmp_path, release
):
    artefacts.ensure(release)
    ensure_release(release)
    command = LabCommand(DRIVES, tmp_path, release, "--loads", "depth1")
    assert command.end() == 0, "".join(command.said)
    outcome = Outcome(command, ("depth1",))
    assert outcome.left == []
    (row,) = outcome.result["recommendations"]
    assert row["verdict"] in (SAME, "insufficient data"), row  # of a busy machine
    (line,) = row["noop_flushes"]
    flush_ms, commit_ms = map(
        float, re.match(r"with the cache off ([\d.]+) of ([\d.]+) ms of a commit", line).groups()
    )
    assert 0.9 * FLUSH_MS <= flush_ms <= 1.5 * FLUSH_MS, line
    flushes = 2 if release < 18 else 1  # in one commit; only one is counted, for sure
    assert flush_ms > 0.6 / flushes * commit_ms, line

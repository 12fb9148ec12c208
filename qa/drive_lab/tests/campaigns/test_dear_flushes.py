"""A drive whose clean flush is dear: what the kernel's flushes cost is said beside the verdict.

Measured and read as an admin does: `try`, `recommend`, `explain` and the report.
"""

import html
import re
import time

import pytest
from drive_lab import campaign
from drive_lab.agent import HANG_S
from drive_lab.lab import PROJECT
from drive_lab.stage import Stage
from lab_command import SAME

pytestmark = [pytest.mark.lab, pytest.mark.long]

DRIVES = PROJECT / "qa" / "drive_models" / "lab-dear-flush.toml"
FLUSH_MS = 25.0  # of the drive model
SAID = re.compile(r"with the cache off at least ([\d.]+) of ([\d.]+) ms of a commit are flushes "
                  r"with nothing to write \(depth1, 1 drive\)")
# to show that nothing differs takes most of what an experiment may
OPTIONS = {"poll_idle_s": "0.5", "experiment_seconds_max": "120", "no_difference_share": "1.0"}


@pytest.fixture(scope="module")
def stage(release):
    job = campaign.LabJob(drive_file=DRIVES, release=release)
    with campaign.running(job, campaign.Stages()) as up:
        made = Stage(up, time.monotonic())
        made.enable(OPTIONS)
        made.add_host()
        yield made


def test_nearly_all_of_a_commit_with_the_cache_off_is_flushes_with_nothing_to_write(
    stage, release
):
    stage.wait_clean()
    stage.wait("the forecast", lambda: stage.wcache("try", dry_run=True)["state"] == "forecast")
    stage.ceph("wcache", "try", "--accept-cost")
    stage.wait("the answer", lambda: stage.wcache("try")["state"] == "answer", 4 * HANG_S)

    rows = stage.wcache("recommend")["recommendations"]
    assert rows, stage.ceph("wcache", "try").stdout  # which says why
    (row,) = rows
    assert row["verdict"] in (SAME, "insufficient data"), row  # of a busy machine
    (line,) = row["noop_flushes"]
    flush_ms, commit_ms = map(float, SAID.match(line).groups())
    assert 0.9 * FLUSH_MS <= flush_ms <= 1.5 * FLUSH_MS, line
    flushes = 2 if release < 18 else 1  # in one commit; only one is counted, for sure
    assert flush_ms > 0.6 / flushes * commit_ms, line

    model = f"model:{row['drive_model']['model']}"
    for words in (("try",), ("recommend",), ("explain", model)):
        assert line in " ".join(stage.ceph("wcache", *words).stdout.split()), words
    stage.tool("report", "--out", str(stage.cluster.folder / "report.html"))
    page = html.unescape((stage.cluster.folder / "report.html").read_text())
    assert line in page

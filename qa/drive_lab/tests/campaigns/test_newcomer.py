"""A newcomer on the demo's drives: what `agent add` and `try` print leads to a true answer."""

import shlex
import time

import pytest
from drive_lab import campaign
from drive_lab.demo import DRIVE_FILE, OPTIONS
from drive_lab.probe import STATE_DIR
from drive_lab.stage import Stage
from drive_lab.witness import look
from wcache.core.model import LoadPoint, Verdict
from wcache.core.options.entries import CACHE_MODES

pytestmark = [pytest.mark.lab, pytest.mark.long]

TRY = "ceph wcache try"
MEASURE_S = 1800.0


@pytest.fixture(scope="module")
def stage(release):
    job = campaign.LabJob(drive_file=DRIVE_FILE, release=release)
    with campaign.running(job, campaign.Stages()) as up:
        made = Stage(up, time.monotonic())
        made.enable(OPTIONS)
        yield made


def typed(stage, line):
    """What a command line answers, and the next one that it names."""
    words = shlex.split(line)
    assert words[0] == "ceph"
    lines = stage.ceph(*words[1:]).stdout.rstrip().splitlines()
    (following,) = [line for line in lines if line.startswith("next: ")]
    return lines[:lines.index(following)], following[len("next: "):]


def until(stage, line, done, timeout_s=MEASURE_S):
    """Type a line again and again, until the answer is as wanted."""

    def asked():
        answer, following = typed(stage, line)
        return (answer, following) if done(answer, following) else None

    return stage.wait(f"an answer to `{line}`", asked, timeout_s)


def seen(stage):
    """The drives as their own tools, QEMU and the kernel have them."""
    return {
        fitted.name: look(stage.up.lab.drive(fitted.name), None)
        for fitted in stage.up.lab.drives
    }


def made_for(stage):
    """The verdict that each device class was made for, one write at a time."""
    return {
        drive.placed.device_class: CACHE_MODES.said(truth.verdict)
        for drive in stage.up.lab.drives
        for truth in (drive.spec.truth[LoadPoint.OSD_BENCH_DEPTH1],)
    }


def test_what_is_printed_leads_a_newcomer_to_a_true_answer_and_back(stage):
    before = seen(stage)
    stage.add_host()

    forecast, confirming = until(
        stage, f"{TRY} --dry-run", lambda _, next_: next_.endswith("--accept-cost")
    )
    assert "this would measure 3 drives" in forecast[0]
    begun, following = typed(stage, confirming)
    assert "measuring: " in begun[0]
    assert following == TRY
    answer, following = until(stage, TRY, lambda said, _: "measuring: " not in said[0])

    rows = {row["device_class"]: row for row in stage.wcache("try")["recommendations"]}
    expected = made_for(stage)
    assert rows.keys() == expected.keys(), answer
    undecided = Verdict.INSUFFICIENT.value  # what a busy machine makes of a small difference
    for name, row in rows.items():
        assert row["verdict"] in (expected[name], undecided), answer
        assert any(line.startswith(f"{name}, ") for line in answer), answer
    if any(row["to_change"] for row in rows.values()):
        assert following == "ceph wcache plan"
        assert "turn the write cache off" in " ".join(" ".join(answer).split()), answer
        stage.ceph("wcache", "plan")
    assert seen(stage) == before

    stage.remove_host()
    assert seen(stage) == before
    assert stage.up.lab.guest.sh(f"find {STATE_DIR} -name '*.json'").checked() == ""
    left = stage.up.lab.guest.sh("ls /etc/ceph /etc/udev/rules.d; pgrep -af '[w]cache_probe' || :")
    assert "wcache" not in left.checked()
    assert stage.wcache("agent ls")["agents"] == []

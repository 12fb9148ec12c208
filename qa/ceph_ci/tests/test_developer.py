"""A developer of Ceph in a vstart cluster: three commands lead to a first recommendation."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Iterator

import pytest
from ceph_ci import suite
from ceph_ci.place import Place
from ceph_ci.source import PROJECT, install, source_of

pytestmark = [pytest.mark.ceph_ci, pytest.mark.long]
RELEASE = 20
PAGE = (PROJECT / "doc/testing.md").read_text(encoding="utf-8")
COMMANDS = [
    line.partition("  ")[0] for line in PAGE.splitlines() if line.startswith("bin/ceph ")
]
WAIT_S = 180.0


@pytest.fixture
def place() -> Iterator[Place]:
    with Place(RELEASE, source_of(RELEASE)) as made:
        install(made)
        suite.start(made)
        yield made


def test_the_three_commands_of_the_page_lead_to_a_recommendation(place: Place) -> None:
    enable, probe, attempt = COMMANDS
    place.check(["sh", "-c", enable])
    retry(place, "bin/ceph wcache status")
    words = place.words(["sh", "-c", probe], {})
    with open(place.outside("/ceph/build/out/probe.log"), "wb") as log:
        # in the foreground of a terminal of its own
        terminal = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        retry(place, attempt)
        retry(place, "bin/ceph wcache recommend --format json | grep -q 'write through'")
        said = place.check(["sh", "-c", "bin/ceph wcache recommend --format json 2>/dev/null"])
    finally:
        terminal.terminate()
        terminal.wait(timeout=30)
    modes = {
        each["drive_model"]["model"]: each["mode"]
        for each in json.loads(said)["recommendations"]
    }
    assert modes["DISK"] == "write through"  # the first; the other drive may still be measured


def retry(place: Place, command: str) -> None:
    """A mgr that was just enabled, and a probe that was just started, need some seconds."""
    end_s = time.monotonic() + WAIT_S
    while True:
        done = place.run(["sh", "-c", command], timeout_s=60)
        if done.returncode == 0:
            return
        assert time.monotonic() < end_s, done.stdout[-2000:]
        time.sleep(1.0)

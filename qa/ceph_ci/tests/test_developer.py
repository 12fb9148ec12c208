"""A developer of Ceph in a vstart cluster: three commands lead to a first recommendation."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, Iterator

import pytest
from ceph_ci import suite
from ceph_ci.place import Place
from ceph_ci.source import PROJECT, install

pytestmark = [pytest.mark.ceph_ci, pytest.mark.long]
RELEASE = 20
PAGE = (PROJECT / "doc/testing.md").read_text(encoding="utf-8")
COMMANDS = [
    line.partition("  ")[0] for line in PAGE.splitlines()
    if line.startswith(("bin/ceph ", "../qa/"))
]
OSD_BYTES = 4 * 2**30


@pytest.fixture
def place(open_place: Callable[[int], ContextManager[Place]]) -> Iterator[Place]:
    with open_place(RELEASE) as made:
        install(made)
        yield made


def test_the_three_commands_of_the_page_lead_to_a_recommendation(place: Place) -> None:
    suite.start(place)
    with typed(place):
        suite.wait(place, "bin/ceph wcache recommend --format json | grep -q 'write through'")
        said = asked(place, "recommend")
    modes = {
        each["drive_model"]["model"]: each["mode"] for each in said["recommendations"]
    }
    assert modes["DISK"] == "write through"  # the first; the other drive may still be measured


def test_with_bluestore_devs_they_measure_the_drives_that_are_there(place: Place) -> None:
    devices = [place.attach_drive(OSD_BYTES) for _ in range(3)]
    suite.start(place, "--bluestore-devs", ",".join(devices))
    with typed(place):
        suite.wait(place, "bin/ceph wcache try --format json | grep -q '\"state\": \"answer\"'")
        drives = asked(place, "drive ls")["drives"]
        said = asked(place, "try")
    assert sorted(each["dev_name"] for each in drives) == sorted(
        device.rpartition("/")[2] for device in devices
    )
    assert said["recommendations"], said
    for device in devices:
        queue = Path("/sys/block") / device.rpartition("/")[2] / "queue/write_cache"
        assert queue.read_text() == "write back\n"


@contextmanager
def typed(place: Place) -> Iterator[None]:
    """What the page says was typed; the probe runs in a terminal of its own until the end."""
    enable, probe, attempt = COMMANDS
    place.check(["sh", "-c", enable])
    suite.wait(place, "bin/ceph wcache status")
    words = place.words(["sh", "-c", probe], {})
    with open(place.outside("/ceph/build/out/probe.log"), "wb") as log:
        terminal = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        suite.wait(place, attempt)
        yield
    finally:
        terminal.terminate()
        terminal.wait(timeout=30)


def asked(place: Place, command: str) -> Dict[str, Any]:
    said = place.check(["sh", "-c", f"bin/ceph wcache {command} --format json 2>/dev/null"])
    found: Dict[str, Any] = json.loads(said)
    return found

"""What somebody does to a drive reaches the mgr in seconds, by an event of the kernel."""

import itertools
import time

import pytest
from probe_bench import BACK, THROUGH
from wcache.core.protocol import ReportRequest

pytestmark = pytest.mark.lab

IDLE_S = 300.0  # how long a probe would wait by itself
TOLD_WITHIN_S = 60.0  # in a guest without KVM a report takes most of it


class Mgr:
    """A mgr that asks for a report whenever the probe calls, which is long from now."""

    def __init__(self, probe):
        self.probe = probe
        self._numbers = itertools.count()

    def expects(self):
        """Ask for one report; returns the task's id."""
        task_id = f"look {next(self._numbers)}"
        self.probe.mgr.say(ReportRequest(), task_id, next_poll_s=IDLE_S)
        return task_id

    def hears(self, task_id):
        """The report, and after how long it came."""
        began_s = time.monotonic()
        while time.monotonic() < began_s + TOLD_WITHIN_S:
            for post in self.probe.mgr.posts():
                if post["task_id"] == task_id:
                    return post["outcome"]["report"], time.monotonic() - began_s
            time.sleep(0.1)
        raise AssertionError(f"nothing in {TOLD_WITHIN_S:g} s: {self.probe.running.output()}")


def test_a_cache_that_is_switched_by_hand_is_reported_while_the_probe_is_idle(bench, probe_of):
    probe = probe_of("scsi")
    probe.begin(BACK)
    probe.start()
    mgr, took = Mgr(probe), {}
    mgr.hears(mgr.expects())

    def reported_after(what, act):
        task_id = mgr.expects()
        calls = len(probe.mgr.hellos())
        act()
        report, took[what] = mgr.hears(task_id)
        assert probe.mgr.hellos()[calls]["changed"], what
        return report

    disk = bench.disk("scsi")
    # sdparm opens the disk for writing, so udev has the kernel send an event
    report = reported_after(
        "sdparm", lambda: bench.sh(f"sdparm --quiet --clear=WCE {disk.path}").checked())
    (drive,) = report["drives"]
    assert drive["state"]["device_cache"] == probe.mode().value == THROUGH.value
    print({what: round(seconds, 1) for what, seconds in took.items()})
    assert probe.running.kill("TERM") == 0
    bench.all_on("scsi")

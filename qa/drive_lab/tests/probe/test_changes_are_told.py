"""What somebody does to a drive, or the kernel tells of one, reaches the mgr in seconds."""

import time

import pytest
from probe_bench import BACK, THROUGH
from wcache.core.protocol import ReportRequest

pytestmark = pytest.mark.lab

IDLE_S = 120.0  # how long a probe would wait by itself
TOLD_WITHIN_S = 40.0  # in a guest without KVM, with the probe's start of a glance


def hellos(probe):
    return probe.mgr.hellos()


def idle(probe):
    """The probe has reported, and waits for its next turn."""
    assert probe.ask(ReportRequest(), lease=False)["kind"] == "report"
    probe.mgr.say(next_poll_s=IDLE_S)
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline and len(hellos(probe)) == getattr(probe, "calls", -1):
        time.sleep(0.1)
    time.sleep(2.0)  # what its own start has changed is told by now
    probe.calls = len(hellos(probe))


def told_after_s(probe):
    """How long until the probe says that its host has changed."""
    began_s = time.monotonic()
    while time.monotonic() < began_s + TOLD_WITHIN_S:
        if any(hello["changed"] for hello in hellos(probe)[probe.calls:]):
            return time.monotonic() - began_s
        time.sleep(0.1)
    raise AssertionError(f"not told within {TOLD_WITHIN_S:g} s: {probe.running.output()}")


def test_a_cache_that_is_switched_by_hand_and_a_drive_that_is_plugged_are_told(bench, probe_of):
    probe = probe_of("scsi")
    probe.begin(BACK)
    probe.start()
    took = {}
    idle(probe)
    # sdparm opens the disk for writing, so udev tells the kernel to send an event
    bench.sh(f"sdparm --quiet --clear=WCE {bench.disk('scsi').path}").checked()
    assert probe.mode() is THROUGH
    took["sdparm"] = told_after_s(probe)
    idle(probe)
    bench.lab.unplug("sas")
    took["unplug"] = told_after_s(probe)
    idle(probe)
    bench.lab.replug("sas")
    took["replug"] = told_after_s(probe)
    bench.settle()
    idle(probe)
    disk = bench.disk("scsi")
    disk.set_cache_type("temporary write back")
    took["cache_type"] = told_after_s(probe)
    print({what: round(seconds, 1) for what, seconds in took.items()})
    assert probe.running.kill("TERM") == 0
    bench.all_on("scsi")

"""A persisted drive in an upgrade of wcache: the probe is of one protocol, its mgr of another.

The older probe is today's with another protocol number.  So this shows that the frozen messages
are enough for the way back of what was persisted, and that each probe goes by what the other one
has left on the host: the journal and udev's rule.  It shows nothing of a journal of another
shape, which `osd_probe/tests/journal/test_journal_entries.py` reads.
"""

import pytest
from drive_lab.forked_probe import ProbeForks
from drive_lab.probe import PACKAGES
from older_tree import OLDER
from probe_bench import BACK, THROUGH, ProbeOf
from wcache.core.protocol import PROTOCOL_VERSION

pytestmark = [pytest.mark.lab, pytest.mark.long]

TODAY = PROTOCOL_VERSION
COMMAND = "/usr/bin/wcache-probe"
KEY = "action/upgraded"


@pytest.fixture(scope="module")
def forks_of(lab, session_forks, older_packages):
    """By protocol where probes of it come from."""
    older = ProbeForks(lab, older_packages)
    older.start()
    session_forks.ensure()
    yield {OLDER: older, TODAY: session_forks}
    older.stop()


def install(lab, packages):
    """The probe that udev's rule starts."""
    script = f'#!/bin/sh\nPYTHONPATH={packages} exec python3 -B -m wcache_probe "$@"\n'
    lab.guest.run(["tee", COMMAND], stdin=script).checked()
    lab.guest.run(["chmod", "755", COMMAND]).checked()


def plugged_in_again(bench, probe):
    """The drive's power comes anew, and udev has done what its rules say."""
    bench.lab.unplug(probe.name)
    bench.lab.replug(probe.name)
    bench.settle()
    probe.make_osd()
    return bench.state(probe.name)


def rules_of(bench):
    return bench.sh("ls /etc/udev/rules.d").checked().count("85-wcache-")


@pytest.mark.parametrize(("name", "wrote", "runs", "mgr"), [
    pytest.param("scsi", OLDER, TODAY, OLDER, id="the probe is upgraded first"),
    pytest.param("nvme", OLDER, OLDER, TODAY, id="the module is upgraded first"),
    # a drive with hot plug, which QEMU's AHCI has not
    pytest.param("nvme", TODAY, OLDER, TODAY, id="the probe is taken back to the older one"),
])
def test_a_persisted_mode_stands_and_goes_back_by_the_frozen_messages(
    bench, forks_of, older_packages, name, wrote, runs, mgr
):
    packages = {OLDER: older_packages, TODAY: PACKAGES}
    bench.sh("rm -f /etc/udev/rules.d/85-wcache-*").checked()
    install(bench.lab, packages[wrote])
    writer = ProbeOf(bench, forks_of[wrote], name, wrote)
    writer.begin(BACK)
    done = writer.apply("upgraded", BACK, THROUGH, persist=True)
    assert done["kind"] == "state", done
    assert writer.running.kill("TERM") == 0

    install(bench.lab, packages[runs])
    assert plugged_in_again(bench, writer) == ("off", "write back"), "off, and pinned"
    reader = ProbeOf(bench, forks_of[runs], name, mgr)
    reader.start()
    try:
        reader.mgr.say_across()
        told = reader.mgr.wait_for(reader.mgr.posts, reader.timeout_s)
        assert {(post["across"], *post["keys"]) for post in told} == {("report", KEY)}
        assert reader.mode() is THROUGH, "nobody wanted it back"
        reader.check_safe("between-versions")

        reader.mgr.say_across(KEY)
        (last,) = reader.mgr.wait_for(
            lambda: [post for post in reader.mgr.posts() if KEY in post["restored"]],
            reader.timeout_s,
        )[-1:]
        assert (last["keys"], last["failed"]) == ([], {})
        assert reader.running.kill("TERM") == 0, reader.running.output()
    finally:
        reader.end()
    assert (reader.mode(), reader.journal(), rules_of(bench)) == (BACK, [], 0)
    reader.check_safe("back")
    assert plugged_in_again(bench, reader) == ("on", "write back")

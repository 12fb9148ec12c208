"""A persisted drive in an upgrade of wcache: the probe is of one protocol, its mgr of another.

The older probe is a process of today's packages with another protocol number, the drive a
simulated one that saves its mode.  So this shows that the frozen messages are enough for the way
back of what was persisted, and that each probe reads the journal that the other one has left.  It
shows nothing of a journal of another shape: `tests/journal/test_journal_entries.py` does.
"""

import older_tree
import pytest
from harness.access import PROJECT
from older_tree import OLDER
from probe_process import ProbeProcess
from process_bench import host_of, mgr_of, mode_of
from sim_drives import BACK, DRIVES, OBEYS, THROUGH
from wcache.core.protocol import PROTOCOL_VERSION, ApplyRequest

pytestmark = pytest.mark.slow

TODAY = PROTOCOL_VERSION
KEY = "action/p1.0"
PATIENCE_S = 120.0  # of a busy machine


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """By protocol the folders of its packages."""
    tree = tmp_path_factory.mktemp("upgrade") / "older"
    older_tree.todays(PROJECT, tree)
    return {OLDER: older_tree.packages_in(str(tree)).split(":"), TODAY: []}


@pytest.fixture
def probe(tmp_path):
    made = ProbeProcess(tmp_path, DRIVES)
    yield made
    made.kill()


def modes(probe):
    """The mode that the drive is in, and the one after its next power-on."""
    (drive,) = host_of(probe).domain(OBEYS)
    assert drive.mode is mode_of(probe)
    return drive.mode, drive.state.page.saved


@pytest.mark.parametrize(("wrote", "runs", "says"), [
    pytest.param(OLDER, TODAY, OLDER, id="the probe is upgraded first"),
    pytest.param(OLDER, OLDER, TODAY, id="the module is upgraded first"),
    pytest.param(TODAY, OLDER, TODAY, id="the probe is taken back to the older one"),
])
def test_a_persisted_mode_stands_and_goes_back_by_the_frozen_messages(
    probe, packages, wrote, runs, says
):
    before = modes(probe)
    mgr = mgr_of(probe)
    mgr.version, probe.packages = wrote, packages[wrote]
    probe.start()
    mgr.say(ApplyRequest(OBEYS, "p1.0", BACK, THROUGH, consent_persist=True), "apply")
    (post,) = mgr.wait_for(mgr.posts, PATIENCE_S)
    assert (post["task_id"], post["outcome"]["kind"]) == ("apply", "state"), probe.log.read_text()
    mgr.say()
    assert probe.stop(PATIENCE_S) == 0
    assert modes(probe) == (THROUGH, THROUGH)

    mgr.version, probe.packages = says, packages[runs]
    mgr.say_across()
    probe.start()

    def reports():
        return [post for post in mgr.posts() if "across" in post]

    mgr.wait_for(reports, PATIENCE_S)
    assert {(post["version"], *post["keys"]) for post in reports()} == {(runs, KEY)}
    assert modes(probe) == (THROUGH, THROUGH), "nobody wanted it back"
    mgr.say_across(KEY)
    mgr.wait_for(lambda: KEY in reports()[-1]["restored"], PATIENCE_S)
    assert (reports()[-1]["keys"], reports()[-1]["failed"]) == ([], {})
    assert modes(probe) == before
    assert before[0] is BACK
    assert probe.stop(PATIENCE_S) == 0
    assert f"protocol {says}, this probe {runs}" in probe.log.read_text()

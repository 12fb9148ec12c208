"""A mgr of another protocol: what the probe holds goes back, and what that mgr wants back."""

import json

import pytest
from sim_drives import BACK, FSID, OBEYS, THROUGH, FakeStop, Probe, RestoreHere, WorkHere, hold
from wcache.core import across
from wcache.core.drive.prior import prior_from
from wcache.core.errors import NotReadyError, StorageError
from wcache.core.protocol import PROTOCOL_VERSION, ApplyRequest, Task
from wcache_probe.agent import ProbeLoop
from wcache_probe.journal.journal_words import JournalBack
from wcache_probe.mgr_link import decode_reply

OLDER, NEWER = PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1


class OtherMgr:
    """Answers across protocols; `keys` is what it wants back."""

    def __init__(self, version):
        self.version, self.keys, self.reports = version, (), []

    def poll(self, hello_json, timeout_s):
        hello = across.hello_in(json.loads(hello_json))
        assert hello.version == PROTOCOL_VERSION
        return decode_reply(across.encode(across.Order(self.version, 1.0)))

    def post(self, post_json, timeout_s):
        plain = json.loads(post_json)
        if not across.is_across(plain):
            return decode_reply(across.encode(across.Order(self.version, 1.0)))
        self.reports.append(across.report_in(plain))
        wanted = tuple(key for key in self.keys if key in self.reports[-1].keys)
        return decode_reply(across.encode(across.Order(self.version, 1.0, wanted)))


class RestoreLate(RestoreHere):
    """Has not ended when it is asked for the first time, though the entry is gone by then."""

    def __init__(self, switcher, first):
        super().__init__(switcher)
        self.first, self.late = first, {}

    def restore(self, keys, patience_s=None):
        late, self.late = self.late, {}
        new = [key for key in keys if key not in late]
        self.late = super().restore(new)
        return {**late, **dict.fromkeys(new, self.first)}


def run(probe, link, turns=6, back=None):
    back = back or RestoreHere(probe.switcher)
    ProbeLoop(
        identity=probe.identity, link=link, keeper=probe.keeper, restoring=probe.restoring,
        runner=probe.runner, worker=WorkHere(), stop=FakeStop(probe.clock, turns),
        say=probe.said.append, clock=probe.clock, jitter=lambda low, high: (low + high) / 2,
        journal=JournalBack(lambda: tuple(probe.journal.entries), back.restore),
    ).run()


def apply(probe, action_id="p1.0"):
    prior = prior_from(FSID, OBEYS, probe.host.domain(OBEYS))
    probe.runner.perform(Task("t", ApplyRequest(OBEYS, action_id, BACK, THROUGH, prior=prior)))
    assert probe.mode(OBEYS) is THROUGH
    assert list(probe.journal.entries) == [f"action/{action_id}"]


@pytest.mark.parametrize(("version", "todo"), [
    (OLDER, "update the module on the mgrs"), (NEWER, "install the probe of the module's version"),
])
def test_a_held_lease_is_released_at_once_and_it_says_which_side_to_update(version, todo):
    probe = Probe()
    hold(probe)
    link = OtherMgr(version)
    run(probe, link, 2)
    assert probe.mode(OBEYS) is BACK
    assert probe.journal.entries == {}
    lines = [line for line in probe.said if f"protocol {version}" in line and todo in line]
    assert len(lines) == 1, probe.said
    assert link.reports[-1].keys == ()
    assert (link.reports[-1].version, link.reports[-1].hostname) == (PROTOCOL_VERSION, "sim1")


@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_a_change_is_rolled_back_by_its_key_alone(version):
    probe = Probe()
    apply(probe)
    link = OtherMgr(version)
    run(probe, link)
    assert probe.mode(OBEYS) is THROUGH, "nobody wanted it back"
    assert link.reports[-1].keys == ("action/p1.0",)
    link.keys = ("action/p1.0", "action/of nobody")
    run(probe, link)
    assert probe.mode(OBEYS) is BACK
    assert probe.journal.entries == {}
    assert (link.reports[-1].keys, link.reports[-1].restored) == ((), ("action/p1.0",))


def late_back(first):
    """The reports to a mgr that wants a change back, whose restore says this first."""
    probe = Probe()
    apply(probe)
    link = OtherMgr(NEWER)
    link.keys = ("action/p1.0",)
    run(probe, link, 12, RestoreLate(probe.switcher, first))
    assert probe.mode(OBEYS) is BACK
    assert (link.reports[-1].keys, link.reports[-1].restored) == ((), ("action/p1.0",))
    return [report for report in link.reports if not report.restored]


def test_a_restore_that_takes_long_is_not_taken_for_an_entry_that_never_was():
    before = late_back(NotReadyError("restore process 7 still running after 6 s"))
    assert len(before) >= 2
    assert {(report.keys, report.failed) for report in before} == {(("action/p1.0",), ())}


def test_a_restore_that_hung_and_has_ended_is_said_to_be_back():
    hangs = "process 7 hangs in its drive"
    before = late_back(StorageError(hangs))
    assert dict(before[-1].failed) == {"action/p1.0": hangs}


def test_what_cannot_be_brought_back_is_said_and_its_entry_stays():
    probe = Probe()
    apply(probe)
    ((key, text),) = probe.journal.entries.items()
    probe.journal.entries[key] = json.dumps({**json.loads(text), "version": 99})
    link = OtherMgr(NEWER)
    link.keys = (key,)
    run(probe, link)
    assert probe.mode(OBEYS) is THROUGH
    assert list(probe.journal.entries) == [key]
    assert "version 99" in dict(link.reports[-1].failed)[key]
    assert link.reports[-1].restored == ()


def test_a_mgr_that_is_updated_meanwhile_is_served_again():
    probe = Probe()
    link = OtherMgr(NEWER)
    run(probe, link, 2)
    link.version = PROTOCOL_VERSION
    hellos = []
    link.poll = lambda text, timeout_s: hellos.append(text) or decode_reply(
        json.dumps({"version": PROTOCOL_VERSION, "next_poll_s": 1.0})
    )
    run(probe, link, 3)
    assert len(hellos) >= 3
    assert "the mgr answers" in " ".join(probe.said)

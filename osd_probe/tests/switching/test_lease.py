"""The lease machine: whatever happens, a domain is held only under its own live lease."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from wcache.core.model import CacheMode
from wcache.core.protocol import (
    PROTOCOL_VERSION,
    ApplyRequest,
    CountersRequest,
    FailureOutcome,
    Lease,
    PollReply,
    SetModeRequest,
    Task,
)
from wcache_probe.switching.lease import ANSWERS_MAX, LeaseKeeper

DOMAINS = ("d1", "d2")
LEASES = ("L1", "L2", "L3")
TTL_S = 30.0


class Host(RuleBasedStateMachine):
    """Drives, a journal and a keeper, with a mgr, a clock and crashes that do as they like.

    The rules are what the agent does: it takes what is owed before any task, and nothing
    else touches a drive.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.toggled: dict[str, str] = {}  # domain: the lease in the journal
        self.named: dict[str, float] = {}  # lease: when a call that named it was sent
        self.last_named = ""
        self.broken: set[str] = set()
        self.keeper = LeaseKeeper({})
        self.frozen = False
        self.serial = 0

    def restore_owed(self) -> None:
        for item in self.keeper.owed(self.now_s):
            if item.domain_id in self.broken:
                self.keeper.not_restored(item.domain_id, self.now_s)
            else:
                del self.toggled[item.domain_id]
                self.keeper.is_free(item.domain_id)

    @rule(
        lease_id=st.sampled_from((*LEASES, "")), domain_id=st.sampled_from(DOMAINS),
        wanted=st.sampled_from((*DOMAINS, "")), frozen=st.booleans(),
        call_s=st.floats(0, 40), task_s=st.floats(0, 40), ttl_s=st.floats(0.1, TTL_S),
    )
    def a_call_is_answered(self, lease_id, domain_id, wanted, frozen, call_s, task_s, ttl_s):
        sent_at_s = self.now_s
        self.now_s += call_s
        self.serial += 1
        request = SetModeRequest(wanted, CacheMode.WRITE_THROUGH)
        task = Task(f"t{self.serial}", request) if wanted else None
        lease = Lease(lease_id, domain_id, ttl_s) if lease_id else None
        self.keeper.heard(
            PollReply(PROTOCOL_VERSION, 1.0, task, lease, frozen), sent_at_s, self.now_s
        )
        self.live_until_s = sent_at_s + ttl_s if lease and not frozen else -1.0
        self.live = lease_id if lease and not frozen else ""
        self.restore_owed()
        if task is None:
            return
        answer = self.keeper.decide(task, self.now_s)
        if answer is not None:
            assert isinstance(answer, FailureOutcome)
            return
        # the right to touch a drive: a lease for it that is good at this moment
        assert self.live
        assert self.now_s < self.live_until_s
        assert wanted == domain_id
        assert not frozen
        assert self.toggled.get(wanted, self.live) == self.live
        self.keeper.is_held(wanted, self.live)
        self.toggled[wanted] = self.live
        self.now_s += task_s
        self.restore_owed()

    live = ""
    live_until_s = -1.0

    @rule(seconds=st.floats(0, 70))
    def time_passes_as_the_agent_lets_it(self, seconds):
        until_s = self.now_s + seconds
        for _ in range(100):
            wake_at_s = self.keeper.wake_at_s()
            if wake_at_s is None or wake_at_s > until_s:
                break
            self.now_s = max(self.now_s, wake_at_s)
            self.restore_owed()
        self.now_s = until_s
        self.restore_owed()

    @rule()
    def the_probe_crashes_and_starts_again(self):
        self.keeper = LeaseKeeper(dict(self.toggled))
        self.live = ""
        self.restore_owed()

    @rule()
    def the_probe_is_stopped_and_started(self):
        self.keeper.stopping()
        self.restore_owed()
        self.the_probe_crashes_and_starts_again()

    @rule(domain_id=st.sampled_from(DOMAINS))
    def a_drive_breaks(self, domain_id):
        self.broken.add(domain_id)

    @rule(domain_id=st.sampled_from(DOMAINS))
    def a_drive_comes_back(self, domain_id):
        if domain_id in self.broken:
            self.broken.remove(domain_id)
            # within the longest time between two attempts
            self.time_passes_as_the_agent_lets_it(60.0)

    @invariant()
    def only_a_live_lease_keeps_a_sound_drive_from_its_prior_mode(self):
        self.restore_owed()
        for domain_id, lease_id in self.toggled.items():
            live = self.live == lease_id and self.now_s < self.live_until_s
            assert live or domain_id in self.broken, (domain_id, lease_id, self.now_s)


TestHost = Host.TestCase
TestHost.settings = examples(150, stateful_step_count=30)


def reply(lease_id: str = "L1", domain_id: str = "d1", ttl_s: float = 10.0) -> PollReply:
    return PollReply(PROTOCOL_VERSION, 1.0, None, Lease(lease_id, domain_id, ttl_s))


@given(st.floats(0.0, 9.9), st.floats(0.001, 100.0))
def test_a_lease_is_good_for_its_time_from_the_sending_and_not_longer(before_s, after_s):
    keeper = LeaseKeeper({})
    keeper.heard(reply(), sent_at_s=100.0, now_s=100.0 + before_s)
    assert keeper.lease(100.0 + before_s) is not None
    assert keeper.lease(110.0 - 1e-6) is not None
    assert keeper.lease(110.0 + after_s) is None


def test_a_reply_that_took_longer_than_the_lease_gives_nothing():
    keeper = LeaseKeeper({})
    keeper.heard(reply(), sent_at_s=100.0, now_s=111.0)
    assert keeper.lease(111.0) is None


def under_way(request=None, ttl_s: float = 10.0) -> LeaseKeeper:
    """A task that began at 100 s under a lease of this time."""
    keeper = LeaseKeeper({})
    keeper.heard(reply(ttl_s=ttl_s), sent_at_s=100.0, now_s=100.0)
    task = Task("t", request or SetModeRequest("d1", CacheMode.WRITE_THROUGH))
    assert keeper.decide(task, 100.0) is None
    return keeper


def test_no_call_renews_a_lease_beyond_the_time_of_the_task_that_it_passes():
    keeper = under_way()
    keeper.heard(reply(), sent_at_s=109.0, now_s=109.0)
    assert keeper.lease(109.9) is not None
    assert keeper.lease(110.0) is None
    keeper.heard(reply(ttl_s=100.0), sent_at_s=111.0, now_s=111.0)
    assert keeper.lease(111.0) is None
    keeper.answered("t", FailureOutcome("too late"))
    keeper.heard(reply(), sent_at_s=112.0, now_s=112.0)
    assert keeper.lease(112.0) is not None


def test_what_is_held_is_owed_when_a_task_has_taken_its_time_and_told_why():
    keeper = under_way()
    keeper.is_held("d1", "L1")
    keeper.heard(reply(), sent_at_s=109.0, now_s=109.0)
    assert keeper.owed(109.9) == []
    (item,) = keeper.owed(110.0)
    assert item.reason == "task t was not done within its 10 s"
    keeper.not_restored("d1", 110.0)
    keeper.heard(reply(), sent_at_s=111.0, now_s=111.0)
    assert keeper.owed(111.0) == [], "no call makes it try again sooner"
    keeper.answered("t", FailureOutcome("too late"))
    assert [one.domain_id for one in keeper.owed(111.0)] == ["d1"]


def test_the_time_of_a_task_begins_as_it_is_given_and_not_as_its_turn_comes():
    keeper = LeaseKeeper({})
    keeper.heard(reply(), sent_at_s=100.0, now_s=100.0)
    task = Task("t", SetModeRequest("d1", CacheMode.WRITE_THROUGH))
    keeper.given(task, 100.0)
    keeper.heard(PollReply(PROTOCOL_VERSION, 1.0, task, Lease("L1", "d1", 10.0)), 109.0, 109.0)
    assert keeper.lease(109.9) is not None
    assert keeper.lease(110.0) is None, "no call renews it while the task waits"
    assert isinstance(keeper.decide(task, 110.0), FailureOutcome)
    keeper.heard(reply(), sent_at_s=111.0, now_s=111.0)
    assert keeper.lease(111.0) is not None, "what was not begun is over"


def frozen() -> PollReply:
    return PollReply(PROTOCOL_VERSION, 1.0, None, None, frozen=True)


def test_a_task_may_go_on_for_its_time_and_under_the_lease_that_it_began_with():
    assert under_way().may_not_go_on(109.0) == ""
    assert "not done within its 10 s" in under_way().may_not_go_on(110.0)
    for heard in (PollReply(PROTOCOL_VERSION, 1.0), reply("L2"), reply("L2", "d2"), frozen()):
        keeper = under_way()
        keeper.heard(heard, sent_at_s=101.0, now_s=101.0)
        assert keeper.may_not_go_on(101.0), heard
    keeper = under_way()
    keeper.give_up("an admin said so")
    assert keeper.may_not_go_on(101.0)
    applied = ApplyRequest("d9", "a1", CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH)
    keeper = under_way(applied, ttl_s=10.0)
    keeper.heard(PollReply(PROTOCOL_VERSION, 1.0), sent_at_s=101.0, now_s=101.0)
    assert keeper.may_not_go_on(101.0) == "", "no lease is needed for it"
    keeper.heard(frozen(), sent_at_s=102.0, now_s=102.0)
    assert keeper.may_not_go_on(102.0) == "the cluster is frozen"


@pytest.mark.parametrize("asked_at_s", [101.0, 111.0], ids=["live", "run out"])
def test_a_lease_that_an_admin_ended_on_the_host_is_not_taken_again(asked_at_s):
    keeper = LeaseKeeper({})
    keeper.heard(reply("L1"), sent_at_s=100.0, now_s=100.0)
    keeper.lease(asked_at_s)
    keeper.give_up("an admin said so")
    keeper.heard(reply("L1"), sent_at_s=112.0, now_s=112.0)
    assert keeper.lease(112.0) is None
    keeper.heard(reply("L2"), sent_at_s=113.0, now_s=113.0)
    assert keeper.lease(113.0) is not None


def test_answers_are_kept_for_the_last_tasks_only():
    keeper = LeaseKeeper({})
    failure = FailureOutcome("no")
    for number in range(ANSWERS_MAX + 1):
        keeper.answered(f"t{number}", failure)
    first, second = (Task(f"t{n}", CountersRequest("d1")) for n in (0, 1))
    assert keeper.decide(first, 0.0) is None
    assert keeper.decide(second, 0.0) is failure


def test_failed_restores_are_tried_for_ever_and_ever_more_seldom():
    keeper = LeaseKeeper({"d1": "L1"})
    now_s, gaps = 0.0, []
    for _ in range(20):
        assert [item.domain_id for item in keeper.owed(now_s)] == ["d1"]
        keeper.not_restored("d1", now_s)
        assert keeper.owed(now_s) == []
        wake_at_s = keeper.wake_at_s()
        assert wake_at_s is not None
        gaps.append(wake_at_s - now_s)
        now_s = wake_at_s
    assert gaps == sorted(gaps)
    assert gaps[-1] == 60.0

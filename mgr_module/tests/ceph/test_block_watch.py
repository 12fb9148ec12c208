"""A treated OSD that stalls ends its watch within two seconds, whatever way it stalls; no other."""

import json
import math
import random

import pytest
from wcache.ceph.blocks import BlockWatch
from wcache.ceph.compat import commit_counters
from wcache.core.loads import BlocksRequest

LIMIT_MS = 2000.0
STALLS_S = 20.3
NEVER = math.inf
PROMISED_S = 2.0


class Osd:
    """Commits `per_s` writes a second, each in `commit_s`.

    From `stuck_s` on its writes stay in flight.  From `silent_s` to `back_s` it answers nothing.
    """

    def __init__(
        self, per_s=100, stuck_s=NEVER, silent_s=NEVER, back_s=NEVER, down_s=NEVER, commit_s=0.005
    ):
        self.per_s, self.commit_s = per_s, commit_s
        self.stuck_s = stuck_s
        self.silent_s = silent_s
        self.back_s = back_s
        self.down_s = down_s

    def told(self, now_s):
        done = int(self.per_s * min(now_s, self.stuck_s))
        begun = int(self.per_s * now_s) if now_s < self.stuck_s else done + 4
        counted = {"txc_commit_lat": {"avgcount": done, "sum": self.commit_s * done},
                   "txc_submit_lat": {"avgcount": begun, "sum": 0.0}}
        return json.dumps({"bluestore": counted})


class Answer:
    """It comes in 2 ms, or when the OSD is back."""

    def __init__(self, world, osd):
        self.world, self.osd = world, osd
        silent = osd.silent_s <= world.now_s + 0.002 < osd.back_s
        self.due_s = osd.back_s if silent else world.now_s + 0.002
        self.asked_s = world.now_s

    @property
    def out(self):
        return self.osd.told(self.due_s)

    def wait(self, timeout_s):
        come = self.due_s <= self.world.now_s + timeout_s
        self.world.now_s = max(self.world.now_s, self.due_s if come else
                               self.world.now_s + timeout_s)
        return come


class World:
    """OSDs, a clock that moves when somebody waits, and one watch."""

    def __init__(self, *osds):
        self.osds = osds
        self.now_s = 0.0
        self.looks_s = []
        self.blocks = []

    def ask(self, osd_id, edge):
        assert self.is_up(osd_id)
        if osd_id == 0:
            self.looks_s.append(self.now_s)
        return Answer(self, self.osds[osd_id])

    def is_up(self, osd_id):
        return self.now_s < self.osds[osd_id].down_s

    def pause(self, seconds):
        self.now_s += seconds
        return False

    def watch(self, treated=(0,), block_s=5.0, blocks=16, limit_ms=LIMIT_MS):
        """(why it ended, past the limit); all other OSDs are controls."""
        controls = tuple(i for i in range(len(self.osds)) if i not in treated)
        return BlockWatch(
            BlocksRequest(treated, controls, block_s, blocks, limit_ms), ask=self.ask,
            read=lambda text: commit_counters(json.loads(text)), commits_min=lambda: 4,
            is_up=self.is_up, clock=lambda: self.now_s,
        ).run(self.pause, self.blocks.append)

    def seen(self):
        """By OSD, in how many blocks it is."""
        return [sum(any(o.osd_id == i for o in b.osds) for b in self.blocks)
                for i in range(len(self.osds))]


STALLS = {
    "its process stops": {"silent_s": STALLS_S},
    "its writes stay in flight": {"stuck_s": STALLS_S},
    "both": {"silent_s": STALLS_S, "stuck_s": STALLS_S},
}


@pytest.mark.parametrize("limit_ms", [500.0, 2000.0, 7000.0])
@pytest.mark.parametrize("block_s", [0.5, 1.0, 5.0, 60.0])
@pytest.mark.parametrize("stall", STALLS.values(), ids=STALLS)
def test_a_treated_osd_that_stalls_ends_the_watch_within_two_seconds_of_its_limit(
    stall, block_s, limit_ms
):
    world = World(Osd(**stall), Osd(), Osd(), Osd())
    why, past_limit = world.watch(block_s=block_s, blocks=96, limit_ms=limit_ms)
    assert past_limit
    assert why.startswith("osd.0 ")
    assert f"past the limit of {limit_ms:.0f} ms" in why
    late_s = world.now_s - STALLS_S - limit_ms / 1000.0
    assert 0 <= late_s <= PROMISED_S + 0.1


@pytest.mark.parametrize("offset_s", [random.Random(3).uniform(0, 5) for _ in range(40)])
def test_also_beside_a_control_that_stalls_at_the_same_time(offset_s):
    at_s = STALLS_S + offset_s
    world = World(Osd(silent_s=at_s), Osd(silent_s=at_s - 3), Osd(stuck_s=at_s), Osd())
    why, past_limit = world.watch()
    assert past_limit
    assert why.startswith("osd.0 has not answered for ")
    assert " while other OSDs do, " in why
    assert world.now_s - at_s - LIMIT_MS / 1000.0 <= PROMISED_S + 0.1


def test_one_that_stands_alone_is_past_the_limit_too():
    world = World(Osd(silent_s=STALLS_S))
    why, past_limit = world.watch()
    assert past_limit
    assert why.startswith("osd.0 has not answered for ")
    assert "other" not in why
    assert world.now_s - STALLS_S - LIMIT_MS / 1000.0 <= PROMISED_S + 0.1


@pytest.mark.parametrize("stall", STALLS.values(), ids=STALLS)
def test_a_control_that_stalls_ends_no_watch_and_is_in_no_block_since(stall):
    world = World(Osd(), Osd(**stall), Osd(), Osd(), Osd())
    assert world.watch() == ("", False)
    assert world.seen() == [16, 5 if "stuck_s" in stall and len(stall) == 1 else 4, 16, 16, 16]
    # and the treated one was looked at all the time, every second
    assert max(b - a for a, b in zip(world.looks_s, world.looks_s[1:])) <= 1.1


@pytest.mark.parametrize(("osd", "blocks"), [
    (Osd(per_s=0), 0), (Osd(per_s=0.2), 0),
    (Osd(silent_s=STALLS_S, back_s=STALLS_S + 1.8), 16),
    (Osd(down_s=STALLS_S), 4), (Osd(silent_s=STALLS_S, down_s=STALLS_S + 1.0), 4),
], ids=["no load", "little load", "a pause within the limit", "down", "killed"])
def test_an_osd_without_load_or_silent_for_less_than_the_limit_or_down_is_no_stall(osd, blocks):
    world = World(osd, Osd(), Osd(), Osd())
    assert world.watch() == ("", False)
    assert world.seen() == [blocks, 16, 16, 16]


def test_where_nobody_answers_it_is_nobodys_change():
    world = World(*(Osd(silent_s=STALLS_S) for _ in range(5)))
    assert world.watch() == ("", False)
    assert world.seen() == [4] * 5


def test_an_answer_that_came_while_the_mgr_stood_still_counts():
    world = World(Osd(), Osd(), Osd(), Osd())
    stood = []

    def pause(seconds):
        world.now_s += seconds
        if world.now_s > STALLS_S and not stood:  # the next question is answered meanwhile
            stood.append(True)
            plain = world.ask

            def frozen(osd_id):
                answer = plain(osd_id)
                if osd_id == 0 and len(stood) == 1:
                    stood.append(True)
                    world.now_s += 30.0
                return answer

            world.ask = frozen
        return False

    world.pause = pause
    assert world.watch() == ("", False)


def test_an_osd_that_answers_again_is_in_the_blocks_again():
    world = World(Osd(), Osd(silent_s=STALLS_S, back_s=STALLS_S + 20), Osd(), Osd(), Osd())
    assert world.watch() == ("", False)
    assert world.seen() == [16, 12, 16, 16, 16]


@pytest.mark.parametrize(("osd", "us"), [
    (Osd(per_s=0.4, commit_s=1.5), 1_500_000.0), (Osd(per_s=0.4, commit_s=0.005), None)])
def test_few_commits_tell_of_an_osd_where_clients_wait_for_them_most_of_the_time(osd, us):
    world = World(osd, Osd(), Osd(), Osd())
    assert world.watch() == ("", False)
    told = [{each.osd_id: each.latency_us for each in block.osds}.get(0) for block in world.blocks]
    assert set(told) == {us}
    assert all(osd.commits for block in world.blocks for osd in block.osds)

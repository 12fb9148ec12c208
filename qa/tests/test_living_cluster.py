"""The cluster that `make simulate-fleet WHAT=living` changes drives of is as it says."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from fleet_simulation.judged import Judged, Kind
from fleet_simulation.living import DEGRADED, HEARD_S, MOVED, MOVES, World
from fleet_simulation.living_fleet import HOURS_MAX, LATE_S, Lived, LivingFleet, line, table
from wcache.ceph.cluster_health import pg_scope
from wcache.ceph.health import Reach


@pytest.fixture(scope="module")
def world():
    found = World(200, random.Random(1))
    found.to(found.now_s + 30_000.0)
    return found


def missed(world):
    """OSDs of PGs with a missing copy, by the PGs."""
    return {osd_id for pg in world.missing for osd_id in world.acting[pg]}


def test_what_a_view_says_is_what_the_states_of_its_pgs_say(world):
    by_osd = {Reach.OSDS: set(), Reach.BUSY: set()}
    for pg, state in enumerate(world.state):
        by_osd.get(pg_scope(state), set()).update(world.acting[pg])
    assert set(world.ill()) == by_osd[Reach.OSDS]
    assert world.busy() == by_osd[Reach.BUSY]
    assert world.failures > 2, "an OSD is down, and another one after it"


def test_who_misses_a_copy_is_ill_in_the_view_and_only_those(world):
    assert world.down is not None
    while not world.missing or world.now_s < 100.0 + min(s for _, s in world.missing.values()):
        world.to(world.now_s + 100.0)
    assert missed(world) - {world.down} <= set(world.ill())
    assert all((world.missing_since_s(osd_id) is not None) == (osd_id in missed(world))
               for osd_id in range(world.osds) if osd_id != world.down)


def test_so_many_pgs_move_and_each_osd_has_one_backfill_of_each_kind(world):
    assert len(world.targets) >= 0.9 * MOVED * len(world.acting)
    moving = [pg for pg in world.targets if world.state[pg] == MOVES]
    senders = Counter(world.acting[pg][0] for pg in moving)
    assert moving
    assert max(Counter(world.targets[pg][1] for pg in moving).values()) == 1
    assert max(senders.values()) == 1
    assert all(world.factor(osd_id) > 1.0 for osd_id in senders)


def test_copies_are_on_osds_of_their_own_and_none_is_lost(world):
    assert all(len({*acting}) == len(acting) for acting in world.acting)
    assert sum(map(len, world.pgs_of)) == sum(map(len, world.acting))


def test_a_change_beside_a_missing_copy_is_noticed_whatever_the_view_says():
    fleet = LivingFleet(110, 0, Kind.SAME)
    fleet.now_s += 1.0
    while not fleet.world.missing or fleet.world.down_seen is None:
        fleet.now_s += 1.0
        fleet.world.to(fleet.began_s + fleet.now_s)
    ill = next(osd_id for osd_id in fleet.world.ill() if osd_id != fleet.world.down)
    fleet.now_s += LATE_S
    with pytest.raises(AssertionError, match="after a copy went missing"):
        fleet.toggles((ill,), back=False)
    assert (fleet.raced, fleet.back) == (0, 0)
    fleet.toggles((ill,), back=True)
    assert fleet.back == 1


def test_a_copy_that_went_missing_just_now_is_no_fault_of_the_view():
    fleet = LivingFleet(110, 0, Kind.SAME)
    world = fleet.world
    failures = world.failures
    while world.failures == failures:
        fleet.now_s += 1.0
        world.to(fleet.began_s + fleet.now_s)
    osd_id = next(osd_id for osd_id in sorted(missed(world)) if osd_id != world.down)
    assert f"has PGs that are {DEGRADED}" not in world.ill().values() or world.now_s < HEARD_S
    fleet.toggles((osd_id,), back=False)
    assert fleet.raced == 1


WELL = Judged(1, 364, Kind.GOOD, "quiet", 0, "done", 400, 0, 20.0, 1.0, 100, 0.0, 0.0, "")
LIVED = Lived(WELL, 400, 0.5, 0.8, 0.9, 7, 0, 0)


@pytest.mark.parametrize(("judged", "said"), [
    ({}, ""), ({"ended": "worse"}, "called worse"), ({"hours": HOURS_MAX + 1.0}, "h"),
    ({"harm_s": 1e6}, "s of harm"), ({"kind": Kind.WORSE}, "found late or never"),
    ({"kind": Kind.WORSE, "ended": "worse", "bad": 400}, "found late or never"),
    ({"kind": Kind.WORSE, "ended": "worse", "bad": 1}, ""),
])
def test_the_table_says_what_does_not_hold(judged, said):
    found = replace(LIVED, judged=replace(WELL, **judged))
    lines, broken = table([found])
    assert len(lines) == 2
    assert [said in one for one in broken] == ([True] if said else [])
    assert line(found)
    stopped = replace(LIVED, judged=replace(WELL, ended="stopped"))
    assert any("were stopped" in one for one in table([stopped, stopped, LIVED])[1])

"""What a full collection of Python's garbage goes through where a fleet is large.

Each test is a Python of its own: what is frozen, and what collects, is the whole interpreter's.
"""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BEFORE = """
import gc, json, weakref
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from wcache.services import garbage


class Cycle:
    def __init__(self):
        self.me = self


def drives_of(host):
    return tuple(make.drive(f"sd{i}", 10 * host + i) for i in range(10))


def tracked(name):
    return sum(type(item).__name__ == name for item in gc.get_objects())


mgr = FakeMgr(*((f"h{host}", drives_of(host)) for host in range(20)))
mgr.report_all()
"""
LARGE = "garbage.DRIVES_MIN = 200\n"


def shown(script):
    """What a script shows as JSON, as its last line."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + script], capture_output=True, text=True, timeout=300,
        check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_full_collection_goes_through_no_report_of_a_large_fleet():
    found = shown(LARGE + """
before = tracked("DriveReport")
mgr.service.tick()
print(json.dumps([before >= 200, tracked("DriveReport"), len(mgr.inside.hosts.reports)]))
""")
    assert found == [True, 0, 20]


def test_what_a_full_collection_has_left_is_gone_through_by_no_other_one():
    found = shown(LARGE + """
mgr.service.tick()
kept = [Cycle() for _ in range(500)]
new = tracked("Cycle")
gc.collect()
print(json.dumps([new, tracked("Cycle"), len(kept)]))
""")
    assert found == [500, 0, 500]


def test_a_younger_collection_freezes_nothing():
    found = shown(LARGE + """
mgr.service.tick()
kept = [Cycle() for _ in range(500)]
gc.collect(1)
print(json.dumps([tracked("Cycle"), len(kept)]))
""")
    assert found == [500, 500]


def test_a_small_fleet_leaves_the_interpreter_as_it_is():
    found = shown("""
before = len(gc.callbacks), gc.get_freeze_count()
garbage.DRIVES_MIN = 201
mgr.service.tick()
gc.collect()
print(json.dumps([before, (len(gc.callbacks), gc.get_freeze_count())]))
""")
    assert found == [[0, 0], [0, 0]]


def test_a_fleet_that_shrinks_is_gone_through_again():
    found = shown(LARGE + """
mgr.service.tick()
frozen = gc.get_freeze_count() > 0
mgr.now_s += garbage.LOOK_EVERY_S
garbage.DRIVES_MIN = 201
mgr.service.tick()
gc.collect()
print(json.dumps([frozen, len(gc.callbacks), gc.get_freeze_count()]))
""")
    assert found == [True, 0, 0]


@pytest.mark.parametrize(("share", "gone"), [(0.1, False), (0.4, True)])
def test_frozen_garbage_goes_once_what_is_frozen_has_grown_by_a_quarter(share, gone):
    found = shown(LARGE + f"""
def later():
    mgr.now_s += garbage.LOOK_EVERY_S
    mgr.service.tick()


cycle = Cycle()
seen = weakref.ref(cycle)
mgr.service.tick()
later()
kept = [[] for _ in range(int({share} * gc.get_freeze_count()))]
del cycle
gc.collect()  # by a command, say: not through what is frozen
before = seen() is not None
mgr.service.tick()  # not yet time to look
at_once = seen() is not None
later()
print(json.dumps([before, at_once, seen() is None]))
""")
    assert found == [True, True, gone]


def test_a_mgr_that_fills_up_after_its_start_does_not_collect_all_for_that():
    found = shown(LARGE + """
mgr.service.tick()
whole = []
kept = [[] for _ in range(gc.get_freeze_count())]
gc.collect()
gc.callbacks.append(lambda phase, info: whole.append(info["generation"] == 2))
mgr.now_s += garbage.LOOK_EVERY_S
mgr.service.tick()
print(json.dumps([any(whole), len(kept) > 0]))
""")
    assert found == [False, True]

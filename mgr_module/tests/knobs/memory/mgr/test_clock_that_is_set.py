"""The host's clock is set between two looks at what OSDs have counted: no rate follows it."""

from __future__ import annotations

import time

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from test_what_ceph_answers import Ceph
from wcache.engine.engine import steady_clock
from wcache.knobs.memory.reading import MEMORY
from wcache.services.plans.planners import Parts, make_all

SET_S = [3600.0, -3600.0]
BETWEEN_S = 60.0


@pytest.fixture
def clocks(monkeypatch):
    """Both clocks of this host; the time of day can be set by itself."""
    now = {"day": 1_700_000_000.0, "steady": 500.0}
    monkeypatch.setattr(time, "time", lambda: now["day"])
    monkeypatch.setattr(time, "monotonic", lambda: now["steady"])
    return now


def passes(now, set_s):
    now["steady"] += BETWEEN_S
    now["day"] += BETWEEN_S + set_s


@pytest.mark.parametrize("set_s", SET_S)
def test_the_engines_clock_does_not_step(clocks, set_s):
    clock = steady_clock()
    before = clock()
    assert before == clocks["day"]
    passes(clocks, set_s)
    assert clock() - before == BETWEEN_S


@pytest.mark.parametrize("set_s", SET_S)
def test_memory_is_divided_by_the_time_that_has_passed(clocks, set_s):
    mgr, ceph = FakeMgr(), Ceph(20)
    planner = make_all(
        Parts(ceph, mgr.engine, None, mgr.view, mgr.surroundings, mgr.log)
    )[MEMORY.name]
    watch = planner.watch
    watch._osds = lambda: [make.osd(0, "h1")]
    watch._reader._osds.is_up = lambda osd_id: True
    watch.read()
    first, read_at_s = watch.by_osd()[0].last.counters, watch.read_at_s
    passes(clocks, set_s)
    watch.read()
    assert watch.by_osd()[0].last.counters.at_s - first.at_s == BETWEEN_S
    assert watch.read_at_s - read_at_s == BETWEEN_S
    assert watch.by_osd()[0].rates.seconds == BETWEEN_S

"""A changed target is watched: what its plan promised is kept, or it is said that it is not."""

from dataclasses import replace

import pytest
from memory_world import GIB, a_mgr, begun, settled_caches, to_its_end, watch
from mgr_fakes.memory import uniform
from module_world import codes, findings_of, ok, said, taken_over
from wcache.knobs.memory.facts import Outcome

pytestmark = pytest.mark.slow  # whole rollouts


def applied(device_class=None):
    """The idle class has given memory to the starved one, by what a trial has told."""
    mgr = a_mgr(hosts=4, ram_bytes=16 * GIB, memory_step_s=5.0)
    to_its_end(begun(mgr, target_bytes=7 * GIB, osds=4), 10.0)
    settled_caches(mgr)
    wanted = {} if device_class is None else {"scope": f"class:{device_class}"}
    plan_id = said(mgr, "plan", knob="memory", **wanted)["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    to_its_end(mgr, 10.0)
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"
    mgr.memory.watch.read()
    return mgr


def promises(mgr, device_class="hdd"):
    rows = said(mgr, "memory status")["promises"]
    assert {row["plan_id"] for row in rows} <= {"p1"}
    return [row for row in rows if row["device_class"] == device_class]


def test_what_is_counted_before_the_caches_have_settled_is_no_evidence_of_the_promise():
    mgr = applied()
    assert {row["outcome"] for row in promises(mgr)} == {"not known yet"}
    assert "WCACHE_MEMORY_STALE" not in codes(mgr)
    for _ in range(2):
        mgr.now_s += 400.0
        mgr.memory.watch.read()
    mgr.step()
    # the caches have settled by now, and all that was counted is of the time before
    assert not any(row["settling_s"] for row in said(mgr, "memory status")["osds"])
    assert {row["outcome"] for row in promises(mgr)} == {"not known yet"}


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_promise_that_came_true_is_shown_with_what_was_promised_and_what_is(takes_over):
    mgr = applied()
    if takes_over:  # the next mgr knows it too
        taken_over(mgr)
    settled_caches(mgr)
    rows = promises(mgr)
    assert len(rows) == 4
    for row in rows:
        assert row["outcome"] == "kept"
        assert row["low_per_s"] - 1 <= row["misses_per_s"] <= row["high_per_s"] + 1
        assert row["misses_per_s"] < row["misses_before_per_s"]
    assert "WCACHE_MEMORY_STALE" not in codes(mgr)
    text = ok(mgr.command("memory status"))
    assert "PROMISED" in text
    assert "kept" in text


def test_a_promise_that_did_not_come_true_is_said_with_what_to_do():
    mgr = applied()
    osd = mgr.osd_memory.osds[0]  # of h0: its clients use four times as much
    osd.crossing = uniform(24 * GIB, 160e6)
    settled_caches(mgr)
    outcomes = {row["host"]: row["outcome"] for row in promises(mgr)}
    assert outcomes == {"h0": "broken", "h1": "kept", "h2": "kept", "h3": "kept"}
    said_of = findings_of(mgr, "WCACHE_MEMORY_STALE")[0]["detail"]
    assert "plan p1 promised at most" in said_of
    assert "plan again, or roll it back" in said_of


def test_a_rollback_ends_the_promise():
    mgr = applied()
    ok(mgr.command("rollback"))
    to_its_end(mgr, 10.0)
    settled_caches(mgr)
    assert promises(mgr) == []
    assert "WCACHE_MEMORY_STALE" not in codes(mgr)


@pytest.mark.parametrize("change", ["another daemon", "an OSD that is gone"])
def test_a_host_whose_daemons_or_osds_changed_asks_for_a_new_division(change):
    mgr = applied()
    assert "WCACHE_MEMORY_STALE" not in codes(mgr)
    if change == "another daemon":
        mgr.osd_memory.hosts["h1"] = {"osd": 2, "rgw": 1}
    else:
        del mgr.view.state.osds[3], mgr.osd_memory.osds[3]
    watch(mgr, 1000.0)
    (found,) = findings_of(mgr, "WCACHE_MEMORY_STALE")
    assert "divided by plan p1 for other OSDs and daemons" in found["detail"]


def test_what_a_plan_of_one_class_did_not_change_it_did_not_promise():
    mgr = applied("hdd")
    assert len(promises(mgr)) == 4
    assert promises(mgr, "ssd") == []


def test_a_promise_is_judged_by_the_interval_that_was_printed():
    mgr = applied()
    settled_caches(mgr)
    (facts,) = [h for h in mgr.memory.facts.gather(mgr.engine.world()).hosts if h.name == "h0"]
    (promise,) = [
        p for p in mgr.memory.facts.promises if (p.device_class, p.host) == ("hdd", "h0")
    ]
    _, misses = promise.outcome(facts)
    assert promise.low <= misses <= promise.high
    assert replace(promise, high=misses * 0.999).outcome(facts)[0] is Outcome.BROKEN
    assert replace(promise, high=misses * 1.001).outcome(facts)[0] is Outcome.KEPT

"""An OSD that waits quite unlike the others of its class is named, with what would help it."""

import pytest
from memory_world import BUSY, GIB, IDLE, TARGET, one_host, settled_caches
from module_world import ok, said


def a_host(*loads, told=None, **options):
    """One host, watched for as long as it takes, and with 5 GiB of RAM for each OSD."""
    mgr = one_host(*loads, told=told, **{"ram_bytes": len(loads) * 5 * GIB, **options})
    settled_caches(mgr)
    return mgr


def named(mgr):
    (group,) = said(mgr, "memory recommend")["groups"]
    return {row["osd_id"]: row for row in group["single_osds"]}


def test_a_busy_osd_among_idle_ones_is_told_what_a_target_of_its_own_would_save():
    mgr = a_host(IDLE, IDLE, BUSY, IDLE, told=("gain", 0.5))
    (row,) = named(mgr).values()
    assert (row["osd_id"], row["target_bytes"]) == (2, 6 * GIB)
    assert row["wait"] > 4 * row["wait_of_class"]
    assert f"ceph config set osd.2 {TARGET} {6 * GIB}" in row["words"]
    assert "cephadm's autotuner removes" in row["words"]
    assert "a value for its host may take precedence" in row["words"]
    assert "  advice only: osd.2 on h0 waits" in ok(mgr.command("memory recommend"))


def test_an_idle_osd_among_busy_ones_is_told_with_how_much_less_it_would_do():
    mgr = a_host(BUSY, IDLE, BUSY, BUSY, told=("gain", 0.5), memory_floor=2 * GIB,
                 ram_bytes=25 * GIB)
    (row,) = named(mgr).values()
    assert row["osd_id"] == 1
    assert row["target_bytes"] == 2 * GIB


def test_no_plan_ever_sets_the_target_of_a_single_osd():
    mgr = a_host(IDLE, IDLE, BUSY, IDLE, told=("gain", 0.5), memory_budget=16 * GIB)
    assert named(mgr)
    edits = [e for c in said(mgr, "plan", knob="memory")["changes"] for e in c["edits"]]
    assert not [e["who"] for e in edits if e["who"].startswith("osd.")]


def test_where_no_trial_has_told_no_figure_is_given():
    (row,) = named(a_host(IDLE, IDLE, BUSY, IDLE)).values()
    assert (row["osd_id"], row["target_bytes"]) == (2, None)
    assert "no trial of hdd at" in row["words"]
    assert "config set" not in row["words"]


@pytest.mark.parametrize(("loads", "told"), [
    ((BUSY, BUSY, BUSY, BUSY), ("gain", 0.5)),  # all alike
    ((IDLE, IDLE, BUSY, IDLE), ("no material difference", 1.0)),  # more would gain nothing
    ((IDLE, IDLE, BUSY, IDLE), ("gain", 0.95)),  # or next to nothing
    ((IDLE, IDLE, (6 * GIB, 1.4e4), IDLE), ("gain", 0.5)),  # many times nothing is nothing
    (((6 * GIB, 20e6), (6 * GIB, 20e6), BUSY, (6 * GIB, 20e6)), ("gain", 0.5)),  # just twice
    ((IDLE, BUSY), ("gain", 0.5)),  # of two, which one is odd?
    ((IDLE, IDLE, BUSY, BUSY), None),  # two halves
    ((IDLE, IDLE, BUSY, BUSY), ("gain", 0.5)),
    ((BUSY, IDLE, BUSY, BUSY), None),  # who waits less needs nothing that is known
])
def test_no_osd_is_named_where_nothing_is_odd_or_nothing_would_help(loads, told):
    assert named(a_host(*loads, told=told, ram_bytes=25 * GIB)) == {}


def test_an_osd_that_has_a_target_of_its_own_is_not_told_to_get_one():
    mgr = a_host(IDLE, IDLE, BUSY, IDLE, told=("gain", 0.5))
    mgr.config.kept[("osd.2", TARGET)] = str(4 * GIB)
    mgr.inside.config.read_soon()
    mgr.step()
    assert named(mgr) == {}

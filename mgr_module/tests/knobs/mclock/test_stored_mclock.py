"""What commit ed06201 stored of mClock's capacities loads, goes on and goes back."""

import json
from pathlib import Path

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.store import MemoryStore

STORED = json.loads(
    (Path(__file__).parents[4] / "qa" / "stored_v1" / "mclock.json").read_text()
)
HDD = "osd_mclock_max_capacity_iops_hdd"
BEFORE = {("osd.0", HDD): "120.500000"}
SET = {("osd/class:hdd", HDD): "301.000000"}


def taken_up(name):
    """A mgr of today that starts with what was stored, and the config database beside it."""
    store = MemoryStore()
    store.kept.update(STORED[name]["store"])
    mgr = FakeMgr(*((f"h{i}", (make.drive("sda", i),)) for i in range(4)), store=store)
    mgr.config.kept = {(who, key): value for who, key, value in STORED[name]["config"]}
    mgr.report_all()
    return mgr


def change(mgr):
    (found,) = json.loads(mgr.command("mclock show", format="json")[1])["changes"]
    return found["change_id"], found["status"], found["changes"]


@pytest.mark.parametrize(("name", "status", "config"), [
    ("running", "done", SET), ("done", "done", SET), ("rolling back", "rolled back", BEFORE),
    ("rolled back", "rolled back", BEFORE), ("stopped", "stopped", {**BEFORE, **SET}),
])
def test_what_was_under_way_ends_as_it_was_meant_to(name, status, config):
    mgr = taken_up(name)
    mgr.settle()
    assert change(mgr) == ("k1", status, 2)
    assert mgr.config.kept == config
    assert mgr.inside.archive.unreadable == {}
    mgr.restart()
    assert change(mgr) == ("k1", status, 2)


@pytest.mark.parametrize("name", ["running", "done", "stopped"])
def test_what_was_made_can_be_taken_back(name):
    mgr = taken_up(name)
    mgr.settle()
    assert mgr.command("rollback")[0] == 0
    mgr.settle()
    assert mgr.config.kept == BEFORE
    assert change(mgr)[1] == "rolled back"


def test_capacities_that_were_measured_are_recommended():
    mgr = taken_up("running")
    mgr.settle()
    mgr.step()
    (advice,) = json.loads(mgr.command("mclock recommend", format="json")[1])["classes"]
    assert advice["models"][0]["capacity"]["calls"] == 12

"""An experiment that version 1 was in the middle of: what it had measured is kept, and decides."""

import json
from pathlib import Path

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from mgr_fakes.store import MemoryStore
from module_world import WB, all_modes, fine, ok, said
from wcache.core import codec
from wcache.core.experiment.slots import CheckSlot, slot_at
from wcache.core.record import Period

STORED = json.loads(
    (Path(__file__).parents[3] / "qa" / "stored_v1" / "measuring.json").read_text()
)["store"]


def stored_periods():
    """By slot, the periods of the run that was under way."""
    found = {}
    for key, text in STORED.items():
        if key.startswith("period/"):
            index, second = key.split("/")[-2:]
            slot = slot_at(int(index), second == "1")
            found[slot] = codec.loads(Period, text, bytes_max=100_000, what=key)
    return found


@pytest.fixture
def mgr():
    """A mgr of now that takes over; the probe of now has restored the drive at its start."""
    store = MemoryStore()
    store.kept.update(STORED)
    found = FakeMgr(("h1", (make.drive("sda", 0), make.drive("sdb", 1))), store=store)
    found.probes["h1"].prior_is_optional = True
    found.report_all()
    found.settle()
    return found


def test_the_fixture_is_in_the_middle_of_its_last_settling_check():
    checks = [slot for slot in stored_periods() if isinstance(slot, CheckSlot)]
    assert {slot.check for slot in checks} == set(range(6))
    assert CheckSlot(5, True) not in checks


def test_the_run_ends_and_no_period_is_measured_again(mgr):
    runs = said(mgr, "campaign show", campaign_id="c1")["run_list"]
    assert [run["status"] for run in runs] == ["done", "aborted"]
    assert "c1.1  stopping: started by a version that stored no prior" in ok(mgr.command("history"))
    assert mgr.loads.measured == 0
    assert all_modes(mgr) == {WB}
    fine(mgr)


def test_all_that_it_had_measured_is_in_its_record(mgr):
    stored = stored_periods().values()
    record = mgr.inside.archive.record("c1.1.0")
    in_pairs = [period for pair in record.pairs for period in (pair.write_back, pair.write_through)]
    kept = [*in_pairs, *record.watches, *record.late_watches]
    assert sorted(p.started_at_s for p in kept) == sorted(p.started_at_s for p in stored)
    assert (len(in_pairs), len(record.watches), len(record.late_watches)) == (72, 4, 7)


def test_both_experiments_decide_together(mgr):
    results = said(mgr, "campaign show", campaign_id="c1")["results"]
    assert [(r["record_id"], r["verdict"]) for r in results] == [
        ("c1.0.0", "write through"), ("c1.1.0", "write through")]
    (advice,) = said(mgr, "recommend")["recommendations"]
    assert (advice["verdict"], advice["loads"][0]["drives"]) == ("write through", 2)

"""bcache's mode by an admin's plan, on the real one: killed, taken back, and over when it is.

A SCSI backing drive, an NVMe drive as its cache.  The probe is the project's; its mgr is the test.
"""

import time
from dataclasses import replace

import pytest
from bcache_bench import BACKING, CACHE, DEVICE, MIB, Cached
from wcache.core import codec
from wcache.core.drive.prior import prior_from
from wcache.core.options.entries import names_of
from wcache.core.options.option import shared_cache
from wcache.core.protocol import (
    ApplyOptionRequest,
    DrivesOutcome,
    LookRequest,
    ReportOutcome,
    ReportRequest,
    RollbackRequest,
)

pytestmark = [pytest.mark.lab, pytest.mark.long]


@pytest.fixture
def cached(bench, probe_of):
    stack = Cached(bench, probe_of, CACHE)
    try:
        stack.make()
        yield stack
    finally:
        stack.end()


class Plan:
    """A plan of an admin about the mode of the backing drive, as its probe is asked for it."""

    def __init__(self, cached, number, expected, value):
        self.cached = cached
        self.probe = cached.probes[BACKING]
        self.action_id, self.expected, self.value = f"p{number}.0", expected, value
        self.probe.start()
        told = self.probe.ask(LookRequest(self.probe.domain_id), lease=False)
        drives = codec.decode(DrivesOutcome, told, "outcome").drives
        self.prior = prior_from("", self.probe.domain_id, drives, names_of("cache_mode"))

    def apply(self, agreed=None, crash_after=0):
        """The outcome; None where the probe died of it."""
        self.probe.end()
        self.probe.start(crash_after=crash_after)
        return self.probe.ask(ApplyOptionRequest(
            self.probe.domain_id, self.action_id, "cache_mode", self.expected, self.value,
            self.prior, agreed,
        ), lease=False)

    def rollback(self):
        return self.probe.ask(
            RollbackRequest(self.probe.domain_id, self.action_id, prior=self.prior), lease=False
        )

    def until_clean(self, ask):
        """Ask again, as the mgr does, until nothing is dirty; what it was answered."""
        seen = []
        deadline = time.monotonic() + 120
        while not seen or after(seen[-1])["dirty_data"] != "0":
            assert time.monotonic() < deadline, seen[-1]
            seen.append(ask())
        return seen


def after(outcome):
    """The options that were read after a change."""
    assert outcome["kind"] == "state", outcome
    (state,) = outcome["after"]
    return {one["name"]: one["value"] for one in state["options"]}


def mode_of(cached):
    return cached.has("cache_mode").partition("[")[2].partition("]")[0]


def test_away_from_writeback_it_is_done_when_nothing_is_dirty_and_outlasts_power(cached):
    cached.make_osd()
    cached.set("cache_mode", "writeback")
    cached.make_dirty(40)
    plan = Plan(cached, 1, "writeback", "writethrough")
    probe = plan.probe
    # killed with the journal written, then with the mode set
    for step, mode in ((2, "writeback"), (2, "writethrough")):
        assert plan.apply(crash_after=step) is None
        assert (mode_of(cached), len(probe.journal())) == (mode, 1)
    code, said = probe.restore_all()
    assert code == 0, said
    assert "applied, and not taken back: " in said, said
    assert "was in cache_mode writeback" in said, said
    code, said = probe.restore_action(plan.action_id)
    assert code == 0, said
    assert (mode_of(cached), probe.journal()) == ("writeback", [])

    found = after(plan.apply())
    assert found["cache_mode"] == "writethrough"
    assert int(found["dirty_data"]) > 9 * MIB
    cached.write_back()
    seen = plan.until_clean(plan.apply)
    assert [each["changed"] for each in seen] == [True] * len(seen)
    assert cached.has("dirty_data") == "0.0k"
    probe.end()
    # the kernel writes the superblock without a flush: the OSD's next one makes it stable
    cached.bench.write_and_sync(DEVICE, "written-through")
    cached.lose_power()
    assert mode_of(cached) == "writethrough"


def test_towards_writeback_it_wants_consent_and_is_back_when_nothing_is_dirty(cached):
    cached.make_osd()
    assert mode_of(cached) == "writethrough"
    plan = Plan(cached, 2, "writethrough", "writeback")
    probe = plan.probe
    report = codec.decode(
        ReportOutcome, probe.ask(ReportRequest(), lease=False), "outcome"
    ).report
    by_name = {drive.dev_name: drive for drive in report.drives}
    names = [cached.bench.disk(name).name for name in (BACKING, CACHE)]
    shared = shared_cache(report, [by_name[names[0]]])
    assert (shared.bcaches, shared.osd_ids) == (("bcache0",), (0,))
    assert [words.split()[0] for words in shared.devices] == names[1:]
    assert by_name[names[1]].serial in shared.words

    refused = plan.apply()
    assert refused["kind"] == "failure"
    assert "nobody has agreed" in refused["message"]
    assert (mode_of(cached), probe.journal()) == ("writethrough", [])
    other = plan.apply(agreed=replace(shared, osd_ids=(0, 1)))
    assert "which nobody has agreed to" in other["message"]
    assert (mode_of(cached), probe.journal()) == ("writethrough", [])
    assert after(plan.apply(agreed=shared))["cache_mode"] == "writeback"
    cached.make_dirty(40)
    back = after(plan.rollback())
    assert back["cache_mode"] == mode_of(cached) == "writethrough"
    assert int(back["dirty_data"]) > 9 * MIB
    probe.end()
    code, said = probe.restore_action(plan.action_id)
    assert code == 1, said
    assert "MiB of dirty data of " in said, said
    assert len(probe.journal()) == 1, "it is not over"
    cached.write_back()
    probe.start()
    plan.until_clean(plan.rollback)
    assert (mode_of(cached), probe.journal()) == ("writethrough", [])
    assert cached.has("dirty_data") == "0.0k"

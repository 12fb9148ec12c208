"""An OSD on bcache: a SCSI backing drive, an NVMe drive as its cache.

Each is a cache domain of its own.  bcache flushes both at each flush of the OSD, in all of its
modes (drivers/md/bcache/request.c, cached_dev_nodata(); journal.c, journal_write_unlocked()).
Its index is in a journal on the cache drive, written with PREFLUSH and FUA.  QEMU's NVMe drive
takes a FUA write as a plain one while its cache is on, so that the journal's last block is lost
there; where the kernel flushes instead (SCSI, SAS), or the cache is off, it is not.
"""

import json
import time
from itertools import product

import pytest
from bcache_bench import BACKING, CACHE, DEVICE, MIB, Cached
from probe_bench import BACK, THROUGH
from wcache.core import codec
from wcache.core.drive.prior import prior_from
from wcache.core.hardware import Dirty, crossed_target
from wcache.core.model import Role
from wcache.core.options.entries import leased_names
from wcache.core.protocol import (
    CountersRequest,
    DrivesOutcome,
    LookRequest,
    ReleaseRequest,
    SetOptionRequest,
    TimerRequest,
)

pytestmark = [pytest.mark.lab, pytest.mark.long]

MODES = ("writethrough", "writeback", "writearound", "none")
# As an admin has tuned it, and what a lease sets.
OPTIONS = {
    "sequential_cutoff": ("0", "1048576"), "writeback_percent": ("12", "20"),
    "writeback_rate_minimum": ("16", "1024"), "writeback_rate_p_term_inverse": ("50", "120"),
    "writeback_rate_i_term_inverse": ("9000", "20000"),
}


@pytest.fixture(params=[CACHE])
def cached(request, bench, probe_of):
    stack = Cached(bench, probe_of, request.param)
    try:
        stack.make()
        yield stack
    finally:
        stack.end()


def test_both_drives_say_what_they_are_to_bcache_and_may_be_toggled(cached):
    cached.make_osd()
    for mode in MODES:
        cached.set("cache_mode", mode)
        backing, cache = (cached.told(name) for name in (BACKING, CACHE))
        assert (backing.is_cache, cache.is_cache) == (False, True)
        for one in (backing, cache):
            assert (one.name, one.mode, one.sequential_cutoff_bytes) == ("bcache0", mode, 0)
            assert one.dirty_bytes is not None
            assert one.rate_bytes_s is not None
            assert one.busy_ms is not None
            assert one.above_target is (False if mode == "writeback" else None)
    seen = {name: probe.look() for name, probe in cached.probes.items()}
    assert len({drive["domain_id"] for drive in seen.values()}) == 2
    for drive in seen.values():
        assert drive["toggle_refusal"] == ""
        assert [layer["kind"] for layer in drive["state"]["layers"]] == ["bcache"]


def test_every_flush_reaches_both_drives_in_every_mode_of_bcache_and_of_the_drives(cached):
    bench = cached.bench
    for mode, backing, cache in product(MODES, (BACK, THROUGH), (BACK, THROUGH)):
        cached.set("cache_mode", mode)
        bench.disk(BACKING).set_cache_type(backing.value)
        cached.probes[CACHE].behind_our_back(cache)
        combination = (mode, backing.value, cache.value)
        before = cached.counters()
        assert cached.kept("-".join(combination).replace(" ", "-")), combination
        seen = cached.since(before)
        # a drive whose cache is off is not flushed, where the kernel follows (SCSI)
        assert (seen[BACKING].flush > 0) is (backing is BACK), (combination, seen)
        assert seen[CACHE].flush > 0, (combination, seen)
        assert seen[CACHE].lost <= (1 if cache is BACK else 0), "the journal's last block"


def test_qemus_nvme_drive_takes_the_journals_fua_write_as_a_plain_one(cached):
    """So what bcache's journal says last is lost with that drive's power, here."""
    fua = cached.bench.sh(f"cat /sys/block/{cached.bench.disk(CACHE).name}/queue/fua").checked()
    assert fua.strip() == "1", "the kernel asks for FUA"
    before = cached.counters()
    cached.bench.write_and_sync(DEVICE, "journalled")
    seen = cached.since(before)[CACHE]
    assert (seen.fua, seen.dirty) == (0, 1), seen


@pytest.mark.parametrize(
    ("cached", "cache"), [("sas", BACK), ("sas", THROUGH), (CACHE, THROUGH)], indirect=["cached"]
)
@pytest.mark.parametrize("mode", ["writeback", "writethrough"])
def test_what_an_osd_was_acknowledged_survives_a_power_cut_of_both_drives(cached, cache, mode):
    name = next(name for name in cached.probes if name != BACKING)
    cached.set("cache_mode", mode)
    if cache is THROUGH:
        cached.probes[name].behind_our_back(cache)
    assert cached.survives_a_crash(f"{mode}-{name}")


@pytest.mark.parametrize("name", [BACKING, CACHE])
def test_each_drive_is_toggled_under_a_lease_and_back_and_nothing_is_lost(cached, name):
    cached.make_osd()
    cached.set("cache_mode", "writeback")
    probe = cached.probes[name]
    assert cached.kept("before")
    assert probe.set_mode(THROUGH)["kind"] == "state"
    assert probe.mode() is THROUGH
    assert cached.kept("off")
    probe.behind_our_back(BACK)
    assert cached.kept("on-behind-our-back")
    done = probe.ask(ReleaseRequest(probe.domain_id))
    assert done["kind"] == "state", done
    assert (probe.mode(), probe.journal()) == (BACK, [])
    assert cached.kept("given-back")


def test_flushes_of_the_osd_are_timed_through_either_drive_and_nothing_is_toggled(cached):
    """As `campaign start --observe` has it done: no lease, counters and bcache told apart."""
    cached.make_osd()
    for name, probe in cached.probes.items():
        probe.start()
        before = probe.ask(CountersRequest(probe.domain_id), lease=False)
        timed = probe.ask(
            TimerRequest(probe.domain_id, 0, Role.BLOCK, 20, 10.0, 5000.0), lease=False
        )
        after = probe.ask(CountersRequest(probe.domain_id), lease=False)
        assert len(timed["samples_ns"]) == 20, timed
        (counted,), (again,) = before["counters"], after["counters"]
        # every flush of bcache reaches the drive, whichever it is
        assert again["flushes"] - counted["flushes"] >= 20, (name, before, after)
        assert [one["is_cache"] for one in after["bcache"]] == [name == CACHE]
        assert after["before"] == after["after"] == before["after"]
        assert (probe.mode(), probe.journal()) == (BACK, [])
        probe.end()


@pytest.mark.parametrize("name", ["bcache0", BACKING, CACHE])
def test_an_idle_stack_is_timed_without_a_mgr_and_called_idle(cached, name):
    bench = cached.bench
    path = f"/dev/{name}" if name == "bcache0" else bench.disk(name).path
    probe = cached.probes[BACKING]
    done = probe.forks.fork(["time", path, "--count", "40", "--format", "json"])
    assert done.wait(60) == 0, done.output()
    found = json.loads(done.output())
    assert found["us"]["n"] == 40
    assert found["kernel_view"] == "write back"
    assert found["other_writes_per_s"] < 5, found


def test_dirty_data_across_its_target_is_seen_on_the_real_bcache(cached):
    cached.make_osd()
    cached.set("cache_mode", "writeback")
    cached.set("writeback_percent", 1)
    cached.make_dirty(120)
    above = until(cached, True)
    assert above.dirty is Dirty.BEYOND
    assert above.dirty_bytes > above.target_bytes > MIB
    cached.set("writeback_percent", 40)
    below = until(cached, False)
    assert below.dirty is Dirty.BELOW, (above, below)
    assert below.target_bytes > below.dirty_bytes >= 25 * MIB
    assert crossed_target((above, below)) == ["bcache0"]


def test_an_option_of_bcache_is_back_after_kill_9_of_the_probe(cached):
    cached.make_osd()
    cached.set("cache_mode", "writeback")
    probe, shown = cached.probes[BACKING], {}
    for name, (before, _) in OPTIONS.items():
        cached.set(name, before)
        shown[name] = cached.has(name)
    for name, (_, wanted) in OPTIONS.items():
        probe.start()
        told = probe.ask(LookRequest(probe.domain_id))
        drives = codec.decode(DrivesOutcome, told, "outcome").drives
        prior = prior_from("", probe.domain_id, drives, leased_names(name))
        done = probe.ask(SetOptionRequest(probe.domain_id, name, wanted, prior))
        assert done["kind"] == "state", done
        assert cached.has(name) in (wanted, "1.0M")
        refused = probe.ask(SetOptionRequest(probe.domain_id, "cache_mode", "none", prior))
        assert refused["kind"] == "failure"
        assert "cache_mode is changed by an admin's plan alone" in refused["message"]
        probe.end()
        assert cached.has(name) in (wanted, "1.0M"), "nobody has put it back yet"
        assert len(probe.journal()) == 1
        code, said = probe.restore_all()
        assert code == 0, said
        assert {each: cached.has(each) for each in OPTIONS} == shown
        assert probe.journal() == []
    assert "[writeback]" in cached.has("cache_mode")


def until(cached, above):
    """What is told once the kernel has worked out its target anew, as it does each 5 s."""
    deadline = time.monotonic() + 120
    found = cached.told(BACKING)
    while found.above_target is not above or not found.target_bytes:
        assert time.monotonic() < deadline, found
        time.sleep(1)
        found = cached.told(BACKING)
    return found

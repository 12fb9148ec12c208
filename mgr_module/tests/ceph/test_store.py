"""The store never shows half a value, and the archive skips and lists what it cannot read."""

import contextlib
import functools
import logging
import random
from dataclasses import replace

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from mgr_fakes.store import MemoryStore, MgrGone, MonLikeKv, PromptQueue
from wcache.ceph import store as store_module
from wcache.ceph.store import PACKED_FROM_CHARS, PART_CHARS, KvStore
from wcache.core.drive.journal import PriorDrive
from wcache.core.drive.prior import Prior
from wcache.core.errors import StorageError, WcacheError
from wcache.core.experiment.budget import Experiment
from wcache.core.experiment.design import Slot
from wcache.core.experiment.run_state import RunState, RunStatus
from wcache.core.fleet.retention import Bounds
from wcache.core.history import HistoryEntry
from wcache.core.model import Arm, CacheMode, Transport
from wcache.engine.persistence import RecordPersistence
from wcache.engine.storing.archive import PERIOD, RECORD, RUN, Archive
from wcache.engine.storing.audit_log import (
    LINES_MAX,
    PROBE_LINES_MAX,
    AuditLog,
)

WB = CacheMode.WRITE_BACK


@functools.cache
def noise(chars, seed=1):
    """Text that compresses to little less than half of it."""
    return random.Random(seed).randbytes(chars // 2).hex()


@pytest.mark.parametrize("text", ["", "x", "é" * 10, noise(PART_CHARS), noise(3 * 10**5),
                                  "wcache-parts:1:abc"])
def test_what_was_put_comes_back_whatever_its_size(text):
    store = KvStore(MonLikeKv())
    store.put("a", text)
    assert store.get("a") == text
    assert store.keys("") == ["a"]


def test_a_write_that_the_mon_loses_is_an_error_and_not_a_surprise_later():
    kv = MonLikeKv()
    kv.fails = lambda key: True
    with pytest.raises(StorageError, match="a is not stored"):
        KvStore(kv).put("a", "x")


@pytest.mark.slow
@examples(60)
@given(st.sampled_from([10, 2 * 10**5, 3 * 10**5]), st.sampled_from([10, 2 * 10**5, 4 * 10**5]),
       st.integers(0, 12))
def test_a_mgr_lost_between_any_two_writes_leaves_the_old_value_or_the_new_one(old, new, after):
    kv = MonLikeKv()
    store = KvStore(kv)
    store.put("a", noise(old, 1))
    kv.lost_after = after
    with contextlib.suppress(MgrGone):
        store.put("a", noise(new, 2))
    kv.lost_after = None
    assert KvStore(kv).get("a") in (noise(old, 1), noise(new, 2))


def test_values_that_shrink_grow_or_go_leave_no_parts_behind():
    kv = MonLikeKv()
    store = KvStore(kv)
    for size in (4 * 10**5, 10, 2 * 10**5, 3 * 10**5, 10):
        store.put("a", noise(size, size))
    assert list(kv.kept) == ["a"]
    store.put("a", noise(4 * 10**5))
    store.delete("a")
    assert kv.kept == {}


@pytest.mark.parametrize("damage", ["drop", "change"])
def test_a_damaged_part_is_named(damage):
    kv = MonLikeKv()
    store = KvStore(kv)
    store.put("a", noise(3 * 10**5))
    part = next(key for key in kv.kept if "#" in key)
    kv.kept.pop(part)
    if damage == "change":
        kv.kept[part] = "AAAA"
    kv.follow()
    with pytest.raises(StorageError, match="a is damaged"):
        store.get("a")


@pytest.mark.slow
def test_a_value_beyond_all_parts_is_refused():
    with pytest.raises(StorageError, match="too large"):
        KvStore(MonLikeKv()).put("a", noise(2 * 10**7))


def archive():
    kv = MonLikeKv()
    return Archive(PromptQueue(kv)), kv


def stored(error):
    """For a write that the mons must take."""
    assert error is None


def a_run(run_id="c1.0"):
    return RunState(replace(make.run_spec(make.setup()), run_id=run_id), RunStatus.RUNNING)


def test_what_cannot_be_read_is_skipped_listed_and_left_alone():
    kept, kv = archive()
    kept.put(RUN, a_run("c1.0"), stored)
    kept.put(RUN, a_run("c1.1"), stored)
    for damaged in ("{", '{"a": 1}', "null", "[]", "\ud800"):
        kv.kept["run/c1.0"] = damaged
        kv.follow()
        assert list(kept.all(RUN)) == ["c1.1"]
        assert list(kept.unreadable) == ["run/c1.0"]
        assert kv.kept["run/c1.0"] == damaged
    assert kept.names(RUN) == ["c1.0", "c1.1"]


def test_a_newer_state_is_refused_and_an_empty_store_becomes_ours():
    kept, kv = archive()
    kept.check_version()
    kept.check_version()
    kv.kept["version"] = "2"
    kv.follow()
    with pytest.raises(WcacheError, match="version '2'"):
        kept.check_version()


def test_periods_come_back_by_their_places_and_odd_keys_do_not():
    kept, kv = archive()
    kept.put_period("c1.0", 0, Slot(3, True), make.period(Arm.A), stored)
    kept.put_period("c1.00", 0, Slot(0, False), make.period(Arm.A), stored)
    for odd in ("x/0/0", "9/0/0", "0/0", "0/0/0/0", "0/-1/0"):
        kv.kept[f"period/c1.0/{odd}"] = kv.kept["period/c1.0/0/3/1"]
    kv.follow()
    assert kept.periods("c1.0", 1) == [{Slot(3, True): make.period(Arm.A)}]
    kept.drop_periods("c1.0", 0)
    kept.drop_periods("c1.0")
    assert kept.names(PERIOD) == ["c1.00/0/0/0"]


def a_log(store):
    log = AuditLog(Archive(store), lambda: 0.0, logging.getLogger("wcache"), {})
    log.load()
    return log


def test_the_audit_log_is_bounded_and_goes_on_after_a_restart_and_damage():
    store = MemoryStore()
    log = a_log(store)
    for number in range(LINES_MAX + 50):
        log.add(HistoryEntry(float(number), "mgr", "x", f"line {number}"))
    assert len(store.keys("history/")) == LINES_MAX
    last = store.keys("history/")[-1]
    store.kept[last] = "{"
    again = a_log(store)
    assert again.all()[-2000:][0].at_s == 50.0
    again.add(HistoryEntry(2e9, "mgr", "x", "after"))
    assert store.kept[last] == "{"
    assert again.all()[-1:][0].text == "after"


def test_what_admins_did_stays_in_the_log_whatever_probes_say():
    store = MemoryStore()
    log = a_log(store)
    log.add(HistoryEntry(1.0, "admin", "p1", "apply"))
    log.add(HistoryEntry(2.0, "probe h2", "h2", "started"))
    for number in range(3 * LINES_MAX):
        log.add(HistoryEntry(3.0 + number, "probe h1", "h1", f"notice {number}"))
    for shown in (log.all()[-2000:], a_log(store).all()[-2000:]):
        assert [entry.text for entry in shown[:2]] == ["apply", "started"]
        assert len(shown) == 2 + PROBE_LINES_MAX
        assert shown[-1].text == f"notice {3 * LINES_MAX - 1}"


@pytest.mark.parametrize("size", [PACKED_FROM_CHARS, PART_CHARS, 2 * PART_CHARS])
def test_what_repeats_itself_is_kept_small(size):
    kv = MonLikeKv()
    KvStore(kv).put("a", "a drive and " * (size // 12))
    assert sum(len(text) for text in kv.kept.values()) < size / 4


def test_sizes_count_all_parts_of_a_value():
    kv = MonLikeKv()
    store = KvStore(kv)
    store.put("a/1", noise(4 * 10**5))
    store.put("a/2", "x")
    store.put("b", "x")
    sizes = store.sizes("a/")
    assert sizes["a/1"] == sum(len(k) + len(v) for k, v in kv.kept.items() if "a/1" in k)
    assert sizes == {"a/1": sizes["a/1"], "a/2": 4}


@pytest.mark.parametrize(("key", "named"), [("a", "a"), ("a" * 5000, r"a{197}\.\.\.")])
def test_a_damaged_packed_value_is_named(key, named):
    kv = MonLikeKv()
    store = KvStore(kv)
    store.put(key, "x" * 2000)
    for damaged in ("wcache-packed:AAAA", "wcache-packed:?", "wcache-packed:"):
        kv.kept[key] = damaged
        kv.follow()
        with pytest.raises(StorageError, match=f"value {named} is damaged"):
            store.get(key)


def test_a_value_that_unpacks_to_too_much_is_named_and_none_such_is_stored(monkeypatch):
    kv = MonLikeKv()
    store = KvStore(kv)
    store.put("a", "x" * 5000)
    assert store.get("a") == "x" * 5000
    monkeypatch.setattr(store_module, "UNPACKED_BYTES_MAX", 4000)
    with pytest.raises(StorageError, match="a is damaged"):
        store.get("a")
    with pytest.raises(StorageError, match="too large"):
        store.put("b", "x" * 5000)
    assert list(kv.kept) == ["a"]


# ---- records


def a_record(name, pairs=0):
    """A record; with pairs, of a size that counts."""
    setup, rng = make.setup(pairs_max=80, seed=1), random.Random(name)
    periods = {
        slot: make.period(
            slot.arm(setup.seed), samples_ns=tuple(rng.randrange(10**9) for _ in range(100)))
        for pair in range(pairs) for slot in (Slot(pair, False), Slot(pair, True))
    }
    state = RunState(make.run_spec(setup, campaign_id="c1"), RunStatus.RUNNING)
    return replace(Experiment(state, 0, periods).record("x", 1.0), record_id=name)


def save(persistence, kept, record, ended):
    """As the engine does."""
    persistence.unsaved[record.record_id] = record
    kept.put(RECORD, record, stored)
    persistence.stored(record, ended)


def test_records_beyond_the_number_of_them_go_oldest_first():
    kept, _ = archive()
    persistence = RecordPersistence(kept, Bounds(records=10))
    ended = {f"c1.0.{number}": float(number) for number in range(12)}
    for name in sorted(ended, key=ended.get):
        save(persistence, kept, a_record(name), ended)
    assert len(kept.names(RECORD)) == 10
    assert kept.get(RECORD, "c1.0.1") is None
    assert kept.get(RECORD, "c1.0.2").record_id == "c1.0.2"
    assert Archive(kept._store).names(RECORD) == sorted(kept.names(RECORD))


def test_records_beyond_the_bytes_for_them_go_oldest_first_but_never_the_newest():
    kept, kv = archive()
    bounds = Bounds(records_bytes=100_000)
    persistence = RecordPersistence(kept, bounds)
    ended = {f"c1.0.{number}": float(number) for number in range(12)}
    for name in sorted(ended, key=ended.get):
        save(persistence, kept, a_record(name, 20), ended)
    used = sum(len(k) + len(v) for k, v in kv.kept.items() if k.startswith("record/"))
    assert bounds.records_bytes / 2 < used <= bounds.records_bytes
    assert "c1.0.11" in kept.names(RECORD)
    assert "c1.0.0" not in kept.names(RECORD)


PRIOR = PriorDrive("i" * 300, "sda", Transport.SAS, WB, make.drive("sda").state)


@pytest.mark.slow
def test_what_would_not_be_read_again_is_not_stored_and_the_old_value_stays():
    kept, _ = archive()
    run, answers = a_run(), []
    kept.put(RUN, run, stored)
    kept.put(RUN, replace(run, reason="x" * 2000), answers.append)
    kept.put(RUN, replace(run, priors=(Prior("d", "", (PRIOR,) * 4000),) * 9), answers.append)
    assert "longer than 1024" in answers[0].message
    assert "longer than 8000000" in answers[1].message
    assert kept.all(RUN) == {"c1.0": run}

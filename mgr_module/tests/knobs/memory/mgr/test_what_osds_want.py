"""Each OSD wants more, less, or what it has; its last answer outlives what unsettles it."""

import json
from dataclasses import replace

import pytest
from memory_world import BUSY, GIB, IDLE, a_mgr, one_host, settled_caches, watch
from mgr_fakes.memory import LruOsd, uniform
from mgr_fakes.store import MonLikeKv
from module_world import ok, said, taken_over
from wcache.ceph.store import KvStore
from wcache.core import versions
from wcache.core.errors import WcacheError
from wcache.engine.storing.archive import ASIDE
from wcache.engine.storing.plans import VALUE_BYTES_MAX
from wcache.knobs.memory.facts import ANSWERS_MAX, Answer, Answers, Want
from wcache.knobs.memory.mgr.osds import EVERY_S

KEY = "memory/answers"
DAY_S, FOREVER = 86400.0, 10**17


def rows(mgr):
    return said(mgr, "memory status")["osds"]


def cells(mgr):
    """The column WANTS."""
    lines = ok(mgr.command("memory status")).splitlines()
    (head,) = [line for line in lines if line.startswith("OSD ")]
    start = head.index("WANTS")
    return [line[start:].split("  ")[0].strip() for line in lines if line.startswith("osd.")]


def stored(mgr):
    return {row["osd_id"]: row for row in json.loads(mgr.store.kept[KEY])["items"]}


def emptied(mgr, osd_id):
    """A bench of ours has just emptied the caches of an OSD."""
    at_s = mgr.now_s
    mgr.memory.watch._emptied_at_s = lambda one: at_s if one == osd_id else float("-inf")


def fails_over(mgr):
    taken_over(mgr)
    mgr.step()


@pytest.mark.parametrize(("load", "told", "options", "wanted"), [
    (IDLE, None, {}, "less"),
    (IDLE, ("gain", 0.5), {}, "less"),
    ((6 * GIB, 1e4), None, {}, "less"),  # it never fills what it has
    ((300 * GIB, 40e6), None, {}, "? trial"),  # of little use, and not of none
    (IDLE, None, {"memory_floor": 4 * GIB}, "right"),  # it is given no less
    (BUSY, None, {}, "? trial"),  # who misses much need not gain by more
    (BUSY, ("insufficient data", 0.5), {}, "? trial"),
    (BUSY, ("gain", 0.5), {}, "more"),
    (BUSY, ("gain", 0.5), {"ram_bytes": 5 * GIB}, "more"),  # though its host has none to give
    (BUSY, ("gain", 0.95), {}, "right"),  # a twentieth less waiting is not worth it
    (BUSY, ("no material difference", 1.0), {}, "right"),
    (BUSY, ("gain", 0.5), {"memory_ceiling": 4 * GIB}, "right"),  # it may have no more
])
def test_what_an_osd_wants_follows_from_bins_and_trials(load, told, options, wanted):
    assert cells(one_host(load, told=told, **options)) == [wanted]


def test_a_trial_of_long_ago_or_of_another_target_does_not_tell_what_is_wanted():
    assert cells(one_host(BUSY, told=("gain", 0.5), at_s=1_000_000.0 - 61 * DAY_S)) == ["? trial"]
    mgr = one_host(BUSY, told=("gain", 0.5))
    mgr.osd_memory.osds[0].file_bytes = 3 * GIB
    settled_caches(mgr)
    assert cells(mgr) == ["? trial"]


@pytest.mark.parametrize("why", ["leased", "not tunable", "no bins"])
def test_where_bins_do_not_tell_of_the_target_nothing_is_said_to_be_wanted(why):
    mgr = one_host(BUSY)
    mgr.store.kept.clear()
    mgr.restart()
    if why == "leased":
        mgr.osd_memory.osds[0].leased = 6 * GIB
    elif why == "not tunable":
        mgr.osd_memory.osds[0].tunable = False
    else:
        read = mgr.osd_memory.read
        mgr.osd_memory.read = lambda osd_id, up_from: replace(read(osd_id), bins=())
    settled_caches(mgr)
    assert cells(mgr) == ["?"]


@pytest.mark.parametrize("after_s", [0.0, 1.0, 60.0, 119.0])
def test_an_osd_is_known_no_later_than_was_said_and_what_is_said_only_falls(after_s):
    """Caches are emptied some time after a reading, and OSDs are read every two minutes."""
    mgr = one_host(BUSY)
    mgr.now_s += after_s
    begin_s = mgr.now_s
    emptied(mgr, 0)
    mgr.now_s += EVERY_S - after_s
    promised = []
    for _ in range(9):
        mgr.memory.watch.read()
        mgr.step(0.0)
        (row,) = rows(mgr)
        if row["onode_misses_per_s"] is not None:
            break
        promised.append(mgr.now_s + row["known_in_s"])
        mgr.now_s += EVERY_S
    assert row["known_in_s"] == 0.0
    assert promised == sorted(promised, reverse=True)
    assert promised[-1] == mgr.now_s
    # the oldest bin, and at most two readings
    assert 720.0 < mgr.now_s - begin_s <= 720.0 + 2 * EVERY_S


def test_minutes_are_told_until_an_osd_was_watched_for_long_enough():
    mgr = a_mgr(hosts=1, classes=("hdd",))
    mgr.memory.watch.read()
    mgr.step()
    assert cells(mgr) == ["? 2 min"]


def test_a_bench_that_empties_caches_leaves_the_last_answer_with_its_age():
    mgr = one_host(BUSY, BUSY, told=("gain", 0.5))
    emptied(mgr, 0)
    for _ in range(5):
        watch(mgr, EVERY_S / 2)
    assert cells(mgr) == ["more, 5 min ago", "more"]
    row, _ = rows(mgr)
    assert (row["wants"], row["onode_misses_per_s"]) == ("more", None)
    assert 300.0 <= row["wants_age_s"] < 310.0
    assert row["known_in_s"] > row["settling_s"] > 0
    mgr.osd_memory.osds[0] = LruOsd(uniform(*IDLE))
    for _ in range(12):
        watch(mgr)
    assert cells(mgr) == ["less", "more"]


def test_a_mgr_that_takes_over_has_the_last_answers_at_once_with_their_age():
    mgr = one_host(BUSY, IDLE, told=("gain", 0.5))
    mgr.now_s += 3 * 3600.0
    fails_over(mgr)
    assert cells(mgr) == ["more, 3.0 h ago", "less, 3.0 h ago"]  # no OSD was read yet
    assert "try again in a minute" in ok(mgr.command("memory status"))
    mgr.osd_memory.osds[1] = LruOsd(uniform(*BUSY))
    mgr.memory.watch.read()
    mgr.step()
    assert cells(mgr) == ["more, 3.0 h ago", "less, 3.0 h ago"]
    watch(mgr)
    assert cells(mgr) == ["? trial", "? trial"]  # the new mgr knows of no trial


def test_an_answer_is_not_shown_for_another_target_nor_for_ever():
    mgr = one_host(BUSY, told=("gain", 0.5))
    fails_over(mgr)
    mgr.osd_memory.osds[0].file_bytes = 3 * GIB
    mgr.memory.watch.read()
    mgr.step()
    assert cells(mgr) == ["? 2 min"]
    mgr = one_host(BUSY, told=("gain", 0.5))
    mgr.now_s += 61 * DAY_S
    fails_over(mgr)
    assert rows(mgr)[0]["wants"] is None


def test_it_is_stored_when_answers_change_and_their_ages_once_an_hour():
    mgr = one_host(BUSY, BUSY, told=("gain", 0.5))
    first = stored(mgr)
    assert {row["want"] for row in first.values()} == {"more"}
    watch(mgr)
    assert stored(mgr) == first  # just as many minutes have passed
    mgr.osd_memory.osds[0] = LruOsd(uniform(*IDLE))
    ages = set()
    for _ in range(80):
        watch(mgr, EVERY_S / 2)
        ages.add(stored(mgr)[1]["at_s"])
    assert stored(mgr)[0]["want"] == "less"
    assert len(ages) == 3  # as they were, with the change, and an hour later
    del mgr.view.state.osds[0], mgr.osd_memory.osds[0]
    watch(mgr, 700.0)
    watch(mgr)
    assert {*stored(mgr)} == {1}


@pytest.mark.slow
def test_answers_of_20000_osds_fit_into_the_store():
    items = tuple(Answer(i, list(Want)[i % 4], 4 * GIB, 1_760_000_000 + i % 997)
                  for i in range(ANSWERS_MAX))
    text = versions.dumps(Answers(items))
    assert len(text) < VALUE_BYTES_MAX / 2
    kv = MonLikeKv()
    KvStore(kv).put(KEY, text)
    read = versions.loads(
        Answers, KvStore(kv).get(KEY), bytes_max=VALUE_BYTES_MAX, what=KEY)
    assert read.items == items
    with pytest.raises(WcacheError):
        versions.loads(Answers, versions.dumps(Answers((*items, items[0]))),
                       bytes_max=VALUE_BYTES_MAX, what=KEY)


def answers(*items):
    return json.dumps({"version": 1, "items": [
        {"osd_id": osd_id, "want": want, "target_bytes": 4 * GIB, "at_s": at_s}
        for osd_id, want, at_s in items
    ]})


@pytest.mark.parametrize(("text", "shown"), [
    (answers((0, "more", 1_000_000), (0, "less", 1_000_001)), "less"),  # the last one counts
    (answers((7, "more", 1_000_000)), None),  # of no OSD that is there
    (answers((0, "more", FOREVER)), None),  # of a time that is to come
    (answers((0, "more", -FOREVER)), None),
    (answers((0, "a lot more", 1_000_000)), None),
    (answers((0, "more", 1e400)), None),
    ('{"version": 2, "items": []}', None),
    ("[" * 10_000, None),
])
def test_whatever_is_stored_the_module_starts_and_answers_anew(text, shown):
    mgr = one_host(BUSY)
    mgr.store.kept[KEY] = text
    fails_over(mgr)
    assert mgr.exceptions == []
    assert rows(mgr)[0]["wants"] == shown
    watch(mgr)
    assert cells(mgr) == ["? trial"]
    watch(mgr, 700.0)
    assert {*stored(mgr)} == {0}
    if ASIDE + KEY in mgr.store.kept:
        assert mgr.store.kept[ASIDE + KEY] == text


def benched(mgr):
    """A release whose benches empty caches."""
    mgr.view.state = replace(mgr.view.state, bench_empties_caches=True)
    return mgr


def test_try_says_before_and_as_it_begins_for_how_long_memory_advice_pauses():
    mgr = benched(one_host(BUSY, BUSY))
    pauses = [{"knob": "memory", "osd_ids": [0, 1], "seconds": 960.0}]
    line = (
        "memory advice for the hosts of osd.0, osd.1 pauses meanwhile, and for at most 16 min "
        "after it"
    )
    assert json.loads(mgr.command("try", format="json")[1])["pauses"] == pauses
    assert f"  {line}\n" in mgr.command("try")[1]
    assert line in mgr.command("campaign start", loads="depth1")[1]
    begun = said(mgr, "try", accept_cost=True)
    assert begun["pauses"] == pauses
    assert begun["lines"][1] == line


@pytest.mark.parametrize("why", ["another release", "clients' writes", "nothing is known"])
def test_no_pause_is_said_where_no_advice_is_lost(why):
    mgr = one_host(BUSY, BUSY)
    if why != "another release":
        benched(mgr)
    if why == "nothing is known":
        taken_over(mgr)
        mgr.step()
    loads = "traffic" if why == "clients' writes" else "depth1"
    _, text, _ = mgr.command("campaign start", loads=loads, dry_run=True, format="json")
    told = json.loads(text)
    assert (told["forecast"]["osds_emptied"] == []) is (why != "nothing is known")
    assert "pauses" not in told
    if loads == "depth1":
        assert said(mgr, "try", accept_cost=True)["pauses"] == []

"""Chaos without a cluster: what a seed chooses, and what looks and comparisons make of things."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, Dict

import pytest
from chaos import looks
from chaos.breakages import BREAKAGES
from chaos.choices import CUT_OFF, DECK, KINDS, WORKS, choose, parts
from chaos.looks import BACK, OFF, ON, Away, Look, read_look, unsafe
from chaos.memory import Series, slope
from chaos.results import counted_twice, measured_twice, twice
from chaos.state import differences
from mutations.__main__ import PROJECT

HOSTS = {"h1": (0, 1, 2), "h2": (3, 4, 5), "h3": (6, 7, 8)}


def test_a_seed_and_a_number_give_a_round_again_and_another_seed_another():
    numbers, turned = range(1, 40), dict(reversed(list(HOSTS.items())))
    first = [choose(7, number, HOSTS) for number in numbers]
    assert first == [choose(7, number, turned) for number in numbers]
    assert first != [choose(8, number, HOSTS) for number in numbers]


def test_each_fault_and_work_comes_before_one_comes_again():
    dealt = [choose(3, number, HOSTS) for number in range(1, len(DECK) + 1)]
    assert {each.faults[0].kind for each in dealt} == {kind.name for kind in KINDS}
    assert {each.works[0] for each in dealt[: len(WORKS)]} == set(WORKS)
    assert sum(each.faults[0].kind in CUT_OFF for each in dealt) == 2 * len(CUT_OFF)
    for each in dealt:
        assert len(set(each.works)) == len(each.works)
        assert all(osd in HOSTS[host] for host, osd in zip(each.hosts, each.osds))


def test_parts_are_all_rounds_once():
    assert sorted(n for turn in range(1, 6) for n in parts(23, (turn, 5))) == list(range(1, 24))


def test_a_slope_is_flat_where_its_interval_holds_nothing_or_it_is_small():
    noise = (0, 40, -40, 10, -10, 30, -30, 20, -20, 0)
    flat = slope([(n, 100_000 + noise[n]) for n in range(10)])
    assert (flat.low < 0 < flat.high, flat.flat) == (True, True)
    grows = slope([(n, 100_000 + 1000 * n + noise[n]) for n in range(10)])
    assert (grows.low > 0.005, grows.flat, "GROWS" in str(grows)) == (True, False, True)
    assert slope([(1, 5), (2, 6)]) is None
    little = slope([(n, 100_000 + 100 * n + noise[n]) for n in range(10)])
    assert (little.low > 0, little.flat) == (True, True)


def test_memory_is_judged_from_the_tenth_round_on():
    series = Series()
    for number in range(1, 21):
        series.add(number, {"mgr": 50_000 if number < 10 else 100_000, "gone": 0})
    (who, found), = series.judged().items()
    assert (who, found.rounds, found.flat) == ("mgr", 11, True)


@pytest.mark.parametrize(("line", "wrong"), [
    ("1.0 sda on write-back on 0", ""),
    ("1.0 sda off write-back off 1", ""),
    ("1.0 sda on write-through on 1", "its cache is on"),
    ("1.0 sda on temporary-write-through on 0", "its cache is on"),
    ("1.0 sda off write-through on 1", ""),  # turned on meanwhile: the next look tells
    ("1.0 sda off write-through off 0", "its journal has 0 entries"),
])
def test_a_look_at_a_drive_with_a_cache(line: str, wrong: str):
    look = read_look(line)
    found = unsafe(look, own_cache=True)
    assert (wrong in found) if wrong else not found


@pytest.mark.slow
@pytest.mark.parametrize("dropped_first", [False, True])
def test_an_entry_that_goes_before_its_drive_is_back_is_seen(tmp_path, monkeypatch, dropped_first):
    drive, entry = tmp_path / "loop1", tmp_path / "journal" / "entry.json"
    monkeypatch.setattr(looks, "seen", lambda name: (drive.read_text(),))
    host = SimpleNamespace(
        name="h1", devices=lambda: {0: "loop1"}, probe=SimpleNamespace(state_dir=tmp_path),
        journal=lambda: list(entry.parent.iterdir()),
    )
    entry.parent.mkdir()
    drive.write_text(BACK)
    watcher = looks.NativeWatcher([host])
    entry.touch()
    drive.write_text("write through")
    (entry.unlink if dropped_first else lambda: drive.write_text(BACK))()
    time.sleep(0.3)
    (entry.unlink if not dropped_first else lambda: drive.write_text(BACK))()
    time.sleep(0.3)
    watcher.end()
    assert bool(watcher.taken()) is dropped_first


def test_a_drive_that_did_not_answer_is_no_look():
    lines = ("1.0 sda ? write-back on 0", "1.0 sda error 5", "")
    assert [read_look(line) for line in lines] == [None] * 3


@pytest.mark.parametrize(
    ("entries", "away", "danger"), [(2, 2, False), (1, 2, True), (3, 1, False)]
)
def test_a_loop_device_that_is_otherwise_has_an_entry(entries: int, away: int, danger: bool):
    look = Look(0.0, "loop1", OFF, BACK, OFF, entries, away)
    assert bool(unsafe(look, own_cache=False)) is danger
    assert not unsafe(Look(0.0, "loop1", ON, BACK, ON, 0, 0), own_cache=False)


def test_how_long_a_drive_was_away_is_counted_from_its_last_way_back():
    held = Away()
    for at_s, away in ((0, True), (4, True), (5, False), (6, True), (8, True)):
        held.see("loop1", away, at_s)
    assert held.seconds() == {"loop1": 2.0}
    held.see("loop1", False, 9.0)
    assert held.seconds() == {}


def test_only_what_wcache_and_ceph_keep_for_themselves_may_differ():
    before = {"config mgr  a": "1", "key mgr/wcache/plan/p1": "is there", "osd.1 queue x": "64"}
    after = {
        "config mgr  a": "2", "key mgr/wcache/plan/p2": "is there", "osd.1 queue x": "96",
        "key mgr/progress/x": "is there", "key other": "is there", "osd.3 osd_memory_target": "9",
    }
    told = [line.partition(":")[0] for line in differences(before, after)]
    assert told == ["config mgr  a", "key other", "osd.1 queue x", "osd.3 osd_memory_target"]


def test_what_is_there_twice_is_found():
    def shown(*ids: str) -> Dict[str, Any]:
        return {"campaign_id": "c1", "results": [
            {"record_id": each, "osd_id": int(each[1:]), "load_point": "depth1"} for each in ids
        ]}

    assert twice([shown("r1", "r2")]) == []
    assert "result r1 is shown 2 times" in twice([shown("r1", "r1")])
    assert twice([shown("r1"), {**shown("r1"), "campaign_id": "c2"}]) == [
        "result r1 is shown 2 times"
    ]
    pair = {"write_back": {"started_at_s": 1.0}, "write_through": {"started_at_s": 2.0}}
    assert measured_twice({"pairs": [pair]}) == []
    assert len(measured_twice({"pairs": [pair, pair]})) == 2
    assert counted_twice([{"device_class": "hot", "record_ids": ["r1", "r2", "r1"]}]) == [
        "hot: record r1 counts 2 times"
    ]


@pytest.mark.parametrize("name", BREAKAGES)
def test_what_is_broken_by_hand_is_there_to_break(name: str):
    text = (PROJECT / BREAKAGES[name].file).read_text(encoding="utf-8")
    assert BREAKAGES[name].apply(text) != text

"""What all of it would gain, in a sentence: only what is decided counts, in both directions."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core.host_report import DriveKind
from wcache.core.model import CacheMode, DeviceCache, DriveModel, LoadPoint, Verdict
from wcache.core.options.entries import better_mode
from wcache.core.verdict.hosts_by_model import Counted, counted
from wcache.core.verdict.outlook import outlook, standings
from wcache.core.verdict.pooling import LoadVerdict
from wcache.core.verdict.recommend import Recommendation

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
DEPTH1, BATCH, TRAFFIC = (
    LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_TRAFFIC
)


def load(verdict, low, high, point=DEPTH1):
    ratio = None if low is None else (low * high) ** 0.5
    return LoadVerdict(point, verdict, 3, ratio, low, high)


def advice(name, verdict, *loads, device_class="hdd", simulated=False):
    return Recommendation(
        device_class, DriveModel("", name, ""), verdict, better_mode(verdict), "why", loads, (), (),
        simulated,
    )


def kind(name, device_class="hdd", simulated=False):
    return DriveKind(device_class, name, simulated)


def drives(to_through=0, to_back=0, stuck_to_through=0):
    return Counted({WT: to_through, WB: to_back}, {WT: stuck_to_through, WB: 0})


def told(counts, found, total=0, went_back=()):
    rows = standings(counts, found, went_back)
    return outlook(rows, total or sum(sum(c.changeable.values()) for c in counts.values()))


def seven():
    """Seven drive models: three better off, two right, two undecided."""
    counts = {kind(name): drives(to_through=n) for name, n in zip("abc", (20, 15, 6))}
    counts |= {kind(name): drives(to_through=20) for name in "defg"}
    counts[kind("d")] = drives(to_back=20)
    found = [
        advice("a", Verdict.B, load(Verdict.B, 2.42, 2.9)),
        advice("b", Verdict.B, load(Verdict.B, 4.0, 5.12)),
        advice("c", Verdict.B, load(Verdict.B, 3.0, 3.5)),
        advice("d", Verdict.B, load(Verdict.B, 9.0, 9.9)),
        advice("e", Verdict.NO_DIFFERENCE, load(Verdict.NO_DIFFERENCE, 0.97, 1.04)),
        advice("f", Verdict.INSUFFICIENT, load(Verdict.INSUFFICIENT, 0.5, 90.0)),
        advice("g", Verdict.CONFLICTING, load(Verdict.B, 2.0, 80.0)),
    ]
    return counts, found


def test_the_sentence_says_how_many_gain_how_much_and_what_is_open():
    found = told(*seven(), total=120)
    assert found.text == (
        "3 of 7 drive models would commit 2.4 to 5.1 times as fast with the cache off (41 of 120 "
        "drives); 2 are right as they are; 2 undecided"
    )
    assert (found.off.times_low, found.off.times_high) == (2.42, 5.12)


def test_a_gain_by_turning_the_cache_on_is_said_the_other_way_round():
    counts, found = seven()
    counts[kind("e", "ssd")] = drives(to_back=9)
    loads = load(Verdict.A, 0.5, 0.8)
    both = told(counts, [*found, advice("e", Verdict.A, loads, device_class="ssd")])
    assert (
        "; 1 drive model would commit 1.25 to 2.00 times as fast with the cache on (9 drives); "
        in both.text
    )


def test_a_load_that_gains_nothing_or_is_undecided_takes_the_low_end_away():
    loads = load(Verdict.B, 4.0, 5.0), load(Verdict.NO_DIFFERENCE, 0.97, 1.05, BATCH)
    found = told({kind("a"): drives(3)}, [advice("a", Verdict.B, *loads)])
    assert "up to 5.00 times as fast" in found.text
    # but what the OSD's own traffic decided counts alone
    own = load(Verdict.B, 1.5, 1.9, TRAFFIC)
    found = told({kind("a"): drives(3)}, [advice("a", Verdict.B, own, *loads)])
    assert "1.50 to 1.90 times as fast" in found.text


def test_no_figure_is_named_where_a_verdict_has_no_interval_or_the_bare_timer_s_alone():
    timer = load(Verdict.B, 2.0, 3.0, LoadPoint.FDATASYNC_TIMER)
    for loads in ((load(Verdict.B, None, None),), (timer,)):
        found = told({kind("a"): drives(1)}, [advice("a", Verdict.B, *loads)])
        assert found.text == (
            "1 drive model would commit faster with the cache off (1 of 1 drive)"
        )


def test_an_undecided_drive_model_is_never_among_the_gains():
    wide = load(Verdict.INSUFFICIENT, 1.5, 9.0)
    found = told({kind("a b"): drives(3)}, [advice("a b", Verdict.INSUFFICIENT, wide)])
    assert found.text == "the only drive model (3 drives) is undecided"
    assert found.ask_about == "a b"
    assert found.waiting == ()


def test_what_was_not_measured_cannot_be_changed_or_went_back_is_said():
    counts = {
        kind("a"): drives(2), kind("b"): drives(0), kind("c"): drives(2, stuck_to_through=1),
        kind("d"): drives(0, 2, stuck_to_through=1),
    }
    gains = load(Verdict.B, 2.0, 3.0)
    found = told(
        counts, [advice(name, Verdict.B, gains) for name in "cd"], went_back=[kind("c")]
    )
    assert found.text == (
        "4 drive models on 6 drives: 1 is not measured yet; 1 went back in a rollout; 2 cannot be "
        "changed as things are"
    )
    assert (found.unmeasured, found.went_back, found.fixed) == (1, 1, 2)


SAME = advice("a", Verdict.NO_DIFFERENCE, load(Verdict.NO_DIFFERENCE, 0.97, 1.04))


@pytest.mark.parametrize(("counts", "found", "total", "text"), [
    ({kind("a"): drives(), kind("b"): drives()}, [], 5,
     "2 drive models on 5 drives: 2 cannot be changed as things are"),
    ({kind("a"): drives(3)}, [SAME], 3, "the only drive model is right as it is (3 drives)"),
    ({}, [], 0, "no probe has reported a drive yet"),
])
def test_where_nothing_is_to_be_changed_it_says_why(counts, found, total, text):
    assert told(counts, found, total).text == text


def test_simulated_drives_count_only_where_there_are_no_others_and_are_called_so():
    made_up, real = kind("a", "", True), kind("b")
    gains = load(Verdict.B, 2.0, 3.0)
    found = [advice("a", Verdict.B, gains, simulated=True)]
    assert told({made_up: drives(3)}, found).text.endswith("(3 of 3 drives) (simulated drives)")
    both = told({made_up: drives(3), real: drives(1)}, found, total=1)
    assert both.text == "the only drive model (1 drive) is not measured yet"


def test_drives_are_counted_by_what_they_could_be_changed_to():
    none = make.state(WB, device_cache=DeviceCache.NONE)
    report = make.report(
        "h1", make.drive("sda", 0), make.drive("sdb", 1, mode=WT),
        make.drive("sdc", 2, refusals=make.refused("RAID")),
        replace(make.drive("sdd", 3, state=none), drive_model=DriveModel("", "x", "")),
    )
    cluster = make.cluster([make.osd(i, "h1") for i in range(4)])
    found = counted([report], cluster, throwaway=False)
    (mine,) = [item for name, item in found.items() if name.drive_model == str(make.MODEL)]
    assert (mine.changeable, mine.stuck) == ({WT: 1, WB: 1}, {WT: 1, WB: 0})
    (without,) = [item for name, item in found.items() if name.drive_model == "x"]
    assert not any(without.changeable.values())

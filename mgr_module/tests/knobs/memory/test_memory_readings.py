"""What OSDs of 16 and 20 say of their memory, and curves that follow from their age bins."""

import math
import random
from dataclasses import replace

import pytest
from mgr_fakes.memory import LruOsd, uniform
from wcache.ceph.config import labels_of
from wcache.core.config_database import Entry
from wcache.knobs.memory.curve import (
    Curve,
    MissCost,
    Point,
    Rates,
    between,
    curve_of,
    gained,
    usual_costs,
)
from wcache.knobs.memory.reading import (
    TARGET,
    AgeBins,
    Counters,
    OsdReading,
    edges_of,
    read,
)
from wcache.knobs.memory.trial_result import (
    PeriodRates,
    TrialResult,
    TrialVerdict,
    gains,
    judge,
)

GIB = 2**30
PERF_20 = {
    "bluestore": {"onode_hits": 94, "onode_misses": 43, "buffer_hit_bytes": 8911,
                  "buffer_miss_bytes": 571,
                  "read_wait_aio_lat": {"avgcount": 11, "sum": 0.004}},
    "rocksdb": {"get_latency": {"avgcount": 42, "sum": 0.00042}},
    "bluefs": {"read_random_disk_bytes": 0},
    "bluestore-pricache": {"target_bytes": 1073741824, "mapped_bytes": 37167104,
                           "cache_bytes": 134217728},
    "bluestore-pricache:meta": {
        **{f"pri{n}_bytes": n for n in range(12)}, "reserved_bytes": 70, "committed_bytes": 136},
}
PERF_16 = {
    "bluestore": {"onode_hits": 52, "onode_misses": 108, "bluestore_buffer_hit_bytes": 19931,
                  "bluestore_buffer_miss_bytes": 567},
    "bluestore-pricache:meta": {f"pri{n}_bytes": 0 for n in range(12)},
}
POOLS = {"mempool": {"by_pool": {
    "bluestore_cache_onode": {"items": 10, "bytes": 5000},
    "osd_pglog": {"items": 3, "bytes": 700}, "osdmap": {"items": 3, "bytes": 900},
}}}


def diff(**levels):
    return {"diff": {TARGET: {"default": "4294967296", **levels}, "fsid": {"final": "x"}}}


@pytest.mark.parametrize(("levels", "source", "target"), [
    ({"final": "4294967296"}, "default", 4 * GIB),
    ({"mon": "1073741824", "final": "1073741824"}, "mon", GIB),
    ({"mon": "1073741824", "env": "2147483648", "final": "2147483648"}, "env", 2 * GIB),
    ({"mon": "1073741824", "override": "1200000000", "final": "1200000000"}, "override",
     1200000000),
])
def test_a_target_is_told_with_where_the_osd_has_it_from(levels, source, target):
    found = read(0, 1.0, PERF_20, diff(**levels), POOLS, "osd.0 tcmalloc heap stats:", {})
    assert (found.source, found.target_bytes, found.tunable) == (source, target, True)
    assert found.outside == (("osdmap", 900), ("osd_pglog", 700))


def test_bins_are_read_where_their_edges_are_known_and_16_has_none():
    found = read(0, 1.0, PERF_20, diff(final="1"), POOLS, "", {"meta": (1.0, 2.0, 6.0)})
    (bins,) = found.bins
    assert (bins.must_bytes, bins.bin_bytes) == (0, (1, 2, 3))
    assert bins.rest_bytes == sum(range(4, 12))
    assert bins.reserved_bytes == 70
    old = read(0, 1.0, PERF_16, diff(final="1"), POOLS, "could not -- not using tcmalloc!", {})
    assert (old.bins, old.tunable) == ((), False)
    assert (old.counters.onode_misses, old.counters.buffer_hit_bytes) == (108.0, 19931.0)


def test_an_osd_whose_caches_have_a_fixed_size_follows_no_target():
    perf = {name: item for name, item in PERF_20.items() if name != "bluestore-pricache"}
    found = read(0, 1.0, perf, diff(final="1"), POOLS, "osd.0 tcmalloc heap stats:", {})
    assert (found.tunable, found.fixed) == (False, True)
    old = read(0, 1.0, PERF_20, diff(final="1"), POOLS, "could not -- not using tcmalloc!", {})
    assert (old.tunable, old.fixed) == (False, False)


@pytest.mark.parametrize("odd", [None, 7, [], {"bluestore": 3}, {"bluestore": {"onode_hits": "x"}}])
def test_odd_answers_are_no_reading_and_no_error(odd):
    found = read(0, 1.0, odd, odd, odd, "", {})
    assert found.target_bytes is None
    assert found.counters.onode_misses is None


def test_edges_of_an_option_rise_and_end_at_the_first_zero():
    assert edges_of("1 2 6 24 120 720 0 0 0 0") == (1.0, 2.0, 6.0, 24.0, 120.0, 720.0)
    assert edges_of("0.5 1 3") == (0.5, 1.0, 3.0)
    assert edges_of("nonsense")[-1] == 720.0


def test_rates_are_none_over_a_restart():
    before, after = Counters(0.0, 1, 5, gets=5), Counters(100.0, 1, 2, gets=2)
    assert between(before, after) is None
    rates = between(Counters(0.0, 10, 5), Counters(10.0, 110, 105))
    assert (rates.onode_hits, rates.onode_misses) == (10.0, 10.0)


def test_what_a_miss_costs_is_told_by_osds_on_such_drives_and_else_assumed():
    def rates(miss_s=None, read_s=None):
        return Rates(60.0, 1.0, 1.0, 0.0, 0.0, miss_s, read_s, None)

    assert usual_costs([]) == {True: MissCost(8e-3, 8e-3), False: MissCost(2e-4, 2e-4)}
    told = [rates(miss_s=s) for s in (1e-3, 2e-3, 9e-3)] + [rates(), rates(read_s=5e-4)]
    found = usual_costs([*((False, item) for item in told), (True, rates(read_s=4e-3))])
    assert found == {False: MissCost(2e-3, 5e-4), True: MissCost(4e-3, 4e-3)}


def curve(bins, target, misses=1.0, onode_bytes=1.0):
    """Of an OSD with these age bins, which misses so often a second at its target."""
    rates = Rates(120.0, 1.0, misses, 0.0, 0.0, 1e-3, None, None)
    reading = OsdReading(0, Counters(0.0), target, onode_bytes=onode_bytes, bins=(bins,))
    return curve_of(reading, rates, MissCost(1e-3, 1e-3))


def cut_off(bins, granted):
    """The same bins where a cache was granted only so much, and holds the rest beyond it."""
    held = []
    for size in bins.bin_bytes:
        held.append(min(size, granted - sum(held)))
    return replace(
        bins, bin_bytes=tuple(held), rest_bytes=0, reserved_bytes=sum(bins.bin_bytes) - granted)


@pytest.mark.parametrize(("bytes_per_s", "beyond"), [
    (5e6, 0), (20e6, 0), (60e6, 0),
    (40e6, GIB), (100e6, GIB), (200e6, GIB),  # what it holds beyond its bins counts too
])
def test_a_smaller_target_is_predicted_within_its_interval_by_the_age_bins(bytes_per_s, beyond):
    osd, now = LruOsd(uniform(6 * GIB, bytes_per_s)), 6 * GIB
    bins = osd.bins(now)
    if beyond:
        bins = cut_off(bins, sum(bins.bin_bytes) - beyond)
    told = [
        point for point in curve(bins, now, osd.misses_per_s(now), 1500.0).points
        if point.target_bytes < now and (
            beyond or (point.target_bytes > GIB and osd.residence_s(point.target_bytes) >= 2)
        )
    ]
    assert told
    for point in told:
        truth = osd.misses_per_s(point.target_bytes)
        assert 0.9 * point.low <= truth <= 1.1 * point.high


def test_no_memory_counts_as_spare_where_bins_reach_further_than_what_is_held():
    # all that is held was used within 2 s, and 40 bytes beyond the bins some time before
    bins = AgeBins("meta", (1.0, 2.0, 720.0), 0, (60, 40, 0), 0, 40)
    smaller = [point for point in curve(bins, GIB).points if point.target_bytes < GIB]
    assert smaller
    # to lose what is 2 s old costs what crosses that age: at most as much as in the bin before
    assert smaller[-1].target_bytes == int(GIB - 40 / 0.85)
    assert smaller[-1].high == 60.0


def test_what_a_cache_was_granted_and_does_not_use_costs_nothing_nor_does_what_it_holds_beyond():
    found = curve(AgeBins("meta", (1.0, 2.0, 720.0), 0, (60, 40, 0), 100, 40), GIB)
    assert found.at(GIB - 140 / 0.85).high == 1.0
    assert found.at(GIB - 145 / 0.85).high > 1.0


def a_trial(*parts, loads=(1.0,) * 8, share=(1.0, 1.0, 1.0)):
    """A trial of two blocks: OSDs miss a tenth of what they look up, raised a share of that.

    `parts` multiplies what is missed in a period, `loads` all that is looked up.
    """
    told = TrialResult("t1", "hdd", 0.0, GIB, 2 * GIB, tuple(range(len(share))))
    periods = []
    for index, load in enumerate(loads):
        raised = index % 4 in (1, 2)
        part = parts[index] if parts else 1.0
        misses = tuple(100.0 * load * part * (one if raised else 1.0) for one in share)
        hits = tuple(1000.0 * load - missed for missed in misses)
        periods.append(PeriodRates(raised, 720.0, misses, hits))
    return judge(told, periods)


def test_a_trial_finds_its_gain_and_says_where_it_can_not():
    found = a_trial(share=(0.5, 0.52, 0.48))
    assert found.verdict == "gain"
    assert found.share_low < 0.5 < found.share_high
    assert a_trial(share=(0.1, 1.6, 1.0)).verdict == "insufficient data", "OSDs disagree"
    assert a_trial(loads=(0.0,) * 8).verdict == "insufficient data"
    assert a_trial(loads=(1.0,) * 7 + (0.0,)).verdict == "insufficient data"
    assert a_trial(loads=(1.0,) * 4, share=(0.5,) * 3).verdict == "insufficient data", "one block"


def test_one_osd_alone_does_not_say_what_others_of_its_class_would_gain():
    assert a_trial(share=(0.5,)).verdict == "insufficient data"
    told = TrialResult("t1", "hdd", 0.0, GIB, 2 * GIB, (0, 1))
    order = (False, True, True, False) * 2
    idle = [PeriodRates(raised, 720.0, (50.0 if raised else 100.0, 0.1), (1e3, 1e3))
            for raised in order]
    assert judge(told, idle).verdict == "insufficient data", "the other one missed nothing"
    both = [replace(one, misses=one.misses[:1] * 2) for one in idle]
    assert judge(told, both).verdict == "gain"


def test_a_load_that_all_osds_have_in_common_is_no_gain_of_a_trial():
    dip = (1.0, 0.8, 0.8, 1.0) * 2
    assert a_trial(loads=dip).verdict == "no material difference"
    assert a_trial(*dip).verdict == "gain", "as much less of what is looked up is one"


def test_periods_that_disagree_are_no_gain_however_many_osds_were_in_them():
    # what is missed of all falls in the raised periods of one block and not of the other
    once = (1.0, 0.6, 0.6, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert a_trial(*once, share=(1.0,) * 64).verdict == "insufficient data"


def test_what_changes_from_period_to_period_is_seldom_said_to_be_a_gain():
    rng = random.Random(1)
    found = [a_trial(*(math.exp(rng.gauss(0, 0.2)) for _ in range(8))) for _ in range(1000)]
    # of a chance of 5%, and of 2.5%, with four standard deviations of it
    assert sum(not one.share_low <= 1.0 <= one.share_high for one in found) <= 50 + 28
    assert sum(one.verdict == "gain" for one in found) <= 25 + 20


def test_cephadms_labels_are_entries_and_an_odd_inventory_is_none():
    text = '{"h1": {"hostname": "h1", "labels": ["_no_autotune_memory"]}, "h2": {"labels": 3}}'
    assert labels_of(text) == (Entry("h1/cephadm", "_no_autotune_memory", "label"),)
    assert labels_of("[]") == labels_of("x") == ()


NOW_S = 1000.0


def a_result(target_gib, share, ended_at_s, verdict="gain"):
    return TrialResult(
        "t", "hdd", ended_at_s, 4 * GIB, target_gib * GIB, (0,), 100.0, share, share - 0.02,
        share + 0.02, TrialVerdict(verdict),
    )


@pytest.mark.parametrize(("results", "left"), [
    ([(6, 0.5, 1.0), (8, 0.3, 2.0)], {6: 50.0, 8: 30.0}),  # of what is missed now
    ([(6, 0.8, 2.0), (6, 0.5, 1.0)], {6: 80.0}),  # the last one tells
    ([(6, 1.0, 2.0, "no material difference"), (6, 0.5, 1.0)], {6: 100.0}),
    ([(6, 1.0, 2.0, "insufficient data"), (6, 0.5, 1.0)], {6: 100.0}),  # also vague
])
def test_each_of_several_trials_tells_of_its_target(results, left):
    now = Curve((Point(4 * GIB, 1.0, 100.0, 100.0, 100.0),))
    known = gains([a_result(*one) for one in results], "hdd", 4 * GIB, NOW_S)
    assert {gib: gained(now, known, 0.01).at(gib * GIB).misses for gib in left} == left


def test_a_trial_of_onode_misses_takes_nothing_off_what_data_reads_wait():
    # 100 onode misses/s of 1 ms, and 300 ms/s of data reads beside them
    now = Curve((Point(4 * GIB, 0.4, 100.0, 100.0, 100.0),))
    more = gained(now, [a_result(6, 0.3, 1.0)], 0.001).at(6 * GIB)
    assert more.misses == pytest.approx(30)
    assert more.wait == pytest.approx(0.3 + 0.03)

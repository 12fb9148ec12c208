"""Loads are weighted by what the OSD carries; an average hides no load that pays for it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcache.core import codec
from wcache.core.model import FindingCode, LoadPoint, Verdict
from wcache.core.verdict.across_loads import over_loads, weighted
from wcache.core.verdict.load_profile import (
    HOURS_MAX,
    HOURS_MIN,
    HourLoad,
    LoadProfile,
    add,
    merged,
    shares,
    work_counters,
)
from wcache.core.verdict.pooling import LoadVerdict
from wcache.core.verdict.result import Estimate

DEPTH1, BATCH = LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH
LARGE = LoadPoint.OSD_BENCH_4M
THROUGH, BACK = Verdict.B, Verdict.A
SAME = Estimate(Verdict.NO_DIFFERENCE, 0.97, 1.03)


def hour(number=0, together=1.0, size=4096, writes=10_000):
    return HourLoad(number, writes, int(writes / together), writes, writes * size)


def profile(*hours):
    return LoadProfile(tuple(hours))


def known(together):
    """The same load for as many hours as make a profile known."""
    return profile(*[hour(n, together) for n in range(HOURS_MIN)])


def measured(depth1=SAME, batch=SAME, large=SAME):
    return {DEPTH1: depth1, BATCH: batch, LARGE: large}


def test_one_transaction_a_commit_is_depth_1_and_many_are_batches():
    assert shares(hour(together=1))[DEPTH1] == 1.0
    crowded = shares(hour(together=10))
    assert crowded[BATCH] == pytest.approx(0.9)
    assert shares(hour(size=4 * 2**20))[LARGE] == 1.0


@given(
    st.builds(
        HourLoad, st.just(0), *[st.integers(0, 10**12) for _ in range(6)]
    ),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_shares_are_shares_whatever_was_counted(load, crowding):
    found = shares(load, crowding)
    assert sum(found.values()) == pytest.approx(1.0)
    assert min(found.values()) >= 0


def test_the_load_decides_which_mode_is_better():
    disk = measured(Estimate(THROUGH, 1.5, 2.0), Estimate(BACK, 0.6, 0.7))
    assert weighted(disk, profile(hour(together=1.0)))[0] is THROUGH
    assert weighted(disk, profile(hour(together=20.0)))[0] is BACK


def test_a_load_with_five_percent_that_would_be_twice_as_slow_vetoes():
    flash = measured(Estimate(THROUGH, 3.0, 3.3), Estimate(BACK, 0.1, 0.12))
    verdict, why = weighted(flash, profile(hour(together=1.08)))
    assert verdict is Verdict.CONFLICTING
    assert "batch" in why
    assert "at least 733% more latency in write through" in why
    assert weighted(flash, profile(hour(together=1.01)))[0] is THROUGH, "under five percent"


def test_losses_proven_both_ways_never_cancel_out():
    even = measured(Estimate(THROUGH, 9.0, 9.2), Estimate(BACK, 1 / 9.2, 1 / 9))
    verdict, why = weighted(even, profile(hour(together=2.0)))
    assert verdict is Verdict.CONFLICTING
    assert "depth1" in why
    assert "batch" in why
    assert "OSD's own traffic can settle this" in why
    wide = measured(Estimate(THROUGH, 3.0, 30.0), Estimate(BACK, 0.03, 0.3))
    assert weighted(wide, profile(hour(together=2.0)))[0] is Verdict.CONFLICTING


def test_no_material_difference_hides_no_load_that_is_twice_as_slow():
    one = measured(Estimate(THROUGH, 2.5, 2.6))
    some = profile(hour(together=16.0))  # 6% of the writes are alone in their commit
    verdict, why = weighted(one, some)
    assert verdict is Verdict.CONFLICTING
    assert "as a whole shows no material difference, but depth1" in why
    assert "at least 150% more latency in write back" in why
    assert weighted(measured(Estimate(THROUGH, 1.9, 2.0)), some)[0] is Verdict.NO_DIFFERENCE


def test_hours_that_are_proven_either_way_are_no_lack_of_a_difference():
    disk = measured(Estimate(THROUGH, 1.5, 1.52), Estimate(BACK, 0.66, 0.67))
    both = profile(*[hour(n, 1.0) for n in range(5)], *[hour(n, 40.0) for n in range(5, 10)])
    verdict, why = weighted(disk, both)
    assert verdict is Verdict.CONFLICTING
    assert "write through is better in the variant" in why
    assert "write back is better in the variant" in why


def test_an_hour_that_is_proven_the_other_way_is_conflicting_and_named():
    disk = measured(Estimate(THROUGH, 1.6, 1.9), Estimate(BACK, 0.6, 0.7))
    busy_night = profile(*[hour(n, 1.0) for n in range(20)], hour(26, together=30.0))
    verdict, why = weighted(disk, busy_night)
    assert verdict is Verdict.CONFLICTING
    assert "02:00 UTC, day 1" in why


def test_an_hour_that_is_proven_is_named_where_the_whole_shows_no_difference():
    one = measured(Estimate(Verdict.NO_DIFFERENCE, 0.98, 1.02), Estimate(THROUGH, 1.35, 1.45))
    quiet_day = profile(*[hour(n, 1.0, writes=10_000) for n in range(23)],
                        hour(23, together=10.0, writes=16_000))
    verdict, why = weighted(one, quiet_day)
    assert verdict is Verdict.CONFLICTING
    assert "the verdict is no material difference, but write through is better in the" in why
    assert "23:00 UTC" in why


def test_a_load_that_counts_and_was_not_measured_is_asked_for():
    alone = {DEPTH1: Estimate(THROUGH, 3, 4)}
    verdict, why = weighted(alone, profile(hour(together=4)))
    assert verdict is Verdict.INSUFFICIENT
    assert "75% of the writes resemble batch" in why
    assert weighted(alone, profile(hour(together=1.02)))[0] is THROUGH, "rare at all times"


def test_an_hour_of_a_load_that_was_not_measured_is_asked_for_however_small_on_the_whole():
    backup = profile(*[hour(n, writes=100_000) for n in range(23)], hour(23, 1.0, 4 * 2**20, 4000))
    assert shares(backup.total)[LARGE] < 0.05
    verdict, why = weighted({DEPTH1: Estimate(THROUGH, 2, 3)}, backup)
    assert verdict is Verdict.INSUFFICIENT
    assert "100% of the writes in the variant '23:00 UTC, day 0' resemble 4m" in why
    both = {DEPTH1: Estimate(THROUGH, 2, 3), LARGE: SAME}
    assert weighted(both, backup)[0] is THROUGH


def test_no_difference_at_every_load_is_no_difference_and_too_few_writes_weigh_nothing():
    assert weighted(measured(), profile(hour(together=3)))[0] is Verdict.NO_DIFFERENCE
    assert weighted(measured(), profile(hour(writes=50)))[0] is Verdict.INSUFFICIENT


def test_the_policy_weighs_where_it_knows_the_load_and_says_conflicting_where_not():
    loads = [
        LoadVerdict(DEPTH1, THROUGH, 3, 1.7, 1.5, 2.0),
        LoadVerdict(BATCH, BACK, 3, 0.65, 0.6, 0.7),
    ]
    assert over_loads(loads)[0] is Verdict.CONFLICTING
    assert over_loads(loads, profile(hour()))[0] is Verdict.CONFLICTING  # one hour is none
    verdict, why = over_loads(loads, known(1.0))
    assert verdict is THROUGH
    assert why.startswith("weighted by the load (100% depth1)")


def test_the_osds_own_traffic_is_not_overruled_by_a_load_it_does_not_carry():
    loads = [
        LoadVerdict(LoadPoint.OSD_TRAFFIC, THROUGH, 3, 1.7, 1.5, 2.0),
        LoadVerdict(BATCH, BACK, 3, 0.2, 0.15, 0.3),
    ]
    assert over_loads(loads)[0] is Verdict.CONFLICTING
    assert over_loads(loads, known(1.0))[0] is THROUGH
    assert over_loads(loads, known(2.0))[0] is Verdict.CONFLICTING


def test_a_load_with_a_flagged_drive_is_not_weighted_whatever_its_interval():
    flagged = LoadVerdict(
        DEPTH1, Verdict.INSUFFICIENT, 3, 1.0, 0.98, 1.02, doubts=(FindingCode.CARRYOVER,)
    )
    assert over_loads([flagged], known(1.0))[0] is Verdict.INSUFFICIENT
    cured = replace(flagged, doubts=())
    assert over_loads([cured], known(1.0))[0] is Verdict.NO_DIFFERENCE


def test_a_load_that_contradicts_itself_counts_by_its_share():
    loads = [
        LoadVerdict(DEPTH1, THROUGH, 3, 1.7, 1.5, 2.0),
        LoadVerdict(BATCH, Verdict.CONFLICTING, 3, 1.0, 0.2, 5.0),
    ]
    assert over_loads(loads)[0] is Verdict.CONFLICTING
    assert over_loads(loads, known(2.0))[0] is Verdict.CONFLICTING
    assert over_loads(loads, known(1.01))[0] is THROUGH


@pytest.mark.parametrize(("low", "high", "verdict"), [
    (0.95, 1.05, Verdict.NO_DIFFERENCE),
    (0.5, 1.02, Verdict.INSUFFICIENT),
    (0.8, 1.5, Verdict.INSUFFICIENT),
    (0.95, 1.5, THROUGH),
])
def test_a_known_profile_does_not_overrule_the_osds_own_traffic(low, high, verdict):
    same = verdict is Verdict.NO_DIFFERENCE
    loads = [
        LoadVerdict(
            LoadPoint.OSD_TRAFFIC, verdict if same else Verdict.INSUFFICIENT, 3, 1.0, low, high
        ),
        LoadVerdict(DEPTH1, THROUGH, 3, 4.5, 4.0, 5.0),
        LoadVerdict(BATCH, THROUGH, 3, 2.5, 2.0, 3.0),
    ]
    assert over_loads(loads, known(2.0))[0] is verdict


def test_what_is_in_doubt_is_never_weighed():
    ignores_flushes = measured(Estimate(Verdict.INSUFFICIENT, 0.1, 0.2))
    verdict, why = weighted(ignores_flushes, profile(hour(together=1.0)))
    assert verdict is Verdict.INSUFFICIENT
    assert "measurement of depth1 is flagged" in why
    carried = measured(Estimate(Verdict.INSUFFICIENT, 0.98, 1.02, finding=True))
    assert weighted(carried, profile(hour(together=1.0)))[0] is Verdict.INSUFFICIENT
    rare = measured(Estimate(THROUGH, 3, 4), Estimate(Verdict.INSUFFICIENT, 1e-9, 1e-8))
    assert weighted(rare, profile(hour(together=1.01)))[0] is THROUGH


def dump(n, **sections):
    store = {"txc_commit_lat": {"avgcount": 8 * n, "sum": 1.0}, "kv_sync_lat": {"avgcount": 2 * n}}
    osd = {"op_w": 5 * n, "op_w_in_bytes": 4096 * 5 * n, "recovery_ops": n}
    return {"bluestore": store, "osd": osd, **sections}


def test_counters_gained_between_two_readings_make_the_hours():
    first, second = work_counters(dump(100), 7200.0), work_counters(dump(300), 7300.0)
    found = add(LoadProfile(), first, second)
    (only,) = found.hours
    assert (only.hour, only.transactions, only.commits) == (2, 1600, 400)
    later = add(found, second, work_counters(dump(350), 10_900.0))
    assert [item.hour for item in later.hours] == [2, 3]


def test_the_counters_of_16_are_known_by_their_old_names():
    old = dump(10)
    old["bluestore"]["commit_lat"] = old["bluestore"].pop("txc_commit_lat")
    old["bluestore"]["deferred_write_ops"] = 7
    found = work_counters(old, 1.0)
    assert (found.transactions, found.deferred_writes) == (80, 7)


def test_a_replicas_writes_are_writes_of_clients_too():
    """As an OSD of 18.2.7 counted that was primary of one write in eight."""
    replica = dump(1)
    replica["osd"] = {
        "op_w": 62898, "op_w_in_bytes": 257630208, "op_rw": 0, "op_rw_in_bytes": 0,
        "subop_w": 439382, "subop_w_in_bytes": 2159800259, "recovery_ops": 0,
    }
    found = work_counters(replica, 1.0)
    assert found.client_writes == 502280
    assert 4096 < found.client_bytes / found.client_writes < 4096 + 1024
    only = dump(1)
    only["osd"] = {"op_w": 0, "op_w_in_bytes": 0, "subop_w": 100, "subop_w_in_bytes": 10**6}
    assert work_counters(only, 1.0).client_writes == 100


@pytest.mark.parametrize(("count", "at_s"), [(3, 20.0), (200, 5.0)], ids=["restarted", "late"])
def test_counters_or_a_clock_that_went_back_add_nothing(count, at_s):
    before, after = work_counters(dump(100), 10.0), work_counters(dump(count), at_s)
    assert add(LoadProfile(), before, after) == LoadProfile()


@pytest.mark.parametrize("bad", [{}, {"osd": 3, "bluestore": {}}, {"osd": {}, "bluestore": []}])
def test_a_dump_without_the_counters_is_none(bad):
    assert work_counters(bad, 1.0) is None


def test_a_profile_keeps_a_week_and_survives_the_store():
    long = merged(tuple(profile(hour(n)) for n in range(HOURS_MAX + 50)))
    assert len(long.hours) == HOURS_MAX
    assert long.hours[0].hour == 50
    both = merged((profile(hour(1), hour(2)), profile(hour(2))))
    assert [item.client_writes for item in both.hours] == [10_000, 20_000]
    again = codec.loads(LoadProfile, codec.dumps(long), bytes_max=10**6, what="profile")
    assert again == long


def test_hours_read_while_the_clock_was_ahead_go_with_the_next_reading():
    found = profile(hour(3), hour(8), hour(9), hour(10), hour(900_000))
    first, second = (work_counters(dump(n), n + 8 * 3600.0) for n in (100, 300))
    assert [item.hour for item in add(found, first, second).hours] == [3, 8, 9]


@given(st.lists(st.integers(0, 400), min_size=2, max_size=12))
def test_a_profile_ends_within_an_hour_of_the_last_reading_however_the_clock_goes(hours):
    found = LoadProfile()
    for n, number in enumerate(hours):
        first, second = (work_counters(dump(100 * n + i), number * 3600.0 + i) for i in (0, 1))
        found = add(found, first, second)
        assert found.hours[-1].hour in (number, number + 1)


SHARD, OBJECT = 2048, 4096


def shards(n, *, primary=False, prefix="", written=True):
    """An OSD's dump after n writes to a pool of two data shards."""
    found = dump(2 * n)  # the shard's write, and what rolls it forward
    clients = n if primary else 0
    found["osd"] = {"op_w": clients, "op_w_in_bytes": OBJECT * clients, "subop_w": 0}
    data = n if written else 0
    found["bluestore"].update({
        f"{prefix}write_big": data, f"{prefix}write_big_bytes": SHARD * data,
        f"{prefix}write_small": 0, f"{prefix}write_small_bytes": 0,
    })
    return found


def hour_of(make, before=100, after=400, *, erasure_coded=True):
    first, second = (
        work_counters(make(n), float(n), erasure_coded) for n in (before, after)
    )
    (found,) = add(LoadProfile(), first, second).hours
    return found


@pytest.mark.parametrize("prefix", ["", "bluestore_"])
@pytest.mark.parametrize("primary", [True, False])
def test_the_shards_of_an_erasure_coded_pool_count_at_every_osd_and_at_their_size(prefix, primary):
    """No sub-operation of theirs is counted, and the primary's bytes are those of all shards."""
    found = hour_of(lambda n: shards(n, primary=primary, prefix=prefix))
    assert (found.client_writes, found.client_bytes) == (300, 300 * SHARD)


@pytest.mark.parametrize(("written", "erasure_coded"), [(True, False), (False, True)])
def test_without_such_a_pool_or_data_the_osd_counts_its_clients_alone(written, erasure_coded):
    found = hour_of(
        lambda n: shards(n, primary=True, written=written), erasure_coded=erasure_coded
    )
    assert (found.client_writes, found.client_bytes) == (300, 300 * OBJECT)
    assert hour_of(shards, erasure_coded=False).client_writes == 0


def test_the_first_such_pool_adds_nothing_of_what_was_written_before_it():
    before, after = work_counters(shards(100), 1.0), work_counters(shards(400), 2.0, True)
    (found,) = add(LoadProfile(), before, after).hours
    assert found.client_writes == 0

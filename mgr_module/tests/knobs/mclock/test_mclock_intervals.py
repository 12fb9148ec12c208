"""What calls of a bench say of an OSD and of its drive model, and in which setting they did."""

import math
import random
from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from wcache.core.model import CacheMode, DeviceCache, DriveModel, KernelView, Role
from wcache.knobs.mclock.capacity import (
    CALLS_MIN,
    Measurement,
    of_model,
    of_one,
    settings,
    stacks,
)

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
MODEL = str(make.MODEL)


def measured(osd_id, *iops, setting="write through", model=MODEL, **changes):
    found = Measurement(
        osd_id, f"h{osd_id}", "hdd", True, model, setting, iops or (295.0, 305.0, 300.0, 310.0),
        60.0, 1, 1000.0,
    )
    return replace(found, **changes)


# ---- the interval


def test_too_few_calls_give_no_capacity():
    assert of_one([300.0] * (CALLS_MIN - 1)) is None
    assert of_model([measured(1, 300.0)]) is None


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "drives"), [(3, 1), (6, 1), (4, 3), (4, 6)])
def test_the_interval_holds_the_truth_in_95_of_100(calls, drives):
    rng = random.Random(calls * 100 + drives)
    inside = beyond = 0
    trials = 2000
    for _ in range(trials):
        items = []
        for _drive in range(drives + 1):
            level = 300 * math.exp(rng.gauss(0, 0.2 if drives > 1 else 0))
            items.append([level * math.exp(rng.gauss(0, 0.1)) for _ in range(calls)])
        found = of_model([measured(i, *iops) for i, iops in enumerate(items[:drives])])
        inside += found.low <= 300 <= found.high
        # one call on another OSD of the drive model
        beyond += found.next_low <= items[drives][0] <= found.next_high
    # 95% less three standard errors of the simulation
    assert inside / trials >= 0.935
    assert beyond / trials >= 0.935


def test_more_calls_on_one_drive_say_no_more_of_the_drive_model():
    few = of_model([measured(1, 200.0, 201.0, 202.0), measured(2, 400.0, 401.0, 402.0)])
    many = of_model([measured(1, *[201.0] * 20), measured(2, *[401.0] * 20)])
    assert many.high / many.low == pytest.approx(few.high / few.low, rel=0.05)
    assert few.high / few.low > 10


def test_calls_that_agree_by_chance_do_not_make_an_interval_of_nothing():
    found = of_one([300.0, 300.0, 300.0])
    assert found.low < 295
    assert found.high > 305


# ---- settings


def test_an_osds_setting_names_each_role_only_where_they_differ():
    block = make.drive("sda", 1, mode=THROUGH)
    db = make.drive("nvme0", 1, 2, mode=BACK, roles=(Role.DB,))
    plain = make.drive("sdb", 2, mode=BACK)
    found = settings([make.report("h1", block, db, plain)])
    assert found == {1: "block write through, db write back", 2: "write back"}
    held = settings([make.report("h1", block, db, plain)], [("h1", "domain-nvme0")])
    assert held == {1: "", 2: ""}


def test_a_drive_without_a_cache_has_a_setting_and_an_unknown_one_has_none():
    none = make.drive("sda", 1)
    none = replace(none, state=replace(none.state, device_cache=DeviceCache.NONE))
    odd = make.drive("sdb", 2)
    odd = replace(odd, state=replace(odd.state, device_cache=DeviceCache.UNKNOWN,
                                     kernel_view=KernelView.UNKNOWN))
    report = make.report("h1", none, odd)
    assert settings([report]) == {1: "no volatile cache", 2: ""}
    assert stacks([report]) == {1: MODEL, 2: MODEL}


def test_an_osd_with_a_separate_db_is_not_pooled_with_one_without():
    nvme = DriveModel("ACME", "N1", "2.0")
    fast = make.drive("nvme0", 1, roles=(Role.DB, Role.WAL), drive_model=nvme)
    report = make.report("h1", make.drive("sda", 1), make.drive("sdb", 2), fast)
    assert stacks([report]) == {1: f"{MODEL} with db, wal on ACME N1 2.0", 2: MODEL}
    whole = make.drive("sda", 1, roles=(Role.BLOCK, Role.DB))
    assert stacks([make.report("h1", whole)]) == {1: MODEL}

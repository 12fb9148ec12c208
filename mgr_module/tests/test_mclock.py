"""A capacity for mClock has an interval, and a stored one that no longer fits is found."""

import random

import pytest
from wcache.core.mclock import CALLS_MIN, Capacity, StoredCapacity, advise, capacity
from wcache.core.model import CacheMode, FindingCode

BACK, THROUGH = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
MEASURED = Capacity(THROUGH, 310.0, 280.0, 340.0, 8)


def asked(*stored, measured=MEASURED, rotational=True):
    return advise(measured, device_class="hdd", rotational=rotational, stored=stored)


def test_fewer_calls_than_hold_the_median_give_no_capacity():
    assert capacity(BACK, [3_000_000] * (CALLS_MIN - 1)) is None


def test_six_calls_give_the_lowest_and_the_highest_around_the_median():
    found = capacity(BACK, [1_000_000, 2_000_000, 4_000_000, 5_000_000, 8_000_000, 10_000_000])
    assert (found.low, found.high) == (100.0, 1000.0)
    assert found.iops == pytest.approx((200 + 250) / 2)


@pytest.mark.parametrize("calls", [6, 9, 15, 40])
def test_the_interval_holds_the_median_in_at_least_95_percent(calls):
    rng = random.Random(calls)
    covered, trials = 0, 2000
    for _ in range(trials):
        # skewed on purpose: nothing is assumed of the distribution
        found = capacity(BACK, [round(3e6 * rng.lognormvariate(0, 0.8)) for _ in range(calls)])
        covered += found.low <= 1e9 / 3e6 <= found.high
    assert covered / trials >= 0.94  # 95% less two standard errors of the simulation


def test_the_class_is_set_and_what_shadows_it_is_removed():
    found = asked(StoredCapacity("osd.3", 300.0), StoredCapacity("osd", 315.0))
    assert found.shadowing == ("osd.3",)
    assert found.commands == (
        "ceph config rm osd.3 osd_mclock_max_capacity_iops_hdd",
        "ceph config set osd/class:hdd osd_mclock_max_capacity_iops_hdd 310",
    )
    assert found.findings == ()


def test_a_value_outside_of_what_was_measured_is_a_finding():
    (found,) = asked(StoredCapacity("osd.3", 900.0)).findings
    assert (found.code, found.subject) == (FindingCode.MCLOCK_STALE, "osd.3")
    assert "280 to 340" in found.detail


def test_a_value_measured_in_the_other_mode_is_a_finding_even_where_it_fits():
    (found,) = asked(StoredCapacity("osd.3", 310.0, BACK)).findings
    assert "was measured in write back" in found.detail


def test_flash_has_its_own_option_and_its_own_limit_of_belief():
    fast = Capacity(THROUGH, 90_000.0, 80_000.0, 99_000.0, 8)
    found = asked(measured=fast, rotational=False)
    assert found.option == "osd_mclock_max_capacity_iops_ssd"
    assert "above 80000" in found.warnings[0]

"""Two observed campaigns: before and after with intervals that hold, and no word of why."""

import math
import random
from dataclasses import replace

import pytest
from module_world import WB, WT, a_mgr, ok, refused, said
from wcache.core import codec
from wcache.core.errors import MalformedError
from wcache.core.experiment.two_campaigns import ObservedLoad, compare, lines, of_shown
from wcache.core.figures.latency_table import LatencyTable, of_samples
from wcache.core.model import KernelView, LoadPoint, Role

TIMER = LoadPoint.FDATASYNC_TIMER


def drawn(rng, middle_us, n=320, sd=0.3):
    return of_samples([int(1e3 * rng.lognormvariate(math.log(middle_us), sd)) for _ in range(n)])


def seen(table, osd_id=0, **changes):
    found = ObservedLoad(
        "h1", osd_id, f"d{osd_id}", f"sd{osd_id}", Role.BLOCK, TIMER, table, "ACME", WB,
        KernelView.WRITE_BACK,
    )
    return replace(found, **changes)


def one_ratio(before, after):
    (row,) = compare([before], [after]).rows
    return row.ratio


def test_twice_as_fast_is_told_and_its_interval_leaves_out_one():
    rng = random.Random(1)
    found = one_ratio(seen(drawn(rng, 2000.0)), seen(drawn(rng, 1000.0)))
    assert found.low > 1.3
    assert found.low < 2.0 < found.high


@pytest.mark.slow
def test_intervals_of_drives_that_did_not_change_hold_one():
    """Also where samples hang together, and a measurement is 3% off by itself."""
    rng, out = random.Random(2), 0
    for _ in range(400):
        sides = []
        for _ in range(2):
            level, value, samples = 1000 * math.exp(rng.gauss(0, 0.02)), 0.0, []
            for _ in range(320):
                value = 0.8 * value + rng.gauss(0, 0.3 * math.sqrt(1 - 0.64))
                samples.append(int(1e3 * level * math.exp(value)))
            sides.append(seen(of_samples(samples)))
        found = one_ratio(*sides)
        out += not found.low <= 1.0 <= found.high
    assert out <= 20  # 5%


def test_over_three_drives_the_drive_is_the_unit():
    rng = random.Random(3)
    before = [seen(drawn(rng, 2000.0 + 100 * i), i) for i in range(4)]
    after = [seen(drawn(rng, 1000.0 + 50 * i), i) for i in range(4)]
    (model,) = compare(before, after).models
    assert model.drives == 4
    assert model.ratio.low < 2.0 < model.ratio.high
    assert model.ratio.high / model.ratio.low < 1.5
    assert compare(before[:2], after[:2]).models == ()


def test_what_made_a_load_useless_or_another_one_is_said_and_no_ratio_of_it():
    rng = random.Random(4)
    good = seen(drawn(rng, 1000.0), writes_per_s=10.0)
    found = compare([good], [replace(good, note="the cache mode changed meanwhile")])
    assert found.rows[0].ratio is None
    text = "\n".join(lines(found, 7200.0))
    assert "after: the cache mode changed meanwhile" in text
    assert "2.0 h passed between the two" in text
    assert "not why" in text
    other = replace(good, mode=WT, writes_per_s=300.0, kernel_view=KernelView.WRITE_THROUGH)
    text = "\n".join(lines(compare([good], [other]), 1.0))
    assert "write back >  " in text
    assert "the drive had another load" in text
    assert "the kernel's view was write back, and is write through" in text
    few = seen(of_samples([1000, 2000, 3000]))
    assert "too few samples" in "\n".join(lines(compare([few], [few]), 1.0))
    lonely = compare([good], [seen(good.table, 1)])
    assert "only before: h1 osd.0/block sd0 timer" in lines(lonely, 1.0)


@pytest.mark.parametrize(
    "rows",
    ["no list", [1], [{"hostname": "h1"}],
     [{**codec.to_plain(seen(LatencyTable(1))), "osd_id": "x", "dev_names": ["sda"]}]],
)
def test_rows_that_are_none_are_refused(rows):
    with pytest.raises(MalformedError):
        of_shown(rows)


def test_the_command_compares_what_campaigns_saw_the_earlier_one_first():
    mgr = a_mgr()
    for _ in range(2):
        ok(mgr.command("campaign start", loads="timer", observe=True))
        mgr.settle()
    found = said(mgr, "campaign show", before="c2", campaign_id="c1")
    assert (found["before"], found["after"]) == ("c1", "c2")
    assert found["comparison"]["rows"][0]["ratio"]["value"] == pytest.approx(1.0)
    assert "CHANGE (95%)" in ok(mgr.command("campaign show", before="c1", campaign_id="c2"))
    assert "no campaign 'c9'" in refused(mgr, "campaign show", before="c1", campaign_id="c9")


@pytest.mark.slow
def test_a_campaign_that_toggled_is_not_compared():
    mgr = a_mgr()
    for observe in (False, True):
        said(mgr, "campaign start", loads="depth1", accept_cost=True, observe=observe)
        mgr.settle()
    error = refused(mgr, "campaign show", before="c1", campaign_id="c2")
    assert "compares the modes by itself" in error

"""Which drives a campaign takes, which loads touch them, and what it may cost."""

from dataclasses import replace

import pytest
from campaign_world import a_host, options, runs_of
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from mgr_fakes import builders as make
from wcache.core.cluster import touches
from wcache.core.errors import NotFoundError, RefusedError
from wcache.core.experiment.campaign import (
    SKIPPED_MAX,
    candidates,
    parse_loads,
    select,
    turning_on,
)
from wcache.core.loads import SAMPLES
from wcache.core.model import CacheMode, DriveModel, LoadPoint, Role, Transport
from wcache.core.options.entries import OptionTrial
from wcache.core.scope import parse_scope

WT = CacheMode.WRITE_THROUGH
D1, BATCH, M4, TIMER = (
    LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_BENCH_4M,
    LoadPoint.FDATASYNC_TIMER,
)


def chosen(reports, cluster, *, by_try=False, **changes):
    wanted = options(D1, **changes)
    found = candidates(reports, cluster, parse_scope(wanted.scope))
    return select(found, cluster, wanted, throwaway=False, by_try=by_try)


def test_a_sample_is_spread_over_hosts():
    reports, cluster = make.fleet()
    picked = chosen(reports, cluster, drives_per_model=6).chosen
    per_host = [sum(c.hostname == f"h{h}" for c in picked) for h in range(5)]
    assert sorted(per_host) == [1, 1, 1, 1, 2]


def test_each_drive_model_gets_its_own_sample():
    other = DriveModel("ACME", "SSD", "2")
    reports, cluster = make.fleet()
    drives = tuple(replace(d, drive_model=other) for d in reports[0].drives)
    reports[0] = replace(reports[0], drives=drives)
    picked = chosen(reports, cluster, drives_per_model=2).chosen
    assert [str(c.drives[0].drive_model) for c in picked] == ["ACME HD1 1.0"] * 2 + [
        "ACME SSD 2"] * 2


def test_loads_are_named_short_or_long_and_once():
    assert parse_loads("depth1, osd_bench_depth1,timer") == (D1, TIMER)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"foreign_uses": ("/mnt/home",)}, "not an OSD"),
        ({"refusals": make.refused("it is a RAID volume")}, "RAID"),
        ({"transport": Transport.LOOP}, "loop device"),
        ({"state": make.state(WT)}, "own consent"),
    ],
)
def test_a_drive_that_may_not_be_toggled_is_left_out_with_the_reason(change, why):
    reports, cluster = make.fleet(1, 2)
    odd = replace(reports[0].drives[0], **change)
    reports[0] = replace(reports[0], drives=(odd, reports[0].drives[1]))
    picked = chosen(reports, cluster)
    assert len(picked.chosen) == 1
    assert why in picked.skipped[0]


def test_an_osd_that_is_down_is_not_measured_and_nothing_at_all_is_an_error():
    reports, cluster = make.fleet(1, 1)
    down = make.cluster([replace(cluster.osds[0], up=False)])
    with pytest.raises(RefusedError, match=r"an OSD is not up and in: osd\.0"):
        chosen(reports, down)


@pytest.mark.parametrize(("down", "by_try", "offered"), [
    (False, False, True), (False, True, False), (True, False, False),
])
def test_an_override_is_offered_where_it_can_be_given_and_lifts_what_is_wrong(
    down, by_try, offered
):
    reports, cluster = make.fleet(1, 1)
    ill = {} if down else {0: "has a flag"}
    now = replace(cluster, ill=ill, osds={0: replace(cluster.osds[0], up=not down)})
    with pytest.raises(RefusedError) as refused:
        chosen(reports, now, by_try=by_try)
    assert ("--override=cluster_healthy" in refused.value.advice) is offered
    assert bool(chosen(reports, now, forced=True).chosen) if offered else True


def test_of_drives_that_are_off_the_reason_is_theirs_and_the_scope_stays():
    reports, cluster = make.fleet(1, 2)
    first, other = reports[0].drives
    raid = replace(first, refusals=make.refused("it is a RAID volume"))
    reports[0] = replace(reports[0], drives=(raid, replace(other, state=make.state(WT))))
    with pytest.raises(NotFoundError, match="needs its own consent") as refused:
        chosen(reports, cluster, scope="host:h0")
    assert "RAID" not in refused.value.message
    assert f"`{turning_on('host:h0')}`" in refused.value.advice
    assert len(chosen(reports, cluster, consent_turn_on=True).chosen) == 1


def test_reasons_are_bounded_by_what_can_be_stored():
    reports, cluster = make.fleet(60, 10)
    reports = [
        replace(r, drives=tuple(
            replace(d, refusals=make.refused("x" * 1024)) if i else d
            for i, d in enumerate(r.drives)
        ))
        for r in reports
    ]
    skipped = chosen(reports, cluster).skipped
    assert len(skipped) == SKIPPED_MAX + 1
    assert all(len(line) <= 300 for line in skipped)
    assert "more" in skipped[-1]


def test_a_domain_whose_first_osd_is_on_its_second_lun_is_measured():
    luns = (make.drive("sda", 5), make.drive("sdb", 3, domain_id="domain-sda"))
    reports = [make.report("h1", *luns)]
    cluster = make.cluster([make.osd(3, "h1"), make.osd(5, "h1")])
    (run,), _ = runs_of((reports, cluster), options(D1))
    assert [(e.osd_id, e.drive_id) for e in run.experiments] == [(3, "wwn-sdb")]


@examples(40)
@given(st.lists(st.sampled_from(list(SAMPLES)), min_size=1, unique=True), st.integers(4, 80),
       st.integers(1, 30))
def test_a_forecast_bounds_what_its_runs_can_write(loads, pairs, per_model):
    reports, cluster = make.fleet(3, 3)
    runs, cost = runs_of(
        (reports, cluster), options(*loads, pairs_max=pairs, drives_per_model=per_model)
    )
    assert cost.drives == len(runs) == min(per_model, 9)
    assert (cost.bytes_written == 0) is not ({D1, BATCH, M4} & set(loads))
    assert cost.seconds <= cost.drive_seconds
    assert cost.drive_seconds <= sum(
        1.0 + len(run.experiments) * (run.seconds_max + 10.0) for run in runs
    )


@pytest.mark.parametrize(
    ("load", "roles", "separate", "expected"),
    [
        (D1, (Role.BLOCK,), True, False), (BATCH, (Role.BLOCK,), True, False),
        (M4, (Role.BLOCK,), True, True), (D1, (Role.DB,), True, True),
        (D1, (Role.WAL,), True, True), (M4, (Role.DB,), True, False),
        (D1, (Role.BLOCK,), False, True), (TIMER, (Role.BLOCK,), True, True),
        (M4, (Role.BLOCK, Role.DB), False, True),
    ],
)
def test_a_load_is_put_down_to_the_drive_it_touches(load, roles, separate, expected):
    osd = make.osd(0, "h1", dedicated_db=separate)
    assert touches(load, roles, osd) is expected


def test_an_option_of_an_osd_is_measured_by_what_the_osd_writes_wherever_that_goes():
    reports, cluster = a_host()
    osd = cluster.osds[0]
    assert not touches(D1, (Role.BLOCK,), osd)
    trial = OptionTrial("bluestore_prefer_deferred_size_hdd", "0", "65536")
    runs, _ = runs_of((reports, cluster), options(loads=(D1, BATCH), option=trial))
    assert [(run.option_osd, one.load_point) for run in runs for one in run.experiments] == [
        (osd.osd_id, D1), (osd.osd_id, BATCH)
    ]

"""Coins, scopes, selections, forecasts, verdicts, claims and findings: the small pure rules."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mgr_fakes import builders as make
from wcache.core.agents import CLAIM_S, Agents
from wcache.core.campaign import (
    SKIPPED_MAX,
    CampaignOptions,
    Scope,
    candidates,
    forecast,
    parse_loads,
    parse_scope,
    select,
)
from wcache.core.campaign_runs import make_runs
from wcache.core.codec import one_line
from wcache.core.errors import ConflictError, MalformedError, NotFoundError, VersionError
from wcache.core.experiment import Slot, coin, next_slot
from wcache.core.findings import ADVICE, mixed_modes, modes_of, of_agents, of_drive
from wcache.core.joining import LoadVerdict
from wcache.core.model import (
    CacheMode,
    DriveModel,
    FindingCode,
    KernelView,
    LoadPoint,
    Role,
    Severity,
    Transport,
    Verdict,
)
from wcache.core.osds import touches
from wcache.core.over_loads import over_loads
from wcache.core.plan import CHANGES_MAX, make_changes
from wcache.core.policy import Result, recommend
from wcache.core.protocol import Hello
from wcache.host_views import HostViews
from wcache.options import DESCRIPTIONS, Options, read_options

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
D1, BATCH, M4, TRAFFIC, TIMER = (
    LoadPoint.OSD_BENCH_DEPTH1, LoadPoint.OSD_BENCH_BATCH, LoadPoint.OSD_BENCH_4M,
    LoadPoint.OSD_TRAFFIC, LoadPoint.FDATASYNC_TIMER,
)


# ---- experiment


def test_the_coin_is_the_same_in_every_release():
    tossed = "".join("B" if coin(7, pair) is WB else "T" for pair in range(24))
    assert tossed == "BBBTBBBBTBTBTTBBTBBBBBBB"


def test_the_coin_is_fair_and_its_neighbours_do_not_agree():
    tosses = [coin(seed, pair) is WB for seed in range(100) for pair in range(40)]
    same = sum(a is b for a, b in zip(tosses, tosses[1:]))
    # 4,000 tosses: 4 standard deviations are 127
    assert abs(sum(tosses) - 2000) < 127
    assert abs(same - 2000) < 127


@given(st.sets(st.tuples(st.integers(0, 5), st.booleans())))
def test_the_next_slot_is_the_first_without_a_period(done):
    taken = {Slot(*item) for item in done}
    slot = next_slot(taken)
    assert slot not in taken
    before = Slot(0, False)
    while before != slot:
        assert before in taken
        before = before.following


# ---- campaign


def options(**changes):
    return replace(CampaignOptions("cluster", (D1,), 20, 6, 0.25, 2.0, 2000.0, 900.0, 2**32),
                   **changes)


def fleet(hosts=5, drives=4):
    reports = [
        make.report(f"h{h}", *(make.drive(f"sd{d}", h * drives + d) for d in range(drives)))
        for h in range(hosts)
    ]
    osds = [make.osd(h * drives + d, f"h{h}") for h in range(hosts) for d in range(drives)]
    return reports, make.cluster(osds)


def chosen(reports, cluster, **changes):
    wanted = options(**changes)
    found = candidates(reports, cluster, parse_scope(wanted.scope))
    return select(found, cluster, wanted, throwaway=False)


def test_a_sample_is_spread_over_hosts():
    reports, cluster = fleet()
    picked = chosen(reports, cluster, drives_per_model=6).chosen
    per_host = [sum(c.hostname == f"h{h}" for c in picked) for h in range(5)]
    assert sorted(per_host) == [1, 1, 1, 1, 2]


def test_each_drive_model_gets_its_own_sample():
    other = DriveModel("ACME", "SSD", "2")
    reports, cluster = fleet()
    drives = tuple(replace(d, drive_model=other) for d in reports[0].drives)
    reports[0] = replace(reports[0], drives=drives)
    picked = chosen(reports, cluster, drives_per_model=2).chosen
    assert [str(c.drives[0].drive_model) for c in picked] == ["ACME HD1 1.0"] * 2 + [
        "ACME SSD 2"] * 2


@pytest.mark.parametrize(
    ("scope", "count"),
    [("cluster", 20), ("host:h1", 4), ("osd.7", 1), ("class:hdd", 20)],
)
def test_a_scope_covers_what_it_names(scope, count):
    reports, cluster = fleet()
    assert len(candidates(reports, cluster, parse_scope(scope))) == count


@pytest.mark.parametrize("text", ["", "all", "host:", "osd.", "osd.-1", "class:\n", "osd.1x",
                                  "host:" + "h" * 254, "osd." + "1" * 20])
def test_an_unknown_scope_is_refused_with_what_is_allowed(text):
    with pytest.raises(MalformedError) as caught:
        parse_scope(text)
    assert "use cluster" in caught.value.line()


def test_loads_are_named_short_or_long_and_once():
    assert parse_loads("depth1, osd_bench_depth1,timer") == (D1, TIMER)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"foreign_uses": ("/mnt/home",)}, "not an OSD"),
        ({"toggle_refusal": "it is a RAID volume"}, "RAID"),
        ({"transport": Transport.LOOP}, "loop device"),
        ({"state": make.state(WT)}, "own consent"),
    ],
)
def test_a_drive_that_may_not_be_toggled_is_left_out_with_the_reason(change, why):
    reports, cluster = fleet(1, 2)
    odd = replace(reports[0].drives[0], **change)
    reports[0] = replace(reports[0], drives=(odd, reports[0].drives[1]))
    picked = chosen(reports, cluster)
    assert len(picked.chosen) == 1
    assert why in picked.skipped[0]


def test_an_osd_that_is_down_is_not_measured_and_nothing_at_all_is_an_error():
    reports, cluster = fleet(1, 1)
    down = make.cluster([replace(cluster.osds[0], up=False)])
    with pytest.raises(NotFoundError, match=r"osd\.0 is not up"):
        chosen(reports, down)


def test_reasons_are_bounded_by_what_can_be_stored():
    reports, cluster = fleet(60, 10)
    reports = [
        replace(r, drives=tuple(
            replace(d, toggle_refusal="x" * 1024) if i else d for i, d in enumerate(r.drives)
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
    picked = chosen(reports, cluster)
    (run,) = make_runs("c1", picked, cluster, options(), seed=1, throwaway=False)
    assert [(e.osd_id, e.drive_id) for e in run.experiments] == [(3, "wwn-sdb")]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(list(LoadPoint)), min_size=1, unique=True), st.integers(4, 80),
       st.integers(1, 30))
def test_a_forecast_bounds_what_its_runs_can_write(loads, pairs, per_model):
    reports, cluster = fleet(3, 3)
    wanted = options(loads=tuple(loads), pairs_max=pairs, drives_per_model=per_model)
    found = candidates(reports, cluster, Scope("cluster"))
    picked = select(found, cluster, wanted, throwaway=False)
    runs = make_runs("c1", picked, cluster, wanted, seed=1, throwaway=False)
    cost = forecast(runs, cluster, ())
    assert cost.drives == len(runs) == min(per_model, 9)
    assert (cost.bytes_written == 0) is not ({D1, BATCH, M4} & set(loads))
    assert cost.seconds <= cost.drive_seconds
    assert cost.drive_seconds <= sum(
        1.0 + len(run.experiments) * (run.seconds_max + 10.0) for run in runs
    )


# ---- osds


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


# ---- policy


def result(load=D1, verdict=Verdict.WRITE_THROUGH, **changes):
    found = Result(
        "r1", "c1", "h1", 0, "hdd", "d0", "w0", make.MODEL, load, verdict, 8, 1.0, 0, "decided",
        5.0, 4.5, 5.5,
    )
    return replace(found, **changes)


def loads(*items):
    """LoadVerdicts from (load, verdict, low, high)."""
    return [LoadVerdict(load, verdict, 3, None, low, high) for load, verdict, low, high in items]


THROUGH, BACK, SAME, FEW, TORN = (
    Verdict.WRITE_THROUGH, Verdict.WRITE_BACK, Verdict.NO_DIFFERENCE, Verdict.INSUFFICIENT,
    Verdict.CONFLICTING,
)


@pytest.mark.parametrize(
    ("items", "verdict"),
    [
        ([(D1, THROUGH, 4.0, 5.0)], THROUGH),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.1, 0.2)], TORN),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, None, None)], FEW),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, 0.2, 1.5)], FEW),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, 0.95, 1.5)], THROUGH),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, FEW, 4.0, 5.0)], FEW),  # in doubt: a carryover
        ([(D1, BACK, 0.2, 0.3), (BATCH, FEW, 0.8, 1.05)], BACK),
        ([(D1, BACK, 0.2, 0.3), (BATCH, FEW, 0.8, 1.2)], FEW),
        ([(D1, THROUGH, 4.0, 5.0), (BATCH, SAME, 0.95, 1.05)], THROUGH),
        ([(D1, THROUGH, 4.0, 5.0), (TIMER, FEW, 0.2, 1.5)], THROUGH),
        ([(TRAFFIC, SAME, 0.95, 1.05), (D1, THROUGH, 4.0, 5.0)], SAME),
        ([(TRAFFIC, SAME, 0.95, 1.05), (D1, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.1, 0.2)], SAME),
        ([(TRAFFIC, FEW, 0.5, 1.02), (D1, THROUGH, 4.0, 5.0)], FEW),
        ([(TRAFFIC, FEW, 0.98, 2.0), (D1, BACK, 0.2, 0.3)], FEW),
        ([(TRAFFIC, FEW, 0.8, 1.5), (D1, THROUGH, 4.0, 5.0)], FEW),
        ([(TRAFFIC, FEW, 0.95, 1.5), (D1, THROUGH, 4.0, 5.0)], THROUGH),
        ([(TRAFFIC, FEW, 0.7, 1.05), (D1, BACK, 0.2, 0.3)], BACK),
        ([(TRAFFIC, FEW, 0.95, 1.5), (D1, SAME, 0.95, 1.05)], FEW),
        ([(TRAFFIC, FEW, 0.5, 1.02)], FEW),
        ([(D1, SAME, 0.99, 1.01), (BATCH, SAME, 0.99, 1.01)], SAME),
        ([(D1, SAME, 0.99, 1.01), (BATCH, FEW, None, None)], FEW),
        ([(TIMER, THROUGH, 9.0, 9.0)], FEW),
        ([(TRAFFIC, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.6, 0.8)], THROUGH),
        ([(TRAFFIC, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.1, 0.5)], TORN),
        ([(TRAFFIC, BACK, 0.1, 0.2), (D1, THROUGH, 2.0, 2.5)], TORN),
        ([(TRAFFIC, BACK, 0.1, 0.2), (D1, THROUGH, 1.9, 2.5)], BACK),
        ([(TRAFFIC, THROUGH, 4.0, 5.0), (BATCH, BACK, 0.0, 0.0)], THROUGH),
        ([(TRAFFIC, TORN, None, None), (D1, THROUGH, 4.0, 5.0)], TORN),
    ],
)
def test_the_verdict_over_loads(items, verdict):
    found, why = over_loads(loads(*items))
    assert found is verdict
    assert why


def test_what_the_osds_own_traffic_decided_keeps_a_benchs_loss_as_words():
    found, why = over_loads(loads((TRAFFIC, SAME, 0.95, 1.05), (BATCH, BACK, 0.1, 0.2)))
    assert found is SAME
    assert "osd_bench_batch is at least 5.0x slower in write through" in why


def test_an_undecided_load_that_would_settle_it_is_named():
    _, why = over_loads(loads((D1, THROUGH, 4.0, 5.0), (BATCH, FEW, 0.2, 1.5)))
    assert "osd_bench_batch (ratio 0.2 to 1.5) is undecided" in why
    _, why = over_loads(loads((TRAFFIC, FEW, 0.5, 1.02), (D1, THROUGH, 4.0, 5.0)))
    assert "measure traffic for longer" in why


def test_drives_that_contradict_each_other_are_not_averaged():
    results = [result(drive_id="a"), result(drive_id="b", verdict=BACK, record_id="r2")]
    (advice,) = recommend(results)
    assert advice.verdict is TORN
    assert advice.mode is None


def test_the_newest_result_of_a_drive_counts_and_forced_or_empty_ones_never():
    old = result(verdict=BACK, ended_at_s=1.0)
    new = result(ended_at_s=2.0, record_id="r2")
    forced = result(verdict=BACK, ended_at_s=3.0, record_id="r3", forced=True)
    empty = result(verdict=FEW, ended_at_s=4.0, record_id="r4", pairs=0)
    (advice,) = recommend([forced, new, empty, old])
    assert advice.record_ids == ("r2",)
    assert advice.mode is WT


def test_simulated_and_real_drives_are_never_joined():
    assert len(recommend([result(), result(simulated=True, record_id="r2")])) == 2


def test_few_drives_are_said():
    (advice,) = recommend([result()])
    assert any("3 or more" in line for line in advice.warnings)


# ---- plan


def test_a_plan_leaves_alone_what_is_so_already_what_is_down_and_what_is_in_error():
    reports, cluster = fleet(1, 4)
    wrong = replace(
        reports[0].drives[2],
        findings=(replace(of_drive(unsafe(), throwaway=False, leased=False)[0]),),
    )
    drives = (make.drive("sd0", 0, mode=WT), reports[0].drives[1], wrong, reports[0].drives[3])
    down = replace(cluster.osds[1], up=False)
    osds = make.cluster([o if o.osd_id != 1 else down for o in cluster.osds.values()])
    changes, left = make_changes(
        recommend([result()]), [replace(reports[0], drives=drives)], osds, plan_id="p1",
        device_class=None, throwaway=False, consent_turn_on=False,
    )
    assert [c.dev_names for c in changes] == [("sd3",)]
    assert any("osd.1 is not up" in line for line in left)
    assert any("WCACHE_UNSAFE" in line for line in left)


def test_a_plan_is_no_longer_than_can_be_stored_after_each_step():
    reports, cluster = fleet(CHANGES_MAX // 10 + 1, 10)
    changes, left = make_changes(
        recommend([result()]), reports, cluster, plan_id="p1", device_class=None,
        throwaway=False, consent_turn_on=False,
    )
    assert len(changes) == CHANGES_MAX
    assert left[-1].startswith("10 more")


# ---- agents


def hello(probe_id="p1", **changes):
    return replace(Hello(1, probe_id, "i1"), **changes)


def test_the_second_probe_of_a_host_is_refused_until_the_first_was_silent_for_its_claim():
    agents = Agents()
    agents.hear("h1", hello(), 0.0)
    with pytest.raises(ConflictError, match="p1 speaks for h1"):
        agents.hear("h1", hello("p2"), CLAIM_S - 1)
    assert agents.get("h1").rival_probe_id == "p2"
    assert agents.get("h1").seen_at_s == 0.0
    (finding,) = of_agents(agents.all(), CLAIM_S - 1)
    assert finding.code is FindingCode.AGENT_CONFLICT
    agents.hear("h1", hello("p2"), CLAIM_S)
    with pytest.raises(ConflictError, match="p2 speaks for h1"):
        agents.hear("h1", hello("p1"), CLAIM_S + 1)


def test_a_probe_of_another_protocol_is_refused():
    with pytest.raises(VersionError, match="protocol 2"):
        Agents().hear("h1", hello(version=2), 0.0)


def test_a_silent_probe_is_a_finding():
    agents = Agents()
    agents.hear("h1", hello(), 0.0)
    assert of_agents(agents.all(), 100.0) == []
    assert of_agents(agents.all(), 130.0)[0].code is FindingCode.AGENT_SILENT


# ---- findings


def unsafe(**changes):
    state = make.state(WB, kernel_view=KernelView.WRITE_THROUGH)
    return make.drive("sda", 0, state=state, **changes)


def test_volatile_and_not_flushing_is_an_error_except_on_a_throwaway_loop_device():
    (found,) = of_drive(unsafe(), throwaway=True, leased=True)
    assert (found.code, found.severity) == (FindingCode.UNSAFE, Severity.ERROR)
    loop = unsafe(transport=Transport.LOOP)
    (found,) = of_drive(loop, throwaway=True, leased=True)
    assert (found.code, found.severity) == (FindingCode.UNSAFE_THROWAWAY, Severity.INFO)
    (found,) = of_drive(loop, throwaway=False, leased=False)
    assert found.code is FindingCode.UNSAFE


def test_mixed_modes_do_not_count_what_an_experiment_holds():
    report = make.report("h1", make.drive("sda", 0), make.drive("sdb", 1, mode=WT))
    (found,) = mixed_modes([modes_of(report, frozenset())])
    assert found.detail == "1 in write back, 1 in write through"
    assert mixed_modes([modes_of(report, {"domain-sdb"})]) == []


def test_every_finding_has_advice():
    assert set(ADVICE) == set(FindingCode)
    assert all(summary and advice for summary, advice in ADVICE.values())


def test_a_host_is_looked_at_again_only_when_something_changed():
    views = HostViews()
    reports = {"h1": make.report("h1", make.drive("sda", 0)), "h2": make.report("h2")}

    def take(**changes):
        arguments = {"throwaway": False, "leased": (), "changing": (), **changes}
        return views.take(reports, **arguments)

    first = take()
    assert all(a is b for a, b in zip(take(), first))
    held = take(leased=[("h1", "domain-sda")])
    assert held[0] is not first[0]
    assert held[1] is first[1]
    reports["h2"] = make.report("h2", make.drive("sdb", 1))
    changed = take(leased=[("h1", "domain-sda")])
    assert changed[0] is held[0]
    assert changed[1] is not held[1]
    del reports["h1"]
    assert len(take()) == 1


# ---- options and words


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(
    st.sampled_from([*DESCRIPTIONS, "other"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
))
def test_options_outside_their_bounds_keep_their_defaults(values):
    found = read_options(values)
    for name, (_, low, high) in DESCRIPTIONS.items():
        value = getattr(found, name)
        assert type(value) is type(getattr(Options(), name))
        assert low is None or low <= value <= high


@given(st.text(), st.integers(4, 50))
def test_one_line_is_one_printable_line_of_bounded_length(text, chars_max):
    line = one_line(text, chars_max)
    assert len(line) <= chars_max
    assert line.isprintable()

"""What is set and removed of mClock's capacities follows from what was measured."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from test_mclock_intervals import MODEL, measured
from wcache.core.config_database import Config, ConfigEdit, Entry
from wcache.core.model import CacheMode, FindingCode
from wcache.knobs.knob import Asked, Wanted
from wcache.knobs.mclock.advice import Advice, Basis, advise
from wcache.knobs.mclock.capacity import NAMES, Known
from wcache.knobs.mclock.plan import make_changes, stale

HDD = "osd_mclock_max_capacity_iops_hdd"
OTHER = "ACME HD2 2.0"


def facts(*measurements, osds=4, entries=(), settings_=None, models_=None, **more):
    """Four hdd OSDs, one on each host, all in write through unless said otherwise."""
    return Basis(
        {i: make.osd(i, f"h{i}") for i in range(osds)},
        {**dict.fromkeys(range(osds), "write through"), **(settings_ or {})},
        {**dict.fromkeys(range(osds), MODEL), **(models_ or {})},
        Config([Entry(*entry) for entry in entries]), measurements, **more,
    )


def on_one_host(*measurements, **more):
    """The same where all of them are on one host, which decides alone."""
    found = facts(*measurements, **more)
    return replace(found, osds={i: replace(osd, hostname="h") for i, osd in found.osds.items()})


def commands(found):
    return [change.command for change in found.changes]


# ---- what to set


def test_the_class_is_set_first_and_what_shadows_it_is_removed_then():
    entries = [("osd.3", HDD, "120.1"), ("osd.9", HDD, "120.1"), ("osd", HDD, "315")]
    (found,) = advise(facts(*(measured(i) for i in (0, 1, 2)), entries=entries))
    assert found.shadowing == ("osd.3",)
    assert commands(found) == [
        f"ceph config set osd/class:hdd {HDD} 302", f"ceph config rm osd.3 {HDD}",
    ]
    assert [change.prior for change in found.changes] == [None, "120.1"]
    assert found.warnings == ()
    done = [("osd/class:hdd", HDD, "302.000000")]
    (found,) = advise(facts(*(measured(i) for i in (0, 1, 2)), entries=done))
    assert found.changes == ()


def test_the_compiled_default_is_never_recommended_since_osds_then_bench_themselves():
    (found,) = advise(on_one_host(measured(0, 315.0, 315.0, 315.0), osds=1))
    assert found.iops == 316
    alike = [measured(i, 150.0, 150.0, 150.0) for i in range(3)]
    other = measured(3, 315.0, 315.0, 315.0, model=OTHER)
    (found,) = advise(on_one_host(*alike, other, models_={3: OTHER}))
    assert commands(found)[-1] == f"ceph config set osd.3 {HDD} 316"


def test_drive_models_that_are_close_share_a_value_and_others_get_their_own():
    alike = [measured(i, 300.0, 300.0, 300.0) for i in range(3)]
    two = measured(3, 330.0, 330.0, 330.0, model=OTHER)
    (close,) = advise(on_one_host(*alike, two, models_={3: OTHER}))
    assert commands(close) == [f"ceph config set osd/class:hdd {HDD} 307"]
    far = measured(3, 150.0, 150.0, 150.0, model=OTHER)
    (apart,) = advise(on_one_host(
        *alike, far, models_={3: OTHER}, entries=[("osd.1", HDD, "9")]
    ))
    assert commands(apart) == [
        f"ceph config set osd/class:hdd {HDD} 300", f"ceph config rm osd.1 {HDD}",
        f"ceph config set osd.3 {HDD} 150",
    ]


@pytest.mark.parametrize(("measurements", "changes", "said"), [
    ([measured(0)], {"compiled_queue": "wpq"}, "do not schedule by mClock"),
    ([measured(0)], {"settings_": {0: "write back"}}, "no measurement is still valid"),
    ([measured(0)], {"models_": {0: OTHER}}, "no measurement is still valid"),
    ([measured(0, forced=True)], {}, "no measurement is still valid"),
    ([measured(0), measured(1, setting="write back")], {"settings_": {1: "write back"}},
     "different modes"),
])
def test_nothing_is_changed_where_the_number_would_mean_nothing(measurements, changes, said):
    (found,) = advise(facts(*measurements, **changes))
    assert (found.iops, found.changes) == (None, ())
    assert any(said in line for line in found.warnings)
    assert advise(facts(measured(9))) == (), "of an OSD that is gone"


def test_a_capacity_that_an_osd_would_not_believe_is_not_set():
    (found,) = advise(on_one_host(measured(0, 900.0, 901.0, 902.0), osds=1))
    assert found.iops == 901
    assert found.changes == ()
    assert "outside of 50 to 500" in found.warnings[0]
    (own,) = advise(on_one_host(measured(0, 900.0, 901.0, 902.0, iops_max=2000.0), osds=1))
    assert own.changes


@pytest.mark.parametrize(("iops", "who", "name", "value"), [
    (901.0, "osd", "osd_mclock_iops_capacity_threshold_hdd", 992),
    (901.0, "osd/class:hdd", "osd_mclock_iops_capacity_threshold_hdd", 992),
    (30.5, "osd", "osd_mclock_iops_capacity_low_threshold_hdd", 27),
])
def test_a_threshold_that_is_set_as_advised_is_the_one_that_counts(iops, who, name, value):
    taken = measured(0, iops, iops, iops, iops_min=50.0, iops_max=500.0)
    (found,) = advise(on_one_host(taken, osds=1))
    assert f"`ceph config set osd {name} {value}`" in found.warnings[0]
    (now,) = advise(on_one_host(taken, osds=1, entries=[(who, name, str(value))]))
    assert now.changes
    assert name in NAMES  # the mgr reads it from the config database


OWN = [(f"osd.{i}", HDD, "350") for i in range(4)]


APART = [(100.0, 101.0, 102.0), (400.0, 401.0, 402.0)]
A_SEVENTH = [(300.0, 301.0, 302.0), (343.0, 344.0, 345.0)]
ALIKE = [(300.0 + i, 301.0 + i, 302.0 + i) for i in range(3)]


@pytest.mark.parametrize(("iops", "osds", "words"), [
    (APART, 2, ["osd.0 (96 to 106 IOPS), osd.1 (382 to 421 IOPS) would be set to 201"]),
    (APART, 4, ["osd.0 (96 to 106 IOPS), osd.1 (382 to 421 IOPS) would be set to 201",
                "2 OSDs: interval 0-"]),
    ([(60.0, 450.0, 60.0, 450.0)], 1, ["osd.0: interval 26-1046 IOPS is too wide",
                                       "with more --calls"]),
    (A_SEVENTH, 3, ["measure more of its OSDs"]),
    ([*ALIKE, (150.0, 151.0, 152.0)], 4, ["osd.3 (144 to 159 IOPS) would be set to"]),
], ids=["apart", "apart, of four", "noise", "a third is not measured", "one stands apart"])
def test_osds_of_one_drive_model_that_lie_apart_are_told_no_value_between_them(iops, osds, words):
    each = (measured(i, *found) for i, found in enumerate(iops))
    (found,) = advise(facts(*each, osds=osds, entries=OWN[:osds]))
    assert (found.iops, found.changes) == (None, ())
    text = " ".join(found.warnings)
    assert all(word in text for word in words), text
    assert ("2 OSDs: interval 0-" in text) == (iops is APART and osds == 4)


def test_two_osds_a_seventh_apart_say_enough_of_themselves():
    two = (measured(i, *found) for i, found in enumerate(A_SEVENTH))
    (found,) = advise(facts(*two, osds=2, entries=OWN[:2]))
    assert commands(found)[0] == f"ceph config set osd/class:hdd {HDD} 322"


def test_one_measured_osd_of_several_says_no_more_of_the_others_than_two_that_are_apart():
    for found in (advise(on_one_host(measured(0)))[0], advise(on_one_host(measured(0), osds=2))[0]):
        assert (found.iops, found.changes) == (None, ())
        assert "osd.0 alone of" in found.warnings[0]
    (alone,) = advise(on_one_host(measured(0), osds=1))
    assert commands(alone) == [f"ceph config set osd/class:hdd {HDD} 302"]


@pytest.mark.parametrize(("more", "words"), [
    ({"wanted": {("hdd", MODEL): CacheMode.WRITE_BACK}}, "write back is recommended"),
    ({"entries": [("osd", "osd_mclock_force_run_benchmark_on_init", "true")]},
     "bench themselves at every start"),
])
def test_what_undoes_the_change_later_is_named(more, words):
    (found,) = advise(facts(measured(0), **more))
    assert words in " ".join(found.warnings)


def placed(*entries, known=True):
    """Three measured OSDs, each on a host of its own; osd.1 and osd.2 are in rack r1."""
    found = facts(*(measured(i) for i in (0, 1, 2)), osds=3, entries=entries)
    rack = {0: "r0", 1: "r1", 2: "r1"}
    return replace(found, osds={
        i: replace(osd, location=(("host", f"h{i}"), ("rack", rack[i]), ("root", "default")))
        if known else osd
        for i, osd in found.osds.items()
    })


@pytest.mark.parametrize(("who", "covered"), [
    ("osd/rack:r1", "osd.1, osd.2"),
    ("osd/root:default", "osd.0, osd.1, osd.2"),
    ("osd/host:h1/class:hdd", "osd.1"),
    ("osd.2/rack:r1", "osd.2"),
])
def test_each_entry_that_overrides_the_class_is_named_with_whom_it_covers(who, covered):
    (found,) = advise(placed((who, HDD, "5000")))
    (line,) = found.warnings
    assert line.startswith(f"{who} (5000) takes precedence over the class for {covered}, so")
    assert f"ceph config rm {who} {HDD}" in line


@pytest.mark.parametrize("who", [
    "osd/rack:r9", "osd/row:r1", "osd/host:h1/class:ssd", "global/host:h1", "host:h1",
    "osd.7/rack:r1", "osd",
])
def test_what_covers_none_of_the_class_or_is_weaker_is_not_named(who):
    (found,) = advise(placed((who, HDD, "5000")))
    assert found.warnings == ()


@pytest.mark.parametrize(("known", "removed", "said"), [
    (True, [f"ceph config rm osd.0 {HDD}"], "; until then osd.1, osd.2 keep their own keys"),
    (False, [], "may take precedence over the class for osd.0, osd.1, osd.2, whose CRUSH"),
], ids=["in a rack", "who knows where"])
def test_an_osd_that_would_not_take_the_class_or_may_not_keeps_its_own_key(known, removed, said):
    own = [(f"osd.{i}", HDD, "120") for i in range(3)]
    (found,) = advise(placed(("osd/rack:r1", HDD, "5000"), *own, known=known))
    assert commands(found) == [f"ceph config set osd/class:hdd {HDD} 302", *removed]
    assert said in found.warnings[0]


# ---- what is stale


def test_a_value_older_than_a_change_of_mode_is_found_and_named():
    known = {("osd.1", HDD): Known("osd.1", HDD, "300", "write back")}
    (found,) = stale(facts(entries=[("osd.1", HDD, "300")], known=known))
    assert (found.code, found.subject) == (FindingCode.MCLOCK_STALE, "class hdd")
    assert "osd.1 was stored while the drives were in write back" in found.detail
    assert found.detail.endswith(
        "`ceph wcache campaign start --loads=capacity --scope=class:hdd --accept-cost`, then `ceph "
        "wcache plan --knob=mclock --scope=class:hdd`")


@pytest.mark.parametrize(("value", "setting", "changes"), [
    ("300", "write through", {}), ("300", "", {}), ("200", "write back", {}),
    ("300", "write back", {"compiled_queue": "wpq"}),
    ("300", "write back", {"settings_": {1: ""}}),
])
def test_what_is_not_known_to_be_older_is_no_finding(value, setting, changes):
    known = {("osd.1", HDD): Known("osd.1", HDD, value, setting)}
    assert stale(facts(entries=[("osd.1", HDD, "300")], known=known, **changes)) == ()


def test_a_value_outside_of_what_one_call_gives_is_found_by_three_of_the_drive_model():
    three = [measured(i) for i in (0, 1, 2)]
    (found,) = stale(facts(*three, entries=[("osd.3", HDD, "900"), ("osd.0", HDD, "305")]))
    assert "osd.3 is outside of what was measured in write through" in found.detail
    assert "osd.0" not in found.detail
    assert stale(facts(*three[:2], entries=[("osd.3", HDD, "900")])) == ()


def test_a_value_is_judged_only_where_an_osd_takes_it():
    # what stands between lets the own keys override the class (ConfigMap.cc)
    entries = [("osd/class:hdd", HDD, "900"), ("osd", "osd_op_queue_cut_off", "high"),
               *((f"osd.{i}", HDD, "300") for i in range(4))]
    three = [measured(i) for i in (0, 1, 2)]
    assert stale(facts(*three, entries=entries)) == ()
    (found,) = stale(facts(*three, entries=entries[:5]))
    assert "osd/class:hdd for osd.3" in found.detail
    # a new drive comes with its cache on; the value of its class is of drives with it off
    of_class = Known("osd/class:hdd", HDD, "900", "write through")
    (found,) = stale(facts(
        entries=entries[:1], known={(of_class.who, HDD): of_class}, settings_={3: "write back"}
    ))
    assert "osd/class:hdd for osd.3 was stored while the drives were in write through" in (
        found.detail)


@pytest.mark.slow
def test_ten_thousand_stale_keys_are_one_finding():
    count = 10_000
    known = {(f"osd.{i}", HDD): Known(f"osd.{i}", HDD, "300", "write back") for i in range(count)}
    found = stale(facts(
        osds=count, entries=[(f"osd.{i}", HDD, "300") for i in range(count)], known=known
    ))
    assert len(found) == 1
    assert "and 9992 more" in found[0].detail


@pytest.mark.parametrize(("hosts", "sizes"), [
    (1, [1]), (3, [1, 1, 1]), (32, [1, *[2] * 15, 1]), (1000, [1, 2, 4, 8, 16, *[32] * 30, 9]),
])
def test_a_plan_has_few_changes_that_grow_the_class_first_and_leaves_out_no_key(hosts, sizes):
    _, cluster = make.fleet(hosts, 2)
    keys = [ConfigEdit(f"osd.{osd_id}", HDD, None, "120.5") for osd_id in sorted(cluster.osds)]
    edits = (ConfigEdit("osd/class:hdd", HDD, "301", None), *keys)
    advice = Advice("hdd", HDD, 301, (), (), edits, ())
    wanted = make_changes(Asked("p1", "n"), [advice], cluster, Config(()))
    assert [len(c.edits) for c in wanted.changes] == [1, *(2 * size for size in sizes)]
    assert wanted.changes[0].edits == edits[:1]
    assert sorted(e.who for c in wanted.changes[1:] for e in c.edits) == sorted(
        e.who for e in keys)
    advice = replace(advice, changes=())
    assert make_changes(Asked("p1", "n"), [advice], cluster, Config(())) == Wanted((), ())


# ---- whose word


OSDS_OF_ONE_HOST = {0: "h0", 1: "h0", 2: "h1", 3: "h2"}


@pytest.mark.parametrize(("osd_ids", "is_set"), [
    ((0,), False), ((0, 1), False),  # two OSDs of a host are one word
    ((0, 2), True), ((2, 3), True), ((0, 1, 2, 3), True),
])
def test_a_value_for_osds_of_several_hosts_needs_the_word_of_two(osd_ids, is_set):
    found = facts(*map(measured, osd_ids))
    found = replace(found, osds={
        i: replace(osd, hostname=OSDS_OF_ONE_HOST[i]) for i, osd in found.osds.items()
    })
    (advice,) = advise(found)
    assert bool(advice.changes) is is_set
    assert (advice.iops is not None) is is_set
    said = "only h" in str(advice.warnings) and "a second host must confirm it" in str(
        advice.warnings
    )
    assert said is not is_set
    assert is_set or "campaign start --loads=capacity --scope=host:h1" in str(advice.warnings)


def test_the_value_of_a_class_needs_two_hosts_where_others_have_drive_models_nobody_measured():
    found = facts(measured(0), osds=2, models_={1: OTHER})
    (advice,) = advise(found)
    assert not advice.changes
    assert "class hdd: only h0 reached this value" in str(advice.warnings)


def test_a_measurement_counts_for_the_host_that_ceph_has_for_its_osd_whatever_a_key_is_called():
    one, two = measured(0, hostname="a key"), measured(1, hostname="another key")
    found = facts(one, two, osds=4)
    osds = {i: replace(osd, hostname="h9" if i < 2 else "h") for i, osd in found.osds.items()}
    assert not advise(replace(found, osds=osds))[0].changes

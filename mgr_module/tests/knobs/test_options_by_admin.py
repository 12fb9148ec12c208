"""What an admin's plan may name, whom it reaches, and what it refuses; nobody else changes it."""

from dataclasses import replace

import pytest
from bcache_world import HOSTS, a_mgr, backing, begun, plan_now, planned, retold, values
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import change_osd, ok, refused, said, until
from rollout_world import plan_of
from wcache.core.change.change import Change
from wcache.core.errors import RefusedError
from wcache.core.hardware import DEVICES_MAX, BcacheState, OptionValue
from wcache.core.host_report import PowerCut
from wcache.core.model import (
    CacheMode,
    DeviceCache,
    KernelView,
    LoadPoint,
    Transport,
    Verdict,
)
from wcache.core.options.entries import OPTIONS, OptionTrial, option
from wcache.core.options.option import Follow, SharedCache, shared_cache
from wcache.core.protocol import DrivesOutcome
from wcache.core.setting.domain_settings import OptionSetting
from wcache.core.setting.setting import CacheDomain
from wcache.core.verdict.option_choice import OptionVerdict, by_kind
from wcache.knobs.options.osds import Refusals

BACK = option("cache_mode")


def unplanned(mgr, **arguments):
    """Why no plan is made."""
    return refused(mgr, "plan", **arguments)


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("cache_mode", "is not OPTION=VALUE"), ("cache_mode=", "is not OPTION=VALUE"),
        ("cache_mode=none", "its values are writethrough|writeback|writearound"),
        ("cache_mode=writeback,none", "its values are"), ("fua=1", "durable"),
        ("write_cache=write back", "durable"), ("cache_type=write back", "durable"),
        ("scheduler=none", "scheduler goes by verdicts"),
        ("osd_mclock_profile=balanced", "`ceph wcache ab osd_mclock_profile=A,B`"),
        ("max_sectors_kb=4", "there is no option"),
    ],
)
def test_only_what_is_left_to_admins_may_be_named(named, words):
    mgr = a_mgr()
    assert words in unplanned(mgr, knob="options", option=named)
    assert said(mgr, "plan ls")["plans"] == []


@pytest.mark.parametrize("knob", [None, "cache_mode", "memory", "all"])
def test_it_is_in_no_plan_of_another_knob(knob):
    more = {} if knob is None else {"knob": knob}
    error = unplanned(a_mgr(), option="cache_mode=writethrough", **more)
    assert f"--option names nothing of the knob {knob or 'cache_mode'}" in error
    assert "`ceph wcache plan --knob=options --option=OPTION=VALUE`" in error


@pytest.mark.parametrize(
    ("scope", "reached"),
    [
        ("cluster", ["h0 sda", "h0 sdb", "h1 sda", "h1 sdb"]), ("host:h1", ["h1 sda", "h1 sdb"]),
        ("osd.2", ["h1 sda"]), ("model:Cache", []),
        ("class:hdd,model:HD1,host:h0", ["h0 sda", "h0 sdb"]),
    ],
)
def test_it_reaches_the_backing_drives_of_a_scope(scope, reached):
    plan = planned(a_mgr("writeback"), "writearound", scope=scope)
    assert [f"{c['hostname']} {c['dev_names'][0]}" for c in plan["changes"]] == reached
    assert plan["left_alone"] == ([] if reached else [
        "no OSD that is asked for is on the backing drive of a bcache device"
    ])


def test_what_has_the_mode_already_is_left_alone_with_that_reason():
    mgr = a_mgr("writethrough")
    mgr.probes["h0"].drives["domain-sda"] = backing("sda", 0, "bcache0", "writearound")
    retold(mgr)
    plan = planned(mgr, "writethrough")
    assert [c["expected"] for c in plan["changes"]] == ["writearound"]
    assert plan["left_alone"] == [
        f"{where}: cache_mode is writethrough already" for where in ("h0 sdb", "h1 sda", "h1 sdb")
    ]


def test_a_mode_that_is_not_told_is_left_alone():
    mgr = a_mgr()
    drive = mgr.probes["h0"].drives["domain-sda"]
    mgr.probes["h0"].drives["domain-sda"] = replace(
        drive, state=replace(drive.state, options=())
    )
    retold(mgr)
    plan = planned(mgr, "writearound", scope="osd.0")
    assert plan["changes"] == []
    assert "cache_mode cannot be read" in plan["left_alone"][0]


def a_cache(*names, **more):
    return make.drive("nvme0n1", 0, bcache=tuple(BcacheState(n, True, "none") for n in names),
                      **more)


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ((), "none is attached, or the probe does not see it"),
        ((a_cache("bcache1"),), "none is attached"),
        ((a_cache(*(f"bcache{i}" for i in range(DEVICES_MAX))),), "bcache devices or more"),
    ],
)
def test_where_nobody_knows_what_shares_the_cache_it_is_left_alone(beside, words):
    report = make.report("h0", backing("sda", 0, "bcache0", "writethrough"), *beside)
    with pytest.raises(RefusedError) as unknown:
        shared_cache(report, report.drives[:1])
    assert words in unknown.value.message
    mgr = a_mgr()
    mgr.probes["h0"].drives = {d.domain_id: d for d in report.drives}
    retold(mgr)
    plan = planned(mgr, "writeback", scope="host:h0")
    assert plan["changes"] == []
    assert words in plan["left_alone"][0]


def test_what_is_behind_the_same_cache_is_named_whoever_uses_it():
    """bcache2 has no OSD, and the cache is two drives together."""
    caches = [
        replace(a_cache("bcache0", "bcache1", "bcache2"), dev_name=name, serial=name.upper())
        for name in ("nvme0n1", "nvme1n1")
    ]
    report = make.report(
        "h0", backing("sda", 0, "bcache0", "writethrough"),
        make.drive("sdb", 4, 9, bcache=(BcacheState("bcache1", False, "writethrough"),)),
        make.drive("sdc", 7, bcache=(BcacheState("bcache5", False, "writeback"),)), *caches,
    )
    assert shared_cache(report, report.drives[:1]) == SharedCache(
        "h0", ("nvme0n1 (ACME HD1 1.0, serial NVME0N1)", "nvme1n1 (ACME HD1 1.0, serial NVME1N1)"),
        ("bcache0", "bcache1", "bcache2"), (0, 4, 9),
    )


def test_where_a_pool_keeps_all_copies_on_one_host_it_is_said():
    mgr = a_mgr()
    mgr.view.state = replace(mgr.view.state, failure_types=frozenset({"osd"}))
    assert planned(mgr, "writeback")["changes"][0]["shared"]["all_copies"] is True
    assert "all copies of an object may be behind one cache device" in ok(
        mgr.command("plan show", plan_id="p1")
    )
    ok(mgr.command("apply", plan_id="p1", consent_turn_on=True))
    until(mgr, lambda: plan_now(mgr)["status"] == "done")


def test_a_plan_is_of_no_use_once_something_else_shares_the_cache():
    mgr = a_mgr()
    planned(mgr, "writeback")
    cache = mgr.probes["h1"].drives["domain-nvme0n1"]
    mgr.probes["h1"].drives["domain-nvme0n1"] = replace(
        cache, bcache=(*cache.bcache, BcacheState("bcache7", True, "writeback"))
    )
    retold(mgr)
    error = refused(mgr, "apply", plan_id="p1", consent_turn_on=True)
    assert "no longer fits: h1 sda: its cache device is nvme0n1" in error
    assert "bcache0, bcache1, bcache7" in error
    mgr.settle()
    assert values(mgr) == ["writethrough"] * 4


def unflushed(mgr, host):
    change_cache(mgr, host, device_cache=DeviceCache.WRITE_BACK,
                 kernel_view=KernelView.WRITE_THROUGH)


def of_unknown_state(mgr, host):
    change_cache(mgr, host, device_cache=DeviceCache.UNKNOWN)


def change_cache(mgr, host, **changes):
    cache = mgr.probes[host].drives["domain-nvme0n1"]
    mgr.probes[host].drives["domain-nvme0n1"] = replace(
        cache, state=replace(cache.state, **changes)
    )


def lost_writes(mgr, host):
    """A power cut on one host; what it has shown is said of the model on all."""
    probe = mgr.probes[host]
    told, cache = probe.report, probe.drives["domain-nvme0n1"]
    cut = PowerCut(
        "ab" * 16, cache.drive_id, cache.drive_model, CacheMode.WRITE_BACK, 5000, 4000, 37,
        mgr.now_s, True,
    )
    probe.report = lambda: replace(told(), power_cuts=(cut,))


# what is wrong with the cache device of h1, and what is said of it
UNSAFE = [
    (unflushed, "its cache is volatile and disk does not flush"),
    (of_unknown_state, "whether its cache is volatile is unknown"),
    (lost_writes, "was shown to lose writes: h1: wwn-nvme0n1 lost 37 acknowledged writes"),
]
EACH_UNSAFE = pytest.mark.parametrize(("happens", "words"), UNSAFE)
NAMED = "the cache device nvme0n1 (ACME Cache 1.0, serial SN1) may not hold alone what is"


@EACH_UNSAFE
def test_no_plan_names_writeback_above_a_cache_device_that_can_lose_writes(happens, words):
    mgr = a_mgr()
    happens(mgr, "h1")
    retold(mgr)
    plan = planned(mgr, "writeback", scope="host:h1")
    assert plan["changes"] == []
    for name, line in zip(("sda", "sdb"), plan["left_alone"]):
        assert f"h1 {name}: {NAMED}" in line
        assert words in line
    text = ok(mgr.command("plan", knob="options", option="cache_mode=writeback"))
    assert words in " ".join(text.split())
    assert len(planned(mgr, "writearound", scope="host:h1")["changes"]) == 2


@EACH_UNSAFE
def test_a_plan_made_before_is_not_applied_and_not_printed_to_be_done_by_hand(happens, words):
    mgr = a_mgr()
    plan = planned(mgr, "writeback", scope="host:h1")
    by_hand = [line for change in plan["changes"] for line in change["manual"]]
    assert "echo writeback > /sys/block/bcache0/bcache/cache_mode  # kept over a reboot" in by_hand
    happens(mgr, "h1")
    retold(mgr)
    error = refused(mgr, "apply", plan_id="p1", consent_turn_on=True)
    assert f"no longer fits: h1 sda: {NAMED}" in error
    assert words in error
    text = ok(mgr.command("plan show", plan_id="p1"))
    assert f"no longer fits: h1 sda: {NAMED}" in text
    assert "echo writeback" not in text
    assert [c["manual"] for c in plan_now(mgr)["changes"]] == [[], []]
    assert words in said(mgr, "apply", plan_id="p1", dry_run=True)["moved"][0]
    assert values(mgr) == ["writethrough"] * 4


@pytest.mark.slow
@EACH_UNSAFE
def test_the_look_before_each_change_asks_what_apply_asked(happens, words):
    mgr = a_mgr()
    begun(mgr, "writeback")
    until(mgr, lambda: values(mgr)[0] == "writeback")
    happens(mgr, "h1")
    mgr.inside.hosts.reported_at_s.clear()
    until(mgr, lambda: plan_now(mgr)["status"] not in ("running",))
    assert plan_now(mgr)["status"] == "paused"
    assert "nvme0n1 (ACME Cache 1.0, serial SN" in plan_now(mgr)["reason"]
    assert words in plan_now(mgr)["reason"]
    assert values(mgr)[2:] == ["writethrough"] * 2
    assert words in refused(mgr, "rollout resume", plan_id="p1")


def test_what_was_agreed_to_is_asked_again_before_each_change():
    mgr = a_mgr()
    begun(mgr, "writeback")
    until(mgr, lambda: values(mgr)[0] == "writeback")
    cache = mgr.probes["h1"].drives["domain-nvme0n1"]
    mgr.probes["h1"].drives["domain-nvme0n1"] = replace(
        cache, bcache=(*cache.bcache, BcacheState("bcache7", True, "writeback"))
    )
    mgr.inside.hosts.reported_at_s.clear()
    until(mgr, lambda: plan_now(mgr)["status"] != "running")
    assert plan_now(mgr)["status"] == "paused"
    assert "bcache0, bcache1, bcache7 under osd.2, osd.3 now" in plan_now(mgr)["reason"]
    assert values(mgr) == ["writeback"] * 2 + ["writethrough"] * 2


def test_away_from_it_nothing_is_asked_and_it_is_not_printed_to_be_undone_by_hand():
    mgr = a_mgr("writeback")
    unflushed(mgr, "h1")
    retold(mgr)
    plan = planned(mgr, "writethrough", scope="host:h1")
    assert len(plan["changes"]) == 2
    assert not any("echo writeback >" in line for c in plan["changes"] for line in c["manual"])
    other = planned(mgr, "writethrough", scope="host:h0")
    assert all(
        any("echo writeback >" in line for line in c["manual"]) for c in other["changes"]
    )


@pytest.mark.parametrize("mode", ["writeback", "writearound"])
def test_it_is_not_tried(mode):
    mgr = a_mgr()
    planned(mgr, mode)
    error = refused(mgr, "apply", plan_id="p1", trial=True, consent_turn_on=True)
    assert "cache_mode is not tried" in error
    assert values(mgr) == ["writethrough"] * 4


def a_change(value="writeback"):
    domain = CacheDomain("h0", "domain-sda", ("sda",), Transport.SCSI, (0,), ("wwn-sda",))
    return Change(
        "p1.0.x", OptionSetting(domain, "cache_mode", "writethrough", value), "hdd", "",
        load_point=LoadPoint.OSD_BENCH_DEPTH1,
    )


@pytest.mark.parametrize("consent", [False, True])
def test_the_machine_asks_for_the_consent_too_whoever_began_the_plan(consent):
    change = a_change()
    warrant = plan_of(change, consent_writeback=consent).warrant(change)
    seen, why = change.looked(
        DrivesOutcome((backing("sda", 0, "bcache0", "writethrough"),)), warrant
    )
    assert (why == "", seen.prior.known) == (consent, consent)
    assert change.setting.apply(warrant).agreed == (change.setting.shared if consent else None)
    assert a_change("writearound").setting.apply(warrant).agreed is None


def test_nobody_but_an_admin_plans_it_and_no_verdict_speaks_for_it():
    assert [one for one in OPTIONS if one.follow is Follow.ADMIN] == [BACK]
    for entry in OPTIONS:
        why = Refusals(True).why(entry, "x", ("hdd", "m"), ("h0", "d"))
        assert (why == "") is (entry.follow is Follow.AUTO)
    told = OptionVerdict(
        OptionTrial("cache_mode", "writeback", "writethrough"), "hdd", "ACME",
        LoadPoint.OSD_TRAFFIC, False, Verdict.A, "", 3, None, None, None, "", (),
    )
    assert by_kind([told], on_host=True) == {}
    nr = replace(told, trial=OptionTrial("nr_requests", "64", "128"))
    assert len(by_kind([told, nr], on_host=True)) == 1


def test_each_host_of_a_plan_is_a_failure_domain_of_its_own():
    mgr = a_mgr("writeback")
    begun(mgr, "writethrough")
    waves = plan_now(mgr)["waves"]
    assert [wave["size"] for wave in waves] == [1, 1, 2]
    assert {c["failure_domain"] for c in plan_now(mgr)["changes"]} == {f"host {h}" for h in HOSTS}


@pytest.mark.parametrize(("prefix", "more", "advice"), [
    ("campaign start", {}, "add `timer` or `4m`"),
    ("ab", {"option": "nr_requests=32,64"}, "add `traffic`, while clients write"),
])
def test_where_a_load_touches_no_drive_one_is_named_that_may_be_given(prefix, more, advice):
    drive = make.drive("sda", 0, rotational=True)
    state = replace(drive.state, options=(OptionValue("nr_requests", "32"),))
    mgr = FakeMgr(("h1", (replace(drive, state=state),)))
    mgr.report_all()
    change_osd(mgr, 0, dedicated_db=True, rotational=True)
    assert f"touches a drive in the scope: {advice}" in refused(mgr, prefix, loads="batch", **more)

"""What all would gain stands over `status`; under `auto recommend` it is a finding too."""

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, apply_plan, measured, ok, said, settled
from wcache.ceph.health import health_checks
from wcache.engine import world
from wcache.services import outlook

CODE = "WCACHE_RECOMMENDATION"
GAIN = "1 drive model would commit 4.9 to 5.1 times as fast with the cache off"


def summary(mgr):
    return said(mgr, "status")["summary"]


def checks(mgr):
    return health_checks(mgr.views.findings(), mgr.views.headlines())


def test_the_bare_command_names_what_is_wrong():
    mgr = FakeMgr(("h1", (make.unsafe_drive(), make.drive("sdb", 1))))
    mgr.report_all()
    assert "\nerrors: WCACHE_UNSAFE; what to do: `ceph wcache status`" in ok(mgr.command(""))


@pytest.mark.parametrize("frozen", [False, True])
def test_a_drive_that_loses_data_comes_before_all_that_could_be_measured_or_thawed(frozen):
    mgr = FakeMgr(("h1", (make.unsafe_drive(), make.drive("sdb", 1))))
    mgr.report_all()
    if frozen:
        ok(mgr.command("freeze"))
    follows = "ceph health detail  # WCACHE_UNSAFE says which drives lose data, and what ends that"
    assert summary(mgr)["next"] == follows
    sound = FakeMgr(("h1", (make.drive("sda", 0), make.drive("sdb", 1))))
    sound.report_all()
    assert summary(sound)["next"] == "ceph wcache try"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["off", "apply"])
def test_a_recommendation_enters_health_under_auto_recommend_alone(mode):
    mgr = measured(auto_quiet_s=1e9)
    assert CODE not in checks(mgr)
    ok(mgr.command("auto", mode="recommend"))
    check = checks(mgr)[CODE]
    assert (check["severity"], check["summary"]) == ("warning", f"{GAIN} (3 drives)")
    assert check["detail"][0].startswith(
        "class hdd, drive model ACME HD1 1.0: 3 drives would commit 4.9 to 5.1 times as fast with "
        "the cache off"
    )
    ok(mgr.command("auto", mode=mode))
    assert CODE not in checks(mgr)


@pytest.mark.slow
def test_try_ends_by_offering_auto_recommend_where_it_is_off():
    mgr = measured()
    ok(mgr.command("try", accept_cost=True))
    mgr.settle()
    offered = "ceph wcache auto recommend"
    assert offered in ok(mgr.command("try"))
    ok(mgr.command("auto", mode="recommend"))
    assert offered not in ok(mgr.command("try"))


@pytest.mark.slow
def test_it_is_gone_while_it_is_carried_out_and_after_and_back_after_a_rollback():
    mgr = measured(auto_quiet_s=1e9)
    ok(mgr.command("auto", mode="recommend"))
    apply_plan(mgr)
    assert CODE not in checks(mgr)
    settled(mgr)
    assert CODE not in checks(mgr)
    ok(mgr.command("rollback"))
    settled(mgr)
    assert CODE in checks(mgr)


def test_it_is_of_the_classes_that_auto_may_recommend_for():
    mgr = measured(auto_quiet_s=1e9)
    ok(mgr.command("auto", mode="recommend", scope="class:hdd"))
    assert CODE in checks(mgr)
    ok(mgr.command("auto", mode="off", scope="class:hdd"))
    assert CODE not in checks(mgr)


def test_a_big_fleet_is_looked_at_anew_only_now_and_then(monkeypatch):
    monkeypatch.setattr(outlook, "DRIVES_AT_ONCE_MAX", 2)
    mgr = measured()
    assert summary(mgr)["cache_off"]["drives"] == 3
    for probe in mgr.probes.values():
        probe.latency_ns = {WB: 1, WT: 1}
    asked = []
    ask = world.recommend
    monkeypatch.setattr(world, "recommend", lambda *about: asked.append(1) or ask(*about))
    for _ in range(3):
        summary(mgr)
    assert asked == []
    mgr.now_s += outlook.KEEP_S
    summary(mgr)
    assert asked == [1]

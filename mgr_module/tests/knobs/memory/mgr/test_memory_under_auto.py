"""`auto apply` and memory: a host whose OSDs changed is divided anew, inside windows and limits."""

from dataclasses import replace

import pytest
from memory_world import GIB, TARGET, a_mgr, settled_caches, watch
from mgr_fakes import builders as make
from mgr_fakes.memory import LruOsd, uniform
from mgr_fakes.probe import FakeProbe
from module_world import codes, fine, ok, said
from wcache.core.hardware import HostMemory
from wcache.knobs.memory.trial_result import TrialResult, TrialVerdict

pytestmark = pytest.mark.slow  # whole rollouts

RAM_BYTES = int(7.8 * GIB)


def divided(told=(), **options):
    """Hosts whose memory an admin's plan has divided, under `auto apply`, by what trials told."""
    mgr = a_mgr(**{"ram_bytes": RAM_BYTES, **options}, hosts=3, memory_floor=GIB,
                canary_wait_s=0.0, memory_step_s=5.0, auto_quiet_s=0.0)
    mgr.memory.facts.results = told
    ok(mgr.command("auto", mode="apply"))
    go_on(mgr)
    watch(mgr)
    plan_id = said(mgr, "plan", knob="memory")["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    go_on(mgr)
    assert said(mgr, "plan show", plan_id=plan_id)["status"] == "done"
    settled_caches(mgr)
    return mgr


def go_on(mgr):
    for _ in range(3):
        mgr.steps(120, 6.0)
        mgr.settle()
        mgr.inside.hosts.reported_at_s.clear()
        mgr.report_all()


def add_osd(mgr, host="h1", osd_id=6, name="sdz"):
    """Another OSD of the starved class."""
    mgr.view.state = replace(mgr.view.state, osds={
        **mgr.view.state.osds,
        osd_id: replace(
            make.osd(osd_id, host, uuid=f"u{osd_id}"), device_class="hdd",
            location=(("host", host), ("root", "default")),
        ),
    })
    mgr.osd_memory.osds[osd_id] = LruOsd(uniform(6 * GIB, 40e6))
    mgr.osd_memory.hosts[host] = {"osd": 3}
    drive = make.drive(name, osd_id)
    mgr.probes[host].drives[drive.domain_id] = drive
    mgr.report_all()
    settled_caches(mgr)


def plans(mgr):
    """Those of memory, with who asked for them."""
    return [
        m.rollout for m in mgr.inside.rollouts.values()
        if any(change.setting.knob == "memory" for change in m.rollout.config_changes)
    ]


def given(mgr, host):
    osds = mgr.view.cluster().osds.values()
    return sum(mgr.osd_memory.target_of(o.osd_id) for o in osds if o.hostname == host)


def test_a_new_osd_changes_the_division_of_its_host_alone():
    mgr = divided()
    before = {key: value for key, value in mgr.config.kept.items() if key[1] == TARGET}
    add_osd(mgr)
    assert given(mgr, "h1") > 0.8 * RAM_BYTES
    go_on(mgr)
    settled_caches(mgr)
    first, *more = plans(mgr)
    assert first.by == "admin"
    (plan,) = more
    assert (plan.by, plan.status.value) == ("auto", "done")
    assert given(mgr, "h1") <= 0.8 * RAM_BYTES
    after = {key: value for key, value in mgr.config.kept.items() if key[1] == TARGET}
    assert {key for key in after if after[key] != before.get(key)} <= {
        ("osd/host:h1/class:hdd", TARGET), ("osd/host:h1/class:ssd", TARGET)}
    assert "its memory is divided anew" in ok(mgr.command("history", what=plan.plan_id))
    assert "WCACHE_MEMORY_STALE" not in codes(mgr)
    go_on(mgr)
    assert len(plans(mgr)) == 2  # it is done
    fine(mgr)


def test_nothing_is_divided_outside_the_windows():
    mgr = divided()
    mgr.options = replace(mgr.options, auto_windows="sun 03:00-03:01")
    add_osd(mgr)
    go_on(mgr)
    assert len(plans(mgr)) == 1
    assert "auto_" in said(mgr, "auto status")["waiting"]


def test_a_class_that_is_not_left_to_the_automation_keeps_its_host_as_it_is():
    mgr = divided()
    ok(mgr.command("auto", mode="recommend", scope="class:ssd"))
    add_osd(mgr)
    go_on(mgr)
    would = ok(mgr.command("auto", mode="apply", dry_run=True))
    assert "divide the memory of host h1 anew" in would
    assert len(plans(mgr)) == 1
    assert "WCACHE_MEMORY_STALE" in codes(mgr)


def test_a_small_host_that_joins_a_class_with_a_target_of_a_plan_is_divided_by_itself():
    trial = TrialResult(
        "t1", "hdd", 1_000_000.0, 4 * GIB, 8 * GIB, (0, 1), 100.0, 0.1, 0.1, 0.1,
        TrialVerdict.GAIN,
    )
    mgr = divided(classes=("hdd",), each=2, ram_bytes=32 * GIB, told=(trial,))
    assert float(mgr.config.kept["osd/class:hdd", TARGET]) == 8 * GIB
    mgr.probes["h9"] = FakeProbe(mgr.send, "h9", ())
    mgr.probes["h9"].memory = HostMemory(16 * GIB)
    mgr.probes["h9"].turn(2)
    for osd_id in (10, 11, 12):
        add_osd(mgr, "h9", osd_id, f"sd{osd_id}")
    assert given(mgr, "h9") == 24 * GIB
    go_on(mgr)
    settled_caches(mgr)
    assert given(mgr, "h9") <= 0.8 * 16 * GIB
    assert given(mgr, "h0") == 16 * GIB
    assert [plan.by for plan in plans(mgr)] == ["admin", "auto"]


def test_memory_that_nobody_has_divided_is_left_alone():
    mgr = a_mgr(hosts=3, ram_bytes=RAM_BYTES, memory_floor=GIB, auto_quiet_s=0.0)
    ok(mgr.command("auto", mode="apply"))
    add_osd(mgr)
    go_on(mgr)
    assert plans(mgr) == []

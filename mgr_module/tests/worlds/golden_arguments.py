"""Stories for the goldens: commands with the arguments that the other stories leave out."""

from dataclasses import replace

import bcache_world
from compared_world import slow_with, tunable
from memory_world import GIB, to_its_end, watch
from memory_world import a_mgr as a_mgr_with_memory
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import applied, measured_anew, ok, settled, start, taken_over, until
from wcache.core.hardware import BcacheState, OptionValue
from wcache.core.options.entries import DRAINS

MEASURE = {
    "scope": "host:h1", "loads": "depth1", "pairs": 4, "drives_per_model": 1,
    "override": "cluster_healthy",
}


def looks(say):
    """What only shows, narrowed or in full."""
    mgr = applied(measured_anew())
    say(mgr, "drive ls", scope="host:h1")
    say(mgr, "drive ls", all=True)
    say(mgr, "status", all=True)
    say(mgr, "drive reload", scope="host:h2")
    say(mgr, "agent ls", all=True)
    say(mgr, "recommend", scope="class:hdd")
    say(mgr, "plan show", plan_id="p1", all=True)
    say(mgr, "history", scope="host:h1", limit=2)
    say(mgr, "history", scope="osd.0", since="1d")
    say(mgr, "history", drive="sda", what="p1")


def campaigns_with_more(say):
    """Campaigns of one host, as many drives and pairs as is said."""
    more = {**MEASURE, "seed": 1, "consent_turn_on": True}
    mgr = measured_anew()
    say(mgr, "campaign start", dry_run=True, recheck=True, observe=False, **more)
    say(mgr, "campaign start", recheck=True, accept_cost=True, **more)
    mgr.settle()
    say(mgr, "campaign start", dry_run=True, observe=True, loads="traffic")
    say(mgr, "campaign start", dry_run=True, loads="capacity", calls=3)
    say(mgr, "campaign start", loads="capacity", calls=3, accept_cost=True)
    mgr.settle()
    say(mgr, "auto", mode="apply", scope="class:hdd", dry_run=True)
    say(mgr, "try", scope="osd.0")
    say(mgr, "try", scope="osd.0", dry_run=True)
    say(mgr, "try", scope="osd.0", accept_cost=True)
    mgr.settle()
    say(mgr, "agent add", hostname="h1", run_by="systemd", image="quay.io/ceph/ceph:v20")
    say(mgr, "agent add", hostname="h1", dry_run=True)
    say(mgr, "agent add", hostname="h1", run_by="cephadm", image="quay.io/ceph/ceph:v20")
    say(mgr, "agent rm", hostname="h1", host_is_gone=True)


def plans_with_more(say):
    """Plans that are narrowed, forgotten, overridden, made to last, tried and rolled back."""
    mgr = measured_anew()
    model = str(make.MODEL)
    say(mgr, "plan", scope=f"class:hdd,host:h1,model:{model}", dry_run=True)
    say(
        mgr, "plan", scope="osd.0", consent_turn_on=True, persist=True, without="h2:sdc",
        dry_run=True,
    )
    say(mgr, "plan", knob="cache_mode")
    for dry_run in (True, False):
        say(mgr, "plan rm", plan_id="p1", dry_run=dry_run)
    ok(mgr.command("plan", persist=True))
    say(mgr, "apply", plan_id="p2", trial=True, dry_run=True)
    say(mgr, "apply", plan_id="p2", persist=True, override="client_load", dry_run=True)
    say(mgr, "apply", plan_id="p2", persist=True, override="client_load")
    mgr.steps(12)
    ok(mgr.command("rollout pause", plan_id="p2"))
    for _ in range(200):
        mgr.step()
        if mgr.inside.rollouts["p2"].paused:
            break
    say(mgr, "rollout resume", plan_id="p2", override="gate_decided")
    settled(mgr)
    for dry_run in (True, False):
        say(mgr, "rollback", plan_id="p2", dry_run=dry_run)
    mgr.settle()
    say(mgr, "rollout show", plan_id="p2")


def options(say):
    """Two values of an option, from their cost to their verdict, a plan and its way back."""
    mgr = FakeMgr(*((f"h{i}", (tunable(i),)) for i in range(3)))
    slow_with(mgr, "mq-deadline")
    mgr.report_all()
    two = {
        "option": "scheduler=none,mq-deadline", "scope": "cluster", "loads": "batch", "pairs": 4,
        "drives_per_model": 3, "seed": 1,
    }
    for more in (
        {"dry_run": True, "override": "cluster_healthy"}, {}, {"accept_cost": True},
    ):
        say(mgr, "ab", **two, **more)
    settled(mgr)
    say(mgr, "option ls")
    say(mgr, "campaign show", campaign_id="c1")
    say(mgr, "plan", knob="options")
    say(mgr, "apply", plan_id="p1")
    settled(mgr)
    say(mgr, "plan show", plan_id="p1")
    say(mgr, "rollback")
    mgr.settle()
    say(mgr, "rollout show", plan_id="p1")


def bcache(say):
    """bcache: an option that asks for dirty data, and its mode, which an admin names."""
    name, mode = "writeback_rate_p_term_inverse", "writeback"
    drive = make.drive("sda", 0)
    own = (OptionValue(name, "50"), OptionValue(DRAINS, "16"))
    share = BcacheState("bcache0", False, mode, 0, 10 * GIB, 10 * GIB, 4096, True)
    drive = replace(drive, state=replace(drive.state, options=own), bcache=(share,))
    cache = make.drive("sdz", bcache=(BcacheState("bcache0", True, "none"),))
    mgr = FakeMgr(("h0", (drive, cache)))
    mgr.report_all()
    say(mgr, "ab", option=f"{name}=40,4000", pairs=4, dirty_data="target", dry_run=True)
    mgr = bcache_world.a_mgr()
    say(mgr, "plan", knob="options", option=f"cache_mode={mode}", scope="host:h0")
    say(mgr, "apply", plan_id="p1")
    say(mgr, "apply", plan_id="p1", consent_turn_on=True)
    until(mgr, lambda: not mgr.engine.is_active(), seconds=1.0)
    bcache_world.retold(mgr)
    say(mgr, "plan show", plan_id="p1")
    say(mgr, "rollback", plan_id="p1")
    until(mgr, lambda: not mgr.engine.is_active(), seconds=1.0)
    say(mgr, "plan show", plan_id="p1")


def mclock(say):
    """mClock's capacities of one host, measured, stopped, applied and rolled back."""
    mgr = FakeMgr(*((f"h{i}", (make.drive("sda", i),)) for i in range(2)))
    mgr.report_all()
    mgr.step()
    some = {"scope": "cluster", "calls": 3, "drives_per_model": 2, "override": "cluster_healthy"}
    say(mgr, "campaign start", dry_run=True, loads="capacity", **some)
    say(mgr, "campaign start", loads="capacity", accept_cost=True, **some)
    mgr.step()
    for dry_run in (True, False):
        say(mgr, "campaign stop", campaign_id="c1", dry_run=dry_run)
    mgr.settle()
    ok(mgr.command("campaign start", loads="capacity", calls=3, accept_cost=True))
    mgr.settle()
    say(mgr, "mclock show", scope="class:hdd")
    say(mgr, "plan", knob="mclock", scope="class:hdd")
    for dry_run in (True, False):
        say(mgr, "apply", plan_id="p1", dry_run=dry_run)
    mgr.settle()
    for dry_run in (True, False):
        say(mgr, "rollback", plan_id="p1", dry_run=dry_run)
    mgr.settle()
    say(mgr, "mclock show")


def memory(say):
    """Memory of one host and class, taken over from cephadm, and a trial of a known length."""
    mgr = a_mgr_with_memory(ram_bytes=int(7.8 * GIB))
    mgr.surroundings.backend = "cephadm"
    taken_over(mgr)
    watch(mgr)
    mgr.memory.watch.read_at_s = mgr.now_s  # by the wall clock
    say(mgr, "memory status", scope="host:h1")
    say(mgr, "memory status", all=True)
    say(mgr, "memory recommend", scope="class:hdd")
    say(mgr, "plan", knob="memory", override="autotuner:h1")
    say(mgr, "apply", plan_id="p1")
    to_its_end(mgr)
    say(mgr, "plan show", plan_id="p1")
    say(mgr, "rollback")
    to_its_end(mgr)
    mgr = a_mgr_with_memory(hosts=3, ram_bytes=32 * GIB)
    watch(mgr)
    say(
        mgr, "memory trial start", scope="class:hdd", target_bytes=6 * GIB, osds=2, period_s=900,
        blocks=4, dry_run=True,
    )
    say(mgr, "try")
    start(mgr)
    say(mgr, "plan ls")


STORIES = {
    "25-narrowed": looks, "26-campaigns-with-more": campaigns_with_more,
    "27-plans-with-more": plans_with_more, "28-options": options, "29-bcache": bcache,
    "30-mclock-with-more": mclock, "31-memory": memory,
}

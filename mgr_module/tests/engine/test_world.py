"""A World is one frozen look: it holds still, and what follows from it needs no engine."""

import threading
from dataclasses import replace

import pytest
import wcache.engine.world
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr, cluster
from module_world import a_mgr, measured, ok, start
from wcache.commands.agents import agents, agents_text
from wcache.commands.drives import drives
from wcache.commands.findings import FindingViews
from wcache.core.errors import ConflictError, NotFoundError, RefusedError
from wcache.core.jobs import Holding, Touched
from wcache.core.model import Cure, Finding, FindingCode, Severity
from wcache.core.scope import Scope
from wcache.core.verdict.load_profile import LoadProfile
from wcache.engine.load_watch import LoadWatch
from wcache.engine.world import World
from wcache.services.guards import require_clear, require_scope, require_thawed


def a_world(**known):
    return World(1000.0, lambda: cluster([]), **known)


def test_guards_views_and_findings_follow_from_a_world_made_by_hand():
    report = FakeMgr(("h1", (make.unsafe_drive(),))).probes["h1"].report()
    world = a_world(reports={"h1": report}, reported_at_s={"h1": 990.0}, frozen=True)
    with pytest.raises(RefusedError, match="frozen"):
        require_thawed(world)
    for stop, says in (("", "wait for it"), ("end", "wait for it, or end it with `end`")):
        held = Holding("a thing", Touched(osds=frozenset({3, 4})), "thing show", stop)
        require_clear(a_world(reserved=(held,)), Touched(osds=frozenset({5})))
        with pytest.raises(ConflictError) as error:
            require_clear(a_world(reserved=(held,)), Touched(osds=frozenset({4, 5})))
        assert error.value.line() == f"a thing is under way, with osd.4 too: {says}"
    with pytest.raises(NotFoundError, match="device class"):
        require_scope(world, Scope("zzz"))
    (row,) = drives(world, "host:h1")["drives"]
    assert row["reported_s_ago"] == 10.0
    assert agents(world)["agents"] == []
    codes = {item.code.value for item in FindingViews(lambda world: ()).all(world)}
    assert {"WCACHE_UNSAFE", "WCACHE_FROZEN"} <= codes


def test_agent_ls_names_hosts_that_boot_once_and_then_measure():
    mgr = FakeMgr(*((f"h{n}", (make.drive(f"sd{n}", n),)) for n in range(3)))
    mgr.report_all()
    world = mgr.engine.world()
    waiting = Finding(
        FindingCode.NOT_PREPARED, Severity.INFO, "boot rule", "sd1: why", Cure.BOOT_ONCE
    )
    reports = {
        name: replace(report, findings=() if name == "h0" else (waiting,))
        for name, report in world.reports.items()
    }
    told = agents(replace(world, reports=reports))
    assert [row["waits"] for row in told["agents"]] == ["", *["boots once, then measures"] * 2]
    assert agents_text(told).splitlines()[-1] == "h1, h2: boots once, then measures"
    many = {**told, "agents": [*told["agents"]] * 30}
    assert "boots once, then measures" in agents_text(many)


@pytest.mark.slow
def test_a_world_holds_still_whatever_happens_after_it():
    mgr = a_mgr()
    before = mgr.engine.world()
    start(mgr)
    while not any(run.open_periods[0] for run in mgr.engine.world().runs.values()):
        mgr.step()
    during = mgr.engine.world()
    stood = [(run.state, run.open_periods, run.under_way) for run in during.runs.values()]
    mgr.settle()
    mgr.report_all()
    assert (before.runs, before.results, before.open_campaign) == ({}, {}, "")
    stands = [(run.state, run.open_periods, run.under_way) for run in during.runs.values()]
    assert stands == stood
    assert during.results == {}
    assert mgr.engine.world().results


@pytest.mark.slow
@pytest.mark.parametrize(("prefix", "most"), [
    ("status", 1), ("recommend", 1), ("try", 1), ("plan", 1), ("auto status", 1),
    ("drive ls", 1), ("campaign ls", 0), ("agent ls", 0),
    # the look before the first wave is the plan's own; in another thread it asks for verdicts
    ("apply", 3),
])
def test_a_command_fetches_the_maps_once_and_only_where_it_needs_them(monkeypatch, prefix, most):
    mgr, fetched = measured(), []
    ok(mgr.command("plan"))
    fetch = mgr.view.cluster
    monkeypatch.setattr(mgr.view, "cluster", lambda: fetched.append(prefix) or fetch())
    more = {"apply": {"plan_id": "p1"}, "try": {"dry_run": True}}
    ok(mgr.command(prefix, **more.get(prefix, {})))
    assert len(fetched) <= most


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["recommend", "status", "plan", "apply", "auto status"])
def test_advice_is_worked_out_once_and_while_others_have_the_lock(monkeypatch, prefix):
    mgr, free = measured(), []
    ok(mgr.command("plan"))
    recommend = wcache.engine.world.recommend

    def asked(*about):
        free.append(mgr.engine.free)
        return recommend(*about)

    monkeypatch.setattr(wcache.engine.world, "recommend", asked)
    ok(mgr.command(prefix, **({"plan_id": "p1"} if prefix == "apply" else {})))
    mgr.stops.join()
    # the look before the first wave is the plan's own
    assert free[:1] == [True]
    assert len(free) <= (2 if prefix == "apply" else 1)


def test_an_earlier_looks_advice_does_not_outlive_what_it_follows_from():
    mgr = measured()
    before = mgr.engine.world().advised()
    assert mgr.engine.world(before).recommendations is before.recommendations
    mgr.inside.analyses.results.clear()
    assert mgr.engine.world(before).recommendations == ()


def test_what_one_world_works_out_waits_for_no_other_world():
    """Loads are read under the engine's lock, which somebody may hold who works out the same."""
    asked, go_on = threading.Event(), threading.Event()

    def slow():
        asked.set()
        assert go_on.wait(30)
        return {}

    one, other = a_world(loads=slow), a_world()
    first = threading.Thread(target=one.advised)
    first.start()
    assert asked.wait(30)
    second = threading.Thread(target=other.advised)
    second.start()
    second.join(10)
    waits = second.is_alive()
    go_on.set()
    first.join()
    second.join()
    assert not waits


def test_the_loop_and_a_new_id_read_only_while_nobody_changes_anything():
    """A run or a plan that goes meanwhile would end the module's loop."""
    mgr, asked = a_mgr(), []

    def new_id():
        with mgr.engine.orders() as orders:
            return orders.new_plan_id()

    looks = (lambda: mgr.engine.is_active(), new_id)
    threads = [threading.Thread(target=lambda look=look: asked.append(look())) for look in looks]
    with mgr.engine.orders():
        for thread in threads:
            thread.start()
        threads[0].join(0.1)
        assert asked == []
    for thread in threads:
        thread.join(10)
    assert len(asked) == 2


@pytest.mark.parametrize("look", ["world", "history", "is_active", "tick"])
def test_whoever_has_the_lock_and_asks_for_it_again_is_told_and_does_not_wait_for_ever(look):
    mgr = a_mgr()
    with mgr.engine.deciding(), pytest.raises(RuntimeError, match="taken twice"):
        getattr(mgr.engine, look)()
    assert mgr.engine.free
    getattr(mgr.engine, look)()


def test_an_order_is_given_only_by_whoever_has_the_lock():
    mgr = a_mgr()
    with mgr.engine.deciding() as (_, orders):
        assert orders.freeze(True)
    with pytest.raises(RuntimeError, match="without the engine's lock"):
        orders.freeze(False)
    assert mgr.engine.world().frozen


@pytest.mark.slow
def test_advice_on_loads_is_worked_out_under_the_lock_by_the_look_alone():
    mgr = measured()
    watch = LoadWatch(
        work=None, archive=mgr.inside.archive, world=mgr.engine.world, log=print
    )
    watch._profiles = {0: LoadProfile(())}
    mgr.profiles_of = watch.profiles
    with mgr.engine.deciding() as (world, _):
        assert not world.has_advice
        assert world.recommendations
        assert world.loads()

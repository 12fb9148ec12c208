"""Changes of the config database that wait, and that OSDs themselves have to take."""

from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import ok, said, taken_over
from test_toy_knob import statuses
from wcache.core.change.change import Change
from wcache.core.config_database import ConfigEdit, OsdValue
from wcache.core.setting.config_setting import ConfigSetting
from wcache.knobs.knob import Wanted
from wcache.services.plans.planners import Planner

NAME = "osd_memory_target"
VALUES = ("4000000000", "3800000000", "3610000000", "3429500000")


class Ramp(Planner):
    """Three steps down of one value, a minute apart."""

    def plan(self, asked, world):
        steps = list(zip(VALUES, VALUES[1:]))
        return Wanted(tuple(
            Change(
                asked.action_id(i), ConfigSetting(
                    "memory", (ConfigEdit("osd/class:hdd", NAME, now, was),),
                    (OsdValue(0, NAME, now, was),),
                ), "hdd", "less", "class hdd", wait_s=60.0, back_wait_s=60.0,
            )
            for i, (was, now) in enumerate(steps)
        ))


def a_mgr():
    mgr = FakeMgr(("h0", (make.drive("sda", 0),)))
    mgr.more_planners = {"cache_mode": Ramp()}
    mgr.config.kept[("osd/class:hdd", NAME)] = VALUES[0]
    mgr.stops.most = 0  # no OSD may stop, and none does
    taken_over(mgr)
    mgr.step()
    ok(mgr.command("plan"))
    return mgr


def writes_within(mgr, seconds):
    before = len(mgr.config.writes)
    for _ in range(int(seconds)):
        mgr.step(1.0)
    return len(mgr.config.writes) - before


def test_steps_of_a_ramp_are_a_minute_apart_and_so_is_the_way_back():
    mgr = a_mgr()
    ok(mgr.command("apply", plan_id="p1"))
    assert writes_within(mgr, 55) == 1
    assert writes_within(mgr, 60) == 1
    mgr.settle(1000)
    assert statuses(mgr, "p1") == ["applied"] * 3
    assert said(mgr, "apply", plan_id="p1")["changed"] is False  # all of it stands
    ok(mgr.command("rollback"))
    assert writes_within(mgr, 55) == 1
    mgr.settle(1000)
    assert statuses(mgr, "p1") == ["rolled back"] * 3
    assert float(mgr.config.kept[("osd/class:hdd", NAME)]) == float(VALUES[0])


def test_a_value_that_an_osd_does_not_take_goes_back():
    mgr = a_mgr()
    mgr.config.osd_values = lambda osd_id, name: VALUES[0]  # its environment overrides the mons
    ok(mgr.command("apply", plan_id="p1"))
    mgr.settle(1000)
    assert statuses(mgr, "p1") == ["rolled back", "planned", "planned"]
    reason = said(mgr, "plan show", plan_id="p1")["reason"]
    assert "osd.0 has osd_memory_target 4000000000" in reason
    assert float(mgr.config.kept[("osd/class:hdd", NAME)]) == float(VALUES[0])


def test_a_value_that_an_osd_takes_late_is_waited_for():
    mgr = a_mgr()
    late = iter([VALUES[0]] * 3)
    mgr.config.osd_values = lambda osd_id, name: next(late, VALUES[1])
    ok(mgr.command("apply", plan_id="p1"))
    writes_within(mgr, 30)
    assert statuses(mgr, "p1")[0] == "applying"
    writes_within(mgr, 60)
    assert statuses(mgr, "p1")[0] == "applied"

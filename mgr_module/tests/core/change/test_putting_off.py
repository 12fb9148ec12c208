"""Which changes come later: in order, and never one before what it waits for."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from rollout_world import change
from wcache.core.change.change import Change, ChangeStatus
from wcache.core.change.gate.evidence import controls_for
from wcache.core.change.gate.gate_state import GateSettings, GateStep
from wcache.core.change.rollout import RolloutMachine
from wcache.core.change.rollout_state import Rollout, RolloutStatus
from wcache.core.change.waves import arranged, later_words, put_off
from wcache.core.cluster import SlowOsd
from wcache.core.config_database import ConfigEdit
from wcache.core.loads import Block, OsdBlock
from wcache.core.model import LoadPoint
from wcache.core.record import Precondition
from wcache.core.setting.config_setting import ConfigSetting

ILL = "has PGs that are degraded"


def a_cluster(count=12, a_host=4, **values):
    return replace(make.cluster([
        make.osd(osd_id, f"h{osd_id // a_host}", location=(("host", f"h{osd_id // a_host}"),))
        for osd_id in range(count)
    ], failure_types=("host",)), **values)


def of_drives(cluster, **values):
    changes = [
        change(
            osd_id, hostname=osd.hostname, load_point=LoadPoint.OSD_TRAFFIC,
            drive_model="M",
        ) for osd_id, osd in cluster.osds.items()
    ]
    found, waves = arranged(changes, cluster)
    return Rollout(
        "p1", 0.0, found, waves=waves, gate=GateSettings(), parallel_max=4, **values)


def of_values(*where):
    """Values of OSDs, by (OSD, failure domain)."""
    changes = tuple(
        Change(
            f"a{number}", ConfigSetting(
                "memory", (ConfigEdit(f"osd.{osd_id}", "osd_memory_target", "", "1"),)
            ), "hdd", "", domain, judged_on=(osd_id,),
        ) for number, (osd_id, domain) in enumerate(where)
    )
    _, waves = arranged(changes, a_cluster())
    return Rollout("p1", 0.0, changes, waves=waves, gate=GateSettings())


def ill(*osd_ids):
    return dict.fromkeys(osd_ids, ILL)


def with_done(rollout, *indices):
    return replace(rollout, changes=tuple(
        replace(item, status=ChangeStatus.APPLIED) if index in indices else item
        for index, item in enumerate(rollout.changes)
    ))


def test_only_what_the_next_step_would_have_is_put_off_and_it_is_well():
    cluster = a_cluster(ill=ill(0, 1, 2, 9))
    rollout = of_drives(cluster)
    assert put_off(rollout, cluster) == (0, 1, 2)
    assert replace(rollout, later=(0, 1, 2)).current_index == 3
    assert len(later_words(rollout, cluster)) == 4


@pytest.mark.parametrize("state", [
    {"busy": frozenset({0, 5})}, {"slow_osds": (SlowOsd(0, 0.0, 1.0), SlowOsd(5, 0.0, 1.0))},
])
def test_what_moves_data_or_was_slow_is_no_canary_and_comes_last_in_its_wave(state):
    rollout = of_drives(a_cluster(**state))
    order = [item.osd_id for item in rollout.changes]
    assert order[:4] == [1, 2, 3, 0]
    assert order.index(5) == order.index(7) + 1
    assert [wave.size for wave in rollout.waves] == [1, 3, 4, 4]


def test_where_all_were_slow_the_first_is_the_canary():
    slow = tuple(SlowOsd(osd_id, 0.0, 1.0) for osd_id in range(12))
    assert of_drives(a_cluster(slow_osds=slow)).changes[0].osd_id == 0


def test_of_a_wave_that_is_over_nobody_comes_back_before_all_others_are_made():
    cluster = a_cluster()
    rollout = replace(with_done(of_drives(cluster), 0, 2, 3, 4), later=(1,))
    assert put_off(rollout, cluster) == (1,)
    rollout = with_done(rollout, *range(5, 12))
    assert put_off(rollout, cluster) == ()
    assert put_off(rollout, replace(cluster, ill=ill(1))) == (1,)
    assert replace(rollout, later=(1,)).current_index == 1


def test_in_its_own_wave_it_comes_back_as_soon_as_it_is_well():
    cluster = a_cluster()
    rollout = replace(with_done(of_drives(cluster), 0, 2), later=(1,))
    assert put_off(rollout, cluster) == ()


def test_an_override_puts_nothing_off_but_what_nothing_would_judge():
    cluster = a_cluster(ill=ill(0))
    rollout = of_drives(cluster, overridden=(Precondition.OSDS_WELL,))
    assert put_off(rollout, cluster) == ()
    assert put_off(rollout, cluster, unseen={0}) == (0,)
    assert later_words(rollout, cluster) == []


def test_values_of_one_host_keep_their_order_and_those_of_others_go_on():
    rollout = of_values((0, "host h0"), (1, "host h0"), (4, "host h1"), (2, "host h0"))
    # what is taken from osd.0 is given to osd.1 and osd.2
    assert put_off(rollout, a_cluster(ill=ill(0))) == (0, 1)
    later = put_off(with_done(replace(rollout, later=(0, 1)), 2), a_cluster(ill=ill(0)))
    assert later == (0, 1, 3)


@pytest.mark.parametrize("where", [("", "host h1"), ("host h1", "")])
def test_a_value_of_no_host_keeps_its_place_among_all(where):
    rollout = of_values((0, where[0]), (4, where[1]), (8, "host h2"))
    assert put_off(rollout, a_cluster(ill=ill(0))) == (0, 1, 2)


def test_drives_that_move_data_or_had_slow_operations_go_last_in_their_wave():
    slow = (SlowOsd(2, 0.0, 1.0),)
    cluster = a_cluster(busy=frozenset({1}), slow_osds=slow)
    rollout = with_done(of_drives(a_cluster()), 0)  # made before that
    assert put_off(rollout, cluster) == (1, 2)
    # nobody is left who could go before them
    assert put_off(with_done(replace(rollout, later=(1, 2)), 3), cluster) == ()
    assert put_off(rollout, replace(cluster, busy=None, slow_osds=())) == ()


def test_where_most_of_a_drive_model_move_data_a_wave_is_not_made_in_two_parts():
    rollout = with_done(of_drives(a_cluster()), 0)
    few, others = frozenset({1, 2}), frozenset(range(4, len(rollout.changes)))
    assert put_off(rollout, a_cluster(busy=few)) == (1, 2)
    assert put_off(rollout, a_cluster(busy=few | others)) == ()


def test_where_most_of_a_drive_model_had_slow_operations_they_are_as_any_other():
    rollout = with_done(of_drives(a_cluster()), 0)
    slow = tuple(SlowOsd(osd_id, 0.0, 1.0) for osd_id in range(7))
    assert put_off(rollout, a_cluster(slow_osds=slow[1:4])) == ()
    assert put_off(rollout, a_cluster(slow_osds=slow[1:3])) == (1, 2)
    assert put_off(rollout, a_cluster(slow_osds=slow)) == ()


def controls(treated, **values):
    cluster = a_cluster(24, **values)
    reports = [
        make.report(f"h{h}", *(make.drive(f"sd{n}", 4 * h + n) for n in range(4)))
        for h in range(6)
    ]
    return set(controls_for(treated, treated, reports, cluster, {}))


def test_as_large_a_share_of_the_controls_moves_data_as_of_the_treated():
    busy = frozenset({0, 1, *range(8, 24, 2)})
    assert len(controls({0, 2}, busy=busy) & busy) == 6
    assert len(controls({0, 1}, busy=busy) & busy) == 8
    assert not controls({2, 3}, busy=busy) & busy
    assert len(controls({2, 3}, busy=frozenset(range(4, 24)))) == 3  # there are no others
    assert len(controls({2, 3}, busy=None)) == 12


def test_no_ill_osd_and_none_that_had_slow_operations_is_a_control():
    found = controls({0}, ill=ill(4, 5), slow_osds=(SlowOsd(6, 0.0, 1.0),),
                     slow_op_osds=frozenset({7}))
    assert found
    assert not found & {4, 5, 6, 7}


def test_what_is_put_off_is_measured_anew_when_it_comes_back():
    rollout = of_drives(a_cluster())
    measured = (replace(rollout.changes[0], before_us=10.0), *rollout.changes[1:])
    machine = RolloutMachine(replace(rollout, changes=measured))
    found = machine.looking_ahead(a_cluster(ill=ill(0)))
    assert found.rollout.later == (0,)
    assert found.rollout.changes[0].before_us is None
    assert machine.rollout.changes == measured  # it was only looked ahead


def test_a_step_of_values_ends_before_the_first_that_no_client_feels():
    rollout = of_values((0, "host h0"), (1, "host h0"), (2, "host h0"))
    step = GateStep((0, 1, 2), (0, 1, 2), before=())
    machine = RolloutMachine(replace(rollout, status=RolloutStatus.RUNNING, step=step))
    machine._blocks = [
        Block(1.0, tuple(OsdBlock(osd_id, 1000.0, 50) for osd_id in (0, 2))) for _ in range(8)
    ]
    machine._judge_load()
    assert (machine.rollout.step.indices, machine.rollout.step.treated) == ((0,), (0,))
    assert machine.rollout.later == ()


@pytest.mark.parametrize(("section", "kind", "waits"), [
    ("osd/class:hdd", "hdd", True), ("osd/class:ssd", "ssd", False), ("osd.4", "ssd", False),
    ("osd.4", "hdd", True),
])
def test_a_capacity_waits_for_ill_osds_of_its_own_device_class_alone(section, kind, waits):
    changes = tuple(
        Change(
            who, ConfigSetting("mclock", (
                ConfigEdit(who, f"osd_mclock_max_capacity_iops_{name}", "2", "1"),
            )), name, "", where, judged_on=(number,),
        ) for number, (who, name, where) in enumerate((
            ("osd/class:hdd", "hdd", "class hdd"), ("osd.0", "hdd", "host h0"),
            (section, kind, "host h1"),
        ))
    )
    cluster = a_cluster(ill=ill(0, 1))
    _, waves = arranged(changes, cluster)
    rollout = Rollout("p1", 0.0, changes, waves=waves, gate=GateSettings())
    assert put_off(rollout, cluster) == ((0, 1, 2) if waits else (0, 1))


@pytest.mark.parametrize(("first", "then", "waits"), [
    (["osd/class:ssd"], ["osd/class:hdd"], True),
    (["osd/class:ssd"], ["osd/host:h1/class:hdd"], True),
    (["osd/host:h0/class:ssd"], ["osd/class:hdd"], True),
    (["osd/host:h0/class:ssd", "osd/host:h1/class:ssd"], ["osd/host:h1/class:hdd"], True),
    (["osd/host:h0/class:ssd"], ["osd/host:h1/class:hdd"], False),
])
def test_one_class_gets_no_memory_before_another_on_its_hosts_has_given_it_up(first, then, waits):
    changes = tuple(
        Change(
            f"a{number}", ConfigSetting("memory", tuple(
                ConfigEdit(section, "osd_memory_target", "2", "1") for section in sections
            )), "", "", f"{sections[0]} and more", judged_on=(number,),
        ) for number, sections in enumerate((first, then))
    )
    cluster = a_cluster(ill=ill(0))
    _, waves = arranged(changes, cluster)
    rollout = Rollout("p1", 0.0, changes, waves=waves, gate=GateSettings())
    assert put_off(rollout, cluster) == ((0, 1) if waits else (0,))

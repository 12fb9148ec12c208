"""A trial ends where its hosts run out of memory, whoever uses it, and where nobody tells."""

from dataclasses import replace

import pytest
from memory_world import GIB, a_mgr, begun, leased, raised, shown, watch
from module_world import refused, taken_over
from wcache.core.hardware import CgroupLimit, HostMemory
from wcache.core.protocol import MemoryRequest
from wcache.knobs.memory.mgr.trials import crowded

RAM = 32 * GIB
HIGH = 5 * GIB


def trying():
    """A trial of the OSDs 0, 2 and 4, on a host each, whose larger target is in force."""
    return raised(begun(a_mgr(hosts=3, ram_bytes=RAM), target_bytes=HIGH))


def test_a_neighbour_that_grows_in_an_osds_control_group_ends_the_trial_within_seconds():
    mgr = trying()
    # no report is due for minutes, and the OSDs themselves use no more than before
    mgr.probes["h1"].memory = HostMemory(RAM, 0, (CgroupLimit(8 * GIB, (2,), int(7.3 * GIB)),))
    mgr.steps(2, 2.0)
    assert shown(mgr)["status"] == "stopped"
    assert shown(mgr)["reason"] == "the control group of osd.2 uses 7.3 GiB of 8.0 GiB"
    assert not leased(mgr)


@pytest.mark.parametrize(("memory", "why"), [
    (HostMemory(RAM, 20 * GIB, (CgroupLimit(5 * GIB, (0,), 4 * GIB),)),
     "the limit of the control group of osd.0 is 5.0 GiB now: too little for the trial"),
    (HostMemory(RAM, GIB), "the host of osd.0 has 1.0 GiB of 32.0 GiB available"),
    (HostMemory(RAM, 2 * GIB), ""),
    (HostMemory(RAM, 0), ""),  # it does not tell
    (HostMemory(RAM, 20 * GIB, (CgroupLimit(8 * GIB, (0,), 7 * GIB),)), ""),
    (HostMemory(RAM, 20 * GIB, (CgroupLimit(8 * GIB, (0, 2), 7 * GIB),)),
     "the limit of the control group of osd.0 is 8.0 GiB now: too little for the trial"),
    (HostMemory(RAM, 20 * GIB, (CgroupLimit(4 * GIB, (2,), 4 * GIB),)), ""),  # of others
])
def test_a_trial_goes_on_only_where_its_host_has_room(memory, why):
    assert crowded([0], HIGH, memory) == why


@pytest.mark.slow
def test_a_trial_whose_host_does_not_tell_of_its_memory_ends():
    mgr = trying()
    mgr.probes["h2"].muted = True
    mgr.steps(5, 10.0)
    assert shown(mgr)["status"] == "running"
    mgr.steps(3, 10.0)
    assert shown(mgr)["status"] == "stopped"
    assert shown(mgr)["reason"] == "the probe of h2 has not reported its memory for 60 s"


@pytest.mark.slow
def test_no_host_is_asked_for_its_memory_any_more_once_the_trial_is_over():
    mgr = trying()
    silent = mgr.probes["h2"]
    silent.fails = lambda task: setattr(silent, "muted", True)  # it leaves a question open
    mgr.steps(8, 10.0)
    assert silent.muted
    assert shown(mgr)["status"] == "stopped"
    silent.muted = False
    asked = []
    for probe in mgr.probes.values():
        probe.fails = lambda task: asked.append(task.request)
    mgr.steps(3, 10.0)
    assert not any(isinstance(request, MemoryRequest) for request in asked)


def test_a_probe_of_which_an_admin_says_which_host_of_ceph_it_is_on_is_asked():
    mgr = a_mgr(hosts=3, ram_bytes=RAM)
    mgr.view.state = replace(mgr.view.state, osds={
        osd_id: replace(osd, hostname=f"ceph-{osd.hostname}")
        for osd_id, osd in mgr.view.state.osds.items()
    }, host_names={f"h{i}": f"ceph-h{i}" for i in range(3)})
    begun(mgr, target_bytes=HIGH)
    mgr.steps(8, 10.0)
    assert shown(mgr)["status"] == "running"


def test_no_trial_gives_an_osd_more_than_its_own_cgroup_has_room_for():
    mgr = a_mgr(hosts=3, ram_bytes=64 * GIB)
    for index, probe in enumerate(mgr.probes.values()):
        probe.memory = HostMemory(64 * GIB, 0, (CgroupLimit(7 * GIB, (2 * index,)),))
    taken_over(mgr)
    watch(mgr)
    error = refused(
        mgr, "memory trial start", scope="class:hdd", target_bytes=6 * GIB, accept_cost=True
    )
    assert "is 7.0 GiB, of which 20% stays free (memory_headroom)" in error

"""Memory is divided by machine; sections of the config database are named by CRUSH host."""

from dataclasses import replace

import pytest
from memory_world import GIB, TARGET, a_mgr, watch
from mgr_fakes import builders as make
from module_world import said

RAM_BYTES = int(7.8 * GIB)


def placed(crush_host_of, **options):
    """Two machines whose OSDs stand in the CRUSH hosts that `crush_host_of` says."""
    mgr = a_mgr(ram_bytes=RAM_BYTES, memory_floor=GIB, **options)
    osds = mgr.view.state.osds.values()
    mgr.view.state = make.cluster([
        replace(
            osd, failure_domain=name,
            location=(("host", name), ("root", "default")) if name else (),
        )
        for osd in osds for name in [crush_host_of(osd)]
    ])
    mgr.step()
    watch(mgr)
    return mgr


def by_kind(osd):
    return f"{osd.device_class}-of-{osd.hostname}"


def in_none(osd):
    return "" if osd.device_class == "hdd" else osd.hostname


@pytest.mark.parametrize("crush_host_of", [by_kind, in_none], ids=["two", "none"])
def test_a_machines_memory_is_divided_once_whatever_crush_hosts_its_osds_stand_in(crush_host_of):
    plain = said(placed(lambda osd: osd.hostname), "memory status")["hosts"]
    assert said(placed(crush_host_of), "memory status")["hosts"] == plain
    assert [(row["host"], row["osds"]) for row in plain] == [("h0", 2), ("h1", 2)]


def test_targets_that_one_machine_cannot_bear_are_told_of_it_whatever_its_crush_hosts():
    mgr = placed(by_kind)
    mgr.config.kept["osd", TARGET] = str(6 * GIB)
    watch(mgr)
    found = [f for f in said(mgr, "status")["findings"] if f["code"] == "WCACHE_MEMORY_OVERCOMMIT"]
    assert "2 OSDs are given 12.0 GiB together" in str(found)


def sections_of_h0(mgr):
    """Of a plan where nothing is known of the other machine's memory, and what is left alone."""
    mgr.probes["h1"].memory = None
    mgr.inside.hosts.reported_at_s.clear()
    mgr.report_all()
    watch(mgr)
    plan = said(mgr, "plan", knob="memory")
    return sorted({
        edit["who"] for change in plan["changes"] for edit in change["edits"]
    }), plan["left_alone"]


def test_a_machine_gets_a_section_for_each_crush_host_that_its_osds_stand_in():
    mgr = placed(by_kind)
    named, left = sections_of_h0(mgr)
    assert named == ["osd/host:ssd-of-h0/class:ssd"], "its class hdd has what it should"
    assert not any("CRUSH" in line for line in left)


def test_a_crush_host_of_two_machines_gets_no_section_and_the_reason_names_both():
    mgr = placed(lambda osd: "shelf")
    named, left = sections_of_h0(mgr)
    assert named == []
    assert "the OSDs of machine h0 and of h1 are in one CRUSH host, shelf" in str(left)

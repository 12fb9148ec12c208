"""`auto` and what hosts have told, or not yet: of OSDs that came, and when it is turned on."""

from dataclasses import replace

from mgr_fakes import builders as make
from module_world import ok, said
from test_auto import a_mgr


def joins(mgr, osd_id, hostname):
    """An OSD comes up on a host that has a probe; nobody reports anything."""
    osds = {**mgr.view.state.osds, osd_id: make.osd(osd_id, hostname, uuid=f"u{osd_id}")}
    mgr.view.state = replace(mgr.view.state, osds=osds)


def test_a_host_where_an_osd_came_is_asked_for_a_report_at_once_and_once():
    mgr = a_mgr(auto_quiet_s=3600.0)
    ok(mgr.command("auto", mode="recommend"))
    drive = make.drive("sdd", 3)
    mgr.probes["h1"].drives[drive.domain_id] = drive
    joins(mgr, 3, "h1")
    joins(mgr, 4, "h2")  # whose probe never finds its drive
    for _ in range(4):
        mgr.step(5.0)
    found = {use.osd_id for d in mgr.inside.hosts.reports["h1"].drives for use in d.uses}
    assert 3 in found
    assert said(mgr, "auto status")["new_drives"] == 1
    reported = dict(mgr.inside.hosts.reported_at_s)
    assert set(reported) == {"h1", "h2"}
    for _ in range(10):
        mgr.step(5.0)
    assert mgr.inside.hosts.reported_at_s == reported


def test_drives_that_are_there_when_it_is_turned_on_are_not_new_whenever_they_report():
    mgr = a_mgr(auto_quiet_s=3600.0)
    del mgr.inside.hosts.reported_at_s["h2"]  # as after a run on it
    ok(mgr.command("auto", mode="recommend"))
    for _ in range(4):
        mgr.step(5.0)
    assert set(mgr.inside.hosts.reported_at_s) == {"h1", "h2"}
    assert said(mgr, "auto status")["new_drives"] == 0

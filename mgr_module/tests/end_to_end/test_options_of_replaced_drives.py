"""A value of an OSD is for the kind of drive that was measured: no other drive keeps it unsaid."""

from dataclasses import replace

import pytest
from compared_world import FAST, HDD, MODEL, SLOW, planned, with_osds
from mgr_fakes import builders as make
from module_world import change_osd, findings_of, ok, refused, report_of, said
from wcache.core.model import DriveModel

pytestmark = pytest.mark.slow
OTHER = DriveModel("OTHER", "HD9", "7.0")


def replace_drive(mgr, drive_model):
    """An admin replaces the drive of osd.1: the OSD is made anew under its old id."""
    change_osd(mgr, 1, uuid="made-anew", up_from=99)
    new = make.drive("sdz", 1, drive_model=drive_model, rotational=True)
    assert report_of(mgr, "h1", new) == ""
    mgr.steps(5, 30.0)


def value_of(mgr, osd_id):
    return float(mgr.config.kept["osd." + str(osd_id), HDD])


def test_a_plan_is_refused_once_an_osd_of_it_is_on_another_kind_of_drive():
    mgr = with_osds(hosts=2)
    plan_id = planned(mgr)["plan_id"]
    replace_drive(mgr, OTHER)
    error = refused(mgr, "apply", plan_id=plan_id)
    assert "osd.1 is on another drive model now" in error
    assert "make a new one with `ceph wcache plan`" in error


def test_a_plan_under_way_pauses_before_an_osd_that_is_on_another_kind_of_drive():
    mgr = with_osds(hosts=2)
    plan_id = planned(mgr)["plan_id"]
    ok(mgr.command("apply", plan_id=plan_id))
    while ("osd.0", HDD) not in mgr.config.kept:
        mgr.step(1.0)
    replace_drive(mgr, OTHER)
    mgr.steps(60, 1.0)
    plan = said(mgr, "plan show", plan_id=plan_id)
    assert (plan["status"], value_of(mgr, 1)) == ("paused", float(SLOW))
    assert "osd.1 is on another drive model now" in plan["reason"]


@pytest.mark.parametrize("drive_model", [OTHER, MODEL, replace(MODEL, firmware="next")])
def test_a_value_that_stays_on_another_kind_of_drive_is_a_finding_until_it_is_removed(drive_model):
    mgr = with_osds(hosts=2)
    ok(mgr.command("apply", plan_id=planned(mgr)["plan_id"]))
    mgr.settle()
    assert value_of(mgr, 1) == float(FAST)
    replace_drive(mgr, drive_model)
    found = findings_of(mgr, "WCACHE_OPTION_DRIFT")
    assert [one["subject"] for one in found] == (["osd.1"] if drive_model is OTHER else [])
    if found:
        assert f"remove it with `ceph config rm osd.1 {HDD}`" in found[0]["detail"]
        del mgr.config.kept["osd.1", HDD]
        mgr.steps(3, 400.0)
        assert findings_of(mgr, "WCACHE_OPTION_DRIFT") == []

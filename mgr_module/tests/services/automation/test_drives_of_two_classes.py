"""A drive whose OSDs are of two device classes is changed where both are left to `auto`."""

from dataclasses import replace

import pytest
from compared_world import options_of, with_drives
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, change_osd, ok, report_anew, said, settled
from wcache.core.automation.deciding import Wish
from wcache.core.model import OsdUse, Role

HOSTS = ("h0", "h1", "h2")


def go_on(mgr, times):
    for _ in range(times):
        mgr.steps(20, 10.0)
        mgr.settle()
        report_anew(mgr)


@pytest.mark.slow
@pytest.mark.parametrize(("scope", "mode"), [("class:hdd", WB), (None, WT)])
def test_a_cache_mode_is_left_alone_where_one_of_the_classes_is_off(scope, mode):
    mgr = FakeMgr(
        *((name, (make.drive("sda", 2 * i, 2 * i + 1),)) for i, name in enumerate(HOSTS)),
        auto_quiet_s=0.0, canary_wait_s=0.0,
    )
    for osd_id in (1, 3, 5):
        change_osd(mgr, osd_id, device_class="ssd")
    mgr.report_all()
    ok(mgr.command("auto", mode="apply", **({"scope": scope} if scope else {})))
    go_on(mgr, 4)
    assert {found for probe in mgr.probes.values() for found in probe.modes().values()} == {mode}
    left = said(mgr, "auto status")["left_alone"]
    why = "its OSDs are of classes hdd and ssd, whose modes differ"
    assert left == ([f"{name} domain-sda: {why}" for name in HOSTS] if mode is WB else [])


def with_a_verdict():
    """A scheduler was found to be better; by now an OSD of another class shares a drive."""
    mgr = with_drives("none", 1.5, len(HOSTS), "none")
    mgr.step()
    said(mgr, "ab", option="scheduler=none,mq-deadline", loads="batch", accept_cost=True)
    settled(mgr)
    mgr.view.state = replace(mgr.view.state, osds={
        **mgr.view.state.osds, 3: make.osd(3, "h0", device_class="ssd"),
    })
    (drive,) = mgr.probes["h0"].drives.values()
    shared = replace(drive, uses=(*drive.uses, OsdUse(3, Role.BLOCK)))
    mgr.probes["h0"].drives[drive.domain_id] = shared
    report_anew(mgr)
    mgr.options = replace(mgr.options, auto_quiet_s=0.0)
    ok(mgr.command("auto", mode="apply", scope="class:hdd"))
    return mgr


def schedulers(mgr):
    return [options_of(mgr, name)[0].value for name in HOSTS]


@pytest.mark.slow
def test_an_option_of_the_drive_is_left_alone_too_and_those_of_others_are_set():
    mgr = with_a_verdict()
    go_on(mgr, 8)
    assert schedulers(mgr) == ["none", "mq-deadline", "mq-deadline"]


@pytest.mark.slow
def test_a_plan_of_an_older_wish_goes_by_the_classes_of_all_osds_of_its_drives():
    mgr = with_a_verdict()
    older = Wish.of_host("options", "h0", ("hdd",), "set options", "as it was")
    mgr.service.auto._wishes = lambda: (older,)
    go_on(mgr, 3)
    mgr.steps(60, 10.0)
    assert schedulers(mgr) == ["none"] * 3
    assert "class ssd is off under `auto`" in said(mgr, "auto status")["waiting"]

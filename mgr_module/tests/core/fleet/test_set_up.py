"""How drives and OSDs are set up is told as information, with what it costs."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import report_anew, said
from wcache.ceph.health import health_checks
from wcache.commands.hosts import FindingsOfHosts, HostViews
from wcache.core.config_database import Config, Entry
from wcache.core.fleet.set_up import of_report
from wcache.core.hardware import BcacheState
from wcache.core.model import DriveModel, LoadPoint, OsdUse, Role, Transport, Verdict
from wcache.core.verdict.result import ArmSummary, Result
from wcache.engine.world import World

FLASH = {"rotational": False}
SSD = {"device_class": "ssd", "rotational": False}


def told(*drives, osds=(), results=(), config=()):
    known = {i: make.osd(i, "h1") for i in range(4)}
    known.update({osd.osd_id: osd for osd in osds})
    return [(one.subject, one.detail) for one in of_report(
        make.report("h1", *drives), known, results, Config(config)
    )]


def shared(**changes):
    return make.drive("sda", 0, 1, **changes)


DB = make.drive("sdb", uses=(OsdUse(0, Role.DB), OsdUse(1, Role.DB)))
BCACHE = (BcacheState("bcache0", False, "writeback"),)


@pytest.mark.parametrize(
    ("drives", "osds", "words"),
    [
        ((shared(transport=Transport.SATA),), (), "several OSDs share the drive"),
        ((make.drive("sda", 0), make.drive("sdc", 1), DB), (), "is on a rotational drive"),
        ((make.drive("sda", 0),), [make.osd(0, "h1", device_class="ssd")], "for a rotating one"),
        ((make.drive("sda", 0, **FLASH),), (), "for flash, and its OSD is in class hdd"),
        ((make.drive("sda", 0, bcache=BCACHE, **FLASH),), [make.osd(0, "h1", **SSD)], "bcache"),
        ((make.drive("sda", 0),), [make.osd(0, "h1", min_alloc_bytes=65536)], "is 65536 bytes"),
    ],
)
def test_each_kind_is_told_once_with_what_it_costs(drives, osds, words):
    ((subject, detail),) = told(*drives, osds=osds)
    assert subject.startswith("h1 ")
    assert words in detail


@pytest.mark.parametrize(
    ("drives", "osds"),
    [
        ((make.drive("sda", 0), make.drive("sdb", 1)), ()),
        ((make.drive("sdc", 2, transport=Transport.SATA, **FLASH),), [make.osd(2, "h1", **SSD)]),
        ((shared(transport=Transport.NVME, **FLASH),), [make.osd(i, "h1", **SSD) for i in (0, 1)]),
        ((make.drive("sda", 0, roles=(Role.BLOCK, Role.DB)),), ()),  # the DB is on its own disk
        ((make.drive("sda", 0, bcache=BCACHE),), ()),  # a disk behind flash is what it is for
        ((make.drive("sda", 0),), [make.osd(0, "h1", min_alloc_bytes=4096)]),
    ],
)
def test_what_is_as_it_should_be_is_not_told(drives, osds):
    assert told(*drives, osds=osds) == []


def measured(back_us, through_us, load=LoadPoint.OSD_BENCH_DEPTH1):
    return Result(
        "r1", "c1", "h1", 0, "ssd", "domain-sda", "wwn-sda", DriveModel("A", "B", "1"), load,
        Verdict.NO_DIFFERENCE, 8, 9.0, 0, "decided", a=ArmSummary(8, p50_us=back_us),
        b=ArmSummary(8, p50_us=through_us),
    )


@pytest.mark.parametrize(
    ("result", "expected"),
    [(measured(20_000.0, 12_000.0), True), (measured(20_000.0, 1_200.0), False),
     (measured(None, 20_000.0), False),
     (measured(20_000.0, 12_000.0, LoadPoint.OSD_BENCH_BATCH), False)],
)
def test_flash_that_is_as_slow_as_a_disk_is_told_by_what_was_measured(result, expected):
    drive = make.drive("sda", 0, **FLASH)
    found = told(drive, osds=[make.osd(0, "h1", **SSD)], results=[result])
    assert [("12.00 ms" in detail) for _, detail in found] == [True] * expected


ON = Entry("osd", "bdev_enable_discard", "true")
THREAD = Entry("osd/class:ssd", "bdev_async_discard_threads", "1")
OLDER = Entry("global", "bdev_async_discard", "true")


@pytest.mark.parametrize(
    ("takes", "config", "words"),
    [
        (True, [ON], "waits for each discard"),
        (True, [ON, replace(THREAD, value="0")], "waits for each discard"),
        (True, [ON, replace(THREAD, who="osd/class:hdd")], "waits for each discard"),
        (True, [ON, THREAD], ""),
        (True, [ON, OLDER], ""),
        (True, [THREAD], ""),
        (True, [replace(ON, value="false")], ""),
        (False, [ON, THREAD], "takes no discards"),
        (None, [ON], ""),  # the OSD does not tell
    ],
)
def test_discards_are_told_where_commits_wait_for_them_or_nothing_is_discarded(
    takes, config, words
):
    osd = make.osd(0, "h1", takes_discards=takes, **SSD)
    found = told(make.drive("sda", 0, **FLASH), osds=[osd], config=config)
    assert [(subject, words in detail) for subject, detail in found] == (
        [("h1 osd.0", True)] if words else []
    )


@pytest.mark.parametrize(
    ("takes", "config", "slow", "expected"),
    [(True, (), True, True), (True, (), False, False), (False, (), True, False),
     (True, [ON, THREAD], True, False)],
)
def test_flash_that_is_slow_and_never_discarded_is_told(takes, config, slow, expected):
    osd = make.osd(0, "h1", takes_discards=takes, **SSD)
    found = told(
        make.drive("sda", 0, **FLASH), osds=[osd], config=config,
        results=[measured(20_000.0, 12_000.0 if slow else 1_200.0)],
    )
    assert any("no bdev_enable_discard" in detail for _, detail in found) is expected


def test_what_is_told_of_a_host_goes_and_comes_with_it():
    hosts, found = HostViews(), FindingsOfHosts()

    def subjects(*reports):
        world = World(1000.0, lambda: make.cluster([]), reports={r.hostname: r for r in reports})
        fleet = hosts.take(world.reports, throwaway=False, leased=(), changing=())
        return [item.subject for item in found.take(fleet, world)]

    shared = make.report("h1", make.drive("sda", 0, 1, transport=Transport.SAS))
    assert subjects(shared) == ["h1 sda"]
    assert subjects() == []
    assert subjects(shared) == ["h1 sda"]
    assert subjects(make.report("h1", make.drive("sda", 0))) == []


def test_it_is_information_in_status_and_no_health_warning():
    mgr = FakeMgr(("h1", (shared(transport=Transport.SATA),)))
    mgr.report_all()
    (found,) = said(mgr, "status")["findings"]
    assert (found["code"], found["severity"]) == ("WCACHE_SETUP", "info")
    assert health_checks(mgr.views.findings()) == {}
    probe = mgr.probes["h1"]
    probe.drives = {name: replace(one, uses=one.uses[:1]) for name, one in probe.drives.items()}
    report_anew(mgr)
    assert said(mgr, "status")["findings"] == []


def test_discards_that_an_admin_turns_on_are_told_at_the_next_reading_of_the_config_database():
    mgr = FakeMgr(("h1", (make.drive("sda", 0, **FLASH),)))
    mgr.view.state = make.cluster([make.osd(0, "h1", takes_discards=True, **SSD)])
    mgr.report_all()
    mgr.step()
    assert said(mgr, "status")["findings"] == []
    mgr.config.kept["osd", "bdev_enable_discard"] = "true"
    mgr.inside.config.read_soon()
    mgr.step()
    (found,) = said(mgr, "status")["findings"]
    assert "waits for each discard" in found["detail"]

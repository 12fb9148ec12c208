"""A rule of others is held against the recommendation, with the order to go over to ours."""

from dataclasses import replace

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import WB, WT, ok, report_anew, said
from wcache.ceph.health import health_checks
from wcache.core.drive.manual import by_hand
from wcache.core.fleet.foreign_rules import Sets, judged, sets
from wcache.core.model import CachePage, Finding, FindingCode, Severity, Transport

OFF = '/etc/udev/rules.d/99-x.rules:2: ATTR{cache_type}="write through"'
ON = "/etc/rc.local:3: hdparm -W1 /dev/sda"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('SUBSYSTEM=="scsi_disk", ATTR{cache_type}="write through"', Sets.WRITE_THROUGH),
        ('ATTR{cache_type}:="write back"', Sets.WRITE_BACK),
        ('ATTR{cache_type}="temporary write back"', Sets.PIN),
        ('ATTR{cache_type}="temporary write through"', Sets.KERNEL_ONLY),
        ('KERNEL=="sd*", ATTR{queue/write_cache}="write through"', Sets.KERNEL_ONLY),
        ("w /sys/block/sda/queue/write_cache - - - - write through", Sets.KERNEL_ONLY),
        ('KERNEL=="sd*", ATTR{queue/write_cache}="none"', Sets.KERNEL_ONLY),
        ("echo none > /sys/block/sda/queue/write_cache", Sets.KERNEL_ONLY),
        ("echo write back > /sys/block/%k/queue/write_cache", Sets.KERNEL_ONLY),
        ("class/scsi_disk/0:0:0:0/cache_type = write through", Sets.WRITE_THROUGH),
        ('RUN+="/usr/bin/sdparm --clear=WCE /dev/%k"', Sets.WRITE_THROUGH),
        ("for d in /dev/sd?; do sdparm -c WCE $d; done", Sets.WRITE_THROUGH),
        ("RUN+=\"/bin/sh -c 'echo write through > /sys/class/scsi_disk/$kernel/cache_type'\"",
         Sets.WRITE_THROUGH),
        ('for f in /sys/class/scsi_disk/*; do echo "write through" > $f/cache_type; done',
         Sets.WRITE_THROUGH),
        ("sdparm --clear WCE /dev/sd*", Sets.WRITE_THROUGH),
        ("sdparm --set WCE=0 --save /dev/sda", Sets.WRITE_THROUGH),
        ("sdparm -S -c WCE /dev/sda", Sets.WRITE_THROUGH),
        ("sdparm --clear=WCE=1 /dev/sda", Sets.WRITE_THROUGH),
        ("smartctl --set=wcache,off /dev/sda", Sets.WRITE_THROUGH),
        ("for d in /dev/sd?; do hdparm -q -W 0 $d; done", Sets.WRITE_THROUGH),
        ("openSeaChest_Basics -d /dev/sg0 --writeCache=disable", Sets.WRITE_THROUGH),
        ("sdparm --set=WCE /dev/sda", Sets.WRITE_BACK),
        ("sdparm --set=WCE=0 /dev/sda", Sets.WRITE_THROUGH),
        ('RUN+="/sbin/hdparm -B 254 -W 0 /dev/%k"', Sets.WRITE_THROUGH),
        ('RUN+="/sbin/hdparm -qW1 /dev/%k"', Sets.WRITE_BACK),
        ("write_cache = off", Sets.WRITE_THROUGH),
        ("write_cache = on", Sets.WRITE_BACK),
        ("nvme set-feature /dev/nvme0 -f 6 -v 0", Sets.WRITE_THROUGH),
        ("nvme set-feature /dev/nvme0 --feature-id=0x06 --value=1", Sets.WRITE_BACK),
        ("DEVICESCAN -a -e wcache,on -m root", Sets.WRITE_BACK),
        ("smartctl -s wcache,off /dev/sda", Sets.WRITE_THROUGH),
        ("smartctl -s wcache-sct,off,p /dev/sda", Sets.WRITE_THROUGH),
        ("smartctl -s wcache-sct,on /dev/sda", Sets.WRITE_BACK),
        ("for d in /dev/sd?; do sdparm --quiet --clear WCE $d; done", Sets.WRITE_THROUGH),
        ("sdparm --quiet --set WCE /dev/sda", Sets.WRITE_BACK),
        ("openSeaChest_Configure -d /dev/sg0 --writeCache disable", Sets.WRITE_THROUGH),
        ("openSeaChest_Configure -d /dev/sg0 --sctWriteCache enable", Sets.WRITE_BACK),
        ("sdparm --file=/etc/modes /dev/sda WCE", Sets.UNKNOWN),
        ("", Sets.UNKNOWN),
        ("x" * 4000, Sets.UNKNOWN),
    ],
)
def test_what_a_line_sets_is_read_from_it(line, wanted):
    assert sets(line) is wanted


def finding(detail=OFF):
    return Finding(FindingCode.FOREIGN_RULE, Severity.WARNING, "99-x.rules", detail)


@pytest.mark.parametrize(
    ("rule", "lifted"),
    [
        ('ATTR{queue/write_cache}="write through"', True),
        ('ATTR{queue/write_cache}="none"', True),
        ("for d in /sys/block/sd?; do echo none > $d/queue/write_cache; done", True),
        ('ATTR{queue/write_cache}="write back"', False),
        ('ATTR{cache_type}="temporary write through"', False),
    ],
)
def test_a_rule_of_the_queue_attribute_is_told_the_line_that_lifts_its_flag(rule, lifted):
    said_of_it = judged(finding(f"/etc/udev/rules.d/99-x.rules:2: {rule}"), "h1", [], []).detail
    assert ("/sys/block/DISK/queue/write_cache`" in said_of_it) is lifted


def drive(saved=None):
    return make.drive("sda", 0, state=replace(make.state(WT), page=CachePage(True, WB, saved)))


def test_one_that_agrees_is_told_the_order_without_a_gap_and_is_no_warning():
    found = judged(finding(), "h1", [drive()], [WT])
    assert found.severity is Severity.INFO
    assert "agrees with the recommendation (write through)" in found.detail
    order = [found.detail.index(word) for word in ("plan --persist", "apply", "remove this rule")]
    assert order == sorted(order)
    kept = judged(finding(), "h1", [drive(saved=WT)], [WT])
    assert (kept.severity, "already: remove this rule" in kept.detail) == (Severity.INFO, True)


@pytest.mark.parametrize(("detail", "wanted", "consent"), [(OFF, WB, True), (ON, WT, False)])
def test_one_that_contradicts_is_a_warning_and_goes_before_the_next_boot(detail, wanted, consent):
    found = judged(finding(detail), "h1", [drive(), drive()], [wanted.other, wanted])
    assert found.severity is Severity.WARNING
    assert f"{wanted.value} is recommended for 1 of 2 OSD drives" in found.detail
    assert "before the next boot" in found.detail
    assert ("--consent-turn-on" in found.detail) is consent


def test_one_on_a_host_that_was_not_measured_stays_until_it_was():
    found = judged(finding(), "h1", [drive()], [None])
    assert found.severity is Severity.WARNING
    assert "leave it for now: measure with `ceph wcache campaign start --scope=host:h1`" in (
        found.detail
    )


def test_one_that_only_fools_the_kernel_or_cannot_be_read_never_agrees():
    said_ = judged(finding('a:1: ATTR{queue/write_cache}="write through"'), "h1", [drive()], [WT])
    assert said_.severity is Severity.WARNING
    assert "remove it now" in said_.detail
    unread = judged(finding("a:1: line 3"), "h1", [drive()], [WT])
    assert "compare it with `ceph wcache recommend`" in unread.detail


def measured(*found, latency_ns):
    mgr = FakeMgr(("h1", (make.drive("sda", 0), make.drive("sdb", 1, mode=WT))))
    mgr.probes["h1"].latency_ns = latency_ns
    mgr.probes["h1"].findings = found
    mgr.report_all()
    said(mgr, "campaign start", loads="depth1", accept_cost=True)
    mgr.settle()
    report_anew(mgr)
    return mgr


def rule_of(mgr):
    return next(f for f in said(mgr, "status")["findings"] if f["code"] == "WCACHE_FOREIGN_RULE")


def test_the_way_to_ours_is_walked_from_the_finding_to_the_rule_that_can_go():
    mgr = measured(finding(), latency_ns={WB: 9_000_000, WT: 1_000_000})
    assert rule_of(mgr)["severity"] == "info"
    assert "WCACHE_FOREIGN_RULE" not in health_checks(mgr.views.findings())
    plan = said(mgr, "plan", persist=True)
    # sdb is in write through already: it is in the plan to last, and in no plan that need not
    assert [c["dev_names"] for c in plan["changes"]] == [["sda"], ["sdb"]]
    assert [c["expected"] for c in plan["changes"]] == ["write back", "write through"]
    assert "only to last" in plan["changes"][1]["why"]
    assert [c["dev_names"] for c in said(mgr, "plan")["changes"]] == [["sda"]]
    ok(mgr.command("apply", plan_id=plan["plan_id"], persist=True))
    mgr.settle()
    shown = said(mgr, "plan show", plan_id=plan["plan_id"])
    assert [c["kept"] for c in shown["changes"]] == ["write through"] * 2
    assert shown["status"] == "done"
    report_anew(mgr)
    assert "remove this rule" in rule_of(mgr)["detail"]
    assert said(mgr, "plan", persist=True)["changes"] == []


@pytest.mark.parametrize(
    ("transport", "name", "saved", "wanted"),
    [
        (Transport.SCSI, "sda", WB, [
            "sdparm --clear=WCE /dev/sda", "sdparm --get=WCE /dev/sda  # read it back",
            "cat /sys/block/sda/queue/write_cache  # read it back",
            "sdparm --save --clear=WCE /dev/sda  # have it last over a power cycle, once it has "
            "proven itself", "sdparm --save --set=WCE /dev/sda  # undo it",
        ]),
        (Transport.SATA, "sda", None, [
            "hdparm -W0 /dev/sda", "hdparm -W /dev/sda  # read it back",
            "cat /sys/block/sda/queue/write_cache  # read it back",
            "ceph wcache plan --persist  # and apply --persist: a udev rule sets it at each boot, "
            "the drive saves no mode",
            "hdparm -W1 /dev/sda  # undo it",
        ]),
        (Transport.NVME, "nvme0n1", WB, [
            "nvme set-feature --feature-id=6 --value=0 /dev/nvme0",
            "nvme get-feature --feature-id=6 /dev/nvme0  # read it back",
            "cat /sys/block/nvme0n1/queue/write_cache  # read it back",
            "nvme set-feature --feature-id=6 --value=0 --save /dev/nvme0  # have it last over a "
            "power cycle, once it has proven itself",
            "nvme set-feature --feature-id=6 --value=1 --save /dev/nvme0  # undo it",
        ]),
    ],
)
def test_commands_by_hand_make_read_back_save_and_undo(transport, name, saved, wanted):
    state = replace(make.state(WB), page=CachePage(True, WB, saved))
    lines = list(by_hand(make.drive(name, 0, state=state, transport=transport), WT))
    if transport is not Transport.NVME:
        pin = lines.pop(0)
        assert "temporary write back" in pin
        assert lines[-1].startswith(f"{pin} && "), "it may be pasted when no pin is there"
        lines[-1] = lines[-1][len(f"{pin} && "):]
    assert lines == wanted


def test_a_hostile_name_stays_in_its_quotes():
    lines = by_hand(make.drive("a;reboot", 0), WT)
    assert all("'a;reboot'" in line for line in lines if "plan --persist" not in line)

"""Health checks read as Ceph's own: a number and a noun, and only the cure that applies."""

import re

import pytest
from mgr_fakes import builders as make
from wcache.ceph.health import health_checks
from wcache.core.fleet.findings import of_drive
from wcache.core.model import Cure, Finding, FindingCode, Severity
from wcache.knobs.registry import ADVICE


def findings(code, *details, cure=Cure.GENERAL):
    return [
        Finding(code, Severity.WARNING, f"h{n} sda", text, cure) for n, text in enumerate(details)
    ]


def check_of(found):
    ((_, check),) = health_checks(found).items()
    return check


@pytest.mark.parametrize("code", ADVICE)
def test_a_summary_has_a_number_and_its_noun_for_one_and_for_more(code):
    one, three = (
        check_of(findings(code, *["seen"] * count))["summary"] for count in (1, 3)
    )
    for text, count in ((one, 1), (three, 3)):
        assert not re.search(r"[{}|]|\(s\)|^[0-9]+:", text)
        assert text.startswith(f"{count} ") or one == three
    if one != three:
        assert one[2:] != three[2:]


def test_it_reads_as_ceph_would_say_it():
    said = [check_of(findings(code, "x", "y", "z"))["summary"] for code in (
        FindingCode.SHARED_DRIVE, FindingCode.AGENT_SILENT, FindingCode.FROZEN
    )]
    assert said == [
        "3 OSD drives may be shared with something that is not an OSD", "3 probes do not respond",
        "an admin froze wcache",
    ]
    assert check_of(findings(FindingCode.AGENT_SILENT, "x"))["summary"] == (
        "1 probe does not respond"
    )


def test_only_the_cure_that_applies_is_named():
    (nvme,) = of_drive(make.unsafe_drive(), throwaway=False, leased=False)
    told = check_of([nvme])["detail"]
    assert "sdparm --clear=WCE /dev/sda" in told[0]
    assert "hdparm" not in " ".join(told)
    assert "nvme" not in " ".join(told)
    shared = check_of(findings(FindingCode.SHARED_DRIVE, "mounted on /mnt"))["detail"][-1]
    assert "pid namespace" not in shared
    blind = check_of(findings(
        FindingCode.SHARED_DRIVE, "it is unknown", cure=Cure.LET_PROBE_SEE
    ))["detail"][-1]
    assert "pid namespace" in blind
    assert "move the OSD" not in blind


def test_findings_with_two_cures_name_each_once():
    silent = findings(FindingCode.RESTORE_FAILED, "held", "held too", cure=Cure.START_PROBE)
    found = [*silent, *findings(FindingCode.RESTORE_FAILED, "not read back")]
    todo = [line for line in check_of(found)["detail"] if line.startswith("what to do: ")]
    assert len(todo) == 2


def test_a_headline_is_told_in_place_of_the_number():
    found = findings(FindingCode.RECOMMENDATION, "x")
    checks = health_checks(found, {FindingCode.RECOMMENDATION: "2.4 to 5.1 times as fast"})
    assert checks["WCACHE_RECOMMENDATION"]["summary"] == "2.4 to 5.1 times as fast"
    assert health_checks([], {FindingCode.RECOMMENDATION: ""}) == {}

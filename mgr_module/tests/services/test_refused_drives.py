"""A drive that refuses a change is known to the mgr at once, and left out of all that follows."""

import pytest
from mgr_fakes import builders as make
from mgr_fakes.module import FakeMgr
from module_world import apply_plan, findings_of, has_words, refused, said, taken_over
from wcache.core.model import CacheMode, FindingCode
from wcache.core.protocol import ApplyRequest, FailureOutcome, SetModeRequest

pytestmark = pytest.mark.slow

WT = CacheMode.WRITE_THROUGH
NO = "sdb does not let its cache be put into write through; it stays write back"


def fleet():
    mgr = FakeMgr(*(
        (name, tuple(make.drive(f"sd{chr(98 + i)}", first + i) for i in range(3)))
        for name, first in (("h1", 0), ("h2", 3))
    ))
    taken_over(mgr)
    mgr.step()
    return mgr


def refuses(mgr, by_drive=True):
    """The first drive of h1 refuses every change."""
    probe = mgr.probes["h1"]
    name = next(iter(probe.drives))

    def fails(task):
        asked = isinstance(task.request, (SetModeRequest, ApplyRequest))
        return FailureOutcome(NO, refused=True, by_drive=by_drive) if (
            asked and task.request.domain_id == name
        ) else None

    probe.fails = fails
    return name


def told(mgr):
    """Of which drives it is told that they did not obey."""
    return [one["subject"] for one in findings_of(mgr, FindingCode.TOGGLE_INEFFECTIVE.value)]


def measured(mgr):
    mgr.command("campaign start", accept_cost=True)
    mgr.settle()
    return mgr


def test_a_refusal_in_a_campaign_is_known_to_plans_and_samples_after_a_failover_too():
    mgr = fleet()
    name = refuses(mgr)
    measured(mgr)
    mgr.restart()
    text = mgr.command("plan", dry_run=True)[1]
    assert "left alone: h1 sdb: " in text
    assert NO in text
    assert not any(
        " h1 " in line and " sdb " in line
        for line in text.splitlines() if line.startswith("p1.") and "by hand" not in line
    )
    forecast = mgr.command("campaign start", dry_run=True)[1]
    assert f"h1 {name}" in forecast
    assert NO in forecast
    assert told(mgr) == ["h1 sdb"]


def test_a_refusal_is_known_before_the_next_report():
    mgr = measured(fleet())
    refuses(mgr)
    apply_plan(mgr)
    mgr.probes["h1"].report = None  # its next report fails
    with pytest.raises(TypeError):
        mgr.settle()
    assert told(mgr) == ["h1 sdb"]


def test_the_canary_that_refuses_is_passed_by_and_all_others_are_changed():
    mgr = measured(fleet())
    refuses(mgr)
    apply_plan(mgr)
    mgr.settle()
    shown = mgr.command("rollout show", plan_id="p1")[1] + mgr.command("plan show", plan_id="p1")[1]
    assert "refused by the drive" in shown
    assert has_words(shown, NO)
    changes = said(mgr, "plan show", plan_id="p1")["changes"]
    assert [change["detail"] for change in changes] == [NO, "", "", "", "", ""]
    modes = [mode for probe in mgr.probes.values() for mode in probe.modes().values()]
    assert modes.count(WT) == 5
    assert mgr.command("plan ls")[1].count("done") == 1


def test_a_change_that_fails_otherwise_ends_the_rollout_and_is_no_refusal():
    mgr = measured(fleet())
    refuses(mgr, by_drive=False)
    apply_plan(mgr)
    mgr.settle()
    assert "stopped" in mgr.command("plan ls")[1]
    assert told(mgr) == []


@pytest.mark.parametrize("name", ["h1:sdb", "osd.0", "ID"])
def test_drives_that_an_admin_names_are_left_out_with_that_as_the_reason(name):
    mgr = measured(fleet())
    drive = next(iter(mgr.probes["h1"].drives.values()))
    name = drive.drive_id if name == "ID" else name
    text = mgr.command("plan", without=f"{name}, h2:sdc")[1]
    assert f"left alone: h1 sdb: left out by --without={name}" in text
    assert "left alone: h2 sdc: left out by --without=h2:sdc" in text
    rows = [line.split() for line in text.splitlines() if line[:3] == "p1." and "|" not in line]
    changed = {(row[3], row[4]) for row in rows if row[1:3] != ["by", "hand"]}
    assert not changed & {("h1", "sdb"), ("h2", "sdc")}
    assert ("h1", "sdc") in changed


def test_a_drive_that_is_not_there_cannot_be_left_out():
    mgr = measured(fleet())
    assert "there is no drive 'h1:sdx' to leave out" in refused(mgr, "plan", without="h1:sdx")

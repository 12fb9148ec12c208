"""Plans and runs of version 1, which stored no prior states."""

import pytest
from module_world import WB, all_modes, said
from prior_world import codes, loaded
from wcache.core.drive.prior import PriorDoubt, prior_from
from wcache.core.protocol import (
    FailureOutcome,
    Notice,
    RollbackRequest,
)


def test_a_plan_of_version_1_loads_and_its_rollback_says_what_it_expects():
    mgr, probe = loaded("applied")
    asked = []
    probe.prior_is_optional = True
    probe.actions["p1.0"] = ("0x5000000000000001", WB)
    real = probe.do

    def do(task):
        asked.append(task.request)
        return real(task)

    probe.do = do
    mgr.report_all()
    assert "WCACHE_PRIOR_LOST" not in codes(mgr), "the mgr's plan and the journal agree"
    assert said(mgr, "rollback", plan_id="p1")["changed"] is True
    mgr.settle()
    (request,) = [r for r in asked if isinstance(r, RollbackRequest)]
    assert (request.action_id, request.expected) == ("p1.0", WB)
    assert said(mgr, "plan show", plan_id="p1")["status"] == "rolled back"
    assert all_modes(mgr) == {WB}


def test_a_plan_of_version_1_whose_entry_is_gone_asks_for_acceptance():
    mgr, probe = loaded("applied")
    probe.prior_is_optional = True
    probe.fails = lambda task: (
        FailureOutcome("the prior state of p1.0 is lost", refused=True,
                       restored=False, doubt=PriorDoubt.LOST)
        if isinstance(task.request, RollbackRequest) else None
    )
    mgr.report_all()
    said(mgr, "rollback", plan_id="p1")
    mgr.settle()
    assert said(mgr, "plan show", plan_id="p1")["status"] == "stopped"
    assert "WCACHE_PRIOR_LOST" in codes(mgr)
    mgr.report_all()
    said(mgr, "drive accept", hostname="sim1", domain_id="0x5000000000000001", yes=True)
    assert "WCACHE_PRIOR_LOST" not in codes(mgr)
    assert said(mgr, "plan show", plan_id="p1")["changes"][0]["status"] == "accepted as it is"


@pytest.mark.slow
def test_a_run_of_version_1_under_a_lease_ends_and_asks_for_acceptance_or_is_told():
    for told in (True, False):
        mgr, probe = loaded("lease")
        probe.prior_is_optional = True
        probe.switch("0x5000000000000001", WB)  # its new version restored it at its start
        mgr.settle()
        mgr.report_all()
        assert "WCACHE_PRIOR_LOST" in codes(mgr)
        if told:
            (run,) = mgr.inside.runs.values()
            (drive,) = probe.drives.values()
            prior = prior_from("", drive.domain_id, (drive,)).drives
            probe.post("", None, notices=(
                Notice("n", "back", drive.domain_id, True, run.spec.lease_id, prior),
            ))
        else:
            said(mgr, "drive accept", hostname="sim1", domain_id="0x5000000000000001", yes=True)
        mgr.report_all()
        assert "WCACHE_PRIOR_LOST" not in codes(mgr)

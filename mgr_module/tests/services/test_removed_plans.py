"""A plan that was never begun is forgotten on demand, and nothing else is."""

import pytest
from module_world import applied, measured, ok, said


def test_a_plan_that_was_never_begun_is_forgotten_and_its_number_never_comes_again():
    mgr = measured()
    ok(mgr.command("plan"))
    assert said(mgr, "plan rm", plan_id="p1", dry_run=True)["would"] == ["forget plan p1"]
    assert [row["plan_id"] for row in said(mgr, "plan ls")["plans"]] == ["p1"]
    assert said(mgr, "plan rm", plan_id="p1")["changed"] is True
    mgr.settle()
    mgr.restart()
    mgr.report_all()
    assert said(mgr, "plan ls")["plans"] == []
    code, _, error = mgr.command("apply", plan_id="p1")
    assert code < 0
    assert "p1" in error
    assert said(mgr, "plan")["plan_id"] == "p2"


@pytest.mark.slow
def test_a_plan_that_was_begun_is_kept_as_the_way_back():
    mgr = applied()
    code, _, error = mgr.command("plan rm", plan_id="p1")
    assert code < 0
    assert "it says what was there before" in error
    assert said(mgr, "plan ls")["plans"][0]["plan_id"] == "p1"
    ok(mgr.command("rollback", plan_id="p1"))

"""A drive or a host that is gone for good is forgotten by an admin's word, and not before."""

import errno

import pytest
from module_world import (
    a_mgr,
    apply_plan,
    measured,
    ok,
    refused,
    said,
    settled,
    start,
    taken_over,
    unconsented,
)


def errors(mgr):
    """Subjects of errors, by what they say is not back."""
    found = [f for f in said(mgr, "status")["findings"] if f["severity"] == "error"]
    assert all("drive accept" in f["advice"] for f in found), found
    return [f["subject"] for f in found]


def dies_under_a_lease():
    mgr = a_mgr()
    start(mgr, scope="osd.0")
    while not mgr.probes["h1"].leased:
        mgr.step()
    mgr.probes["h1"].stuck.add("domain-sda")
    ok(mgr.command("campaign stop", campaign_id="c1"))
    settled(mgr)
    return mgr


def dies_under_a_plan():
    mgr = measured()
    apply_plan(mgr)
    mgr.settle()
    mgr.probes["h1"].stuck.add("domain-sda")
    ok(mgr.command("rollback"))
    settled(mgr)
    return mgr


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("dies", [dies_under_a_lease, dies_under_a_plan])
def test_a_drive_that_died_is_an_error_until_an_admin_gives_it_up(dies, restarted):
    mgr = dies()
    if restarted:
        taken_over(mgr)
    assert errors(mgr) == ["h1 domain-sda"]
    _, following = unconsented(mgr, "drive accept", hostname="h1", domain_id="domain-sda")
    assert following == "ceph wcache drive accept h1 domain-sda --accept-cost"
    assert errors(mgr) == ["h1 domain-sda"]
    ok(mgr.command("drive accept", hostname="h1", domain_id="domain-sda", accept_cost=True))
    mgr.report_all()
    assert errors(mgr) == []
    assert mgr.probes["h1"].leased == {}
    log = [entry["text"] for entry in said(mgr, "history")["history"]]
    assert any("accepted as it is" in text for text in log)
    taken_over(mgr)
    assert errors(mgr) == []
    drive = {"hostname": "h1", "domain_id": "domain-sda"}
    refused(mgr, "drive accept", errno.ENOENT, accept_cost=True, **drive)


def test_a_host_that_is_gone_for_good_is_forgotten_with_what_it_owed():
    mgr = dies_under_a_lease()
    del mgr.probes["h1"]
    mgr.now_s += 600.0
    mgr.step()
    error = refused(
        mgr, "drive accept", errno.EAGAIN, hostname="h1", domain_id="domain-sda", accept_cost=True
    )
    assert "`ceph wcache agent rm h1 --host-is-gone`" in error
    assert "--host-is-gone" in refused(mgr, "agent rm", errno.EAGAIN, hostname="h1")
    ok(mgr.command("agent rm", hostname="h1", host_is_gone=True))
    assert errors(mgr) == ["h1 domain-sda"]
    ok(mgr.command("drive accept", hostname="h1", domain_id="domain-sda", accept_cost=True))
    assert errors(mgr) == []
    assert said(mgr, "status")["findings"] == []

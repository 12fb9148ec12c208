"""bcache's mode by an admin's plan: consent, a failure domain with its name, no dirty data left."""

import pytest
from bcache_world import HOSTS, a_mgr, begun, make_dirty, plan_now, planned, values
from gate_world import GateMgr
from module_world import findings_of, fine, ok, said, taken_over, unconsented, until
from wcache.core.hardware import OptionValue


def status(mgr):
    return plan_now(mgr)["status"]


def waits(mgr, plan_id="p1"):
    return said(mgr, "rollout show", plan_id=plan_id)["waiting_for"]


def test_without_its_consent_nothing_is_put_into_writeback():
    mgr = a_mgr()
    planned(mgr, "writeback")
    for more in ({}, {"persist": True}, {"override": "client_load"}):
        error, following = unconsented(mgr, "apply", plan_id="p1", **more)
        assert "nvme0n1 (ACME Cache 1.0, serial SN0) of h0, which is the cache of" in error
        assert "(and 1 other cache device)" in error
        assert following.startswith("ceph wcache apply p1 ")
        assert "--consent-turn-on" in following
    dry = said(mgr, "apply", plan_id="p1", dry_run=True)
    assert dry["next"] == "ceph wcache apply p1 --consent-turn-on"
    mgr.settle()
    assert (status(mgr), values(mgr)) == ("planned", ["writethrough"] * 4)


@pytest.mark.slow
def test_it_is_applied_with_consent_and_goes_back_once_nothing_is_dirty():
    mgr = a_mgr()
    begun(mgr, "writeback")
    until(mgr, lambda: status(mgr) == "done")
    assert values(mgr) == ["writeback"] * 4
    make_dirty(mgr, "h1", "sdb", 8192)
    ok(mgr.command("rollback", plan_id="p1"))
    mgr.steps(120, 1.0)
    assert status(mgr) == "rolling back"
    assert plan_now(mgr)["changes"][3]["status"] == "rolled back in a while"
    assert values(mgr)[3] == "writethrough"
    assert waits(mgr) == [
        "8.0 KiB of dirty data of h1 sdb to be written back at 4.0 KiB/s: 2 s at that rate"
    ]
    taken_over(mgr)
    mgr.steps(60, 1.0)
    assert (status(mgr), len(waits(mgr))) == ("rolling back", 1)
    make_dirty(mgr, "h1", "sdb", 0)
    until(mgr, lambda: status(mgr) == "rolled back")
    assert values(mgr) == ["writethrough"] * 4
    fine(mgr)


@pytest.mark.slow
def test_all_leave_writeback_at_once_on_the_way_back_and_then_each_is_waited_for():
    mgr = a_mgr()
    begun(mgr, "writeback")
    until(mgr, lambda: status(mgr) == "done")
    drives = [(host, drive) for host in HOSTS for drive in ("sda", "sdb")]
    for host, drive in drives:
        make_dirty(mgr, host, drive, 4096)
    ok(mgr.command("rollback", plan_id="p1"))
    mgr.steps(30, 1.0)
    assert values(mgr) == ["writethrough"] * 4
    assert waits(mgr)[0].endswith("at that rate, and 3 more drives")
    for left, (host, drive) in enumerate(drives, 1):
        make_dirty(mgr, host, drive, 0)
        mgr.steps(80, 1.0)
        if left < len(drives):
            assert status(mgr) == "rolling back", left
    assert status(mgr) == "rolled back"
    assert {c["status"] for c in plan_now(mgr)["changes"]} == {"rolled back"}
    fine(mgr)


@pytest.mark.slow
def test_away_from_writeback_it_is_made_when_nothing_is_dirty_over_a_failover_too():
    mgr = a_mgr("writeback")
    make_dirty(mgr, "h0", "sda", 3 * 2**20)
    begun(mgr, "writethrough", scope="osd.0")
    left = "3.0 MiB of dirty data of h0 sda to be written back at 4.0 KiB/s: 13 min at that rate"
    for lost in (False, True):
        if lost:
            taken_over(mgr)
        mgr.steps(100, 1.0)
        (change,) = plan_now(mgr)["changes"]
        assert (status(mgr), change["status"], change["detail"]) == ("running", "applying", left)
        assert waits(mgr) == [left]
        assert f"waiting for: {left}" in ok(mgr.command("plan show", plan_id="p1"))
    assert values(mgr)[0] == "writethrough"
    make_dirty(mgr, "h0", "sda", 0)
    until(mgr, lambda: status(mgr) == "done")
    (change,) = plan_now(mgr)["changes"]
    assert (change["status"], change["detail"]) == ("applied", "")
    assert (change["before_us"], change["after_us"]) == (None, None), "no latency judges it"
    ok(mgr.command("rollback", plan_id="p1"))
    until(mgr, lambda: status(mgr) == "rolled back")
    assert values(mgr) == ["writeback"] * 4
    fine(mgr)


def test_dirty_data_that_is_not_told_is_not_taken_for_none():
    mgr = a_mgr("writeback")
    mgr.probes["h0"].set_options("domain-sda", (OptionValue("dirty_data", "?"),))
    begun(mgr, "writearound", scope="osd.0")
    mgr.steps(100, 1.0)
    assert waits(mgr) == ["dirty data of h0 sda, which cannot be read"]
    assert status(mgr) == "running"


@pytest.mark.parametrize("how", ["abort", "freeze", "rollback"])
def test_while_it_is_written_back_it_can_be_taken_back(how):
    mgr = a_mgr("writeback")
    make_dirty(mgr, "h0", "sda", 2**20)
    begun(mgr, "writethrough")
    mgr.steps(60, 1.0)
    assert values(mgr) == ["writethrough", *["writeback"] * 3], "one after the other"
    command = {"abort": "rollout abort", "freeze": "freeze", "rollback": "rollback"}[how]
    ok(mgr.command(command, **({} if how == "freeze" else {"plan_id": "p1"})))
    until(mgr, lambda: status(mgr) in ("rolled back", "stopped"))
    assert values(mgr) == ["writeback"] * 4
    fine(mgr)


@pytest.mark.slow
def test_a_probe_that_is_silent_meanwhile_is_waited_for():
    mgr = a_mgr("writeback")
    make_dirty(mgr, "h0", "sda", 2**20)
    begun(mgr, "writethrough", scope="osd.0")
    mgr.steps(60, 1.0)
    mgr.probes["h0"].muted = True
    mgr.steps(300, 1.0)
    mgr.probes["h0"].muted = False
    mgr.steps(100, 1.0)
    assert (status(mgr), len(waits(mgr))) == ("running", 1)
    make_dirty(mgr, "h0", "sda", 0)
    until(mgr, lambda: status(mgr) == "done")
    assert values(mgr)[0] == "writethrough"


def test_one_that_is_gone_again_is_said_to_be_no_work_of_a_reboot():
    mgr = a_mgr("writeback")
    begun(mgr, "writethrough")
    until(mgr, lambda: status(mgr) == "done")
    mgr.probes["h0"].set_options("domain-sdb", (OptionValue("cache_mode", "writeback"),))
    mgr.steps(5, 1.0)
    mgr.report_all()
    (found,) = findings_of(mgr, "WCACHE_OPTION_DRIFT")
    assert "plan p1 gave it cache_mode writethrough, and cache_mode of sdb is writeback" in (
        found["detail"]
    )
    assert "A reboot does not do that" in found["detail"]
    assert "--option=cache_mode=writethrough" in found["detail"]


class Clients(GateMgr):
    """Their commits take `others` times as long with any mode but writeback."""

    others = 5.0

    def block_us(self, osd_id):
        factor = 1.0 if values(self)[osd_id] == "writeback" else self.others
        return 10_000.0 * factor * self.random.lognormvariate(0.0, self.noise)


def gated_end(mgr, plan_id):
    going = ("running", "rolling back")
    until(mgr, lambda: plan_now(mgr, plan_id)["status"] not in going)
    return plan_now(mgr, plan_id)


def test_that_clients_wait_longer_without_writeback_takes_nothing_back():
    mgr = a_mgr("writeback", Clients)
    plan = gated_end(mgr, begun(mgr, "writethrough"))
    assert (plan["status"], plan["reason"]) == ("done", "")
    assert values(mgr) == ["writethrough"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(("others", "ends"), [(5.0, "done"), (0.2, "rolled back")])
def test_towards_writeback_clients_judge_it(others, ends):
    mgr = a_mgr("writethrough", Clients)
    mgr.others = others
    plan_id = begun(mgr, "writeback")
    until(mgr, lambda: values(mgr)[0] == "writeback")
    plan = gated_end(mgr, plan_id)
    assert plan["status"] == ends, plan["reason"]
    assert values(mgr) == ["writeback" if ends == "done" else "writethrough"] * 4
    assert plan["changes"][0]["before_us"] is not None


@pytest.mark.slow
def test_between_the_two_other_modes_clients_judge_it_too():
    mgr = a_mgr("writethrough", Clients)
    plan = gated_end(mgr, begun(mgr, "writearound"))
    assert plan["status"] == "done"
    assert plan["changes"][0]["before_us"] is not None

"""A probe of another protocol: it releases and rolls back, and does nothing else."""

import json

import pytest
from module_world import a_mgr, all_modes, applied, said, settled, start
from wcache.core import across
from wcache.core.model import CacheMode
from wcache.core.protocol import PROTOCOL_VERSION

OLDER, NEWER = PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1


class OfAnotherProtocol:
    """The probe of a host after it was put to another version: it speaks across protocols."""

    def __init__(self, mgr, hostname, version):
        self.mgr, self.probe, self.version = mgr, mgr.probes[hostname], version
        self.probe.crash()
        self.restored, self.failed, self.hangs = [], {}, False
        self.ids = self.probe.probe_id, f"i{self.probe.starts}"
        self.orders = []

    def keys(self):
        leases = [f"lease/{name}" for name in self.probe.leased]
        return (*leases, *(f"action/{name}" for name in self.probe.actions))

    def call(self, prefix, text):
        code, out, error = self.mgr.send(prefix, self.probe.hostname, text)
        assert code == 0, error
        plain = json.loads(out)
        assert across.is_across(plain)
        assert plain["version"] == PROTOCOL_VERSION
        order = across.order_in(plain)
        self.orders.append(order)
        return order

    def turn(self):
        """Say hello in its own protocol, report, and do what it is told."""
        self.call("wcache agent poll", json.dumps({
            "version": self.version, "probe_id": self.ids[0], "instance_id": self.ids[1],
            "words": "of another version", "lease": {"of": "another shape"},
        }))
        for _ in range(3):
            order = self.call("wcache agent post", across.encode(across.Report(
                self.version, self.probe.hostname, *self.ids, self.keys(), tuple(self.restored),
                tuple(self.failed.items()),
            )))
            if not order.keys:
                return
            for key in order.keys:
                assert key in self.keys()
                name = key.partition("/")[2]
                if self.hangs:
                    self.failed[key] = "the drive hangs"
                else:
                    domain_id, mode = self.probe.actions.pop(name)
                    self.probe.switch(domain_id, mode)
                    self.restored.append(key)


def go_on(mgr, other, turns=8):
    for _ in range(turns):
        mgr.now_s += 2.0
        other.turn()
        for name, probe in mgr.probes.items():
            if name != other.probe.hostname:
                probe.turn(3)
        mgr.engine.tick()
        assert mgr.exceptions == []


def finding(mgr):
    return next(
        item["detail"] for item in said(mgr, "status")["findings"]
        if item["code"] == "WCACHE_AGENT_VERSION"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("version", "todo"), [
    (OLDER, "upgrade the probe on h1"), (NEWER, "upgrade the module on the mgrs"),
])
def test_a_change_is_rolled_back_and_both_say_which_side_to_update(version, todo):
    mgr = applied()
    other = OfAnotherProtocol(mgr, "h1", version)
    assert set(all_modes(mgr)) == {CacheMode.WRITE_THROUGH}
    said(mgr, "rollback", plan_id="p1")
    go_on(mgr, other)
    assert set(all_modes(mgr)) == {CacheMode.WRITE_BACK}
    assert said(mgr, "rollout show", plan_id="p1")["status"] == "rolled back"
    assert todo in finding(mgr)
    assert other.probe.actions == {}
    assert "says that it is back" in json.dumps(said(mgr, "history", limit=50))


@pytest.mark.slow
def test_a_rollback_waits_for_the_first_report():
    mgr = applied()
    other = OfAnotherProtocol(mgr, "h1", OLDER)
    said(mgr, "rollback", plan_id="p1")
    other.call("wcache agent poll", json.dumps(
        {"version": OLDER, "probe_id": other.ids[0], "instance_id": other.ids[1]}
    ))
    mgr.engine.tick()
    go_on(mgr, other)
    assert said(mgr, "rollout show", plan_id="p1")["status"] == "rolled back"


@pytest.mark.slow
def test_nothing_is_asked_for_that_nobody_takes_back():
    mgr = applied()
    other = OfAnotherProtocol(mgr, "h1", OLDER)
    go_on(mgr, other)
    assert not any(order.keys for order in other.orders)
    assert said(mgr, "rollout show", plan_id="p1")["status"] == "done"
    assert CacheMode.WRITE_THROUGH in other.probe.modes().values()


@pytest.mark.slow
def test_a_change_that_is_not_back_is_not_taken_for_one():
    mgr = applied()
    other = OfAnotherProtocol(mgr, "h1", OLDER)
    other.hangs = True
    said(mgr, "rollback", plan_id="p1")
    go_on(mgr, other)
    assert "the drive hangs" in json.dumps(said(mgr, "plan show", plan_id="p1"))
    assert said(mgr, "rollout show", plan_id="p1")["status"] != "rolled back"


@pytest.mark.slow
def test_a_journal_without_the_entry_says_nothing_of_the_drive():
    mgr = applied()
    other = OfAnotherProtocol(mgr, "h1", OLDER)
    other.probe.actions.clear()
    said(mgr, "rollback", plan_id="p1")
    go_on(mgr, other)
    assert said(mgr, "rollout show", plan_id="p1")["status"] != "rolled back"
    assert "no entry of it" in json.dumps(said(mgr, "plan show", plan_id="p1"))


@pytest.mark.parametrize("version", [OLDER, NEWER])
def test_a_lease_is_released_and_nothing_is_measured(version):
    mgr = a_mgr()
    campaign_id = start(mgr)
    mgr.steps(5)
    assert mgr.probes["h1"].leased
    other = OfAnotherProtocol(mgr, "h1", version)
    count = mgr.probes["h1"].set_count
    go_on(mgr, other)
    run = next(
        run for run in said(mgr, "campaign show", campaign_id=campaign_id)["run_list"]
        if run["hostname"] == "h1"
    )
    assert (run["status"], run["restored"]) == ("aborted", True)
    assert f"protocol {version}" in run["reason"]
    assert set(other.probe.modes().values()) == {CacheMode.WRITE_BACK}
    assert mgr.probes["h1"].set_count == count


class OfManyEntries(OfAnotherProtocol):
    """One whose journal has more changes than a report: older ones come first."""

    def keys(self):
        return (*(f"action/p0.{n}" for n in range(across.KEYS_MAX)), *super().keys())


@pytest.mark.slow
def test_a_change_that_a_report_has_no_room_for_is_rolled_back_all_the_same():
    mgr = applied()
    other = OfManyEntries(mgr, "h1", OLDER)
    said(mgr, "rollback", plan_id="p1")
    go_on(mgr, other)
    assert other.probe.actions == {}
    assert said(mgr, "rollout show", plan_id="p1")["status"] == "rolled back"


@pytest.mark.slow
def test_a_plan_is_not_applied_on_its_host():
    mgr = applied()
    said(mgr, "rollback", plan_id="p1")
    settled(mgr)
    other = OfAnotherProtocol(mgr, "h1", NEWER)
    count = other.probe.set_count
    said(mgr, "plan")
    mgr.command("apply", plan_id="p2")
    go_on(mgr, other, 20)
    assert set(other.probe.modes().values()) == {CacheMode.WRITE_BACK}
    assert other.probe.set_count == count


@pytest.mark.slow
def test_another_probe_does_not_speak_for_the_host():
    mgr = applied()
    code, _, error = mgr.send("wcache agent poll", "h1", json.dumps(
        {"version": NEWER, "probe_id": "rival", "instance_id": "x"}
    ))
    assert code != 0
    assert "speaks for h1" in error


@pytest.mark.slow
def test_a_report_in_the_name_of_another_host_is_refused():
    mgr = applied()
    text = across.encode(across.Report(OLDER, "h2", "probe-h2", "i1"))
    assert mgr.send("wcache agent post", "h1", text)[0] != 0


@pytest.mark.slow
def test_a_probe_that_has_not_heard_of_the_update_goes_on_with_its_own_protocol():
    mgr = applied()
    text = across.encode(across.Report(PROTOCOL_VERSION, "h1", "probe-h1", "i1"))
    code, out, _ = mgr.send("wcache agent post", "h1", text)
    assert code == 0
    assert across.order_in(json.loads(out)).version == PROTOCOL_VERSION
    assert said(mgr, "agent ls")["refused"] == []

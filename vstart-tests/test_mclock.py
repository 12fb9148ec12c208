"""mClock's capacities on a real cluster: measured, recommended, set, and taken back."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator

import pytest
from harness import ClusterAccess, CommandError
from probes import Probe, Wcache
from wcache.core.loads import CAPACITY_CALL_BYTES

pytestmark = pytest.mark.cluster

# The more noise, the more calls it takes until a value may be set by them.
CALLS = (5, 20, 40)
OSD = 2  # the harness's flash OSD: its capacity is one that an OSD believes
ROUNDED_S = 0.1  # how exactly the module tells when it read
NAME = "osd_mclock_max_capacity_iops_ssd"


def stored(cluster: ClusterAccess) -> Dict[str, float]:
    """The capacities for flash in the config database, by section."""
    rows = cluster.command("config dump")
    return {
        row["section"] + (f"/{row['mask']}" if row["mask"] else ""): float(row["value"])
        for row in rows if row["name"] == NAME
    }


def schedules_by(cluster: ClusterAccess) -> str:
    """What the OSD itself says."""
    return str(cluster.ceph_json("tell", f"osd.{OSD}", "config", "get", "osd_op_queue")[
        "osd_op_queue"])


@pytest.fixture
def read_again(wcache: Wcache) -> Iterator[Any]:
    """Has the module read the config database anew."""
    def read() -> Dict[str, Any]:
        asked_s = time.monotonic()
        # an idle mgr reads at once: rounded, that could not be told from a reading before
        time.sleep(3 * ROUNDED_S)
        wcache("mclock show")

        def since_asked() -> bool:
            ago_s = wcache("mclock show")["read_s_ago"]
            return ago_s is not None and ago_s < time.monotonic() - asked_s - ROUNDED_S

        wcache.wait("a new reading", since_asked)
        shown: Dict[str, Any] = wcache("mclock show")
        return shown

    return read


def measure(wcache: Wcache, scope: str, calls: int) -> Dict[str, Any]:
    """Measure a capacity to the end; returns its row."""
    begun = wcache.wait("clean PGs", lambda: wcache(
        "campaign start", loads="capacity", scope=scope, calls=calls, accept_cost=True))
    with pytest.raises(CommandError, match="is not over yet"):
        wcache("campaign start", scope="osd.0", accept_cost=True)

    def ended() -> Any:
        campaign = wcache("campaign show", campaign_id=begun["campaign_id"])
        return campaign if campaign["status"] != "running" else None

    campaign = wcache.wait("the measurement", ended, 300)
    assert campaign["status"] == "done", campaign["run_list"]
    (row,) = [r for r in wcache("mclock show")["measured"] if r["osd_id"] == OSD]
    assert len(row["each_iops"]) == calls
    assert row["iops_low"] < row["iops"] < row["iops_high"]
    assert row["setting"] == "write back"
    return dict(row)


def test_a_capacity_is_measured_recommended_set_and_taken_back(
    wcache: Wcache, probe: Probe, steady: ClusterAccess, read_again: Any
):
    scope = f"osd.{OSD}"
    if schedules_by(steady) != "mclock_scheduler":
        assert "wpq" in read_again()["other_schedulers"]
        with pytest.raises(CommandError, match="not by mClock"):
            wcache("campaign start", dry_run=True, loads="capacity", scope=scope)
        return
    steady.ceph("config", "set", scope, NAME, "123")
    try:
        read_again()
        cost = wcache(
            "campaign start", dry_run=True, loads="capacity", scope=scope, calls=5
        )["forecast"]
        assert cost["bytes_written"] == 5 * CAPACITY_CALL_BYTES
        with pytest.raises(CommandError, match="--accept-cost"):
            wcache("campaign start", loads="capacity", scope=scope, calls=5)
        for calls in CALLS:
            row = measure(wcache, scope, calls)
            (advice,) = [c for c in read_again()["classes"] if c["option"] == NAME]
            assert scope in advice["shadowing"]
            if advice["commands"]:
                break
            # calls this far apart support no value, and the advice says so
            assert any("--calls" in line for line in advice["warnings"]), advice
        wcache.wait("the finding", lambda: "WCACHE_MCLOCK_STALE" in steady.health_checks())
        assert advice["commands"], advice
        assert advice["commands"][-1] == f"ceph config rm {scope} {NAME}", advice
        before = stored(steady)
        assert before[scope] == 123
        plan_id = wcache("plan", knob="mclock")["plan_id"]
        wcache("apply", plan_id=plan_id)

        def last() -> Any:
            plan = wcache("plan ls")["plans"][-1]
            return plan if plan["status"] not in ("running", "rolling back") else None

        assert wcache.wait("apply", last)["status"] == "done"
        after = stored(steady)
        assert scope not in after
        assert after[f"osd/class:{row['device_class']}"] == advice["iops"]
        # the OSD has taken it, without a restart
        assert wcache.wait("the OSD", lambda: float(steady.ceph_json(
            "tell", scope, "config", "get", NAME)[NAME]) == advice["iops"])
        wcache("rollback", plan_id=plan_id)
        assert wcache.wait("rollback", last)["status"] == "rolled back"
        assert stored(steady) == before
        assert f"ceph config rm {scope} {NAME}" in wcache.history_text()
    finally:
        steady.ceph("config", "rm", scope, NAME)
        read_again()
        wcache.wait("no finding", lambda: "WCACHE_MCLOCK_STALE" not in steady.health_checks())

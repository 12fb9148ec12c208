"""Ceph goes from 16 to 18 under the module, daemon by daemon, and nothing is lost."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Dict, List

import pytest
from harness import Cluster, ClusterPlan, start_cluster
from harness.modules import fill_module_folder
from harness.releases import ensure_release, find_release
from probes import MODULE, Probe, Wcache, all_views, kernel_view
from starved import OPTIONS

# two releases one after the other: some minutes
pytestmark = [pytest.mark.cluster, pytest.mark.long]

NAMES = {18: "reef"}
TRIES = 3


def upgrade(cluster: Cluster, number: int) -> None:
    """Each daemon stops, and starts on its data with the next release: mon, mgr, OSDs."""
    # a newer mon's list of modules makes a mgr start itself anew at a time of its own choice
    gid, mgr = cluster.active_gid(), f"mgr.{cluster.active_mgr()}"
    cluster.stop_daemon(mgr, kill=False)
    cluster.stop_daemon("mon.a", kill=False)
    cluster.root, cluster.release = ensure_release(number), number
    cluster.close_console()
    cluster.start_daemon("mon.a")
    shutil.rmtree(cluster.module_folder)
    fill_module_folder(
        cluster.module_folder, cluster.root, [MODULE],
        with_bcrypt=find_release(number).bcrypt_breaks_modules,
    )
    cluster.start_daemon(mgr)
    cluster.wait_new_mgr(gid)
    for osd_id in cluster.osd_ids():
        cluster.stop_osd(osd_id)
        cluster.start_osd(osd_id)
        clean(cluster)
    cluster.ceph("osd", "require-osd-release", NAMES[number], "--yes-i-really-mean-it")
    versions = cluster.command("versions")["overall"]
    assert len(versions) == 1, versions
    assert f" {number}." in next(iter(versions))


def clean(cluster: Cluster) -> None:
    """Wait until all PGs are active and clean, whatever else a half-way cluster complains of."""
    cluster.wait_healthy(120, ignoring=[""])


def ended(wcache: Wcache, plan_id: str) -> Dict[str, Any]:
    """A plan, once nothing of it is under way."""
    def over() -> Any:
        shown = wcache("plan show", plan_id=plan_id)
        return shown if shown["status"] not in ("running", "rolling back") else None

    return dict(wcache.wait(f"the end of {plan_id}", over, 180))


def applied(wcache: Wcache, **arguments: Any) -> str:
    """A plan that was carried out; one that noise made look worse went back, and another is made.
    """
    for _ in range(TRIES):
        plan_id = planned(wcache, **arguments)
        wcache("apply", plan_id=plan_id)
        shown = ended(wcache, plan_id)
        if shown["status"] == "done":
            return str(plan_id)
    raise AssertionError(f"no plan was carried out: {shown['reason']}")


def planned(wcache: Wcache, **arguments: Any) -> str:
    """A plan's id, once there is something to change."""
    said: List[Any] = []

    def made() -> Any:
        said[:] = [wcache("plan", **arguments)]
        return said[0]["plan_id"]

    try:
        return str(wcache.wait("a plan", made))
    except AssertionError:
        raise AssertionError(f"nothing to change: {said}") from None


def some(rows: List[Dict[str, Any]], *names: str) -> List[Dict[str, Any]]:
    """These columns of rows: what does not tell of the time that has passed."""
    return [{name: row[name] for name in names} for row in rows]


def stored(wcache: Wcache, plan_ids: List[str]) -> Dict[str, Any]:
    """All that was found out and done."""
    campaigns = wcache("campaign ls")["campaigns"]
    shown = [wcache.campaign(campaign["campaign_id"]) for campaign in campaigns]
    results = [result for campaign in shown for result in campaign["results"]]
    plans = [wcache("plan show", plan_id=plan_id) for plan_id in plan_ids]
    return {
        "campaigns": some(campaigns, "campaign_id", "status"),
        "results": some(results, "record_id", "load_point", "verdict", "ratio"),
        "records": [wcache("campaign record", record_id=r["record_id"]) for r in results],
        "recommended": some(
            wcache("recommend")["recommendations"], "device_class", "verdict", "mode", "record_ids"
        ),
        "plans": some(plans, "plan_id", "status"),
        "changes": [some(plan["changes"], "status", "detail") for plan in plans],
    }


def history(wcache: Wcache) -> List[str]:
    """The audit log, oldest first."""
    lines = wcache("history", limit=1000)["history"]
    return [f"{line['what']}: {line['text']}" for line in lines]


class Upgraded:
    """What stands before an upgrade, and is there after it."""

    def __init__(self, wcache: Wcache, cluster: Cluster, plan_ids: List[str]) -> None:
        self._wcache, self._cluster, self._plan_ids = wcache, cluster, plan_ids

    def to(self, number: int) -> None:
        """Upgrade all daemons; the probe, a client of the release before, goes on meanwhile."""
        wcache, cluster = self._wcache, self._cluster
        before, lines = stored(wcache, self._plan_ids), history(wcache)
        views = all_views(cluster)
        upgrade(cluster, number)
        wcache.wait("the module", lambda: wcache("status"), 60)
        after = stored(wcache, self._plan_ids)
        for what, was in before.items():
            assert after[what] == was, what
        assert history(wcache)[: len(lines)] == lines
        assert all_views(cluster) == views


def test_history_verdicts_and_an_applied_plan_outlast_an_upgrade_of_ceph(release: int):
    if release not in NAMES:
        pytest.skip("it goes from 16 to 18: RELEASE=18")
    with start_cluster(ClusterPlan(release=16)) as cluster:
        cluster.enable_module("wcache")
        wcache = Wcache(cluster)
        for name, value in OPTIONS.items():
            wcache.option(name, value)
        wcache.wait("the module", lambda: wcache("status"), 60)
        probe = Probe(cluster)
        probe.start()
        try:
            wcache.wait("its report", lambda: wcache("drive ls")["drives"], 60)
            lived_through(wcache, cluster, probe)
        finally:
            probe.stop()


def lived_through(wcache: Wcache, cluster: Cluster, probe: Probe) -> None:
    """Decide and apply on 16; all of it is there on 18, and the probe reports again."""
    drive = Path(cluster.osd_devices(0)["block"])
    wcache.decide("hdd", scope="osd.0", loads="depth1", seed=7)
    plan_id = applied(wcache, device_class="hdd")
    assert kernel_view(drive) == "write through"
    upgraded = Upgraded(wcache, cluster, [plan_id])
    for number in NAMES:
        upgraded.to(number)
        # a client of the release before went on meanwhile; its own packages come last
        probe.stop()
        probe.start()
        wcache.wait("the memory of all OSDs", lambda: read(wcache), 120)


def read(wcache: Wcache) -> bool:
    """Whether the memory of each OSD is known."""
    rows = wcache("memory status")["osds"]
    return len(rows) == 3 and all(row["target_bytes"] for row in rows)

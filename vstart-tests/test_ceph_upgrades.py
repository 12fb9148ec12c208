"""Ceph goes from 16 over 18 to 20 under the module, daemon by daemon, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

import pytest
from harness import Cluster, ClusterPlan, start_cluster
from harness.upgrades import NAMES, end_upgrade, upgrade_mon_and_mgr
from probes import MODULE, Probe, Wcache, all_views, kernel_view
from starved import MIB, OPTIONS
from starved import NAME as TARGET
from what_stands import applied, ended, nothing_lost

# three releases one after the other: some minutes
pytestmark = [pytest.mark.cluster, pytest.mark.long]


def upgrade(cluster: Cluster, number: int) -> None:
    """Each daemon stops, and starts on its data with the next release: mon, mgr, OSDs."""
    upgrade_mon_and_mgr(cluster, number, [MODULE])
    for osd_id in cluster.osd_ids():
        cluster.stop_osd(osd_id)
        cluster.start_osd(osd_id)
        cluster.wait_clean(120)  # a half-way cluster complains of other things
    end_upgrade(cluster, number)


def targets(cluster: Cluster) -> Dict[str, str]:
    """osd_memory_target in the config database."""
    return {
        f"{row['section']}/{row['mask']}": row["value"]
        for row in cluster.command("config dump") if row["name"] == TARGET
    }


def watched(wcache: Wcache) -> bool:
    """Whether the memory of each OSD is known, and what it does with it."""
    rows = wcache("memory status")["osds"]
    return len(rows) == 3 and all(
        row["target_bytes"] and row["onode_misses_per_s"] is not None and not row["settling_s"]
        for row in rows
    )


def test_history_verdicts_and_ways_back_outlast_two_upgrades_of_ceph(release: int):
    if release != 20:
        pytest.skip("it ends on the newest release: RELEASE=20")
    # an OSD's memory is known within seconds; 16 does not know these options, and lets them be
    bins = {
        f"bluestore cache age bins {cache}": "1 2 4 6 8 12 0 0 0 0"
        for cache in ("meta", "kv", "kv_onode", "data")
    }
    with start_cluster(ClusterPlan(release=16, conf=bins)) as cluster:
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
    """Decide and apply on 16, shrink memory on 18, take all of it back on 20."""
    before, drive = all_views(cluster), Path(cluster.osd_devices(0)["block"])
    cluster.ceph("config", "set", "osd", TARGET, str(1024 * MIB))
    of_all = targets(cluster)
    wcache.decide("hdd", scope="osd.0", loads="depth1", seed=7)
    # Debian's 16 is built without tcmalloc: a division of its memory is refused
    plans = [applied(wcache, scope="class:hdd")]
    assert kernel_view(drive) == "write through"
    for number in NAMES:
        views, values = all_views(cluster), targets(cluster)
        with nothing_lost(wcache, plans):
            # the probe, a client of the release before, goes on meanwhile
            upgrade(cluster, number)
        assert all_views(cluster) == views
        assert targets(cluster) == values
        # its own packages come last
        probe.stop()
        probe.start()
        wcache.wait("the memory of all OSDs", lambda: watched(wcache), 120)
        rows = wcache("memory status")["osds"]
        if values != of_all:
            assert {str(row["target_bytes"]) for row in rows} <= set(values.values())
        else:
            # what idle OSDs have stays as it is, but where it is too much for the host
            wcache.option("memory_budget", 3 * 896 * MIB)
            plans.append(applied(wcache, knob="memory"))
            assert targets(cluster) != of_all

    for plan_id in reversed(plans):
        wcache("rollback", plan_id=plan_id)
        assert ended(wcache, plan_id)["status"] == "rolled back"
    assert targets(cluster) == of_all
    assert all_views(cluster) == before

"""A cluster whose device class `starved` misses much, beside a class `idle` that does not.

Everything about memory is made small and quick: bins that reach back for seconds, one shard of
onodes for each OSD (by default each PG has one of 32), and onodes of 40 KB.
"""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import pytest
from harness import Cluster, ClusterPlan, start_cluster
from harness.osds import OsdLayout
from harness.processes import wait_until
from probes import Probe, Wcache

MIB = 2**20
NAME = "osd_memory_target"
STARVED, IDLE = (0, 1), (2, 3)
PGS = 8
LOW_BYTES = {"starved": 1024 * MIB, "idle": 1536 * MIB}
OPTIONS = {
    "throwaway_cluster": True, "poll_idle_s": 0.3, "settle_s": 0.1, "canary_wait_s": 1,
    "gate_by_load": False, "memory_floor": 896 * MIB, "memory_step_s": 1,
}


@contextmanager
def starved_cluster(release: int, edges: str, **more: Any) -> Iterator[Wcache]:
    """The cluster with the module and a probe; `edges` are those of the age bins, in seconds."""
    if release < 18:
        pytest.skip("no age bins, and no tcmalloc")
    layouts = [OsdLayout(("block",), "starved")] * len(STARVED)
    layouts += [OsdLayout(("block",), "idle")] * len(IDLE)
    bins = {
        f"bluestore cache age bins {cache}": edges for cache in ("meta", "kv", "kv_onode", "data")
    }
    plan = ClusterPlan(
        release=release, osds=layouts, conf={"osd num cache shards": "1", **bins}, **more
    )
    with start_cluster(plan) as cluster:
        cluster.enable_module("wcache")
        wcache = Wcache(cluster)
        for name, value in OPTIONS.items():
            wcache.option(name, value)
        for device_class, target in LOW_BYTES.items():
            cluster.ceph("config", "set", f"osd/class:{device_class}", NAME, str(target))
        wcache.wait("the module", lambda: wcache("status"), 60)
        probe = Probe(cluster)
        probe.start()
        try:
            wcache.wait("the memory of all OSDs", lambda: watched(wcache), 120)
            yield wcache
        finally:
            probe.stop()


@contextmanager
def reads(
    cluster: Cluster, pool: str, osds: Sequence[int], objects: int, per_s: int
) -> Iterator[None]:
    """Random reads of a pool of one copy on these OSDs, its PGs divided evenly."""
    cluster.ceph("config", "set", "global", "mon_allow_pool_size_one", "true")
    cluster.ceph("osd", "pool", "create", pool, str(PGS), str(PGS))
    cluster.ceph("osd", "pool", "set", pool, "size", "1", "--yes-i-really-mean-it")
    cluster.ceph("osd", "pool", "application", "enable", pool, "test")
    (number,) = [p["poolnum"] for p in cluster.command("osd lspools") if p["poolname"] == pool]
    for pg in range(PGS):
        cluster.ceph("osd", "pg-upmap", f"{number}.{pg:x}", str(osds[pg % len(osds)]))
    cluster.wait_healthy(60)
    script = cluster.project / "vstart-tests/worlds/reads_inside.py"
    process = cluster.popen_inside(
        [cluster.python_inside, str(script), str(cluster.conf), pool, str(objects), "40000",
         str(per_s)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline().startswith(b"written")
        yield
    finally:
        process.stdin.close()
        process.wait(timeout=30)


def watched(
    wcache: Wcache, targets: Mapping[str, int] = LOW_BYTES
) -> List[Dict[str, Any]]:
    """What is known of the OSDs, once all were watched for long enough with their targets."""
    rows: List[Dict[str, Any]] = wcache("memory status")["osds"]
    done = len(rows) == len(STARVED) + len(IDLE) and all(
        row["target_bytes"] == targets[row["device_class"]]
        and row["onode_misses_per_s"] is not None and not row["settling_s"] for row in rows
    )
    return rows if done else []


def leased(cluster: Cluster) -> Dict[int, Optional[str]]:
    """By OSD, the target that a trial has leased to it; None where it has none."""
    found = {}
    for osd_id in cluster.osds_up():
        diff = cluster.command("config diff get", target=osd_id, var=NAME)["diff"]
        found[osd_id] = diff.get(NAME, {}).get("override")
    return found


def all_back(cluster: Cluster) -> bool:
    """Whether no OSD has a lease, within a while."""
    ids = len(STARVED) + len(IDLE)
    return wait_until(
        lambda: [None] * ids == list(leased(cluster).values()), 60, 0.2
    )

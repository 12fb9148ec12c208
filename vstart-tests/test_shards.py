"""An OSD's load profile has the shards of erasure-coded pools, by counters of each release."""

from __future__ import annotations

import time
from typing import Dict

import pytest
from harness import Cluster
from wcache.core.verdict.load_profile import LoadProfile, WorkCounters, add, work_counters

pytestmark = pytest.mark.cluster

WRITES_MIN = 20
SIZE, DATA_SHARDS = 65536, 2


def counters(cluster: Cluster) -> Dict[int, WorkCounters]:
    found = {}
    for osd_id in cluster.osd_ids():
        dump = cluster.ceph_json("tell", f"osd.{osd_id}", "perf", "dump")
        found[osd_id] = work_counters(dump, time.time(), erasure_coded=True)
    assert None not in found.values()
    return found


def test_every_osd_counts_its_shard_of_each_write(steady: Cluster) -> None:
    cluster = steady
    cluster.ceph(
        "osd", "erasure-code-profile", "set", "shards", f"k={DATA_SHARDS}", "m=1",
        "crush-failure-domain=osd",
    )
    cluster.ceph("osd", "pool", "create", "shards", "1", "1", "erasure", "shards")
    try:
        cluster.run_inside(  # makes the pool's PG active, and is not counted
            ["rados", "-p", "shards", "bench", "1", "write", "-b", str(SIZE), "-t", "1"]
        )
        before = counters(cluster)
        cluster.run_inside([
            "rados", "-p", "shards", "bench", "4", "write", "-b", str(SIZE), "-t", "1",
            "--no-cleanup",
        ])
        after = counters(cluster)
    finally:
        cluster.ceph("config", "set", "mon", "mon_allow_pool_delete", "true")
        cluster.ceph("osd", "pool", "rm", "shards", "shards", "--yes-i-really-really-mean-it")
        cluster.ceph("config", "rm", "mon", "mon_allow_pool_delete")
    hours = [add(LoadProfile(), before[osd_id], after[osd_id]).total for osd_id in before]
    assert len(hours) == DATA_SHARDS + 1
    assert min(hour.client_writes for hour in hours) >= WRITES_MIN, hours
    for hour in hours:
        assert hour.client_bytes / hour.client_writes == pytest.approx(SIZE / DATA_SHARDS, rel=0.1)

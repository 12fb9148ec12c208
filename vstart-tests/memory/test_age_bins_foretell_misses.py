"""What age bins foretell of smaller targets, beside what real OSDs miss with them."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Tuple

import pytest
from harness import Cluster
from starved import MIB, NAME, STARVED, reads, starved_cluster
from wcache.knobs.memory.curve import Curve, MissCost, Rates, between, curve_of, summed
from wcache.knobs.memory.facts import widened
from wcache.knobs.memory.reading import CACHES, STEP_BYTES, OsdReading, edges_of, read

# writing the objects, settling at several targets: some minutes
pytestmark = [pytest.mark.cluster, pytest.mark.long]

EDGES = "1 2 4 6 8 12 0 0 0 0"
FROM_BYTES = 1536 * MIB
OBJECTS, READS_PER_S = 12_000, 1000
# Twice as long as the bins reach back, and PriorityCache hands memory out in steps of seconds.
SETTLE_S, COUNT_S = 30.0, 20.0
TARGETS_MIN = 2


def reading(cluster: Cluster, osd_id: int) -> OsdReading:
    """As the module reads it."""
    perf = cluster.command("perf dump", target=osd_id)
    at_s = time.time()
    diff = cluster.command("config diff get", target=osd_id, var=NAME)
    pools = cluster.command("dump_mempools", target=osd_id)
    edges = dict.fromkeys(CACHES, edges_of(EDGES))
    return read(osd_id, at_s, perf, diff, pools, "tcmalloc", edges)


def settled(cluster: Cluster, target_bytes: int) -> List[Tuple[OsdReading, Rates]]:
    """Both OSDs with this target, and what they do once their caches have settled."""
    for osd_id in STARVED:
        cluster.command("config set", target=osd_id, var=NAME, val=[str(target_bytes)])
    time.sleep(SETTLE_S)
    before = {osd_id: reading(cluster, osd_id) for osd_id in STARVED}
    time.sleep(COUNT_S)
    found = []
    for osd_id in STARVED:
        after = reading(cluster, osd_id)
        assert after.target_bytes == after.followed_bytes == target_bytes, after
        rates = between(before[osd_id].counters, after.counters)
        assert rates is not None
        found.append((after, rates))
    return found


def misses_of(found: List[Tuple[OsdReading, Rates]]) -> float:
    """Onode misses per second of both."""
    return sum(rates.onode_misses or 0.0 for _, rates in found)


def foretold(found: List[Tuple[OsdReading, Rates]]) -> Curve:
    """What both would miss together with other targets."""
    curves = [curve_of(osd, rates, MissCost(1e-3, 1e-3)) for osd, rates in found]
    return summed([curve for curve in curves if curve is not None])


def to_try(curve: Curve) -> List[int]:
    """Where a plan would go: each point of the curve, rounded up to a step."""
    steps = {-(-point.target_bytes // STEP_BYTES) * STEP_BYTES for point in curve.points}
    return sorted((t for t in steps if 1024 * MIB <= t < FROM_BYTES), reverse=True)


def test_real_osds_miss_with_smaller_targets_what_their_age_bins_foretell(release: int):
    with starved_cluster(release, EDGES) as wcache, reads(
        wcache.cluster, "reads", STARVED, OBJECTS, READS_PER_S
    ):
        cluster: Any = wcache.cluster
        begun = settled(cluster, FROM_BYTES)
        curve = foretold(begun)
        print(f"\nbins: {[osd.bins for osd, _ in begun]}")
        print(f"curve: {curve.points}")
        print(f"target MiB, foretold misses/s, promised, measured; {FROM_BYTES // MIB} "
              f"{misses_of(begun):.0f}")
        outside: Dict[int, str] = {}
        targets = to_try(curve)
        for target in targets:
            point = curve.at(target)
            low, high = widened(point.low, point.high)
            truth = misses_of(settled(cluster, target))
            line = (
                f"{target // MIB}: {point.misses:.0f} ({point.low:.0f} to {point.high:.0f}), "
                f"{low:.0f} to {high:.0f}, {truth:.0f}"
            )
            print(line)
            if not low <= truth <= high:
                outside[target] = line
        for osd_id in STARVED:
            cluster.command("config unset", target=osd_id, var=NAME)
        assert len(targets) >= TARGETS_MIN, curve
        assert not outside, outside

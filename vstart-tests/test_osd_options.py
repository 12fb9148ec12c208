"""Options of OSDs that have an entry: whether an OSD takes each at run time, and gives it back."""

from __future__ import annotations

from typing import Any, Dict

import pytest
from harness import ClusterAccess
from wcache.core.options.entries import OPTIONS, REFUSED
from wcache.core.options.option import Place

pytestmark = pytest.mark.cluster

OSD = 2  # its drive does not rotate
SSD = "bluestore_prefer_deferred_size_ssd"
OTHER = {"true": "false", "balanced": "high_recovery_ops", "high_client_ops": "balanced"}
WRITES = 64
BENCH = {"count": WRITES * 4096, "size": 4096, "object_size": 4 * 2**20, "object_num": 4}


def tell(cluster: ClusterAccess, *words: str) -> Dict[str, Any]:
    answer: Dict[str, Any] = cluster.ceph_json("tell", f"osd.{OSD}", *words)
    return answer


def value(cluster: ClusterAccess, name: str) -> str:
    return str(tell(cluster, "config", "get", name)[name])


@pytest.mark.parametrize("name", [one.name for one in OPTIONS if one.place is Place.OSD])
def test_an_osd_takes_an_option_at_run_time_and_has_what_it_had_after_unset(steady, name):
    before = value(steady, name)
    wanted = OTHER.get(before, "131072")
    steady.ceph("tell", f"osd.{OSD}", "config", "set", name, wanted)
    try:
        assert value(steady, name) == wanted
    finally:
        steady.ceph("tell", f"osd.{OSD}", "config", "unset", name)
    assert value(steady, name) == before


def deferred(cluster: ClusterAccess) -> int:
    """Writes that the OSD has deferred so far, by whichever counter its release has."""
    told = tell(cluster, "perf", "dump")["bluestore"]
    return sum(int(told.get(n, 0)) for n in ("deferred_write_ops", "issued_deferred_writes"))


def benched(cluster: ClusterAccess) -> int:
    """How many writes of a bench are deferred."""
    before = deferred(cluster)
    tell(cluster, "bench", *(str(each) for each in BENCH.values()))
    return deferred(cluster) - before


def test_the_size_below_which_writes_are_deferred_holds_from_then_on(steady):
    seen = []
    for size in ("0", "65536"):
        steady.ceph("tell", f"osd.{OSD}", "config", "set", SSD, size)
        seen.append(benched(steady))
    steady.ceph("tell", f"osd.{OSD}", "config", "unset", SSD)
    assert seen[0] < WRITES / 4 < WRITES / 2 < seen[1], seen


def test_an_osd_refuses_another_queue_at_run_time(steady, release):
    assert "osd_op_queue" in REFUSED
    queue = value(steady, "osd_op_queue")
    other = "wpq" if queue != "wpq" else "mclock_scheduler"
    assert (queue == "wpq") == (release == 16)  # so its mClock profile does nothing there
    steady.ceph("tell", f"osd.{OSD}", "config", "set", "osd_op_queue", other, check=False)
    assert value(steady, "osd_op_queue") == queue

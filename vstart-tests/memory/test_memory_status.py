"""The memory of real OSDs: read, said where its target is from, and set by a plan."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import pytest
from harness import ClusterAccess
from probes import Probe, Wcache

pytestmark = pytest.mark.cluster

NAME = "osd_memory_target"
WANTED_BYTES = 3 * 2**30


def read(wcache: Wcache) -> Optional[List[Dict[str, Any]]]:
    """What `memory status` knows of the OSDs, once it has heard of all of them."""
    rows: List[Dict[str, Any]] = wcache("memory status")["osds"]
    return rows if rows and all(row["target_bytes"] for row in rows) else None


def test_targets_are_read_from_the_osds_with_their_source(
    wcache: Wcache, running_probe: Probe, steady: ClusterAccess, release: int
):
    rows = wcache.wait("the memory of all OSDs", lambda: read(wcache))
    for row in rows:
        shown = steady.command("config get", target=row["osd_id"], var=NAME)
        assert row["target_bytes"] == int(shown[NAME])
        # Debian's 16 is built without tcmalloc: it follows no target, and counts nothing
        assert row["tunable"] is (release > 16)
        assert (row["mapped_bytes"] > 0) is (release > 16)
    (host,) = wcache("memory status")["hosts"]
    assert host["ram_bytes"] > 2**30
    assert wcache("memory recommend")["groups"]


def test_a_value_of_a_device_class_is_found_as_the_source(
    wcache: Wcache, running_probe: Probe, steady: ClusterAccess
):
    device_class = wcache.wait("the OSDs", lambda: read(wcache))[0]["device_class"]
    who = f"osd/class:{device_class}"
    steady.command("config set", who=who, name=NAME, value=str(WANTED_BYTES))
    try:

        def taken() -> bool:
            mine = [row for row in read(wcache) or () if row["device_class"] == device_class]
            return bool(mine) and all(
                row["source"] == "class" and row["target_bytes"] == WANTED_BYTES for row in mine
            )

        wcache.wait("the value of the class", taken)
    finally:
        steady.command("config rm", who=who, name=NAME)

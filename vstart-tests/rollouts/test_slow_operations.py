"""Beside slow operations what is gentle is measured, and nothing else is; each says why."""

from __future__ import annotations

from typing import Iterator

import pytest
from harness import CommandError
from rollouts.rig import Rig

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

DEPTH = 16
LIMIT_MS = 20_000  # beside other tests clients wait for seconds
COMPLAINT, ANY_S = "osd_op_complaint_time", 0.001  # what takes longer is slow
SLOW_OPS = "no slow operations (SLOW_OPS)"


@pytest.fixture
def complaint(rig: Rig) -> Iterator[None]:
    """Ceph complains of any operation."""
    rig.cluster.ceph("config", "set", "osd", COMPLAINT, str(ANY_S))
    yield
    rig.cluster.ceph("config", "rm", "osd", COMPLAINT)


def refused(rig: Rig) -> bool:
    """Whether a bench of osd.0 is refused because of its slow operations."""
    try:
        rig.wcache("campaign start", scope="osd.0", loads="depth1", dry_run=True)
    except CommandError as error:
        return "slow operations (SLOW_OPS): osd.0" in str(error)
    return False


def test_people_may_look_and_ask_beside_slow_operations(
    rig: Rig, tidy: None, complaint: None
):
    with rig.clients(DEPTH), rig.options(latency_limit_ms=LIMIT_MS):
        # the first health check names some OSDs only
        rig.wcache.wait("a refusal because of osd.0", lambda: refused(rig), 90)
        done = rig.wcache.done
        (looked,) = done(scope="osd.0", loads="traffic", observe=True)["observed"]
        assert looked["table"]["n"] > 0
        (result,) = done(scope="osd.0", loads="traffic", pairs=4)["results"]
        record = rig.wcache("campaign record", record_id=result["record_id"])
        assert SLOW_OPS in record["missed_preconditions"]
        tried = rig.wcache("try", scope="osd.1", dry_run=True)
        assert (tried["state"], tried["in_the_way"]) == ("forecast", [])
        assert tried["next"] == "ceph wcache try osd.1 --accept-cost"
    assert rig.changed() == set()

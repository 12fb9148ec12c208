"""Beside slow operations what is gentle is measured, and rollouts wait; each says why."""

from __future__ import annotations

from typing import Callable, Iterator

import pytest
from harness import CommandError
from rollouts.rig import Rig

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

DEPTH = 16
LIMIT_MS = 20_000  # beside other tests clients wait for seconds
STARVED, WRITES_PER_S = 4, 20
# What an operation may take here before Ceph calls it slow: nothing, and then something.
ANY_S, COMPLAINT_S = 0.001, 0.2
SLOW_OPS = "no slow operations (SLOW_OPS)"
Throttle = Callable[[int, str, int], None]


@pytest.fixture
def complaint(rig: Rig) -> Iterator[Callable[..., None]]:
    """Sets when Ceph complains; afterwards as it was, and forgotten soon."""
    def when(**values: float) -> None:
        for name, value in values.items():
            rig.cluster.ceph("config", "set", "osd", name, str(value), check=False)

    yield when
    rig.cluster.ceph("config", "set", "osd", "bluestore_slow_ops_warn_lifetime", "1", check=False)
    for name in ("osd_op_complaint_time", "bluestore_log_op_age"):
        rig.cluster.ceph("config", "rm", "osd", name, check=False)


def raised(rig: Rig, code: str) -> None:
    """Wait until Ceph raises a health check."""
    rig.wcache.wait(code, lambda: code in rig.cluster.health_checks(), 90)


def test_a_rollout_waits_for_slow_operations_in_bluestore_and_names_the_osd(
    rig: Rig, tidy: None, complaint: Callable[..., None], throttle: Throttle
):
    # comes first: what the other test measures may leave the class undecided on a busy machine
    complaint(
        osd_op_complaint_time=COMPLAINT_S, bluestore_log_op_age=COMPLAINT_S,
        bluestore_slow_ops_warn_lifetime=3600,
    )
    try:
        rig.cluster.command("config help", key="bluestore_slow_ops_warn_lifetime")
    except CommandError:
        pytest.skip("this release has no BLUESTORE_SLOW_OP_ALERT")
    plan_id = rig.plan(device_class="hdd")
    with rig.clients(DEPTH):
        throttle(STARVED, "write_iops", WRITES_PER_S)
        raised(rig, "BLUESTORE_SLOW_OP_ALERT")
        throttle(STARVED, "write_iops", 0)
    rig.wcache.wait("no SLOW_OPS", lambda: "SLOW_OPS" not in rig.cluster.health_checks(), 90)

    def refusal() -> str:
        try:
            rig.wcache("apply", plan_id=plan_id)
        except CommandError as error:
            return str(error)
        raise AssertionError("it was applied")

    said = refusal()
    print(said)
    assert "BLUESTORE_SLOW_OP_ALERT" in said
    assert f"osd.{STARVED} (seen since " in said
    assert rig.changed() == set()
    rig.cluster.ceph("config", "set", "osd", "bluestore_slow_ops_warn_lifetime", "1")
    rig.wcache.wait(
        "the end of it",
        lambda: "BLUESTORE_SLOW_OP_ALERT" not in rig.cluster.health_checks(), 120,
    )
    rig.begin(plan_id)
    assert rig.shown(plan_id)["status"] == "running"


def test_people_may_look_and_ask_beside_slow_operations(
    rig: Rig, tidy: None, complaint: Callable[..., None]
):
    complaint(osd_op_complaint_time=ANY_S)
    with rig.clients(DEPTH), rig.options(latency_limit_ms=LIMIT_MS):
        raised(rig, "SLOW_OPS")
        with pytest.raises(CommandError, match="have slow operations"):
            rig.wcache("campaign start", scope="osd.0", loads="depth1", accept_cost=True)
        done = rig.wcache.done
        (looked,) = done(scope="osd.0", loads="traffic", observe=True)["observed"]
        assert looked["table"]["n"] > 0
        (result,) = done(scope="osd.0", loads="traffic", pairs=4)["results"]
        record = rig.wcache("campaign record", record_id=result["record_id"])
        assert record["missed_preconditions"] == [SLOW_OPS]
        tried = rig.wcache("try", scope="osd.1")
        assert (tried["state"], tried["in_the_way"]) == ("forecast", [])
        assert tried["next"] == "ceph wcache try osd.1 --accept-cost"
    assert rig.changed() == set()

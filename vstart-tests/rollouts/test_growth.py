"""A cluster that grows by itself is measured and set by itself: nobody watches."""

from __future__ import annotations

import re
import time
from typing import Any, Dict, Iterator, List

import pytest
from rollouts.growth import CLASS, KNOWN, QUIET_S, UNKNOWN, Growing, growing
from rollouts.hosts import BACK, THROUGH, Witness
from wcache.core.verdict.foreign import PAIRS

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.one_release]

OLD, OTHER_CLASS = (0, 1), (2, 3)
# Longer than two of the automation's looks.
LOOKS_S = 12.0
NOTHING_MOVES = ("norebalance", "nobackfill", "norecover")
MEASURED_S = 900.0


@pytest.fixture(scope="module")
def rig(release: int) -> Iterator[Growing]:
    """Two OSDs of a known drive model, and two of another class."""
    with growing(release) as made:
        yield made


def lines(rig: Growing, what: str) -> List[str]:
    """The history of one sort, oldest first."""
    rows: List[Dict[str, Any]] = rig.wcache("history", what=what, limit=1000)["history"]
    ordered = sorted(rows, key=lambda row: float(row["at_s"]))
    return [f"{row['who']}, {row['what']}: {row['text']}" for row in ordered]


class Idle:
    """Whether nothing was under way, new or waited for in two of its looks."""

    def __init__(self, rig: Growing) -> None:
        self._rig = rig
        self._since_s = time.monotonic()

    def __call__(self) -> bool:
        status = self._rig.status()
        if status["under_way"] or status["new_drives"] or status["waiting"]:
            self._since_s = time.monotonic()
        return time.monotonic() - self._since_s > LOOKS_S


def decided(rig: Growing) -> Dict[str, str]:
    """By drive model: the mode that is recommended, or why none is."""
    rows = rig.wcache("recommend", scope=f"class:{CLASS}")["recommendations"]
    return {row["drive_model"]["model"]: row["mode"] or row["why"] for row in rows}


def test_two_osds_of_a_known_and_an_unknown_drive_model_are_dealt_with_unattended(rig: Growing):
    wcache, cluster = rig.wcache, rig.cluster
    wcache("auto", mode="apply", scope=f"class:{CLASS}")
    wcache.wait("the standing mode", lambda: rig.changed() == set(OLD), 300)
    wcache.wait("the end of it", Idle(rig))
    campaigns, plans, told = rig.campaigns(), rig.plans(), len(lines(rig, "automation"))

    # it grows, and data moves for as long as we like
    rig.fill()
    for flag in NOTHING_MOVES:
        cluster.ceph("osd", "set", flag)
    grows_at_s = time.time()
    new = {KNOWN: rig.add("h1", KNOWN), UNKNOWN: rig.add("h3", UNKNOWN)}
    witness = Witness(rig)
    with witness.looking():
        wcache.wait("the new drives", lambda: rig.status()["new_drives"] == 2, 120)
        time.sleep(LOOKS_S)
        status = rig.status()
        said = "\n".join([status["waiting"], *status["left_alone"]])
        # where objects of theirs are missing, the new OSDs themselves are not well
        assert re.search("the cluster is not healthy|osd.4 has PGs that are", said), status
        assert rig.campaigns() == campaigns
        freed_at_s = time.time()
        for flag in NOTHING_MOVES:
            cluster.ceph("osd", "unset", flag)
        cluster.wait_healthy(120)
        idle = Idle(rig)
        wcache.wait(
            "both to be measured",
            lambda: len(rig.campaigns() - campaigns) == len(new) and idle(), MEASURED_S,
        )

    # each was measured once and after the quiet time: the known one briefly, the other one whole
    pairs = {}
    for shown in map(wcache.campaign, sorted(rig.campaigns() - campaigns)):
        (osd_id,) = {each["osd_id"] for each in shown["results"]}
        (model,) = {each["drive_model"]["model"] for each in shown["results"]}
        assert new[model] == osd_id
        # that data moves is not waited for, once it may
        assert shown["created_at_s"] >= max(freed_at_s, grows_at_s + QUIET_S)
        pairs[model] = {each["load_point"]: each["pairs"] for each in shown["results"]}
    print(f"\npairs: {pairs}")
    assert set(pairs) == set(new)
    assert list(pairs[KNOWN]) == ["osd_bench_depth1"]
    assert pairs[KNOWN]["osd_bench_depth1"] <= PAIRS
    # what is decided is set, and nothing else
    modes = decided(rig)
    print(f"modes: {modes}")
    made = {osd_id for model, osd_id in new.items() if modes[model] == THROUGH}
    assert rig.changed() == {*OLD, *made}
    # nothing else was touched: neither the old drives of that model nor the other class
    assert {osd_id for _, osd_id in witness.made} == set(new.values())
    assert {rig.mode(osd_id) for osd_id in OTHER_CLASS} == {BACK}
    changes = [
        change for plan_id in rig.plans() - plans
        for change in wcache("plan show", plan_id=plan_id)["changes"]
    ]
    assert sorted((c["osd_id"], c["status"]) for c in changes) == sorted(
        (osd_id, "applied") for osd_id in made
    )
    # and the history has all of it
    text = "\n".join(lines(rig, "automation")[told:])
    print(text)
    for words in (
        f"a new drive of a drive model with a verdict is confirmed: class {CLASS}, drive model "
        f"ACME {KNOWN} 1.0",
        f"a drive model without a verdict is measured: class {CLASS}, drive model ACME {UNKNOWN} "
        "1.0",
    ):
        assert text.count(words) == 1, text
    changed = "\n".join(lines(rig, "change"))
    assert all(f" {rig.device(osd_id).name}: {BACK} to {THROUGH}" in changed for osd_id in made)
    if made != set(new.values()):
        pytest.skip(f"this machine is too busy to tell, and nothing was set that is not: {modes}")

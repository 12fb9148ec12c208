"""osd_memory_target under cephadm: its autotuner sets it, until a host is taken over from it."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import pytest
from cephadm.route import heard
from cephadm_rig import CephadmCluster
from probes import Wcache

pytestmark = [pytest.mark.cephadm, pytest.mark.long]

TARGET = "osd_memory_target"
LABEL = "_no_autotune_memory"
HOST = "h2"
GIB = 2**30
# cephadm's loop, on a machine that is busy; the autotuner works in each turn of it here
TURN_S = 600.0


@pytest.fixture
def autotuner(rig: CephadmCluster) -> Iterator[None]:
    """cephadm's autotuner looks at each turn of its loop, and not each ten minutes."""
    rig.ceph("config", "set", "mgr", "mgr/cephadm/autotune_interval", "1")
    yield
    rig.ceph("config", "rm", "mgr", "mgr/cephadm/autotune_interval")


def targets(rig: CephadmCluster) -> Dict[str, int]:
    """osd_memory_target in the config database, by the section and mask that it is set for."""
    found = {}
    for entry in rig.command("config dump"):
        if entry["name"] == TARGET:
            place = f"/{entry['mask']}" if entry["mask"] else ""
            found[f"{entry['section']}{place}"] = int(float(entry["value"]))
    return found


def labels(rig: CephadmCluster, host: str) -> List[str]:
    """The labels of a host at cephadm."""
    (row,) = [r for r in rig.command("orch host ls", target="mgr") if r["hostname"] == host]
    return list(row["labels"])


def turn(wcache: Wcache, rig: CephadmCluster, host: str) -> int:
    """Wait for the autotuner's next turn: what was removed of another host is set again."""
    rig.ceph("config", "rm", f"osd/host:{host}", TARGET)
    key = f"osd/host:{host}"
    wcache.wait("the autotuner", lambda: key in targets(rig), TURN_S)
    return targets(rig)[key]


def to_its_end(wcache: Wcache, plan_id: str, status: str) -> Dict[str, Any]:
    """Wait until a plan has come to a status."""
    shown: Dict[str, Any] = {}

    def there() -> bool:
        shown.update(wcache("plan show", plan_id=plan_id))
        return shown["status"] == status

    wcache.wait(f"{plan_id} {status}", there, 240)
    return shown


def test_the_autotuners_targets_are_seen_with_the_gib_that_a_probe_costs(
    wcache: Wcache, rig: CephadmCluster, views: Dict[str, str], autotuner: None
):
    with_probe = turn(wcache, rig, HOST)
    shown = wcache.wait("its reading", lambda: [
        row for row in wcache("memory status")["osds"]
        if row["host"] == HOST and row["target_bytes"] == with_probe
    ], 400)
    assert {row["source"] for row in shown} == {"autotuner"}
    codes = {(row["code"], row["subject"]) for row in wcache("status")["findings"]}
    assert ("WCACHE_MEMORY_NOT_TUNABLE", HOST) in codes
    # without the probe there is a GiB more for the one OSD of the host
    name = f"container.wcache-{HOST}"
    spec = rig.ceph("orch", "ls", "--service_name", name, "--export").stdout
    rig.ceph("orch", "rm", name)
    wcache.wait("a target without it", lambda: (
        abs(targets(rig).get(f"osd/host:{HOST}", 0) - with_probe - GIB) < GIB / 64
    ), TURN_S)
    # as the script of `agent add` says: the label keeps what there is
    rig.ceph("orch", "host", "label", "add", HOST, LABEL)
    kept = targets(rig)[f"osd/host:{HOST}"]
    rig.ceph("orch", "apply", "-i", "-", input_text=spec)
    wcache.wait("the probe", lambda: HOST in heard(wcache), 300)
    turn(wcache, rig, "h1")
    assert targets(rig)[f"osd/host:{HOST}"] == kept
    rig.ceph("orch", "host", "label", "rm", HOST, LABEL)


@pytest.fixture
def less(rig: CephadmCluster, wcache: Wcache, autotuner: None) -> Iterator[int]:
    """A budget a little under what the host's OSD has: its target goes down in a step or two."""
    now = turn(wcache, rig, HOST)
    budget = int(0.97 * now)
    options = {"memory_budget": budget, "memory_floor": int(0.95 * now), "memory_step_s": 1}
    for name, value in options.items():
        wcache.option(name, value)
    yield budget
    for name in options:
        rig.ceph("config", "rm", "mgr", f"mgr/wcache/{name}")


def test_a_host_is_taken_over_from_the_autotuner_which_works_on_and_given_back(
    wcache: Wcache, rig: CephadmCluster, views: Dict[str, str], less: int
):
    before = targets(rig)
    wcache.wait("an OSD that was watched", lambda: [
        row for row in wcache("memory status")["osds"]
        if row["host"] == HOST and row["target_bytes"] == before[f"osd/host:{HOST}"]
        and row["onode_misses_per_s"] is not None and not row["settling_s"]
    ], 400)
    plan = wcache("plan", knob="memory", override=f"autotuner:{HOST}")
    edits = [edit for change in plan["changes"] for edit in change["edits"]]
    assert (f"{HOST}/cephadm", LABEL) in {(edit["who"], edit["name"]) for edit in edits}
    # the last step of each section; the host's own value goes, which overrides that of a class
    ours = {edit["who"]: edit["value"] for edit in edits if edit["name"] == TARGET}
    assert ours.pop(f"osd/host:{HOST}") is None, edits
    ((key, value),) = ours.items()
    assert 0.9 * less < int(value) <= less
    wcache("apply", plan_id=plan["plan_id"])
    to_its_end(wcache, plan["plan_id"], "done")

    # the autotuner works on, at the other host, and leaves this one alone; so do we the other one
    turn(wcache, rig, "h1")
    now = targets(rig)
    assert now[key] == int(value)
    assert f"osd/host:{HOST}" not in now
    assert [LABEL in labels(rig, host) for host in ("h1", HOST)] == [False, True]
    assert wcache("plan show", plan_id=plan["plan_id"])["status"] == "done"

    wcache("rollback", plan_id=plan["plan_id"])
    to_its_end(wcache, plan["plan_id"], "rolled back")
    assert LABEL not in labels(rig, HOST)
    assert set(targets(rig)) == set(before)
    # it has the host again, and nothing of the plan undoes what it sets
    given_back = turn(wcache, rig, HOST)
    turn(wcache, rig, "h1")
    assert targets(rig)[f"osd/host:{HOST}"] == given_back

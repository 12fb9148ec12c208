"""Plans on a real cluster: stopped in the middle, and held while the cluster is not well."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
from harness import ClusterAccess, CommandError
from probes import Probe, Wcache, all_views, kernel_view

pytestmark = pytest.mark.cluster

POOL = "wcache-unclean"
WELL = "the OSDs on the drive are well"
# Longer than a mgr takes to hear of a PG that is not clean.
CANARY_S = 15
TRIES = 3


class Plan:
    """A plan for a device class, by what was measured in it."""

    def __init__(self, wcache: Wcache, device_class: str) -> None:
        self._wcache = wcache
        self._device_class = device_class
        self.make()

    def make(self) -> None:
        """Make a plan, and be that one from now on."""
        planned = self._wcache("plan", scope=f"class:{self._device_class}")
        assert planned["plan_id"], planned["left_alone"]
        self.plan_id = str(planned["plan_id"])

    def now(self) -> Dict[str, Any]:
        shown: Dict[str, Any] = self._wcache("plan show", plan_id=self.plan_id)
        return shown

    def first_is(self, status: str) -> bool:
        return bool(self.now()["changes"][0]["status"] == status)

    def over(self) -> bool:
        return self.now()["status"] not in ("running", "rolling back")

    def keep_first(self) -> None:
        """Wait until the first change is in place, in an apply that has begun.

        A canary that this machine's noise makes look worse goes back: another plan is made and
        applied.
        """
        for _ in range(TRIES):
            self._wcache.wait(
                "a change to be in place", lambda: self.first_is("applied") or self.over()
            )
            if self.first_is("applied"):
                return
            shown = self.now()
            assert "latency" in shown["reason"], shown["reason"]
            self.make()
            self._wcache("apply", plan_id=self.plan_id)
        raise AssertionError(f"no canary was kept: {shown['reason']}")


@pytest.fixture(scope="module")
def measured(wcache: Wcache, running_probe: Probe, own_class: str) -> str:
    """The device class in which osd.0 was measured, and is better off in write through."""
    wcache.decide(own_class, scope="osd.0", loads="depth1", seed=7)
    assert wcache.advice(own_class)["mode"] == "write through"
    return own_class


@pytest.fixture
def plan(wcache: Wcache, probe: Probe, steady: ClusterAccess, measured: str) -> Iterator[Plan]:
    """A plan whose canary is watched for a while; afterwards all is as it was before."""
    before = all_views(steady)
    wcache.option("canary_wait_s", CANARY_S)
    made = Plan(wcache, measured)
    yield made
    wcache.option("canary_wait_s", 1)
    if made.now()["status"] != "planned":
        wcache("rollback", plan_id=made.plan_id)
        wcache.wait("the way back", made.over)
    assert all_views(steady) == before


@pytest.fixture
def unclean(steady: ClusterAccess) -> Iterator[Any]:
    """Makes and removes a pool that wants more copies than there are OSDs."""
    steady.ceph("config", "set", "mon", "mon_allow_pool_delete", "true")

    def make(wanted: bool) -> None:
        if wanted:
            steady.ceph("osd", "pool", "create", POOL, "1")
            steady.ceph("osd", "pool", "set", POOL, "size", "7")
            steady.ceph("osd", "pool", "set", POOL, "min_size", "1")
        elif POOL in steady.ceph("osd", "pool", "ls").stdout.split():
            steady.ceph("osd", "pool", "rm", POOL, POOL, "--yes-i-really-really-mean-it")

    yield make
    make(False)
    steady.ceph("config", "rm", "mon", "mon_allow_pool_delete")


def wait_until_known(wcache: Wcache) -> None:
    """Until the mgr has heard of the PG, which makes all of its OSDs ill."""
    wcache.wait("the mgr to know", lambda: wcache("status")["cluster"]["ill"]["osds"] > 1)


@pytest.mark.one_release
def test_a_rollback_of_a_plan_under_way_stops_it_and_goes_back(
    wcache: Wcache, plan: Plan, steady: ClusterAccess
):
    before = all_views(steady)
    assert wcache("apply", plan_id=plan.plan_id)["changed"] is True
    drive = Path(plan.now()["changes"][0]["dev_names"][0])
    wcache.wait("the canary", lambda: kernel_view(drive) == "write through")
    answer = wcache("rollback", plan_id=plan.plan_id)
    assert (answer["changed"], answer["status"]) == (True, "rolling back")
    wcache.wait("the way back", plan.over)
    assert plan.now()["status"] == "rolled back"
    assert all_views(steady) == before
    for command in (("apply", plan.plan_id), ("recommend", "class:zzz"), ("plan", "class:zzz")):
        answer = steady.ceph("wcache", *command, check=False)
        assert answer.rc != 0
        assert len(answer.stderr.strip().splitlines()) == 1
    again = steady.ceph("wcache", "apply", plan.plan_id, check=False).stderr
    assert "make a new one with `ceph wcache plan`" in again


def test_a_dry_run_asks_the_mons_and_a_frozen_cluster_lets_a_plan_go_back(
    wcache: Wcache, plan: Plan, steady: ClusterAccess
):
    before = all_views(steady)
    would = wcache("apply", plan_id=plan.plan_id, dry_run=True)
    assert (would["missed"], would["next"]) == ([], f"ceph wcache apply {plan.plan_id}")
    assert would["seconds_most"] > CANARY_S
    wcache("apply", plan_id=plan.plan_id)
    with pytest.raises(CommandError, match=f"plan {plan.plan_id} is under way"):
        wcache("campaign start", scope="osd.0", loads="timer")
    plan.keep_first()
    frozen = wcache("freeze")
    assert (frozen["frozen"], frozen["changed"]) == (True, True)
    try:
        assert steady.ceph("config-key", "get", "mgr/wcache/frozen").stdout.strip() == "1"
        wcache.wait("its end", plan.over)
        assert plan.now()["status"] == "stopped"
        assert wcache("rollback", plan_id=plan.plan_id)["changed"] is True
        wcache.wait("the way back", plan.over)
        assert plan.now()["status"] == "rolled back"
        assert all_views(steady) == before
    finally:
        wcache("freeze", thaw=True)


@pytest.mark.one_release
def test_an_option_counts_as_long_as_the_mons_have_a_value_of_it(
    wcache: Wcache, plan: Plan, steady: ClusterAccess
):
    name = "mgr/wcache/gate_by_load"

    def judged_by() -> str:
        plan.make()
        told = str(wcache("apply", plan_id=plan.plan_id, dry_run=True)["judged_by"])
        return told.split()[0]

    in_force = {row["name"] for row in steady.command("config dump") if row["section"] == "mgr"}
    assert {"mgr/wcache/throwaway_cluster", "mgr/wcache/lease_ttl_s", name} <= in_force
    active = steady.command("mgr stat")["active_name"]
    try:
        for section in ("mgr", "global", f"mgr.{active}"):
            steady.ceph("config", "set", section, name, "false")
            assert judged_by() == "a", section  # a bench
            steady.ceph("config", "rm", section, name)
            assert judged_by() == "clients'", section
        # without a command that begins something it takes a moment
        was = wcache("status")["throwaway_cluster"]
        for value in (not was, was):
            wcache.option("throwaway_cluster", value)
            wcache.wait("it", lambda: wcache("status")["throwaway_cluster"] is value, 5)  # noqa: B023
        # what a module keeps under the name of an option is none
        steady.ceph("config-key", "set", name, "false")
        assert judged_by() == "clients'"
    finally:
        steady.ceph("config-key", "rm", name)
        wcache.option("gate_by_load", False)
    assert judged_by() == "a"


@pytest.mark.one_release
def test_a_plan_waits_while_pgs_are_not_clean_and_goes_on_when_told_to(
    wcache: Wcache, plan: Plan, steady: ClusterAccess, unclean: Any
):
    changes = plan.now()["changes"]
    assert len(changes) > 1
    assert {change["failure_domain"] for change in changes} != {""}
    for _ in range(TRIES):
        assert wcache("apply", plan_id=plan.plan_id)["changed"] is True
        wcache.wait("the canary", lambda: plan.first_is("applying"))
        unclean(True)
        wait_until_known(wcache)
        wcache.wait("the plan to wait", lambda: plan.now()["missed"] or plan.over())
        shown = plan.now()
        if shown["status"] != "rolled back":
            break
        # a canary that this machine's noise makes look worse goes back: another plan
        unclean(False)
        plan.make()
    assert shown["status"] == "running"
    assert shown["missed"] == [WELL], shown["reason"]
    # what was begun is finished, and nothing is begun
    done = [change["status"] for change in shown["changes"]].count("applied")
    rest = len(changes) - done
    assert min(done, rest) > 0
    assert [c["status"] for c in shown["changes"]] == ["applied"] * done + ["planned"] * rest
    assert wcache("apply", plan_id=plan.plan_id, override="osds_well")["changed"] is True
    wcache.wait("the end", plan.over, 120)
    assert plan.now()["forced"] == [WELL]
    assert plan.now()["changes"][done]["status"] != "planned", plan.now()["reason"]


def test_a_plan_is_not_begun_while_pgs_are_not_clean(
    wcache: Wcache, plan: Plan, steady: ClusterAccess, unclean: Any
):
    unclean(True)

    wait_until_known(wcache)
    with pytest.raises(CommandError, match="--override=osds_well"):
        wcache("apply", plan_id=plan.plan_id)
    assert plan.now()["status"] == "planned"

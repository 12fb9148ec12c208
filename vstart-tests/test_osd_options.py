"""Options of OSDs that have an entry: whether an OSD takes each at run time, and gives it back.

And `ceph wcache ab` over them: what the mgr gives an OSD goes back, whatever becomes of the mgr.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest
from harness import ClusterAccess, CommandError, HarnessError
from harness.console import Console
from harness.processes import wait_until
from probes import Probe, Wcache
from wcache.core.options.entries import OPTIONS, REFUSED
from wcache.core.options.option import Place
from worlds.what_stands import applied, ended

pytestmark = pytest.mark.cluster

OSD = 2  # its drive does not rotate
ROTATES = 1
SSD = "bluestore_prefer_deferred_size_ssd"
THROTTLE = "bluestore_throttle_bytes"
BATCH = "bluestore_deferred_batch_ops_hdd"
OTHER = {"true": ["false"], "balanced": ["high_recovery_ops"], "high_client_ops": ["balanced"]}
WRITES, SINGLE = 64, 20
BENCH = {"count": WRITES * 4096, "size": 4096, "object_size": 4 * 2**20, "object_num": 4}


def tell(cluster: ClusterAccess, *words: str, osd: int = OSD) -> Dict[str, Any]:
    answer: Dict[str, Any] = cluster.ceph_json("tell", f"osd.{osd}", *words)
    return answer


def value(cluster: ClusterAccess, name: str) -> str:
    return str(tell(cluster, "config", "get", name)[name])


@pytest.mark.parametrize(
    "entry", [one for one in OPTIONS if one.place is Place.OSD], ids=lambda one: one.name
)
def test_an_osd_takes_an_option_at_run_time_and_has_what_it_had_after_unset(steady, entry):
    before = value(steady, entry.name)
    for wanted in OTHER.get(before, (str(entry.low), str(entry.high))):
        steady.ceph("tell", f"osd.{OSD}", "config", "set", entry.name, wanted)
        try:
            assert value(steady, entry.name) == wanted
        finally:
            steady.ceph("tell", f"osd.{OSD}", "config", "unset", entry.name)
    assert value(steady, entry.name) == before


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


def test_what_may_be_on_its_way_at_once_holds_from_then_on(steady):
    seen = {}
    for size in ("65536", "67108864"):
        steady.ceph("tell", f"osd.{OSD}", "config", "set", THROTTLE, size)
        before = tell(steady, "perf", "dump")[f"throttle-{THROTTLE}"]
        benched(steady)
        after = tell(steady, "perf", "dump")[f"throttle-{THROTTLE}"]
        assert after["max"] == int(size)
        seen[size] = after["wait"]["avgcount"] - before["wait"]["avgcount"]
    steady.ceph("tell", f"osd.{OSD}", "config", "unset", THROTTLE)
    assert seen["67108864"] == 0 < seen["65536"], seen


def queued(cluster: ClusterAccess) -> Tuple[int, float]:
    """How many deferred writes the drive was given so far, and how long all had waited for it."""
    told = tell(cluster, "perf", "dump", osd=ROTATES)["bluestore"]["state_deferred_queued_lat"]
    return told["avgcount"], told["sum"]


def waits_s(cluster: ClusterAccess) -> float:
    """How long a deferred write waits, of some that come one after the other."""
    count, waited_s = queued(cluster)
    for _ in range(SINGLE):
        cluster.command("bench", target=ROTATES, count=4096, size=4096)
    # what is left is drained after 3 s, bluestore_max_defer_interval
    assert wait_until(lambda: queued(cluster)[0] >= count + SINGLE, 30.0)
    later, all_s = queued(cluster)
    return (all_s - waited_s) / (later - count)


def test_how_long_deferred_writes_wait_for_each_other_holds_from_then_on(steady):
    seen = {}
    for batch in ("64", "1"):
        steady.ceph("tell", f"osd.{ROTATES}", "config", "set", BATCH, batch)
        seen[batch] = waits_s(steady)
    steady.ceph("tell", f"osd.{ROTATES}", "config", "unset", BATCH)
    assert seen["1"] < seen["64"] / 10, seen


def test_an_osd_refuses_another_queue_at_run_time(steady, release):
    assert "osd_op_queue" in REFUSED
    queue = value(steady, "osd_op_queue")
    other = "wpq" if queue != "wpq" else "mclock_scheduler"
    assert (queue == "wpq") == (release == 16)  # so its mClock profile does nothing there
    steady.ceph("tell", f"osd.{OSD}", "config", "set", "osd_op_queue", other, check=False)
    assert value(steady, "osd_op_queue") == queue


# Neither defers a bench's writes of 4 KiB: what differs between them is planted.
SLOW, FAST, ADMINS, OTHER_SIZE = "1", "2", "4", "8"
TRIAL = f"{SSD}={SLOW},{FAST}"
RUNS_S, STANDS_S = 0.002, 0.018  # of the OSD in turn, where it is made slow
ASKED_EVERY_S = 1.0
REPEATED_MAX = 3  # a busy machine leaves a verdict open, which is no failure
PROFILES = "osd_mclock_profile=balanced,high_client_ops"


class Watched:
    """The value that the OSD has been given at run time, and every one that it had before.

    With `slow_at` the OSD is made slow while it has that one.
    """

    def __init__(self, cluster: ClusterAccess, name: str, slow_at: str = "") -> None:
        self._console = Console(cluster.popen_inside, cluster.python_inside, cluster.conf)
        self._name, self._slow_at = name, slow_at
        self._pid = cluster.osd_pid(OSD)
        self._over = threading.Event()
        self.had: List[Optional[str]] = []
        self._threads = [threading.Thread(target=one) for one in (self._watch, self._hinder)]
        for thread in self._threads:
            thread.start()

    @property
    def now(self) -> Optional[str]:
        return self.had[-1] if self.had else None

    def close(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._console.close()

    def _watch(self) -> None:
        # an OSD does one command after the other, benches too, so it is asked no more than needed;
        # what a mgr gives back may last for an instant
        every_s = ASKED_EVERY_S if self._slow_at else RUNS_S
        while not self._over.wait(every_s):
            try:
                told = self._console.command(
                    "config diff get", target=OSD, timeout_s=10.0, var=self._name
                )
            except HarnessError:
                continue
            found = told["diff"].get(self._name, {}).get("override")
            value = None if found is None else str(found)
            if not self.had or self.had[-1] != value:
                self.had.append(value)

    def _hinder(self) -> None:
        """Also while the OSD is asked: in the time between it would catch up."""
        while not self._over.wait(RUNS_S):
            if self._slow_at and self.now == self._slow_at:
                os.kill(self._pid, signal.SIGSTOP)
                time.sleep(STANDS_S)
                os.kill(self._pid, signal.SIGCONT)


@pytest.fixture
def watch(wcache: Wcache, probe: Probe, steady: ClusterAccess) -> Iterator[Any]:
    """Begins a watch; after the test the OSD has what it had, and no campaign goes on."""
    begun: List[Watched] = []

    def begin(name: str = SSD, slow_at: str = "") -> Watched:
        begun.append(Watched(steady, name, slow_at))
        return begun[-1]

    before = {name: value(steady, name) for name in (SSD, THROTTLE)}
    yield begin
    for one in begun:
        one.close()
    for campaign in wcache("campaign ls")["campaigns"]:  # of a test that failed
        if campaign["status"] == "running":
            wcache("campaign stop", campaign_id=campaign["campaign_id"])
            wcache.wait_over(campaign["campaign_id"])
    for name, had in before.items():
        assert value(steady, name) == had
        assert at_run_time(steady, name) is None


def at_run_time(cluster: ClusterAccess, name: str = SSD) -> Optional[str]:
    told = cluster.command("config diff get", target=OSD, var=name)["diff"].get(name, {})
    return None if told.get("override") is None else str(told["override"])


def in_database(cluster: ClusterAccess, name: str) -> Optional[str]:
    """What the config database has for the OSD itself."""
    rows = cluster.ceph_json("config", "dump")
    found = [row["value"] for row in rows if (row["section"], row["name"]) == (f"osd.{OSD}", name)]
    return str(found[0]) if found else None


@pytest.fixture
def stored(steady: ClusterAccess) -> Iterator[Any]:
    """Sets the OSD's value in the config database, which has none after the test."""
    who = f"osd.{OSD}"
    yield lambda name, wanted: steady.ceph("config", "set", who, name, wanted)
    for name in (SSD, THROTTLE):
        steady.ceph("config", "rm", who, name)


def drifted(wcache: Wcache) -> Any:
    """What is found not to stand there any more, once the config database was read again."""
    wcache("plan", knob="options", dry_run=True)
    return [f for f in wcache("status")["findings"] if f["code"] == "WCACHE_OPTION_DRIFT"]


def compare(wcache: Wcache, trial: str = TRIAL, **more: Any) -> str:
    asked = {
        "option": trial, "scope": f"osd.{OSD}", "loads": "batch", "accept_cost": True, **more,
    }
    return str(wcache.wait("a campaign", lambda: wcache("ab", **asked))["campaign_id"])


def compared(wcache: Wcache, **more: Any) -> Dict[str, Any]:
    shown = wcache.wait_over(compare(wcache, **more), 600.0)
    (result,) = shown["option_results"]
    assert shown["run_list"][0]["restored"] is True
    return dict(result)


@pytest.mark.long  # an option of an OSD settles for 10 s in each period
@pytest.mark.one_release
@pytest.mark.parametrize(
    ("name", "slow", "fast", "planted"),
    [(SSD, SLOW, FAST, True), (THROTTLE, "65536", "67108864", False)], ids=["planted", "its own"],
)
def test_an_effect_of_it_is_found_applied_missed_when_gone_and_taken_back(
    wcache, steady, watch, stored, name, slow, fast, planted
):
    watched = watch(name, slow_at=slow if planted else "")
    for _ in range(REPEATED_MAX):
        result = compared(wcache, trial=f"{name}={slow},{fast}", pairs=16)
        if result["decided"]:
            break
    assert result["verdict"] == f"{name} {fast}", result
    assert result["ratio_low"] > 1.1
    assert {slow, fast} <= set(watched.had)
    stored(name, slow)
    assert value(steady, name) == slow
    plan_id = applied(wcache, knob="options", scope=f"osd.{OSD}")
    (change,) = wcache("plan show", plan_id=plan_id)["changes"]
    (edit,) = change["edits"]
    assert (edit["who"], edit["prior"], edit["value"]) == (f"osd.{OSD}", slow, fast)
    assert change["status"] == "applied"
    assert (in_database(steady, name), value(steady, name)) == (fast, fast)
    assert drifted(wcache) == []
    stored(name, OTHER_SIZE)
    (found,) = wcache.wait("the drift", lambda: drifted(wcache))
    assert found["subject"] == f"osd.{OSD}"
    assert f"plan {plan_id} set {name} {fast}" in found["detail"]
    stored(name, fast)
    wcache("rollback", plan_id=plan_id)
    assert ended(wcache, plan_id)["status"] == "rolled back"
    assert (in_database(steady, name), value(steady, name)) == (slow, slow)
    assert at_run_time(steady, name) is None
    assert drifted(wcache) == []


@pytest.mark.long
@pytest.mark.one_release
def test_where_nothing_is_planted_no_value_of_it_is_better(wcache, steady, watch):
    result = compared(wcache, pairs=6)
    assert result["verdict"] in ("no material difference", "insufficient data"), result


@pytest.mark.one_release
@pytest.mark.parametrize("lost", [
    "kill", pytest.param("fail", marks=pytest.mark.long),
    pytest.param("disable", marks=pytest.mark.long),
])
def test_a_mgr_that_is_lost_has_the_next_one_put_back_what_the_osd_had(
    wcache, steady, watch, lost
):
    steady.ceph("tell", f"osd.{OSD}", "config", "set", SSD, ADMINS)  # and not what is configured
    try:
        campaign_id = compare(wcache, pairs=80)
        watched = watch()
        wcache.wait("the value", lambda: at_run_time(steady) == SLOW)
        if lost == "fail":
            steady.fail_mgr()
        elif lost == "kill":
            steady.restart_mgr(kill=True)
        else:
            steady.disable_module("wcache")
            assert at_run_time(steady) in (SLOW, FAST)  # nobody is there to put it back
            told = steady.ceph("tell", "osd.*", "config", "diff").stdout  # an admin looks
            assert re.search(rf'"{SSD}": {{[^}}]*"override"', told)
            steady.enable_module("wcache")
        wcache.wait("what it had", lambda: ADMINS in watched.had[1:])
        said = f"osd.{OSD} still had the {SSD} that it was measured with"
        wcache.wait("a warning in the cluster's log", lambda: said in steady.ceph(
            "log", "last", "100", "warn", "cluster"
        ).stdout)
        wcache.wait("the campaign goes on", lambda: at_run_time(steady) in (SLOW, FAST))
        wcache("campaign stop", campaign_id=campaign_id)
        assert wcache.wait_over(campaign_id)["run_list"][0]["restored"] is True
        assert at_run_time(steady) == ADMINS
    finally:
        steady.ceph("tell", f"osd.{OSD}", "config", "unset", SSD)


def test_a_profile_of_mclock_is_compared_where_osds_schedule_by_it(wcache, probe, steady, watch):
    watched = watch("osd_mclock_profile")
    if value(steady, "osd_op_queue") != "mclock_scheduler":
        with pytest.raises(CommandError, match=r"osd_mclock_profile does nothing on osd\.2"):
            wcache("ab", option=PROFILES, scope=f"osd.{OSD}", accept_cost=True)
        assert set(watched.had) <= {None}
        return
    campaign_id = compare(wcache, PROFILES, loads="traffic", pairs=80)
    wcache.wait("a profile", lambda: "high_client_ops" in watched.had)
    wcache("campaign stop", campaign_id=campaign_id)
    (run,) = wcache.wait_over(campaign_id)["run_list"]
    assert run["restored"] is True

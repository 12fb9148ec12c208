"""Ceph is as `qa/mgr_fakes/contracts.py` says, which unit tests hold the module and fakes to."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Mapping, Set, Tuple

import pytest
from harness import Cluster, ClusterAccess, CommandError
from harness.modules import link_module
from harness.processes import wait_until
from mgr_fakes.contracts import METHODS
from wcache.core.verdict.load_profile import LoadProfile, WorkCounters, add, work_counters

pytestmark = pytest.mark.cluster

MODULE = Path(__file__).with_name("wcache_contracts")
STUB = Path(__file__).parents[1] / "mgr_module" / "stubs" / "mgr_module.pyi"
# What the module gives to the mgr, and does not ask of it.
OURS = {"__init__", "handle_command", "COMMANDS", "MODULE_OPTIONS"}
SUBINTERPRETERS = "mgr_subinterpreter_modules"
# With WCACHE_KEEP_ANSWERS=1 what Ceph says replaces what unit tests have of it.
ANSWERS = Path(__file__).parents[1] / "qa" / "mgr_fakes" / "answers"
# By a check that names parts of a cluster: a line of its detail.  SLOW_OPS has no detail, and its
# summary ends at ten daemons; of slow pings there are ten lines; of PGs, which have no line here,
# `mon_health_max_detail`.  So `by_osd` and the OSD map are asked where they know it.
LINES = {
    "OSD_DOWN": r"osd\.[0-9]+ \(root=[^()]*\) is down",
    "OSD_FULL": r"osd\.[0-9]+ is full",
    "OSD_BACKFILLFULL": r"osd\.[0-9]+ is backfill full",
    "OSD_NEARFULL": r"osd\.[0-9]+ is near full",
    "OSD_FLAGS": r"(osd\.[0-9]+|host \S+|device class \S+) has flags [a-z,]+",
    "BLUESTORE_SLOW_OP_ALERT": r" osd\.[0-9]+ observed slow operation indications in BlueStore",
    **{
        f"OSD_SLOW_PING_TIME_{end.upper()}": (
            rf"Slow OSD heartbeats on {end} from osd\.[0-9]+ \[[^]]*\]( \(down\))? to osd\.[0-9]+ "
            r"\[[^]]*\]( \(down\))? [0-9.]+ msec( possibly improving)?"
        )
        for end in ("back", "front")
    },
}
SLOW_OPS = r"[0-9]+ slow ops, oldest one blocked for [0-9]+ sec, "
NO_OSD = "2147483647"  # CRUSH_ITEM_NONE: a hole in the acting set of an erasure-coded PG
FLAG = "noout"
BENCH = ("-b", "4096", "-t", "16", "--no-cleanup")


Said = Dict[str, Any]


@pytest.fixture(scope="module")
def asked(cluster: ClusterAccess) -> Iterator[Tuple[Cluster, Said]]:
    """The shared cluster with the module, and what it found.

    On 20 each module is in an interpreter of its own.
    """
    if not isinstance(cluster, Cluster):
        pytest.skip("needs a cluster that this harness started")
    host = cluster.command("osd metadata", id=0)["hostname"]
    cluster.command("osd set-group", flags=FLAG, who=[host])
    if cluster.release >= 20:
        cluster.command("config set", who="mgr", name=SUBINTERPRETERS, value="*")
    # the mgr that starts for it finds it; the one before knew of no such module
    link_module(cluster.module_folder, MODULE)
    gid = cluster.active_gid()
    cluster.command("mgr module enable", module=MODULE.name, force="--force")
    cluster.wait_new_mgr(gid)
    said: Said = {}

    def held() -> bool:
        try:
            said.update(cluster.command("wcache_contracts held", target="mgr"))
        except CommandError:
            return False
        return True

    wait_until(held, 90, 0.3)
    cluster.command("osd unset-group", flags=FLAG, who=[host])
    yield cluster, said
    if cluster.release >= 20:
        cluster.command("config rm", who="mgr", name=SUBINTERPRETERS)
    (cluster.module_folder / MODULE.name).unlink()
    cluster.disable_module(MODULE.name)


@pytest.fixture
def found(asked: Tuple[Cluster, Said]) -> Said:
    """What the module found."""
    return asked[1]


class Parts:
    """What a mgr knows of single OSDs while something is wrong with one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kept: Dict[str, Any] = {}

    def until(
        self, what: str, condition: Callable[[Dict[str, Any]], Any], timeout_s: float = 60.0
    ) -> Dict[str, Any]:
        """The first answer that is as awaited; it is kept by the words for it."""
        answer: Dict[str, Any] = {}

        def there() -> bool:
            answer.update(self.cluster.command("wcache_contracts parts", target="mgr"))
            return bool(condition(answer))

        assert wait_until(there, timeout_s, 0.1), (what, answer)
        for code, check in answer["checks"].items():
            told = [line["message"] for line in check["detail"]]
            wrong = [line for line in told if not re.fullmatch(LINES.get(code, ".*"), line)]
            assert not wrong, (code, wrong)
            assert told or code not in LINES, f"{code} names nobody"
        assert answer.pop("keys") == ["str"]
        self.kept[what] = answer
        return answer

    def raised(self, code: str, timeout_s: float = 60.0) -> Dict[str, Any]:
        """The answer once a health check is there."""
        return self.until(code, lambda answer: code in answer["checks"], timeout_s)

    @contextmanager
    def pool(self, name: str, *words: str) -> Iterator[str]:
        """A pool with something in it, as long as it is wanted; its number."""
        cluster = self.cluster
        cluster.ceph("osd", "pool", "create", name, "4", "4", *words)
        try:
            cluster.ceph("osd", "pool", "application", "enable", name, "test")
            cluster.wait_clean()
            cluster.run_inside(["rados", "-p", name, "bench", "1", "write", *BENCH])
            (pool,) = [
                each for each in cluster.command("osd lspools") if each["poolname"] == name
            ]
            yield str(pool["poolnum"])
        finally:
            cluster.ceph("osd", "pool", "rm", name, name, "--yes-i-really-really-mean-it")


@pytest.fixture(scope="module")
def told(asked: Tuple[Cluster, Said]) -> Iterator[Parts]:
    """Asks the module; with WCACHE_KEEP_ANSWERS=1 unit tests get what it said."""
    parts = Parts(asked[0])
    yield parts
    if os.environ.get("WCACHE_KEEP_ANSWERS") == "1":
        lines = [f"{json.dumps(what)}: {json.dumps(answer, sort_keys=True)}"
                 for what, answer in parts.kept.items()]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (ANSWERS / f"parts-{parts.cluster.release}.json").write_text(text, encoding="utf-8")


def test_every_method_command_and_path_is_as_the_contracts_say(found: Dict[str, Any], release: int):
    assert found, "the module has told nothing: see the mgr's log"
    if os.environ.get("WCACHE_KEEP_ANSWERS") == "1":
        lines = [f"{json.dumps(key)}: {json.dumps(answer, sort_keys=True)}"
                 for key, answer in sorted(found["answers"].items())]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        (ANSWERS / f"{release}.json").write_text(text, encoding="utf-8")
    assert found["problems"] == []
    assert found["release"] == release
    assert found["alone"], "it shares an interpreter"


def states_of(answer: Dict[str, Any], osd_id: int) -> Set[str]:
    """The words that the OSD map has of an OSD."""
    (row,) = [row for row in answer["osds"] if row["osd"] == osd_id]
    return set(row["state"])


def test_the_osd_map_has_the_flags_of_osds_hosts_and_classes_and_which_osds_are_full(
    steady: ClusterAccess, told: Parts
):
    cluster = told.cluster
    host = cluster.command("osd metadata", id=0)["hostname"]
    for who in ("osd.1", "hdd", host):
        cluster.command("osd set-group", flags=FLAG, who=[who])
    answer = told.until("OSD_FLAGS", lambda seen: (
        seen["crush_node_flags"] and "OSD_FLAGS" in seen["checks"]
    ))
    for who in ("osd.1", "hdd", host):
        cluster.command("osd unset-group", flags=FLAG, who=[who])
    assert FLAG in states_of(answer, 1)
    assert answer["crush_node_flags"] == {host: [FLAG]}
    assert answer["device_class_flags"] == {"hdd": [FLAG]}
    try:
        for word in ("nearfull", "backfillfull", "full"):
            cluster.command("injectfull", target=0, type=word)
            answer = told.raised(f"OSD_{word.upper()}")
            assert word in states_of(answer, 0)
            assert not {"nearfull", "backfillfull", "full"} & states_of(answer, 1)
    finally:
        cluster.command("injectfull", target=0, type="none")


def test_by_osd_has_the_acting_sets_of_pgs_and_holes_in_them(
    steady: ClusterAccess, told: Parts
):
    cluster = told.cluster
    cluster.ceph(
        "osd", "erasure-code-profile", "set", "parts", "k=2", "m=1", "crush-failure-domain=osd"
    )
    with told.pool("coded", "erasure", "parts"), told.pool("copied"):
        cluster.stop_osd(2)
        try:
            answer = told.until("an OSD is down", lambda seen: (
                {"OSD_DOWN", "PG_DEGRADED"} <= set(seen["checks"])
                and NO_OSD in seen["pg_summary"]["by_osd"]
            ))
        finally:
            cluster.start_osd(2)
            cluster.wait_clean(120)
    by_osd = answer["pg_summary"]["by_osd"]
    assert set(by_osd) == {"0", "1", NO_OSD}
    for states in by_osd.values():
        assert any({"undersized", "degraded"} <= set(state.split("+")) for state in states)
    assert "up" not in states_of(answer, 2)


# A young PG has its whole log, by which it is recovered with copies missing; old ones are
# backfilled, with all their copies.  And it is to take a while.
OLD_PGS = {
    "osd_min_pg_log_entries": 10, "osd_max_pg_log_entries": 10, "osd_pg_log_trim_min": 1,
}
SLOW = {
    "osd_mclock_max_capacity_iops_hdd": 20, "osd_mclock_max_capacity_iops_ssd": 20,
    "osd_recovery_sleep": 0.2,
}


@contextmanager
def osds_have(cluster: Cluster, options: Mapping[str, float]) -> Iterator[None]:
    """Options of all OSDs, for a while."""
    for name, value in options.items():
        cluster.ceph("config", "set", "osd", name, str(value), check=False)  # not each release has
    try:
        yield
    finally:
        for name in options:
            cluster.ceph("config", "rm", "osd", name, check=False)


def test_a_pg_that_is_moved_is_remapped_and_its_target_is_not_in_by_osd(
    steady: ClusterAccess, told: Parts
):
    cluster = told.cluster
    with osds_have(cluster, OLD_PGS), told.pool("moved") as pool:
        cluster.ceph("osd", "pool", "set", "moved", "size", "2")
        cluster.wait_clean()
        acting = cluster.command("pg map", pgid=f"{pool}.0")["acting"]
        (target,) = {0, 1, 2} - set(acting)
        with osds_have(cluster, SLOW):
            cluster.ceph("osd", "pg-upmap-items", f"{pool}.0", str(acting[1]), str(target))
            answer = told.until("a PG is backfilled", lambda seen: any(
                "backfilling" in state for state in seen["pg_summary"]["all"]
            ))
        cluster.wait_clean(120)
    by_osd = answer["pg_summary"]["by_osd"]
    for osd_id in acting:
        assert by_osd[str(osd_id)]["active+remapped+backfilling"] == 1
    assert set(by_osd[str(target)]) == {"active+clean"}


def test_slow_operations_name_their_osds(steady: ClusterAccess, told: Parts):
    cluster, alert = told.cluster, "BLUESTORE_SLOW_OP_ALERT"
    cluster.command("config set", who="osd", name="osd_op_complaint_time", value="0.0001")
    known = cluster.release >= 20
    if known:
        cluster.command("config set", who="osd.0", name="bluestore_log_op_age", value="0.00001")
    try:
        with told.pool("slow"):
            process = cluster.popen_inside(
                ["rados", "-p", "slow", "bench", "300", "write", *BENCH],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            try:
                summary = told.raised("SLOW_OPS")["checks"]["SLOW_OPS"]
                if known:
                    told.raised(alert)
            finally:
                process.kill()
                process.wait()
    finally:
        cluster.command("config rm", who="osd", name="osd_op_complaint_time")
        if known:
            # only a restart has it forgotten before a day is over
            cluster.command("config rm", who="osd.0", name="bluestore_log_op_age")
            cluster.stop_osd(0)
            cluster.start_osd(0)
    assert not summary["detail"]
    named = r"(osd\.[0-9]+ has slow ops|daemons \[osd\.[0-9]+(,(osd|mon)\.\w+)+\] have slow ops\.)"
    assert re.fullmatch(SLOW_OPS + named, summary["summary"]["message"]), summary


def test_slow_pings_name_their_two_osds(steady: ClusterAccess, told: Parts):
    cluster = told.cluster
    span, limit = "debug_heartbeat_testing_span", "mon_warn_on_slow_ping_time"
    (mgr,) = cluster.mgr_names
    cluster.command("config set", who="osd", name=span, value="2")  # by default pings are averaged
    try:                                                            # over a minute
        # ceph.conf has it, which goes before what the mons have
        cluster.ceph("tell", f"mgr.{mgr}", "config", "set", limit, "0.0001")
        for end in ("BACK", "FRONT"):
            told.raised(f"OSD_SLOW_PING_TIME_{end}", 90)
    finally:
        cluster.ceph("tell", f"mgr.{mgr}", "config", "unset", limit)
        cluster.command("config rm", who="osd", name=span)


def test_what_mypy_knows_of_a_mgr_has_contracts():
    (mgr,) = (
        node for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "MgrModule"
    )
    known = {
        node.name: tuple(arg.arg for arg in node.args.args[1:])
        for node in mgr.body if isinstance(node, ast.FunctionDef)
    }
    known.update({
        ast.unparse(node.target): () for node in mgr.body if isinstance(node, ast.AnnAssign)
    })
    assert {name: METHODS.get(name) for name in set(known) - OURS} == {
        name: arguments for name, arguments in known.items() if name not in OURS
    }


# ---- an OSD's load has the shards of erasure-coded pools, by counters of each release

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

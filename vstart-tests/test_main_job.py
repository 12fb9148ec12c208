"""The main job on a real cluster: look, measure, decide, plan, apply, prove, roll back."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import List

import pytest
from harness import ClusterAccess, CommandError
from probes import Probe, Wcache, all_views, kernel_view
from wcache.ceph.blocks import ALL, COMMITS
from wcache.core.experiment.settling import LONG_SAMPLES
from wcache.core.loads import (
    CHECK_SAMPLES,
    READ_COUNTER,
    SAMPLES,
    SUBMIT_COUNTERS,
    TRANSACTION_COUNTERS,
)
from wcache.core.model import LoadPoint
from wcache.core.protocol import PROTOCOL_VERSION
from wcache.core.verdict.load_profile import work_counters
from worlds.what_stands import TRIES, ended

pytestmark = pytest.mark.cluster

DEPTH1 = SAMPLES[LoadPoint.OSD_BENCH_DEPTH1]
WATCH = CHECK_SAMPLES[LoadPoint.OSD_BENCH_DEPTH1]


def test_the_module_loads_without_numpy_in_the_mgr(wcache: Wcache, own_cluster):
    assert wcache("status")["format_version"] == 1
    maps = Path(f"/proc/{own_cluster.mgr_pid()}/maps").read_text()
    mine = [line for line in maps.splitlines() if "numpy" in line or "scipy" in line]
    assert mine == []


def test_drive_ls_shows_both_sides_of_every_osd_device(wcache: Wcache, probe: Probe):
    rows = wcache("drive ls")["drives"]
    expected = {
        (osd_id, role, Path(device).name)
        for osd_id in probe.cluster.osd_ids()
        for role, device in probe.cluster.osd_devices(osd_id).items()
    }
    seen = {
        (use["osd_id"], use["role"], row["dev_name"]) for row in rows for use in row["uses"]
    }
    assert seen == expected
    for row in rows:
        assert row["transport"] == "loop"
        assert row["state"]["kernel_view"] == kernel_view(Path(row["dev_name"]))
        assert row["state"]["device_cache"] == "write back"
        assert row["safety"] == "safe"


def test_status_needs_no_right_to_toggle(wcache: Wcache, probe: Probe):
    wcache.option("throwaway_cluster", False)
    try:
        assert wcache("status")["drives"] > 0
        with pytest.raises(CommandError, match="drops the OSD's flushes"):
            wcache("campaign start", scope="osd.0", accept_cost=True)
    finally:
        wcache.option("throwaway_cluster", True)


def test_every_command_has_three_formats_and_help(wcache: Wcache, probe: Probe):
    cluster = wcache.cluster
    for command in ("status", "drive ls", "agent ls", "campaign ls", "recommend", "history"):
        words = command.split()
        plain = cluster.ceph("wcache", *words).stdout
        assert plain.strip()
        as_json = json.loads(cluster.ceph("wcache", *words, "--format", "json").stdout)
        assert as_json["format_version"] == 1
        as_yaml = cluster.ceph("wcache", *words, "--format", "yaml").stdout
        assert "format_version" in as_yaml
    # a command of one word beside those of two: neither hides the other
    assert "\nnext: ceph wcache " in cluster.ceph("wcache").stdout
    assert json.loads(cluster.ceph("wcache", "--format", "json").stdout)["summary"]["drives"] > 0
    assert cluster.ceph("wcache", "nonsense", check=False).rc != 0
    shown = cluster.ceph("wcache", "--help", check=False).stdout
    for command in ("status", "campaign start", "rollback", "freeze"):
        assert f"wcache {command}" in shown


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("campaign", "show", "nope"), 2, "there is no campaign 'nope'"),
        (("campaign", "start", "moon"), 22, "scope 'moon' is not known"),
        (("campaign", "start", "cluster", "magic"), 22, "load 'magic' is not known"),
        (("campaign", "start", "cluster", "depth1", "3"), 22, "pairs must be a whole number"),
        (("drive", "ls", "host:nohost"), 2, "no probe has reported for host 'nohost'"),
        (("apply", "p99"), 2, "there is no plan 'p99'"),
        (("history", "0"), 22, "limit must be"),
    ],
)
def test_a_bad_argument_gets_one_clear_line(wcache: Wcache, probe: Probe, words, code, said):
    answer = wcache.cluster.ceph("wcache", *words, check=False)
    assert answer.rc == code
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1


def test_a_probes_key_can_do_its_two_commands_for_its_host_and_nothing_else(
    wcache: Wcache, probe: Probe
):
    cluster = wcache.cluster
    own = Probe(cluster, "keyhost")  # its key; no probe runs under it
    hello = json.dumps({"version": PROTOCOL_VERSION, "probe_id": "x", "instance_id": "y"})

    def as_probe(*words: str) -> int:
        return cluster.ceph(
            "--name", own.entity, "--keyring", str(own.keyring), *words, "-i", "-",
            input_text=hello, check=False,
        ).rc

    assert as_probe("wcache", "agent", "poll", "keyhost") == 0
    assert as_probe("wcache", "agent", "poll", "h1") == 13
    assert as_probe("wcache", "agent", "post", "h1") == 13
    for words in (
        ("wcache", "status"), ("wcache", "campaign", "start"), ("wcache", "apply", "p1"),
        ("wcache", "freeze"), ("mgr", "module", "ls"), ("config-key", "ls"),
        ("osd", "down", "0"),
    ):
        assert as_probe(*words) == 13, words
    # no probe runs under that key, so none answers
    wcache("agent rm", hostname="keyhost", host_is_gone=True)
    assert own.entity not in cluster.ceph("auth", "ls").stdout


def test_a_bench_needs_consent_to_its_cost_and_forecasts_it(wcache: Wcache, probe: Probe):
    cost = wcache(
        "campaign start", dry_run=True, scope="osd.0", loads="depth1", pairs=4
    )["forecast"]
    # at most: the pairs, and a short and a long check in either direction before them
    calls = 2 * 4 * DEPTH1 + 2 * (1 + LONG_SAMPLES) * WATCH
    assert cost["bytes_written"] == calls * 4096
    assert cost["bench_calls"] == calls
    with pytest.raises(CommandError, match="--accept-cost"):
        wcache("campaign start", scope="osd.0", loads="depth1", pairs=4)


def test_look_measure_decide_plan_apply_prove_roll_back(
    wcache: Wcache, probe: Probe, steady: ClusterAccess, own_class: str
):
    before = all_views(steady)
    device = Path(steady.osd_devices(0)["block"])
    shown = wcache.decide(own_class, scope="osd.0", loads="depth1,timer", seed=7)
    assert all_views(steady) == before
    by_load = {result["load_point"]: result for result in shown["results"]}
    depth1 = by_load["osd_bench_depth1"]
    # a loop device in write through skips the fsync of its backing file: a true effect
    assert depth1["verdict"] == "write through", depth1
    assert depth1["ratio_low"] > 1.1
    assert depth1["write_back"]["n"] == depth1["pairs"] * DEPTH1
    assert by_load["fdatasync_timer"]["bytes_written"] == 0

    record = wcache("campaign record", record_id=depth1["record_id"])
    assert record["format"] == "wcache.record"
    watches = record["watches"] + record["late_watches"]
    watched = sum(len(watch["samples_ns"]) for watch in watches)
    assert depth1["bytes_written"] == (2 * depth1["pairs"] * DEPTH1 + watched) * 4096
    assert record["setup"]["fsid"]
    # how often it checks late depends on how long the machine's noise keeps it undecided
    early = sum(len(watch["samples_ns"]) for watch in record["watches"])
    assert early in (2 * WATCH, 2 * (1 + LONG_SAMPLES) * WATCH)
    for pair in record["pairs"]:
        for arm, view in (("a", "write back"), ("b", "write through")):
            assert pair[arm]["settle_s"] == record["settling"]["settle_s"]
            assert (pair[arm]["arm"], pair[arm]["state_after"][0]["kernel_view"]) == (arm, view)

    recommended = wcache.advice(own_class)
    assert depth1["record_id"] in recommended["record_ids"]
    assert recommended["verdict"] == "write through"
    assert recommended["manual"]

    for _ in range(TRIES):
        plan = wcache("plan", scope=f"class:{own_class}")
        ours = [c for c in plan["changes"] if device.name in c["dev_names"]]
        assert ours
        assert ours[0]["mode"] == "write through"
        assert kernel_view(device) == "write back"
        wcache("apply", plan_id=plan["plan_id"])
        applied = ended(wcache, plan["plan_id"])
        (ours,) = [c for c in applied["changes"] if device.name in c["dev_names"]]
        if ours["status"] != "rolled back" or "latency" not in applied["reason"]:
            break
        # this machine's noise made it look worse: it went back by itself, another plan is made
        assert all_views(steady) == before, wcache.history_text()

    try:
        told = [
            (c["status"], c["detail"], c["before_us"], c["after_us"]) for c in applied["changes"]
        ]
        assert ours["status"] == "applied", (applied["reason"], told)
        assert ours["ratio"] > 1.0, told
        seen = (applied["status"], applied["reason"], told)
        assert kernel_view(device) == "write through", (seen, wcache.history_text(), probe.text())
        # on a busy machine another drive may get slower for a while; then its change went
        # back by itself and nothing was changed after it
        others = {c["status"] for c in applied["changes"]} - {"applied"}
        assert (applied["status"] == "done" and not others) or others >= {"rolled back"}, told
        if applied["status"] == "done":
            assert wcache("apply", plan_id=plan["plan_id"])["changed"] is False
        else:
            with pytest.raises(CommandError, match="ceph wcache plan"):
                wcache("apply", plan_id=plan["plan_id"])
    finally:
        wcache("rollback", plan_id=plan["plan_id"])
        rolled = ended(wcache, plan["plan_id"])
    assert rolled["status"] == "rolled back", rolled
    assert all_views(steady) == before
    log = wcache.history_text()
    for word in ("campaign started", "planned", "apply", "rollback", "rolled back"):
        assert word in log


def work_of(cluster: ClusterAccess):
    """What each OSD has done so far, as a load profile reads it."""
    return {
        osd_id: work_counters(cluster.ceph_json("tell", f"osd.{osd_id}", "perf", "dump"), 0.0)
        for osd_id in cluster.osd_ids()
    }


def test_what_rollouts_are_judged_by_is_in_an_osds_answers(steady: ClusterAccess):
    for command, sections in ((COMMITS, {"bluestore"}), (ALL, {"bluestore", "osd"})):
        asked = {name: value for name, value in command.items() if name != "prefix"}
        told = steady.command(command["prefix"], target=0, **asked)
        assert sections <= set(told)
        assert any(name in told["bluestore"] for name in TRANSACTION_COUNTERS)
        assert any(name in told["bluestore"] for name in SUBMIT_COUNTERS)
    assert set(told["osd"][READ_COUNTER]) >= {"avgcount", "sum"}


def test_the_osds_own_traffic_is_compared_without_writing_anything(
    wcache: Wcache, probe: Probe, steady: ClusterAccess, client_traffic
):
    wcache.option("settle_s", 0.4)  # a check of a second, in twelve parts
    before = work_of(steady)
    shown = wcache.done(scope="osd.0", loads="traffic", pairs=8)
    after = work_of(steady)
    wcache.option("settle_s", 0.1)
    for osd_id, was in before.items():
        # what clients write is all that these OSDs commit, whichever of them is primary
        writes = after[osd_id].client_writes - was.client_writes
        transactions = after[osd_id].transactions - was.transactions
        assert 0.9 * transactions < writes < 1.1 * transactions, osd_id
    (result,) = shown["results"]
    assert result["pairs"] >= 4, [run["reason"] for run in shown["run_list"]]
    assert result["bytes_written"] == 0
    assert result["ratio"] is not None, result
    record = wcache("campaign record", record_id=result["record_id"])
    for watch in record["watches"]:
        assert len(watch["samples_ns"]) == len(watch["at_ns"]) >= 6, watch
        assert watch["at_ns"] == sorted(set(watch["at_ns"]))
    shares: List[float] = []
    for pair in record["pairs"]:
        back, through = pair["a"], pair["b"]
        names = {counter["name"] for counter in back["counters"]}
        assert {"kv_sync_lat", "kv_commit_lat", "txc_commit_lat"} <= names
        for period in (back, through):
            whole, half = (
                {item["name"]: item["count"] for item in period[kept]}["txc_commit_lat"]
                for kept in ("counters", "later_counters")
            )
            assert 0 < half < whole, (half, whole)
            shares.append(half / whole)
            # the OSD is primary for some of what it commits; in it are latencies of ms
            writes = period["histogram"]
            assert 0 < sum(writes["counts"]) < 2 * whole, (writes, whole)
            assert 10**5 < writes["upper_ns"][-1] < 10**11, writes
        flushes = {
            mode: p["flush_counters"][-1]["flushes"] - p["flush_counters"][0]["flushes"]
            for mode, p in (("back", back), ("through", through))
        }
        # the kernel passes flushes on in write back and drops them in write through
        assert flushes["back"] > 0
        assert flushes["through"] == 0
    assert 0.1 < median(shares) < 0.9, "a stall may fill half a period, and not most of them"


@pytest.mark.one_release
def test_too_little_traffic_is_said_and_not_decided_on(
    wcache: Wcache, probe: Probe, steady: ClusterAccess
):
    campaign_id = wcache.start_campaign(scope="osd.0", loads="traffic")
    (result,) = wcache.wait_over(campaign_id)["results"]
    assert result["verdict"] == "insufficient data"
    assert "too little client traffic" in result["ended"]


@pytest.mark.one_release
def test_a_simulated_host_goes_through_the_whole_job(
    wcache: Wcache, steady: ClusterAccess, sim_probe: Probe
):
    campaign_id = wcache.start_campaign(
        scope=f"host:{sim_probe.hostname}", loads="batch", pairs=40, drives_per_model=1, seed=1
    )
    shown = wcache.wait_over(campaign_id, 240)
    assert shown["status"] == "done", shown
    assert all(result["simulated"] for result in shown["results"])
    verdicts = {result["verdict"] for result in shown["results"]}
    assert "write through" in verdicts
    assert "write back" in verdicts

"""Faults on a real cluster: after each, the prior cache state is back and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness import Cluster, CommandError
from probes import Probe, Wcache, all_views, kernel_view
from wcache.core.experiment.run import ILL_WAIT_S
from wcache.core.protocol import PROTOCOL_VERSION

pytestmark = pytest.mark.cluster

LEASE_S = 4
BUDGET_S = 12
STRIKES_MAX = 5
LONG = {"scope": "osd.0", "loads": "depth1", "pairs": 80}


def device_of(cluster, osd_id: int = 0) -> Path:
    return Path(cluster.osd_devices(osd_id)["block"])


@pytest.fixture
def views(wcache: Wcache, steady):
    """The kernel views before the test, which must be there again after it."""
    before = all_views(steady)
    assert set(before.values()) == {"write back"}
    yield before
    left_open = [c for c in wcache("campaign ls")["campaigns"] if c["status"] == "running"]
    for campaign in left_open:  # a test that failed must not spoil the next ones
        wcache("campaign stop", campaign_id=campaign["campaign_id"])
        wcache.wait_over(campaign["campaign_id"])
    assert all_views(steady) == before


def stays(device: Path, mode: str, seconds: float) -> bool:
    """Whether a drive is in a mode for that long."""
    until_s = time.monotonic() + seconds
    while kernel_view(device) == mode:
        if time.monotonic() > until_s:
            return True
        time.sleep(0.02)
    return False


def kill_in(mode: str, wcache: Wcache, probe: Probe, device: Path) -> None:
    """kill -9 of the probe while the drive is in a mode; again where the period was over."""
    for _ in range(STRIKES_MAX):
        wcache.wait_period_in(mode, device)
        probe.kill()
        if kernel_view(device) == mode:
            return
        probe.start()
    raise AssertionError(f"the probe was never killed in {mode}")


def periods_of(wcache: Wcache, campaign_id: str) -> int:
    return wcache.campaign(campaign_id)["periods_done"]


@pytest.mark.one_release
@pytest.mark.parametrize("mode", ["write back", "write through"])
def test_kill_9_of_the_probe_in_each_mode_is_survived(
    wcache, probe, steady, views, slow_periods, mode
):
    campaign_id = wcache.start_campaign(**LONG)
    device = device_of(steady)
    wcache.wait("a first pair", lambda: periods_of(wcache, campaign_id) >= 2)
    kill_in(mode, wcache, probe, device)
    done = periods_of(wcache, campaign_id)
    probe.start()
    # it restores at its start, then the campaign goes on with the period that was cut off
    wcache.wait("more periods", lambda: periods_of(wcache, campaign_id) > done)
    wcache("campaign stop", campaign_id=campaign_id)
    shown = wcache.wait_over(campaign_id)
    assert shown["run_list"][0]["restored"] is True
    assert "the probe was restarted" in wcache.history_text()


@pytest.mark.one_release
@pytest.mark.parametrize("mode", ["write back", "write through"])
def test_a_dead_probes_drive_is_restored_by_hand_without_a_mgr(
    wcache, probe, steady, views, slow_periods, mode
):
    campaign_id = wcache.start_campaign(**LONG)
    device = device_of(steady)
    wcache.wait("a first pair", lambda: periods_of(wcache, campaign_id) >= 2)
    kill_in(mode, wcache, probe, device)
    said = probe.run(
        "restore", "--all", "--state-dir", str(probe.state_dir),
        "--run-dir", str(probe.state_dir / "run"),
        "--osd-data", str(steady.folder / "osd.*"),
    )
    assert kernel_view(device) == "write back"
    assert "restored" in said.stdout
    probe.start()
    wcache("campaign stop", campaign_id=campaign_id)
    wcache.wait_over(campaign_id)


@pytest.mark.one_release
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGHUP])  # SIGHUP: its terminal goes
def test_a_clean_stop_of_the_probe_restores(wcache, probe, steady, views, slow_periods, by):
    campaign_id = wcache.start_campaign(**LONG)
    device = device_of(steady)
    wcache.wait_period_in("write through", device)
    assert probe.stop(by) == 0
    assert kernel_view(device) == "write back"
    probe.start()
    wcache("campaign stop", campaign_id=campaign_id)
    wcache.wait_over(campaign_id)


@pytest.mark.parametrize("kill", [False, True])
def test_a_mgr_restart_resumes_and_repeats_nothing(
    wcache, probe, own_cluster: Cluster, views, slow_periods, kill
):
    campaign_id = wcache.start_campaign(scope="osd.0", loads="depth1", pairs=4, seed=3)
    watch = own_cluster.popen_inside(
        [own_cluster.python_inside, "-m", "wcache_cli", "watch", campaign_id],
        env={"PYTHONPATH": f"{own_cluster.project}/cli:{own_cluster.project}/mgr_module"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    wcache.wait("some periods", lambda: periods_of(wcache, campaign_id) >= 3)
    own_cluster.restart_mgr(kill=kill)
    shown = wcache.wait_over(campaign_id)
    assert shown["status"] == "done", shown["run_list"]
    # whoever watches has seen it through
    told = watch.communicate(timeout=120)[0].decode()
    assert watch.returncode == 0, told
    assert f"campaign {campaign_id}: done" in told
    (result,) = shown["results"]
    record = wcache("campaign record", record_id=result["record_id"])
    assert len(record["pairs"]) == 4
    starts = [
        period["started_at_s"]
        for pair in record["pairs"]
        for period in (pair["a"], pair["b"])
    ]
    assert len(set(starts)) == 8
    assert "resumed after a restart of the mgr" in wcache.history_text()


def test_an_osd_stopped_during_its_bench_ends_the_run_and_restores(
    wcache, probe, own_cluster: Cluster, views
):
    campaign_id = wcache.start_campaign(scope="osd.0", loads="4m", pairs=80)
    wcache.wait("a first period", lambda: periods_of(wcache, campaign_id) >= 1)
    own_cluster.stop_osd(0, kill=True, wait=False)
    # its own OSD is down: that its PGs are stale for a moment ends nothing
    wcache.wait("the wait for its OSD", lambda: wcache(
        "campaign show", campaign_id=campaign_id
    )["run_list"][0]["waits_s"] is not None)
    shown = wcache.wait_over(campaign_id, ILL_WAIT_S + 60)
    own_cluster.start_osd(0)
    assert shown["run_list"][0]["status"] == "aborted"
    reason = shown["run_list"][0]["reason"]
    assert "osd.0" in reason or "PGs are stale" in reason
    assert shown["run_list"][0]["restored"] is True


@pytest.mark.one_release
def test_a_bench_that_hangs_ends_with_the_budget(wcache, probe, own_cluster: Cluster, views):
    wcache.option("experiment_seconds_max", BUDGET_S)
    device = device_of(own_cluster)
    try:
        campaign_id = wcache.start_campaign(**LONG)
        wcache.wait("a first pair", lambda: periods_of(wcache, campaign_id) >= 2)
        wcache.wait_period_in("write through", device)
        osd_pid = own_cluster.osd_pid(0)
        os.kill(osd_pid, signal.SIGSTOP)
        try:
            shown = wcache.wait_over(campaign_id)
            assert kernel_view(device) == "write back"
        finally:
            os.kill(osd_pid, signal.SIGCONT)
    finally:
        wcache.option("experiment_seconds_max", 300)
    (result,) = shown["results"]
    assert result["ended"] == "the budget ran out during a period"
    assert result["seconds"] < 2 * BUDGET_S  # the mgr looks at its clock now and then
    assert shown["run_list"][0]["restored"] is True


@pytest.mark.one_release
def test_campaign_stop_in_the_middle_restores(wcache, probe, steady, views, slow_periods):
    campaign_id = wcache.start_campaign(**LONG)
    wcache.wait_period_in("write through", device_of(steady))
    assert wcache("campaign stop", campaign_id=campaign_id)["changed"] is True
    shown = wcache.wait_over(campaign_id)
    assert shown["run_list"][0]["reason"] == "stopped by an admin"
    assert wcache("campaign stop", campaign_id=campaign_id)["changed"] is False


@pytest.mark.one_release
def test_freeze_in_the_middle_restores_and_blocks_until_thawed(
    wcache, probe, steady, views, slow_periods
):
    campaign_id = wcache.start_campaign(**LONG)
    wcache.wait_period_in("write through", device_of(steady))
    assert wcache("freeze")["frozen"] is True
    wcache.wait_over(campaign_id)
    wcache.wait("restored", lambda: kernel_view(device_of(steady)) == "write back")
    with pytest.raises(CommandError, match="frozen"):
        wcache.start_campaign(**LONG)
    assert wcache("freeze", thaw=True)["frozen"] is False


@pytest.mark.one_release
def test_a_lease_that_runs_out_restores_and_is_told(wcache, probe, steady, views, slow_periods):
    wcache.option("lease_ttl_s", LEASE_S)
    try:
        campaign_id = wcache.start_campaign(**LONG)
        device = device_of(steady)
        # the settling checks before the first pair go back by themselves
        wcache.wait("a first pair", lambda: periods_of(wcache, campaign_id) >= 2)
        wcache.wait_period_in("write through", device)
        steady_pid = steady.mgr_pid()
        os.kill(steady_pid, signal.SIGSTOP)
        try:
            # the probe may have its next task already, and change the mode by that
            time.sleep(LEASE_S)
            wcache.wait("the prior state", lambda: stays(device, "write back", LEASE_S / 2))
        finally:
            os.kill(steady_pid, signal.SIGCONT)
        wcache.wait(
            "the probe's word", lambda: "lease" in wcache.history_text()
            and "ran out" in wcache.history_text()
        )
        wcache("campaign stop", campaign_id=campaign_id)
        wcache.wait_over(campaign_id)
    finally:
        wcache.option("lease_ttl_s", 30)


@pytest.mark.one_release
def test_a_sample_past_the_latency_limit_ends_the_run_within_a_few_operations(
    wcache, probe, steady, views
):
    wcache.option("latency_limit_ms", 1)
    try:
        campaign_id = wcache.start_campaign(scope="osd.0", loads="4m", pairs=80)
        shown = wcache.wait_over(campaign_id)
    finally:
        wcache.option("latency_limit_ms", 2000)
    (run,) = shown["run_list"]
    assert run["status"] == "aborted"
    assert "past the limit of 1 ms" in run["reason"]
    assert run["restored"] is True
    assert run["periods_done"] == 0


@pytest.mark.one_release
def test_without_numpy_it_measures_and_says_what_to_install(wcache, probe, steady, views):
    fake = steady.folder / "python-without-numpy"
    fake.write_text('#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')
    fake.chmod(0o755)
    wcache.option("python_path", str(fake))
    try:
        shown = wcache.done(scope="osd.0", loads="depth1", pairs=8)
        (result,) = shown["results"]
        assert result["pairs"] == 8
        assert result["analysed"] is False
        assert "python3-numpy" in json.dumps(wcache("status")["findings"])
    finally:
        wcache.option("python_path", "/usr/bin/python3")
    record = wcache("campaign record", record_id=result["record_id"])
    assert len(record["pairs"]) == 8


@pytest.mark.one_release
def test_a_killed_analysis_child_is_started_again(wcache, probe, own_cluster: Cluster, views):
    def child() -> int:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
                parent = (entry.parent / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if b"wcache.analysis" in words and int(parent) == own_cluster.mgr_pid():
                return int(entry.parent.name)
        return 0

    wcache.done(scope="osd.0", loads="depth1", pairs=4)
    first = wcache.wait("a child", child)
    os.kill(first, signal.SIGKILL)
    shown = wcache.done(scope="osd.0", loads="depth1", pairs=4)
    assert shown["results"][0]["analysed"] is True
    assert wcache.wait("a new child", child) != first


@pytest.mark.one_release
def test_a_second_probe_for_a_host_is_refused_and_named(wcache, probe, steady, views):
    rival = Probe(steady, "h1", state="probe.rival")
    rival.start()
    try:
        wcache.wait(
            "a finding", lambda: "WCACHE_AGENT_CONFLICT" in json.dumps(wcache("status"))
        )
        assert "speaks for h1" in rival.text()
        (agent,) = [a for a in wcache("agent ls")["agents"] if a["hostname"] == "h1"]
        wcache.done(scope="osd.0", loads="depth1", pairs=4)
        (after,) = [a for a in wcache("agent ls")["agents"] if a["hostname"] == "h1"]
        assert after["probe_id"] == agent["probe_id"]
    finally:
        rival.stop()
    # the finding would end by itself some time after the rival's last call; removing the host
    # ends it at once, and the probe that is alive has to get a key anew
    wcache("agent rm", hostname="h1")
    assert probe.stop() == 0
    probe.bring_key()
    probe.start()
    wcache.wait("the probe", lambda: wcache("drive ls", scope="host:h1")["drives"])
    assert "WCACHE_AGENT_CONFLICT" not in json.dumps(wcache("status"))


def _post(wcache: Wcache, hostname: str, text: str):
    return wcache.cluster.ceph(
        "wcache", "agent", "post", hostname, "-i", "-", input_text=text, check=False
    )


@pytest.mark.one_release
def test_a_bad_post_is_refused_in_one_line_and_changes_nothing(wcache, probe, steady, views):
    good = {"version": PROTOCOL_VERSION, "hostname": "h9", "probe_id": "p9", "instance_id": "i9"}
    agents = wcache("agent ls")["agents"]
    bad = {
        "oversized": (json.dumps({**good, "task_id": "x" * 1_100_000}), "longer than"),
        "truncated": (json.dumps(good)[:-5], "not JSON"),
        "with an unknown field": (json.dumps({**good, "more": 1}), "unknown field 'more'"),
        "of another host": (json.dumps({**good, "hostname": "h8"}), "in the name of"),
    }
    for name, (text, said) in bad.items():
        answer = _post(wcache, "h9", text)
        assert answer.rc != 0, name
        assert said in answer.stderr, (name, answer.stderr)
        assert "Traceback" not in answer.stderr
    assert [a["hostname"] for a in wcache("agent ls")["agents"]] == [
        a["hostname"] for a in agents
    ]


# What a key of one host or one OSD is not good for: others' hosts, our commands, the mons' state.
FOREIGN = (
    "wcache agent poll h2", "wcache agent post h2", "wcache status", "wcache agent ls",
    "wcache agent add --hostname h2", "wcache plan", "wcache freeze", "wcache web token",
)
OF_THE_MONS = (
    "auth ls", "config-key ls", "config set mgr mgr/wcache/throwaway_cluster true", "osd dump",
    "osd set noout", "mgr module disable wcache",
)


@pytest.mark.one_release
def test_a_key_of_a_probe_or_an_osd_opens_no_other_door(wcache, probe, steady, views):
    held = {
        probe.entity: (probe.keyring, (*FOREIGN, *OF_THE_MONS)),
        "osd.0": (steady.folder / "osd.0" / "keyring", (*FOREIGN, "wcache agent poll h1")),
    }
    for entity, (keyring, asked) in held.items():
        for words in asked:
            answer = steady.ceph(
                "--name", entity, "--keyring", str(keyring), *words.split(), check=False
            )
            assert answer.rc == errno.EACCES, (entity, words, answer.rc, answer.stderr)
    own = steady.ceph(
        "--name", probe.entity, "--keyring", str(probe.keyring), "wcache", "agent", "post", "h1",
        "-i", "-", input_text="{", check=False,
    )
    assert own.rc == errno.EINVAL
    assert "not JSON" in own.stderr


@pytest.mark.one_release
def test_a_replayed_post_changes_nothing(wcache, probe, steady, views):
    campaign_id = wcache.start_campaign(scope="osd.0", loads="depth1", pairs=4)
    shown = wcache.wait_over(campaign_id)
    (agent,) = [a for a in wcache("agent ls")["agents"] if a["hostname"] == "h1"]
    state = {
        "device_cache": "write back", "kernel_view": "write back",
    }
    replay = {
        "version": PROTOCOL_VERSION, "hostname": "h1", "probe_id": agent["probe_id"],
        "instance_id": "replayed",
        "task_id": f"{campaign_id}.0.0.1",
        "outcome": {"kind": "state", "before": [state], "after": [state], "counters": [],
                    "changed": True},
    }
    for _ in range(2):
        assert _post(wcache, "h1", json.dumps(replay)).rc == 0
    assert wcache.campaign(campaign_id)["results"] == shown["results"]

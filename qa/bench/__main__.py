"""The figures, one after the other.  RELEASE chooses the release, FORMAT=json the form."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Callable, Dict, Iterator, List, Optional

from harness import Cluster, ClusterPlan, HarnessError, start_cluster
from probes import MODULE, Probe, Wcache
from wcache.core.text import amount, duration, latency, table

from bench.clients import POOL, WINDOW_S, around, around_rollout
from bench.clients import plain as plain_clients
from bench.figures import children, cpu_seconds, latencies, memory_bytes
from bench.running import Inside

IDLE_S = 35.0  # longer than one idle poll
SIMULATED = "qa/drive_models/noisy.toml"  # hard to decide: a look after each pair
Figures = Dict[str, Any]


def main() -> int:
    """Measure and print; returns the exit code."""
    as_json = os.environ.get("FORMAT") == "json"
    try:
        release = int(os.environ.get("RELEASE", "20"))
        with start_cluster(ClusterPlan(release=release)) as cluster:
            figures = _measure(cluster, say=_nothing if as_json else _to_stderr)
    except (HarnessError, AssertionError) as error:  # what a wait of `probes` raises
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(json.dumps(figures, indent=2) if as_json else plain(figures))
    return 0


def _measure(cluster: Cluster, say: Callable[[str], None]) -> Figures:
    cluster.install_module(MODULE)
    cluster.enable_module("wcache")
    wcache = Wcache(cluster)
    wcache.option("throwaway_cluster", True)
    wcache.wait("the module", lambda: wcache("status"))
    hostname = str(cluster.command("osd metadata", id=0)["hostname"])
    probe = Probe(cluster, hostname)
    figures: Figures = {
        "ceph_version": cluster.command("version")["version"],
        "cpus": os.cpu_count(), "load_average_1min": round(os.getloadavg()[0], 2),
    }
    try:
        probe.start()
        wcache.wait("the probe's report", lambda: wcache("drive ls")["drives"], 60)
        say(f"probe when idle ({IDLE_S:.0f} s)")
        figures["probe_idle"] = _probe_idle(probe)
        wcache.option("poll_idle_s", 1)
        say("latency of commands, idle and while analyses run")
        figures["commands"] = _commands(cluster, wcache)
        say("cost of a verdict and what clients feel, measured on the OSDs' own traffic")
        cluster.ceph("osd", "pool", "create", POOL, "8")
        cluster.wait_healthy(60)
        figures["clients"], passive = _clients(cluster, wcache)
        figures["verdicts"] = {"passive": passive}
        say("cost of a verdict by osd bench")
        figures["verdicts"]["bench"] = _verdict_costs(_campaign(wcache, "depth1"))
        say("what clients feel of a rollout")
        figures["clients_rollout"] = around_rollout(cluster, wcache, 0)
    finally:
        probe.stop()
    return figures


def _probe_idle(probe: Probe) -> Figures:
    assert probe.process is not None
    pid = probe.process.pid
    began_s, used_s = time.monotonic(), cpu_seconds(pid)
    time.sleep(IDLE_S)
    seconds = time.monotonic() - began_s
    return {
        "seconds": round(seconds, 1),
        "cpu_percent": round(100 * (cpu_seconds(pid) - used_s) / seconds, 3),
        "rss_bytes": memory_bytes(pid)["rss"], "pss_bytes": memory_bytes(pid)["pss"],
    }


# ---- commands


def _commands(cluster: Cluster, wcache: Wcache) -> Figures:
    """Idle before and after, so that a machine that gets busier is not blamed on us."""
    before = _time_commands(cluster)
    with _analyses(cluster, wcache) as campaign_id:
        child, mgr = _analysis_child(cluster), cluster.mgr_pid()
        began_s = time.monotonic()
        used_s = {pid: cpu_seconds(pid) for pid in (child, mgr) if pid}
        periods = wcache.campaign(campaign_id)["periods_done"]
        timed = _time_commands(cluster)
        periods = wcache.campaign(campaign_id)["periods_done"] - periods
        seconds = time.monotonic() - began_s
        used = {pid: 100 * (cpu_seconds(pid) - was) / seconds for pid, was in used_s.items()}
    after = _time_commands(cluster)
    idle = _summed({name: before[name] + after[name] for name in before})
    busy = _summed(timed)
    return {
        "idle": idle, "analysing": busy,
        "ratio_p50": _ratios(busy, idle, "p50_us"), "ratio_p99": _ratios(busy, idle, "p99_us"),
        "pairs_per_second": round(periods / 2 / seconds, 1),
        "analysis_cpu_percent": round(used[child], 1) if child else None,
        "mgr_cpu_percent": round(used[mgr], 1),
    }


def _time_commands(cluster: Cluster) -> Dict[str, List[float]]:
    timed = Inside(cluster, "commands")
    time.sleep(WINDOW_S)
    return timed.end()


def _summed(timed: Dict[str, List[float]]) -> Figures:
    return {name: asdict(latencies(values)) for name, values in timed.items()}


def _ratios(busy: Figures, idle: Figures, key: str) -> Dict[str, Optional[float]]:
    return {
        name: round(busy[name][key] / idle[name][key], 2)
        if busy[name][key] and idle[name][key] else None
        for name in idle
    }


@contextmanager
def _analyses(cluster: Cluster, wcache: Wcache) -> Iterator[str]:
    """Analyses one after the other: simulated drives cost no time, so looks follow closely."""
    probe = Probe(cluster, "simhost", sim=cluster.project / SIMULATED)
    probe.start()
    try:
        wcache.wait(
            "the simulated host",
            lambda: any(d["hostname"] == "simhost" for d in wcache("drive ls")["drives"]), 60,
        )
        campaign_id = wcache.start_campaign(
            scope="host:simhost", loads="depth1,batch,4m", pairs=80, drives_per_model=1000
        )
        wcache.wait("a first result", lambda: wcache.campaign(campaign_id)["periods_done"] > 8)
        yield campaign_id
        still = wcache.campaign(campaign_id)["status"] == "running"
        if not still:
            print("note: the simulated campaign ended within the window", file=sys.stderr)
        wcache("campaign stop", campaign_id=campaign_id)
        wcache.wait_over(campaign_id)
    finally:
        probe.stop()


def _analysis_child(cluster: Cluster) -> Optional[int]:
    for pid, argv in children(cluster.mgr_pid()).items():
        if "wcache.analysis" in argv:
            return pid
    return None


# ---- verdicts and clients


def _campaign(wcache: Wcache, loads: str) -> Dict[str, Any]:
    campaign_id = wcache.start_campaign(scope="osd.0", loads=loads)
    return wcache.wait_over(campaign_id, 600)


def _verdict_costs(shown: Dict[str, Any]) -> List[Figures]:
    return [
        {
            "osd_id": r["osd_id"], "drive": ",".join(r["dev_names"]), "load_point": r["load_point"],
            "verdict": r["verdict"], "ratio": r["ratio"], "pairs": r["pairs"],
            "seconds": round(r["seconds"], 2), "bytes_written": r["bytes_written"],
        }
        for r in shown["results"]
    ]


def _clients(cluster: Cluster, wcache: Wcache) -> Any:
    shown: Dict[str, Any] = {}
    figures = around(cluster, lambda: shown.update(_campaign(wcache, "traffic")))
    return figures, _verdict_costs(shown)


# ---- print


def plain(figures: Figures) -> str:
    """The figures as tables."""
    idle, commands, clients = figures["probe_idle"], figures["commands"], figures["clients"]
    lines = [
        f"{figures['ceph_version']}, {figures['cpus']} processors, load average "
        f"{figures['load_average_1min']} before", "",
        f"probe when idle, over {idle['seconds']} s: {idle['cpu_percent']}% of a processor, "
        f"{amount(idle['rss_bytes'])} resident ({amount(idle['pss_bytes'])} its own share)", "",
    ]
    rows = []
    for name in commands["idle"]:
        one, two = commands["idle"][name], commands["analysing"][name]
        rows.append([name, one["n"], latency(one["p50_us"]), latency(one["p99_us"]), two["n"],
                     latency(two["p50_us"]), latency(two["p99_us"]),
                     commands["ratio_p50"][name], commands["ratio_p99"][name]])
    lines += [
        table(("COMMAND", "N", "IDLE P50", "P99", "N", "ANALYSING P50", "P99", "RATIO P50",
               "RATIO P99"), rows),
        f"analysing: a simulated campaign, {commands['pairs_per_second']} pairs a second, each "
        f"looked at from the fourth of its drive on; the child used "
        f"{commands['analysis_cpu_percent']}% of a processor, the mgr "
        f"{commands['mgr_cpu_percent']}%", "",
    ]
    costs = [
        [way, f"osd.{c['osd_id']} {c['drive']}", c["load_point"], c["verdict"], c["pairs"],
         duration(c["seconds"]), amount(c["bytes_written"])]
        for way, results in figures["verdicts"].items() for c in results
    ]
    lines += [table(("WAY", "DRIVE", "LOAD", "VERDICT", "PAIRS", "DRIVE TIME", "WRITTEN"), costs)]
    lines += [
        "", plain_clients(clients, "the passive campaign on osd.0"),
        "", plain_clients(figures["clients_rollout"], "a rollout of osd.0's drives"),
    ]
    return "\n".join(lines)


def _to_stderr(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _nothing(_text: str) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main())

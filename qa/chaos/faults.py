"""Faults: each is struck, and healed some time later."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Callable, Dict, List, Sequence

from harness import Cluster, HarnessError
from harness.processes import is_alive

from .choices import MONS, Fault
from .stage import WAIT_S, Stage

STOP, CONT = signal.SIGSTOP, signal.SIGCONT
FLUSH_S = 40.0


def strike(stage: Stage, fault: Fault) -> Callable[[], None]:
    """Do it; returns what heals it."""
    kind, befallen = fault.kind.split(" ")[0], fault.kind.split(" ")[-1]
    cluster = stage.cluster
    if befallen in ("probe", "osd") and kind in ("kill", "stop"):
        return _of_host(stage, kind, befallen, fault.target)
    if befallen in ("mgr", "mon", "child"):
        if kind == "full":
            stage.mon_disk.fill()
            return stage.mon_disk.empty
        return _of_daemon(stage, kind, befallen, fault.target)
    if fault.kind == "full probe":
        stage.small_disk.fill()
        return stage.small_disk.empty
    if fault.kind == "slow flush":
        stage.slow_disk.flush_takes(FLUSH_S)
        return lambda: stage.slow_disk.flush_takes(0)
    if fault.kind == "cut":
        stage.hosts[fault.target].wire("down")
        return lambda: stage.hosts[fault.target].wire("up")
    if fault.kind == "module off":
        cluster.ceph("mgr", "module", "disable", "wcache")
        return lambda: _module_on(cluster)
    assert fault.kind == "osd out", fault
    number = fault.target[len("osd."):]
    cluster.ceph("osd", "out", number)
    return lambda: _in(cluster, number)


def _of_host(stage: Stage, kind: str, befallen: str, target: str) -> Callable[[], None]:
    if befallen == "probe":
        host = stage.hosts[target]
        if kind == "kill":
            host.kill_probe()
            return host.start_probe
        host.signal_probe(STOP)
        return lambda: host.signal_probe(CONT)
    osd_id = int(target[len("osd."):])
    host = stage.host_of(osd_id)
    if kind == "kill":
        host.kill_osd(osd_id)
        return lambda: host.start_osd(osd_id)
    host.signal_osd(osd_id, STOP)
    return lambda: host.signal_osd(osd_id, CONT)


def _of_daemon(stage: Stage, kind: str, befallen: str, target: str) -> Callable[[], None]:
    cluster = stage.cluster
    try:
        if befallen == "child":
            pids, daemon = children(cluster), ""
        else:
            daemon = target or f"mgr.{cluster.active_mgr()}"
            pids = [cluster.daemon_pid(daemon)]
    except HarnessError:  # another fault was there first
        return lambda: None
    _signal(pids, signal.SIGKILL if kind == "kill" else STOP)
    if kind == "stop":
        return lambda: _signal(pids, CONT)
    return lambda: start_again(cluster, daemon) if daemon else None


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def children(cluster: Cluster) -> List[int]:
    """The analysis children of the active mgr."""
    mgr, found = cluster.mgr_pid(), []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
            parent = (entry.parent / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"wcache.analysis" in words and int(parent) == mgr:
            found.append(int(entry.parent.name))
    return found


def start_again(cluster: Cluster, daemon: str) -> None:
    """Start a daemon where it does not run."""
    try:
        runs = is_alive(cluster.daemon_pid(daemon))
    except HarnessError:
        runs = False
    if not runs:
        cluster.start_daemon(daemon)


def _module_on(cluster: Cluster) -> None:
    cluster.ceph("mgr", "module", "enable", "wcache")


def _in(cluster: Cluster, number: str) -> None:
    cluster.ceph("osd", "in", number)


def mend(stage: Stage, told: Sequence[str]) -> None:
    """Start what does not run, whatever it has died of, and wait until all is well."""
    cluster = stage.cluster
    daemons: Dict[str, None] = dict.fromkeys(f"mon.{name}" for name in MONS)
    daemons.update(dict.fromkeys(f"mgr.{name}" for name in cluster.mgr_names))
    for daemon in daemons:
        start_again(cluster, daemon)
    for host in stage.hosts.values():
        host.start_probe()
        for osd_id in host.osd_ids:
            host.start_osd(osd_id)
    stage.wcache.wait("the module", lambda: stage.wcache("status"), WAIT_S)
    cluster.wait_healthy(WAIT_S, ignoring=["MON_CLOCK_SKEW", *told])

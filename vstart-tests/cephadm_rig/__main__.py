"""`make cephadm`: a rig to look at."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Optional

from harness.errors import HarnessError

from .cluster import CephadmCluster, CephadmPlan, start_cephadm
from .images import ensure_images
from .keeper import remove


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rig", description="Real cephadm clusters on this machine, for tests.  Needs root."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start", help="start a cluster and leave it running")
    start.add_argument("--hosts", type=int, choices=range(1, 6), default=2, metavar="1..5")
    start.add_argument("--osds", type=int, choices=range(1, 5), default=1, metavar="1..4",
                       help="of each host")
    start.add_argument("--dir", type=Path, help="its folder (default: a new one in /tmp)")
    stop = verbs.add_parser("stop", help="stop a rig and remove everything of it")
    run = verbs.add_parser("exec", help="run a command on one of its hosts")
    shell = verbs.add_parser("shell", help="open a shell on one of its hosts")
    for verb in (stop, run, shell):
        verb.add_argument("--dir", type=Path, required=True, help="the rig's folder")
    for verb in (run, shell):
        verb.add_argument("--host", default="h1")
    run.add_argument("command", nargs="+", help="the command, after --")
    return parser


def _start(options: argparse.Namespace) -> int:
    began_s = time.monotonic()
    ensure_images(CephadmPlan.release)
    built_s = time.monotonic()
    plan = CephadmPlan(options.hosts, options.osds, folder=options.dir)
    cluster = start_cephadm(plan)
    cluster.leave_running()
    rig, folder = "vstart-tests/cephadm_rig/rig", cluster.folder
    print(f"build    {built_s - began_s:.0f} s, start {time.monotonic() - built_s:.0f} s")
    print(f"hosts    {', '.join(cluster.machines)}")
    print(f"talk     {rig} exec --dir {folder} -- ceph status")
    print(f"look     {rig} shell --dir {folder} --host h1")
    print(f"stop     {rig} stop --dir {folder}")
    return 0


def _run(options: argparse.Namespace, argv: List[str]) -> int:
    machines = CephadmCluster.attach(options.dir).machines
    if options.host not in machines:
        raise HarnessError(f"there is no host {options.host}: choose one of {', '.join(machines)}")
    process = subprocess.Popen(machines[options.host].entry(argv))
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # the command got it as well, and decides


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.verb == "start":
            return _start(options)
        if options.verb == "stop":
            remove(options.dir.resolve())
            return 0
        return _run(options, options.command if options.verb == "exec" else ["/bin/bash", "-l"])
    except HarnessError as error:
        print(f"rig: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""`vstart-tests/cluster`: the harness as a command."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import List, Optional

from .cluster import Cluster
from .errors import HarnessError
from .releases import RELEASES, ensure_release
from .start import THREE_OSDS, ClusterPlan, start_cluster


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cluster", description="Real Ceph clusters on this machine, for tests.  Needs root."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    install = verbs.add_parser("install", help="download what a release needs")
    start = verbs.add_parser("start", help="start a cluster and leave it running")
    for verb in (install, start):
        verb.add_argument("--release", type=int, choices=sorted(RELEASES), default=20)
    start.add_argument("--dir", type=Path, help="its folder (default: a new one in /tmp)")
    start.add_argument("--osds", type=int, choices=range(1, 10), default=3, metavar="1..9")
    start.add_argument("--standby-mgrs", type=int, choices=range(3), default=0, metavar="0..2")
    start.add_argument(
        "--module", action="append", default=[], metavar="NAME", help="of the release, as well"
    )
    stop = verbs.add_parser("stop", help="stop a cluster and remove everything of it")
    run = verbs.add_parser("exec", help="run a command in a cluster's release")
    shell = verbs.add_parser("shell", help="open a shell in a cluster's release")
    for verb in (stop, run, shell):
        verb.add_argument("--dir", type=Path, required=True, help="the cluster's folder")
    run.add_argument("command", nargs="+", help="the command, after --")
    return parser


def _start(options: argparse.Namespace) -> int:
    began_s = time.monotonic()
    ensure_release(options.release)
    installed_s = time.monotonic()
    layouts = [THREE_OSDS[index % len(THREE_OSDS)] for index in range(options.osds)]
    plan = ClusterPlan(
        release=options.release,
        folder=options.dir,
        osds=layouts,
        standby_mgrs=options.standby_mgrs,
        packaged_modules=options.module,
    )
    cluster = start_cluster(plan)
    cluster.leave_running()
    up_s = time.monotonic()

    print(f"install  {installed_s - began_s:.1f} s, start {up_s - installed_s:.1f} s")
    print(f"talk     vstart-tests/cluster exec --dir {cluster.folder} -- ceph status")
    print(f"stop     vstart-tests/cluster stop --dir {cluster.folder}")
    print(f"folder   {cluster.folder}")
    return 0


def _run(folder: Path, argv: List[str]) -> int:
    process = Cluster.attach(folder).popen_inside(argv)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # the command got it as well, and decides


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.verb == "install":
            root = ensure_release(options.release)
            print(root.path or "native packages")
            return 0
        if options.verb == "start":
            return _start(options)
        if options.verb == "stop":
            Cluster.attach(options.dir).stop()
            return 0
        return _run(options.dir, options.command if options.verb == "exec" else ["/bin/bash"])
    except HarnessError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

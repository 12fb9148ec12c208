"""Start the probe on simulated drives: its own `main`, with the host that a TOML file describes.

The words are the probe's, with the file in front of them.  What the drives are set to is kept in
the probe's state folder, so that its processes share it.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Optional, Sequence

from wcache.core.ports import MgrLink
from wcache_probe import main as probe
from wcache_probe.changes import HostWatch
from wcache_probe.linux.glance import stamps
from wcache_probe.restoring.restorer import Start, Started, start_again
from wcache_probe.switcher import AfterStep, nothing

from .drive_schema import load_drive_file
from .host import SimulatedHost

SETTINGS = "sim-drives.json"  # in the state folder


def main(
    words: Optional[Sequence[str]] = None,
    *,
    link: Optional[MgrLink] = None,
    after_step: AfterStep = nothing,
    start: Optional[Start] = None,
) -> int:
    """Run one command of the probe on the drives of a file; returns its exit code."""
    file, *rest = list(sys.argv[1:] if words is None else words) or [""]
    if not os.path.isfile(file):
        print(f"usage: sim_probe FILE COMMAND ...: there is no file '{file}'", file=sys.stderr)
        return 2
    file = os.path.abspath(file)

    def again(words: Sequence[str]) -> Started:
        return start_again([file, *words], __name__)

    return probe.main(
        rest, link=link, after_step=after_step, start=start or again, drives=drives_of(file)
    )


def drives_of(file: str) -> probe.Drives:
    """Make the drives of a file what the probe's commands work on."""

    def settings(options: argparse.Namespace) -> str:
        return os.path.join(options.state_dir, SETTINGS)

    def host(options: argparse.Namespace, _fsid: Optional[str]) -> SimulatedHost:
        return SimulatedHost(
            load_drive_file(file), options.hostname, state_path=settings(options)
        )

    def changes(options: argparse.Namespace) -> HostWatch:
        folder = options.state_dir
        paths = [os.path.join(folder, name) for name in ("journal", "evidence")]
        paths += [file, settings(options)]
        return HostWatch(glance=lambda: stamps(paths))

    return probe.Drives(host, changes, simulated=True)

"""What tests of a probe process ask of its drives, and how they ask for a change."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import Iterator, List

from fake_mgr import FolderMgr, StoredPriors
from probe_process import ProbeProcess
from sim_drives import DRIVES, OBEYS
from wcache.core.model import CacheMode
from wcache.core.protocol import (
    Lease,
    SetModeRequest,
)
from wcache_sim.drive_schema import parse_drive_file
from wcache_sim.host import SimulatedHost

LEASE = Lease("L1", OBEYS, 30.0)
HOLD = """
import sys
from wcache_probe.journal.journal_file import StateFolder
StateFolder(sys.argv[1], sys.argv[2]).lock()
print("locked", flush=True)
"""


@contextmanager
def holding(
    state_dir: object, run_dir: object, then: str = "sys.stdin.read()"
) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a state folder, as a probe does; by default it knows no request."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD + then, str(state_dir), str(run_dir)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def mgr_of(probe: ProbeProcess) -> FolderMgr:
    """The mgr in the probe's folder, which looks at a drive before it lets it be touched."""
    def entries() -> List[str]:
        return [path.name for path in (probe.state / "journal").glob("*.json")]

    return FolderMgr(
        probe.mgr_folder, StoredPriors(lambda domain_id: host_of(probe).domain(domain_id), entries)
    )


def host_of(probe: ProbeProcess) -> SimulatedHost:
    """The drives as their own state file has them."""
    path = probe.state / "sim-drives.json"
    return SimulatedHost(
        parse_drive_file(DRIVES), "sim1", state_path=str(path) if path.exists() else None
    )


def mode_of(probe: ProbeProcess, domain_id: str = OBEYS) -> CacheMode:
    """What the drive is set to."""
    (drive,) = host_of(probe).domain(domain_id)
    assert drive.mode is not None
    return drive.mode


def marks(probe: ProbeProcess) -> list:
    return list((probe.run_dir / "leases").glob("*"))


def set_mode(mgr: FolderMgr, mode: CacheMode, lease: Lease = LEASE) -> None:
    task_id = f"set {mode.value} {len(mgr.posts())}"
    mgr.say(SetModeRequest(lease.domain_id, mode), task_id, lease)
    assert mgr.answer_to(task_id)["kind"] == "state"

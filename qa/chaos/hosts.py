"""Hosts with OSDs and a probe: one that this machine plays, and the drive lab's guest."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Dict, List, Optional, Protocol, Sequence

from drive_lab.lab import Lab
from drive_lab.osds import HOME, GuestOsds
from drive_lab.probe import STATE_DIR, GuestProbe
from harness import Cluster
from harness.errors import HarnessError
from probes import Probe

from .memory import rss_kib
from .places import Wire, set_guests_wire

ENDS_S = 120.0


class Host(Protocol):
    """What may befall a host."""

    name: str
    osd_ids: Sequence[int]

    def kill_probe(self) -> None:
        """kill -9."""

    def start_probe(self) -> None:
        """Start it where it does not run."""

    def signal_probe(self, number: signal.Signals) -> None:
        """Stop its process for a while, or have it go on."""

    def kill_osd(self, osd_id: int) -> None:
        """kill -9."""

    def start_osd(self, osd_id: int) -> None:
        """Start it where it does not run."""

    def signal_osd(self, osd_id: int, number: signal.Signals) -> None:
        """Stop its process for a while, or have it go on."""

    def wire(self, state: str) -> None:
        """Cut the network of its probe ("down"), or mend it ("up")."""

    def journal(self) -> List[str]:
        """The files of its journal."""

    def rss_kib(self) -> int:
        """Memory of its probe."""


class WiredProbe(Probe):
    """A probe in a network of its own."""

    entry: Sequence[str] = ()

    def _argv(self, *words: str) -> List[str]:
        return [*self.entry, *super()._argv(*words)]


class NativeHost:
    """A host that this machine plays."""

    def __init__(
        self, cluster: Cluster, name: str, osd_ids: Sequence[int], wire: Wire,
        state_dir: Optional[Path] = None,
    ) -> None:
        self.name, self.osd_ids = name, osd_ids
        self._cluster, self._wire = cluster, wire
        self.probe = WiredProbe(
            cluster, name, osd_data=f"osd.[{''.join(map(str, osd_ids))}]"
        )
        self.probe.entry = wire.entry
        if state_dir is not None:
            self.probe.state_dir = state_dir
        self.probe.run_dir = cluster.folder / f"run.{name}"
        self._killed = False

    def kill_probe(self) -> None:
        """See Host; one whose disk does not flush ends later."""
        if self.probe.process is not None:
            self.probe.process.kill()
            self._killed = True

    def start_probe(self) -> None:
        """See Host."""
        process = self.probe.process
        if process is not None and self._killed:
            process.wait(ENDS_S)
        if process is None or process.poll() is not None:
            self.probe.start()
        self._killed = False

    def signal_probe(self, number: signal.Signals) -> None:
        """See Host."""
        if self.probe.process is not None and self.probe.process.poll() is None:
            self.probe.process.send_signal(number)

    def kill_osd(self, osd_id: int) -> None:
        """See Host."""
        self._cluster.stop_daemon(f"osd.{osd_id}", kill=True)

    def start_osd(self, osd_id: int) -> None:
        """See Host."""
        try:
            self._cluster.osd_pid(osd_id)
        except HarnessError:
            self._cluster.start_daemon(f"osd.{osd_id}")

    def signal_osd(self, osd_id: int, number: signal.Signals) -> None:
        """See Host."""
        os.kill(self._cluster.osd_pid(osd_id), number)

    def wire(self, state: str) -> None:
        """See Host."""
        self._wire.set(state)

    def journal(self) -> List[str]:
        """See Host."""
        return sorted(path.name for path in (self.probe.state_dir / "journal").glob("*.json"))

    def rss_kib(self) -> int:
        """See Host."""
        process = self.probe.process
        return rss_kib(process.pid) if process is not None else 0

    def devices(self) -> Dict[int, str]:
        """The block device of each of its OSDs, by the link that BlueStore opens."""
        return {
            osd_id: os.path.basename(os.readlink(self._cluster.folder / f"osd.{osd_id}" / "block"))
            for osd_id in self.osd_ids
        }


class GuestHost:
    """The drive lab's guest."""

    def __init__(self, lab: Lab, osds: GuestOsds, probe: GuestProbe) -> None:
        self.lab = lab
        self.name, self.osd_ids = probe.hostname, osds.ids
        self._osds, self._probe = osds, probe

    def kill_probe(self) -> None:
        """See Host."""
        self._probe.kill()

    def start_probe(self) -> None:
        """See Host."""
        process = self._probe.process
        if process is None or process.poll() is not None:
            self._probe.start()

    def signal_probe(self, number: signal.Signals) -> None:
        """See Host."""
        if self._probe.process is not None:
            self._probe.process.kill(number.name[len("SIG"):])

    def kill_osd(self, osd_id: int) -> None:
        """See Host."""
        self._osds.stop(osd_id, kill=True)

    def start_osd(self, osd_id: int) -> None:
        """See Host."""
        pid_file = f"{HOME}/osd.{osd_id}.pid"
        if self.lab.guest.sh(f"[ -e /proc/$(cat {pid_file}) ]").returncode != 0:
            self._osds.start(osd_id)

    def signal_osd(self, osd_id: int, number: signal.Signals) -> None:
        """See Host."""
        word = number.name[len("SIG"):]
        self.lab.guest.sh(f"kill -{word} $(cat {HOME}/osd.{osd_id}.pid)").checked()

    def wire(self, state: str) -> None:
        """See Host."""
        set_guests_wire(state)

    def journal(self) -> List[str]:
        """See Host."""
        said = self.lab.guest.sh(f"ls {STATE_DIR}/journal/ 2>/dev/null || :").checked().split()
        return [name for name in said if name.endswith(".json")]

    def rss_kib(self) -> int:
        """See Host."""
        if self._probe.process is None:
            return 0
        said = self.lab.guest.sh(f"grep VmRSS /proc/{self._probe.process.pid}/status || :").stdout
        return int(said.split()[1]) if said else 0

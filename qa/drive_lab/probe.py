"""The project's probe, run in the guest as an admin would run it on an OSD host."""

from __future__ import annotations

import shlex
from pathlib import Path

from .agent import GuestProcess, Result
from .lab import Lab
from .osds import HOME
from .processes import LabError

STATE_DIR = "/var/lib/wcache"
# beside the data folders are sockets and pid files, which end in letters
OSD_DATA = f"{HOME}/osd.*[0-9]"
PACKAGES = "/wcache/osd_probe:/wcache/mgr_module"
# what is run after `prepare`, with the state folders
BOOTED_SINCE = ("/bin/sh", "/wcache/qa/drive_lab/guest/booted_since")
STOP_TIMEOUT_S = 300.0


class GuestProbe:
    """One wcache-probe; its state is on the guest's root and survives a reboot."""

    def __init__(self, lab: Lab, hostname: str, keyring: Path) -> None:
        self._lab = lab
        self._keyring = keyring
        self.hostname = hostname
        self.process: GuestProcess | None = None

    def prepare(self) -> str:
        """`wcache-probe prepare`, as once on each host, and a boot since; what it said."""
        said: str = self._lab.guest.run(
            ["python3", "-m", "wcache_probe", "prepare", "--image-elsewhere",
             "--osd-data", OSD_DATA, "--state-dir", STATE_DIR],
            env={"PYTHONPATH": PACKAGES},
        ).checked()  # fmt: skip
        self._lab.guest.run([*BOOTED_SINCE, STATE_DIR]).checked()
        return said

    def start(self) -> None:
        """Start it; what it prints goes to ``probe.log`` on the shared folder."""
        target = self._lab.share / "probe.keyring"
        target.write_bytes(self._keyring.read_bytes())
        words = [
            "run", "--keyring", "/share/probe.keyring", "--id", f"wcache.{self.hostname}",
            *self._drives(),
        ]  # fmt: skip
        script = f"exec python3 -m wcache_probe {shlex.join(words)} >>/share/probe.log 2>&1"
        self.process = self._lab.guest.spawn(
            ["/bin/sh", "-c", script], env={"PYTHONPATH": PACKAGES}
        )

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process = None

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self.process is None:
            raise LabError("the probe does not run")
        self.process.kill("TERM")
        result = self.process.wait(STOP_TIMEOUT_S)
        self.process = None
        return result.returncode

    def run(self, *words: str, timeout_s: float = 60.0) -> Result:
        """Run another command of the probe to its end."""
        return self._lab.guest.run(
            ["python3", "-m", "wcache_probe", words[0], *self._drives(), *words[1:]],
            env={"PYTHONPATH": PACKAGES}, timeout_s=timeout_s,
        )  # fmt: skip

    def log(self) -> str:
        """What it has printed so far."""
        path = self._lab.share / "probe.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _drives(self) -> list[str]:
        return [
            "--hostname", self.hostname, "--osd-data", OSD_DATA, "--state-dir", STATE_DIR,
        ]  # fmt: skip

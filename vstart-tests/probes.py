"""The module and probes of the project on a test cluster, as an admin would set them up."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from harness import ClusterAccess, CommandError, HarnessError
from wcache.deployment.places import caps_of

MODULE = ClusterAccess.project / "mgr_module" / "wcache"
POLL_S = 0.05
# A campaign that noise left undecided is repeated this often.
CAMPAIGNS_MAX = 4
# PGs of a pool that was just made peer for a moment.
NOT_CLEAN_YET = ("preconditions not met", "no drive is measured now")
# what a machine does that stalls, and a cluster that recovers
REPEATED = (
    "past the limit", "preconditions no longer met", "preconditions not met", "stopped: osd.",
)
# Of the end of each of a mgr's logs, where it does not answer any more.
MGR_LINES = 30


class Probe:
    """One wcache-probe process in a cluster's release."""

    def __init__(
        self, cluster: ClusterAccess, hostname: str = "h1", *, state: str = "",
        sim: Optional[Path] = None, osd_data: str = "osd.*",
    ) -> None:
        self.cluster = cluster
        self.hostname = hostname
        self.entity = f"client.wcache.{hostname}"
        self.sim = sim
        self.bring_key()
        self.state_dir = cluster.folder / (state or f"probe.{hostname}")
        self.run_dir = self.state_dir / "run"
        self.osd_data = osd_data  # the folders of the OSDs on its host
        self.log = cluster.folder / "log" / f"{self.state_dir.name}.log"
        self.process: Optional[subprocess.Popen[bytes]] = None

    def bring_key(self) -> None:
        """Make its key, or take the one that is there."""
        self.keyring = self.cluster.auth_key(self.entity, **caps_of(self.hostname))

    def environment(self) -> Dict[str, str]:
        """Where the probe's packages are."""
        project = self.cluster.project
        return {"PYTHONPATH": f"{project}/osd_probe:{project}/mgr_module:{project}/qa"}

    def _argv(self, *words: str) -> List[str]:
        program = ["wcache_probe"] if self.sim is None else ["wcache_sim", str(self.sim)]
        return [self.cluster.python_inside, "-m", *program, *words]

    def _name_its_host(self) -> None:
        """Say whose host it speaks for, as an admin does where a key has another name."""
        machines = {row["hostname"] for row in self.cluster.command("osd metadata")}
        if self.hostname not in machines and len(machines) == 1:
            names = f"{self.hostname}={machines.pop()}"
            self.cluster.ceph("config", "set", "mgr", "mgr/wcache/host_names", names)

    def start(self) -> None:
        """Start it; its output goes to a log file."""
        if self.sim is None:
            self._name_its_host()
        words = [
            "run", "--conf", str(self.cluster.conf), "--keyring", str(self.keyring),
            "--id", self.entity[len("client.") :], "--hostname", self.hostname,
            "--state-dir", str(self.state_dir), "--run-dir", str(self.run_dir),
        ]
        if self.sim is None:
            words += ["--osd-data", str(self.cluster.folder / self.osd_data)]
        with open(self.log, "ab") as log:
            self.process = self.cluster.popen_inside(
                # whoever starts the tests by nohup makes children that ignore SIGHUP
                ["env", "--default-signal=HUP", *self._argv(*words)],
                env=self.environment(), stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=20)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end by a signal; returns the exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(by)
        return self.process.wait(timeout=30)

    def run(self, *words: str, check: bool = True) -> Any:
        """Run another command of the probe to its end."""
        return self.cluster.run_inside(
            self._argv(*words), env=self.environment(), check=check, timeout_s=60
        )

    def text(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")


class Wcache:
    """`ceph wcache ...` on a test cluster."""

    def __init__(self, cluster: ClusterAccess) -> None:
        self.cluster = cluster

    def __call__(self, command: str, **arguments: Any) -> Any:
        """One command by the open connection; its JSON answer."""
        return self.cluster.command(f"wcache {command}", target="mgr", **arguments)

    def option(self, name: str, value: Any) -> None:
        """Set a module option."""
        self.cluster.ceph("config", "set", "mgr", f"mgr/wcache/{name}", str(value).lower())

    def wait(
        self, what: str, condition: Callable[[], Any], timeout_s: float = 120.0
    ) -> Any:
        """Wait until a condition holds; returns its value, fails with the history."""
        deadline, refused = time.monotonic() + timeout_s, ""
        while time.monotonic() < deadline:
            try:
                value = condition()
            except HarnessError as error:  # a mgr that restarts answers nothing for a while
                value, refused = None, f": {error}"
            if value:
                return value
            time.sleep(POLL_S)
        raise AssertionError(f"{what}: not within {timeout_s:.0f} s{refused}\n" + self._told())

    def _told(self) -> str:
        """What the module has noted; where the mgr does not answer, the end of its logs."""
        try:
            return "\n".join(
                f"{h['what']}: {h['text']}" for h in self("history", limit=30)["history"]
            )
        except HarnessError as error:
            lines = [f"{error}; mgr stat: {self.cluster.command('mgr stat')}"]
        for log in sorted(self.cluster.folder.glob("log/mgr.*")):
            text = log.read_text(encoding="utf-8", errors="replace")
            lines += [f"== {log.name}", *text.splitlines()[-MGR_LINES:]]
        return "\n".join(lines)

    def start_campaign(self, **arguments: Any) -> str:
        """Start a campaign, once the mgr knows all PGs to be clean; returns its id."""
        arguments.setdefault("accept_cost", True)
        deadline = time.monotonic() + 60
        while True:
            try:
                return str(self("campaign start", **arguments)["campaign_id"])
            except CommandError as refusal:
                waits = any(each in str(refusal) for each in NOT_CLEAN_YET)
                if not waits or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)

    def campaign(self, campaign_id: str) -> Dict[str, Any]:
        """`campaign show`."""
        shown: Dict[str, Any] = self("campaign show", campaign_id=campaign_id)
        return shown

    def wait_over(self, campaign_id: str, timeout_s: float = 300.0) -> Dict[str, Any]:
        """Wait for the end of a campaign."""
        self.wait(
            f"end of {campaign_id}",
            lambda: self.campaign(campaign_id)["status"] != "running", timeout_s,
        )
        return self.campaign(campaign_id)

    def done(self, **arguments: Any) -> Dict[str, Any]:
        """A campaign that came to its end.

        It is repeated where a stall of this machine aborted it, or a recovery: the mgr hears of
        the PGs of an OSD that came back seconds after it is up.
        """
        for _ in range(CAMPAIGNS_MAX):
            shown = self.wait_over(self.start_campaign(**arguments))
            reasons = [run["reason"] for run in shown["run_list"] if run["status"] == "aborted"]
            if not any(each in reason for reason in reasons for each in REPEATED):
                break
            self.cluster.wait_clean()
        assert shown["status"] == "done", (shown["status"], reasons)
        return shown

    def advice(self, device_class: str) -> Dict[str, Any]:
        """What is recommended for a device class of one drive model; raises if nothing is."""
        (found,) = self("recommend", scope=f"class:{device_class}")["recommendations"]
        return dict(found)

    def decide(self, device_class: str, **arguments: Any) -> Dict[str, Any]:
        """Repeat a campaign until it decides on a device class; returns the last campaign.

        A busy machine may leave it undecided, which is honest and no failure.  Whatever is
        decided is returned, so a wrong verdict is never hidden by a repetition.
        """
        for _ in range(CAMPAIGNS_MAX):
            shown = self.done(**arguments)
            advice = self.advice(device_class)
            if advice["mode"] is not None:
                return shown
        told = [(r["verdict"], r["ended"], r["ratio_low"], r["ratio_high"])
                for r in shown["results"]]
        raise AssertionError(
            f"still {advice['verdict']} after {CAMPAIGNS_MAX} campaigns: {advice['why']} {told}"
        )

    def wait_period_in(self, mode: str, drive: Path, timeout_s: float = 120.0) -> None:
        """Wait until an experiment holds a loop device in a cache mode."""
        self.wait(f"{drive.name} in {mode}", lambda: kernel_view(drive) == mode, timeout_s)

    def history_text(self) -> str:
        """The audit log as text."""
        return json.dumps(self("history", limit=200)["history"])


def kernel_view(device: Path) -> str:
    """What the kernel believes of a device (/dev/loopN) now."""
    return Path(f"/sys/block/{device.name}/queue/write_cache").read_text().strip()


def all_views(cluster: ClusterAccess) -> Dict[Tuple[int, str], str]:
    """The kernel view of every device of every OSD, by (OSD, role)."""
    views = {}
    for osd_id in cluster.osd_ids():
        for role, device in cluster.osd_devices(osd_id).items():
            views[(osd_id, role)] = kernel_view(Path(device))
    return views

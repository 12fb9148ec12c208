"""What the demo runs on: a cluster, its probe, its clients; and commands shown as typed."""

from __future__ import annotations

import shlex
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from harness import Cluster, HarnessError, Result
from probes import MODULE, Probe, Wcache

POOL = "demo"
CLIENT_SECONDS_MAX = 900
CLIENT_DEPTH = 2  # more would only measure the processors
WAIT_S = 0.3
# A cluster worth nothing, looked at fast: the defaults are for real ones.
OPTIONS = {
    "throwaway_cluster": "true",
    "poll_idle_s": "1",
    "settle_s": "0.1",
    "period_s": "1",
    "canary_wait_s": "3",
}


class Stage:
    """A running cluster with the module in it; everything it starts ends with the cluster."""

    def __init__(
        self, cluster: Cluster, began_s: float, options: Mapping[str, str] = OPTIONS
    ) -> None:
        self.cluster = cluster
        self._options = options
        self.began_s = began_s
        self.wcache = Wcache(cluster)
        self.hostname = str(cluster.command("osd metadata", id=0)["hostname"])
        self._probe: Optional[Probe] = None
        self._clients: Optional[subprocess.Popen[bytes]] = None
        self._steps = 0

    # ---- showing

    def step(self, title: str, *lines: str) -> None:
        """Begin a step: a heading, and what is about to be seen."""
        self._steps += 1
        seconds = time.monotonic() - self.began_s
        say("")
        say(bold(f"== {self._steps}. {title}") + f"  ({seconds:.0f} s since the start)")
        for line in lines:
            say(textwrap.fill(line, 96))

    def ceph(self, *words: str, check: bool = True) -> Result:
        """Run `ceph WORDS`, shown as an admin would type it, with its real output."""
        say(bold("$ " + shlex.join(["ceph", *words])))
        result = self.cluster.ceph(*words, check=check, timeout_s=60)
        for line in (result.stdout + result.stderr).rstrip().splitlines():
            say("  " + line)
        return result

    def tool(self, *words: str) -> None:
        """Run our own `wcache WORDS` inside the release; its output appears as it comes."""
        say(bold("$ " + shlex.join(["wcache", *words])))
        project = self.cluster.project
        process = self.cluster.popen_inside(
            [self.cluster.python_inside, "-m", "wcache_cli.main", *words],
            env={"PYTHONPATH": f"{project}/cli:{project}/mgr_module", "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        with process:
            for raw in process.stdout:
                say("  " + raw.decode("utf-8", "replace").rstrip())

    # ---- setting up

    def enable(self) -> None:
        """Turn the module on and set its options."""
        self.cluster.install_module(MODULE)
        say(bold("$ ceph mgr module enable wcache"))
        self.cluster.enable_module("wcache")
        for name, value in self._options.items():
            self.ceph("config", "set", "mgr", f"mgr/wcache/{name}", value)
        self.wait("the module", lambda: self.wcache("status"))

    def start_probe(self) -> None:
        """Make the probe's key and start it, as its systemd unit would."""
        self._probe = Probe(self.cluster, self.hostname)
        caps = self.cluster.ceph_json("auth", "get", self._probe.entity)[0]["caps"]
        flat = [word for service in sorted(caps) for word in (service, caps[service])]
        say(bold("$ " + shlex.join(["ceph", "auth", "get-or-create", self._probe.entity, *flat])))
        self._probe.start()
        say(bold(f"$ wcache-probe run --id {self._probe.entity[len('client.'):]} "
                 f"--hostname {self.hostname} --keyring ... --state-dir ..."))
        self.wait("the probe's first report", lambda: self.wcache("drive ls")["drives"], 60)

    def make_pool(self) -> None:
        """A pool over all OSDs for the clients."""
        self.ceph("osd", "pool", "create", POOL, "8")
        # one copy: with more, three OSDs share what processors there are for every write
        self.ceph("osd", "pool", "set", POOL, "size", "1", "--yes-i-really-mean-it")
        self.cluster.ceph("osd", "pool", "application", "enable", POOL, "rados")
        self.cluster.wait_healthy(60)

    def start_clients(self) -> None:
        """4 KiB writes by `rados bench`, until `stop_clients`."""
        argv = ["rados", "-p", POOL, "bench", str(CLIENT_SECONDS_MAX), "write", "-b", "4096",
                "-t", str(CLIENT_DEPTH), "--no-cleanup"]
        say(bold("$ " + shlex.join(argv) + " &"))
        self._clients = self.cluster.popen_inside(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def stop_clients(self) -> None:
        """End the client traffic."""
        if self._clients is not None:
            self._clients.kill()
            self._clients.wait(timeout=20)
            self._clients = None

    def stop_probe(self) -> None:
        """End the probe, which restores what it holds."""
        if self._probe is not None:
            self._probe.stop()
            self._probe = None

    # ---- waiting

    def wait(self, what: str, condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """The first true value of a condition; raises HarnessError when time is over."""
        deadline_s = time.monotonic() + timeout_s
        last = ""
        while time.monotonic() < deadline_s:
            try:
                value = condition()
            except HarnessError as error:
                value, last = None, f": {error}"
            if value:
                return value
            if self._probe is not None and self._probe.process is not None:
                code = self._probe.process.poll()
                if code is not None:
                    raise HarnessError(f"the probe ended with {code}: {self._probe.text()[-800:]}")
            time.sleep(WAIT_S)
        raise HarnessError(f"{what}: not within {timeout_s:.0f} s{last}")

    def wait_clean(self) -> None:
        """Wait until the mgr's own idea of the PGs, which trails the mon's, is clean too."""

        def clean() -> bool:
            summary = self.cluster.command("pg stat", target="mgr")["pg_summary"]
            states = {row["name"] for row in summary["num_pg_by_state"]}
            return states == {"active+clean"}

        self.wait("clean PGs", clean)

    def wait_plan(self, plan_id: str, timeout_s: float) -> Any:
        """The plan, once nothing of it is under way."""

        def over() -> Any:
            shown = self.wcache("plan show", plan_id=plan_id)
            return shown if shown["status"] not in ("running", "rolling back") else None

        return self.wait(f"plan {plan_id}", over, timeout_s)

    def copy_out(self, names: Sequence[str], folder: Path) -> None:
        """Copy files of the cluster's folder, which goes with it, to one that stays."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).write_bytes((self.cluster.folder / name).read_bytes())


def say(text: str) -> None:
    """Print a line now: the demo is followed live."""
    print(text, flush=True)


def bold(text: str) -> str:
    """Bold on a terminal."""
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() else text

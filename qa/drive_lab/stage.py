"""What the demo runs on: the lab, its probe, its clients; and commands shown as typed."""

from __future__ import annotations

import shlex
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from harness import HarnessError, Result
from probes import Wcache
from wcache.core.text import table

from .agent import HANG_S
from .arrival import Arrival
from .campaign import HOSTNAME, Running
from .processes import LabError
from .witness import Witness, look

WAIT_S = 0.3
HEALTHY_S = 60.0
MODES = {True: "write back", False: "write through"}


class Stage:
    """A running lab with the module in it; everything it starts ends with the lab."""

    def __init__(self, up: Running, began_s: float) -> None:
        self.up = up
        self.cluster = up.cluster
        self.began_s = began_s
        self.wcache = Wcache(up.cluster)
        self._arrival = Arrival(up.lab, up.cluster, HOSTNAME)
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

    def ceph(self, *words: str) -> Result:
        """Run `ceph WORDS`, shown as an admin would type it, with its real output."""
        say(bold("$ " + shlex.join(["ceph", *words])))
        result = self.cluster.ceph(*words, timeout_s=HANG_S)
        for line in (result.stdout + result.stderr).rstrip().splitlines():
            say("  " + line)
        return result

    def tool(self, *words: str) -> str:
        """Run our own `wcache WORDS` inside the release; its output, which appears as it comes."""
        say(bold("$ " + shlex.join(["wcache", *words])))
        project = self.cluster.project
        process = self.cluster.popen_inside(
            [self.cluster.python_inside, "-m", "wcache_cli.main", *words],
            env={"PYTHONPATH": f"{project}/cli:{project}/mgr_module", "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdout is not None
        lines = []
        with process:
            for raw in process.stdout:
                lines.append(raw.decode("utf-8", "replace"))
                say("  " + lines[-1].rstrip())
        return "".join(lines)

    def witnesses(self) -> None:
        """What can be seen of the drives without asking wcache."""
        rows = []
        for fitted in self.up.lab.drives:
            seen = look(self.up.lab.drive(fitted.name), None)
            rows.append([
                fitted.name, MODES[seen.by_drive_on], MODES[seen.by_qmp_on],
                ", ".join(f"{name} {view}" for name, view in seen.by_kernel.items()),
            ])  # fmt: skip
        say(bold("the same drives as their own tools, QEMU and the kernel have them"))
        for line in table(("DRIVE", "DRIVE SAYS", "QEMU SAYS", "KERNEL SAYS"), rows).splitlines():
            say("  " + line)

    def seen_in_commits(self) -> list[Witness]:
        """What can be seen of each drive while the OSD of its number commits a write."""

        def commit(osd_id: int) -> None:
            self.cluster.ceph(
                "tell", f"osd.{osd_id}", "bench", "131072", "131072", timeout_s=HANG_S
            )

        return [
            look(self.up.lab.drive(fitted.name), partial(commit, osd_id))
            for osd_id, fitted in enumerate(self.up.lab.drives)
        ]

    # ---- setting up

    def enable(self, options: Mapping[str, str]) -> None:
        """Turn the module on and set its options."""
        say(bold("$ ceph mgr module enable wcache"))
        self.cluster.enable_module("wcache")
        for name, value in options.items():
            self.ceph("config", "set", "mgr", f"mgr/wcache/{name}", value)
        self.wait("the module", lambda: self.wcache("status"))

    def add_host(self) -> None:
        """Bring the probe onto the host by what `agent add` prints."""
        self._paste("add", "--run-by", "systemd")
        try:
            self.wait("the probe's first report", lambda: self.wcache("drive ls")["drives"])
        except HarnessError as error:
            raise LabError(f"{error}\n{self._arrival.log()[-800:]}") from error

    def remove_host(self) -> str:
        """Take the probe away by what `agent rm` prints, which restores; what the host said."""
        return self._paste("rm")

    def leave(self) -> None:
        """Take wcache out of the cluster by `leave --back`; raises HarnessError for what stays."""
        words = ["wcache", "leave", "--back"]

        def left() -> Any:
            said = self.cluster.ceph(*words, check=False, timeout_s=HANG_S)
            for line in (said.stdout + said.stderr).rstrip().splitlines():
                say("  " + line)
            return said.stdout if "has left this cluster" in said.stdout else None

        say(bold("$ " + shlex.join(["ceph", *words])))
        self._run_there(self.wait("leaving", left), words)
        self.wait("the module's own end", lambda: "wcache" not in (
            self.cluster.ceph_json("mgr", "module", "ls")["enabled_modules"]
        ))
        stays = [
            *(key for key in self.cluster.ceph_json("config-key", "ls")
              if key.startswith("mgr/wcache/")),  # config-history is the mons' own
            *(row["name"] for row in self.cluster.ceph_json("config", "dump")
              if "wcache" in row["name"]),
            *(row["entity"] for row in self.cluster.ceph_json("auth", "ls")["auth_dump"]
              if "wcache" in row["entity"]),
        ]
        say(f"  in the mons there is of wcache: {', '.join(stays) or 'nothing'}")
        if stays:
            raise HarnessError(f"leaving has left {', '.join(stays)}")

    def _paste(self, verb: str, *options: str) -> str:
        words = ["wcache", "agent", verb, HOSTNAME, *options]
        return self._run_there(self.ceph(*words).stdout, words)

    def _run_there(self, script: str, words: Sequence[str]) -> str:
        say(bold("$ " + shlex.join(["ceph", *words]) + " | sh"))
        said = self._arrival.paste(script)
        for line in said.splitlines():
            say(f"  {HOSTNAME}: {line}")
        return said

    def start_clients(self, device_class: str) -> None:
        """4 KiB writes to the OSDs of a device class, until `stop_clients`."""
        say(bold("$ " + shlex.join(self.up.clients.command(device_class)) + " &"))
        self.up.clients.start(device_class)

    def stop_clients(self) -> None:
        """End the client traffic."""
        self.up.clients.stop()

    # ---- waiting

    def wait(self, what: str, condition: Callable[[], Any], timeout_s: float = HANG_S) -> Any:
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
            time.sleep(WAIT_S)
        raise HarnessError(f"{what}: not within {timeout_s:.0f} s{last}")

    def wait_clean(self) -> None:
        """Wait until the mgr's own idea of the PGs, which trails the mon's, is clean too."""

        def clean() -> bool:
            summary = self.cluster.command("pg stat", target="mgr")["pg_summary"]
            states = {row["name"] for row in summary["num_pg_by_state"]}
            return states == {"active+clean"}

        self.wait("clean PGs", clean)

    def show_health(self) -> None:
        """Give the cluster a while to be healthy again, and show what it says."""
        with suppress(HarnessError):
            self.cluster.wait_healthy(HEALTHY_S)
        self.ceph("health", "detail")

    def wait_plan(self, plan_id: str, timeout_s: float) -> Any:
        """The plan, once nothing of it is under way."""

        def over() -> Any:
            shown = self.wcache("plan show", plan_id=plan_id)
            return shown if shown["status"] not in ("running", "rolling back") else None

        return self.wait(f"plan {plan_id}", over, timeout_s)

    def wait_shown(self, modes: Mapping[str, str], timeout_s: float = HANG_S) -> None:
        """Wait until a report of the probe has these drives, by name, in these modes."""

        def shown() -> bool:
            rows = self.wcache("drive ls")["drives"]
            seen = {row["dev_name"]: row["state"]["device_cache"] for row in rows}
            return all(seen.get(name) == mode for name, mode in modes.items())

        self.wait("a report of the drives as they are now", shown, timeout_s)

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

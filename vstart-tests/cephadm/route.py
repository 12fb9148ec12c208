"""The commands of doc/install.md and doc/leave.md for cephadm, typed on a rig as they stand."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any, Callable, Dict, FrozenSet, List, Set

from cephadm_rig import CephadmCluster
from cephadm_rig.cluster import MGRS
from harness import CommandError, HarnessError
from harness.access import PROJECT, leads_to_project
from packages_lab import guide
from probes import Wcache

# Of the rig; the short form has one, with both mgrs on it.
HOSTS = int(os.environ.get("HOSTS") or 2)
ROUTE = "With cephadm"
FIRST = "Install"
HOME = "/root/typed-in"  # a clone that lay here would cover it
# The page's hosts; ours are in their place.
PAGES_HOSTS = "h1 h2 h3"
COMMAND_S = 300.0
# cephadm looks at its services once a minute, and deploys one daemon after the other.
DEPLOYED_S = 420.0
ANSWER_S = 420.0
# What a throwaway cluster on loop devices needs, and no page tells.
OPTIONS = {
    "throwaway_cluster": "true", "poll_idle_s": "0.3", "settle_s": "0.1", "period_s": "1.0",
    "canary_wait_s": "1.0", "lease_ttl_s": "30", "gate_by_load": "false",
}

DEVICE_CLASS = "hdd"  # of loop devices
# No probe can see all processes of a machine from inside a pid namespace, and says so; and tests
# that came before have campaigns aborted.
OF_THE_RIG = frozenset({"WCACHE_SHARED_DRIVE", "WCACHE_CAMPAIGN_ABORTS"})
HEARD_S = 10.0  # a probe here calls each third of a second


def heard(wcache: Wcache) -> Set[str]:
    """The hosts whose probe has called just now."""
    ago_s = {row["hostname"]: row["heard_s_ago"] for row in wcache("agent ls")["agents"]}
    return {name for name, each in ago_s.items() if each is not None and each < HEARD_S}


def decided(wcache: Wcache) -> None:
    """Measure until there is something to apply: on a busy machine `try` may be undecided."""
    if wcache.advice(DEVICE_CLASS)["mode"] is None:
        wcache.decide(DEVICE_CLASS, loads="depth1")
    assert wcache.advice(DEVICE_CLASS)["mode"] == "write through"


class Route:
    """An admin at the first host; `commands` counts what was typed, `seconds` from the first."""

    def __init__(self, rig: CephadmCluster) -> None:
        self.rig = rig
        self.commands = 0
        self.answer: Dict[str, Any] = {}  # of `try`
        self.health_before: FrozenSet[str] = frozenset()
        self._began_s = time.monotonic()
        self._install, self._lines, self._apply, self._upgrade = guide.blocks(ROUTE)
        (self._leave,) = guide.blocks("Leave", guide.LEAVE)
        (self._undo,) = guide.blocks(ROUTE, guide.LEAVE)
        (self._first,) = guide.blocks(FIRST)

    @property
    def seconds(self) -> float:
        """Since the route began."""
        return time.monotonic() - self._began_s

    def type(self, block: List[str], *, check: bool = True) -> str:
        """Type lines as they stand, for the rig's hosts; what they printed."""
        text = "\n".join(block).replace(PAGES_HOSTS, " ".join(self.rig.machines))
        began_s = time.monotonic()
        done = self.rig.admin.run(text, timeout_s=COMMAND_S, folder=HOME, check=check)
        commands = [line for line in block if not line.startswith((" ", "do"))]
        self.commands += len(commands)
        for line in commands:
            print(f"  {time.monotonic() - began_s:6.1f} s  # {line}", flush=True)
        return done.stdout + done.stderr

    def bring_project(self) -> None:
        """A clone of the project, where the admin types."""
        home = self.rig.admin.path(HOME)
        home.mkdir(exist_ok=True)
        listed = subprocess.run(
            ["git", "-C", str(PROJECT), "ls-files", "-z"], capture_output=True, check=True
        )
        names = [n for n in listed.stdout.split(b"\0") if n and (PROJECT / n.decode()).exists()]
        packed = subprocess.run(
            ["tar", "-C", str(PROJECT), "--null", "-T", "-", "-c"], input=b"\0".join(names),
            capture_output=True, check=True,
        )
        subprocess.run(["tar", "-C", str(home), "-x"], input=packed.stdout, check=True)

    # The page

    def install(self) -> None:
        """The module comes into the mgrs."""
        self.bring_project()
        self.type(self._install)
        spec = self.rig.admin.path(f"{HOME}/mgr.yaml")
        spec.write_text("\n".join([spec.read_text().rstrip("\n"), *self._lines]) + "\n")
        before = self.containers("mgr")
        self.type(self._apply)
        self.wait_deployed_anew("mgr", before)

    def add_probes(self) -> None:
        """`module enable` and `agent add`, and the wait until all probes have reported."""
        enable, add, _ = self._first
        deadline = time.monotonic() + DEPLOYED_S
        while "do not support module" in self.type([enable], check=False):
            # as the page says: not every mgr has the module yet
            assert time.monotonic() < deadline
            self.commands -= 1
            time.sleep(5)
        self.until("wcache status", lambda seen: True)
        for name, value in OPTIONS.items():
            self.rig.ceph("config", "set", "mgr", f"mgr/wcache/{name}", value)
        self.type([add])
        self.until("wcache drive ls", lambda seen: (
            {row["hostname"] for row in seen["drives"]} == set(self.rig.machines)
        ))

    def try_it(self) -> Dict[str, Any]:
        """`try`, until it has an answer."""
        self.type([self._first[2]])
        return self.until("wcache try", lambda seen: seen["state"] == "answer")

    def upgrade(self) -> None:
        """Module and probes of another version are brought and deployed."""
        kinds = ("mgr", "container")
        before = {kind: self.containers(kind) for kind in kinds}
        self.type(self._upgrade)
        for kind in kinds:
            self.wait_deployed_anew(kind, before[kind])

    def undo(self) -> None:
        """All of it is taken away; cephadm deploys the mgrs as they were."""
        self.type(self._leave)
        before = self.containers("mgr")
        self.type(self._undo)
        self.wait_deployed_anew("mgr", before)

    # Waiting, as an admin would

    def containers(self, kind: str) -> Dict[str, str]:
        """The containers of the daemons of a type that run, by daemon."""
        found = {}
        for machine in self.rig.machines.values():
            listed = machine.run("podman ps --format '{{.ID}} {{.Names}}'").stdout
            for line in listed.splitlines():
                ident, name = line.split()
                if name.startswith(f"ceph-{self.rig.fsid}-{kind}-"):
                    found[name] = ident
        return found

    def wait_deployed_anew(self, kind: str, before: Dict[str, str]) -> None:
        """Wait until each daemon of a type has another container, and a mgr is active."""
        deadline = time.monotonic() + DEPLOYED_S

        def done() -> bool:
            now = self.containers(kind)
            return set(now) == set(before) and not set(now.values()) & set(before.values())

        while not done():
            if time.monotonic() > deadline:
                raise HarnessError(f"{kind}: {before} still are {self.containers(kind)}")
            time.sleep(2)
        self.wait_mgrs()

    def wait_mgrs(self) -> None:
        """Wait until a mgr is active and the others stand by."""
        deadline = time.monotonic() + DEPLOYED_S
        while True:
            status = self.rig.command("status")["mgrmap"]
            if status["available"] and status["num_standbys"] == MGRS - 1:
                return
            if time.monotonic() > deadline:
                raise HarnessError(f"mgrs: {status}")
            time.sleep(1)

    def until(
        self, command: str, found: Callable[[Any], bool], timeout_s: float = ANSWER_S,
        **arguments: Any,
    ) -> Any:
        """Ask again and again until the answer is as wanted."""
        deadline = time.monotonic() + timeout_s
        answer: Any = None
        while True:
            try:
                answer = self.rig.command(command, target="mgr", **arguments)
                if found(answer):
                    return answer
            except CommandError as error:  # a mgr that starts anew does not know the command yet
                answer = error
            if time.monotonic() > deadline:
                raise HarnessError(f"{command}: {json.dumps(answer, default=str)[:2000]}")
            time.sleep(0.5)

    # What is left

    def left(self) -> List[str]:
        """What is of ours in the cluster and on its hosts, a line each."""
        found = []
        for command in (
            "ceph auth ls", "ceph orch ls --export", "ceph orch client-keyring ls",
            "ceph orch ps", "ceph mgr module ls",
        ):
            said = self.rig.admin.run(command).stdout
            found += [f"{command}: {line}" for line in said.splitlines() if "wcache" in line]
        for machine in self.rig.machines.values():
            said = machine.run(
                f"find / -xdev -name '*wcache*' -not -path '/proc/*' -not -path '{HOME}*'; "
                "find /run /var/lib/ceph /etc -name '*wcache*'; podman ps -a --format '{{.Names}}' "
                "| grep wcache || true"
            ).stdout
            found += [
                f"{machine.name}: {path}" for path in set(said.splitlines())
                if not path.startswith(("/var/log/", "/run/systemd/"))
                and not leads_to_project(path)
            ]
        return sorted(found)

"""What a test may ask of a cluster, whoever started it."""

from __future__ import annotations

import json
import subprocess
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple, Union

from .config import write_private
from .console import Console
from .errors import CommandError, HarnessError
from .loops import set_queue
from .modules import link_module
from .processes import wait_until

PROJECT = Path(__file__).resolve().parents[2]
OURS = "WCACHE_"  # what the codes of the module's own health checks begin with
# Kept for a day after one operation that took seconds, as on a machine that stands still for once
# (bluestore_slow_ops_warn_lifetime): it does not say how the cluster is now.
OF_THE_DAY = ("BLUESTORE_SLOW_OP_ALERT",)


def leads_to_project(path: str) -> bool:
    """Whether a path is the folder of the project, or a folder above or in it.

    A chroot has these because a test runs in it.  A clone may lie anywhere, and have any name.
    """
    found = Path(path)
    return found == PROJECT or found in PROJECT.parents or PROJECT in found.parents


# What `osd metadata` calls the device of each role.
_DEV_NODE_KEYS = {
    "block": "bluestore_bdev_dev_node",
    "db": "bluefs_db_dev_node",
    "wal": "bluefs_wal_dev_node",
}


@dataclass(frozen=True)
class Result:
    """How a program ended: its exit code and what it printed."""

    rc: int
    stdout: str
    stderr: str


class ClusterAccess(ABC):
    """A running cluster.  Waits raise HarnessError when their time is over.

    `folder` is the cluster's folder and `conf` its ceph.conf, under the same paths inside
    and outside of a chroot; so is the project (`project`), read-only inside a chroot.
    """

    folder: Path
    conf: Path
    module_folder: Path
    project: Path = PROJECT
    # The release's own Python, by path: the one with Ceph's bindings, numpy and scipy.
    python_inside: str = "/usr/bin/python3"

    def __init__(self) -> None:
        self._console: Optional[Console] = None

    # Programs

    @abstractmethod
    def popen_inside(
        self, argv: Sequence[str], *, env: Optional[Mapping[str, str]] = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a program of the release, with PATH and CEPH_CONF set.

        `env` is added to a clean environment.  The `pid` of the result is the program's
        own, in a chroot too, so it can be sent any signal.  `options` go to Popen; whatever
        is started this way ends with the cluster at the latest.
        """

    def run_inside(
        self,
        argv: Sequence[str],
        *,
        input_text: Optional[str] = None,
        timeout_s: float = 60.0,
        check: bool = True,
        env: Optional[Mapping[str, str]] = None,
    ) -> Result:
        """Run a program of the release to its end.

        Raises CommandError when it takes longer than `timeout_s` (it is killed), and, with
        `check`, when its exit code is not 0.
        """
        process = self.popen_inside(
            argv,
            env=env,
            stdin=subprocess.DEVNULL if input_text is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        data = None if input_text is None else input_text.encode()
        with process:
            try:
                out, err = process.communicate(data, timeout=timeout_s)
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    said = f"{' '.join(argv)}: no end in {timeout_s:.0f} s"
                    raise CommandError(said) from error
                raise
        result = Result(
            process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
        )
        if check and result.rc != 0:
            said = (result.stderr or result.stdout).strip()
            raise CommandError(f"{' '.join(argv)}: exit code {result.rc}: {said}", result.rc)
        return result

    def ceph(
        self,
        *args: str,
        input_text: Optional[str] = None,
        timeout_s: float = 30.0,
        check: bool = True,
    ) -> Result:
        """Run `ceph` as an admin would.  `input_text` is its standard input (for `-i -`)."""
        return self.run_inside(
            ["ceph", "--connect-timeout", "20", *args],
            input_text=input_text,
            timeout_s=timeout_s,
            check=check,
        )

    def ceph_json(self, *args: str, timeout_s: float = 30.0) -> Any:
        """Run `ceph ... --format json` and return what it printed, decoded."""
        result = self.ceph(*args, "--format", "json", timeout_s=timeout_s)
        try:
            return json.loads(result.stdout)
        except ValueError:
            said = f"ceph {' '.join(args)} printed no JSON: {result.stdout[:200]!r}"
            raise CommandError(said) from None

    def command(
        self, prefix: str, *, target: Union[str, int] = "mon", timeout_s: float = 30.0, **args: Any
    ) -> Any:
        """The same as ceph_json by a connection that stays open: 0.5 ms instead of 200 to 500.

        `target` is "mon", "mgr" or an OSD's number; `args` are the command's arguments.
        """
        if self._console is None:
            self._console = Console(self.popen_inside, self.python_inside, self.conf)
        return self._console.command(prefix, target=target, timeout_s=timeout_s, **args)

    def close_console(self) -> None:
        """End the connection that `command` keeps."""
        if self._console is not None:
            self._console.close()

    # Daemons

    @abstractmethod
    def daemon_pid(self, daemon: str) -> int:
        """The process of a running daemon ("osd.0")."""

    @abstractmethod
    def stop_daemon(self, daemon: str, *, kill: bool) -> None:
        """End a daemon, by SIGTERM or kill -9, and wait for the end of its process."""

    @abstractmethod
    def start_daemon(self, daemon: str) -> None:
        """Start a stopped daemon; does not wait for what the cluster makes of it."""

    def stop_osd(self, osd_id: int, *, kill: bool = False, wait: bool = True) -> None:
        """Stop an OSD, by SIGTERM or kill -9, and wait until the cluster calls it down."""
        self.stop_daemon(f"osd.{osd_id}", kill=kill)
        if wait:
            self.wait_osd_up(osd_id, up=False)

    def start_osd(self, osd_id: int, *, wait: bool = True) -> None:
        """Start a stopped OSD and wait until the cluster calls it up."""
        self.start_daemon(f"osd.{osd_id}")
        if wait:
            self.wait_osd_up(osd_id)

    def restart_mgr(self, *, kill: bool = False) -> None:
        """Stop the active mgr, by SIGTERM or kill -9, start it, wait for an active one.

        Which one that is, where there is a standby, is the mon's choice.
        """
        old_gid, name = self.active_gid(), self.active_mgr()
        self.stop_daemon(f"mgr.{name}", kill=kill)
        self.start_daemon(f"mgr.{name}")
        self.wait_new_mgr(old_gid)

    def fail_mgr(self) -> None:
        """Have the mon replace the active mgr: by a standby, or by itself where there is none."""
        old_gid = self.active_gid()
        self.ceph("mgr", "fail", self.active_mgr())
        self.wait_new_mgr(old_gid)

    def osd_pid(self, osd_id: int) -> int:
        """The process of a running OSD."""
        return self.daemon_pid(f"osd.{osd_id}")

    def mgr_pid(self) -> int:
        """The process of the active mgr."""
        return self.daemon_pid(f"mgr.{self.active_mgr()}")

    def active_mgr(self) -> str:
        """The name of the active mgr.  Raises HarnessError when there is none."""
        name = str(self.command("mgr dump")["active_name"])
        if not name:
            raise HarnessError("no mgr is active")
        return name

    # State

    def osd_ids(self) -> List[int]:
        """The OSDs of the cluster, up or not."""
        return sorted(int(each["osd"]) for each in self.command("osd dump")["osds"])

    def osds_up(self) -> FrozenSet[int]:
        """The OSDs that the cluster calls up."""
        dump = self.command("osd dump")
        return frozenset(int(each["osd"]) for each in dump["osds"] if each["up"])

    def health_checks(self) -> FrozenSet[str]:
        """The codes of all health checks that are raised and not muted."""
        checks = self.command("health")["checks"]
        return frozenset(code for code, check in checks.items() if not check.get("muted"))

    def wait_healthy(self, timeout_s: float = 60.0, ignoring: Sequence[str] = ()) -> None:
        """Wait for HEALTH_OK and for all PGs to be active and clean.

        Checks that are muted, of the day, or whose code starts with one of `ignoring`, do not
        count.  Checks of wcache are named one by one: what a test is not about must not be there.
        """
        if any(OURS.startswith(each) for each in ignoring):
            raise ValueError("name the checks of wcache that the test itself has raised")
        self._wait_well(timeout_s, (*OF_THE_DAY, *ignoring), "healthy")

    def wait_clean(self, timeout_s: float = 60.0) -> None:
        """Wait for all PGs to be active and clean, whatever the cluster complains of."""
        self._wait_well(timeout_s, ("",), "clean")

    def _wait_well(self, timeout_s: float, skipped: Tuple[str, ...], word: str) -> None:
        wrong: List[str] = []

        def well() -> bool:
            status = self.command("status")
            checks = status["health"]["checks"]
            wrong[:] = [
                f"{code} ({check['summary']['message']})" for code, check in checks.items()
                if not code.startswith(skipped) and not check.get("muted")
            ]
            # HEALTH_OK alone comes sooner: PGs that are being made have time allowed
            states = [each["state_name"] for each in status["pgmap"]["pgs_by_state"]]
            wrong.extend(f"PGs {each}" for each in states if each != "active+clean")
            return not wrong

        if not wait_until(well, timeout_s, 0.1):
            raise HarnessError(f"not {word} after {timeout_s:.0f} s: {', '.join(sorted(wrong))}")

    def wait_osd_up(self, osd_id: int, up: bool = True, timeout_s: float = 60.0) -> None:
        """Wait until the cluster calls an OSD up (or down)."""
        if not wait_until(lambda: (osd_id in self.osds_up()) == up, timeout_s, 0.1):
            raise HarnessError(f"osd.{osd_id} not {'up' if up else 'down'} in {timeout_s:.0f} s")

    def active_gid(self) -> int:
        """The active mgr's instance: another number after each restart or failover; or 0."""
        dump = self.command("mgr dump")
        return int(dump["active_gid"]) if dump["available"] else 0

    def wait_new_mgr(self, old_gid: int, timeout_s: float = 90.0) -> None:
        """Wait for an active mgr other than that instance.

        `available: true` alone may be what the mon still thinks of a mgr that has gone.
        """
        if not wait_until(lambda: self.active_gid() not in (0, old_gid), timeout_s, 0.1):
            raise HarnessError(f"no other mgr than {old_gid} in {timeout_s:.0f} s")

    # Modules, keys, devices

    def install_module(self, module: Path) -> None:
        """Make a module folder known to the mgr (which restarts), if it is not yet."""
        if not (self.module_folder / module.name).exists():
            link_module(self.module_folder, module)
            self.restart_mgr()

    def remove_module(self, name: str) -> None:
        """Undo `install_module`, and turn the module off before that if it is on."""
        self.disable_module(name)
        (self.module_folder / name).unlink()
        self.restart_mgr()

    @abstractmethod
    def stop(self) -> None:
        """Be done with the cluster: removes it if it is ours, else puts back what we changed."""

    def enable_module(self, name: str, timeout_s: float = 90.0) -> None:
        """Turn a mgr module on, and wait for the mgr, which starts anew for that."""
        modules = self.command("mgr module ls")
        if name in modules["enabled_modules"] or name in modules.get("always_on_modules", ()):
            return
        old_gid = self.active_gid()
        self.ceph("mgr", "module", "enable", name)
        self.wait_new_mgr(old_gid, timeout_s)

    def disable_module(self, name: str, timeout_s: float = 90.0) -> None:
        """Turn a mgr module off, and wait for the mgr."""
        if name in self.command("mgr module ls")["enabled_modules"]:
            old_gid = self.active_gid()
            self.ceph("mgr", "module", "disable", name)
            self.wait_new_mgr(old_gid, timeout_s)

    def auth_key(self, entity: str, **caps: str) -> Path:
        """Make a key with these caps and return its keyring file.

        auth_key("client.probe", mon="allow r", mgr='allow command "status"').  An entity
        that exists already gets the new caps.
        """
        flat = [word for service, cap in caps.items() for word in (service, cap)]
        made = self.ceph("auth", "get-or-create", entity, check=False)
        if made.rc != 0:
            raise CommandError(f"no key for {entity}: {made.stderr.strip()}", made.rc)
        if flat:
            self.ceph("auth", "caps", entity, *flat)
        path = self.folder / f"{entity}.keyring"
        write_private(path, made.stdout)
        return path

    def osd_devices(self, osd_id: int) -> Dict[str, str]:
        """The devices of a running OSD by role: {"block": "/dev/loop0", "db": ...}."""
        metadata = self.command("osd metadata", id=osd_id)
        if not metadata.get(_DEV_NODE_KEYS["block"]):
            raise HarnessError(f"osd.{osd_id} does not say what its devices are")
        return {role: metadata[key] for role, key in _DEV_NODE_KEYS.items() if metadata.get(key)}

    def set_rotational(self, device: str, rotational: bool) -> None:
        """Make a device look like a spinning disk; its OSD notices at the next start."""
        set_queue(device, "rotational", "1" if rotational else "0")

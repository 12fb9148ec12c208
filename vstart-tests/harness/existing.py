"""A cluster that somebody else started, such as `vstart.sh` of a Ceph source tree.

Tests find it by two variables: WCACHE_CEPH_CONF, its ceph.conf, and WCACHE_MODULE_PATH, the
folder that its mgr loads modules from.  What a test changes is put back at the end.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from . import processes
from .access import ClusterAccess
from .errors import HarnessError, NotPossible
from .processes import wait_until

CONF_VARIABLE = "WCACHE_CEPH_CONF"
MODULES_VARIABLE = "WCACHE_MODULE_PATH"

STOP_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class _StoppedDaemon:
    """What it takes to start a daemon again as it was."""

    argv: List[str]
    environment: Dict[str, str]
    cwd: str


class ExistingCluster(ClusterAccess):
    """Somebody's running cluster, with what the caller's environment reaches it with.

    Programs run with the caller's own PATH, LD_LIBRARY_PATH and PYTHONPATH.  Daemons can be
    stopped and started where their pid files (ceph.conf's `pid file`) name processes of this
    machine; otherwise NotPossible is raised, which the fixtures turn into a skipped test.
    """

    def __init__(self, conf: Path, module_folder: Path) -> None:
        super().__init__()
        if not conf.is_file():
            raise HarnessError(f"{CONF_VARIABLE}: there is no {conf}")
        if not module_folder.is_dir():
            raise HarnessError(f"{MODULES_VARIABLE}: there is no folder {module_folder}")
        self.conf = conf.resolve()
        self.module_folder = module_folder.resolve()
        self.folder = Path(tempfile.mkdtemp(prefix="wc.", dir="/tmp"))
        self._stopped: Dict[str, _StoppedDaemon] = {}
        self._installed: List[str] = []
        self._enabled: Set[str] = set()
        atexit.register(self.stop)
        self.python_inside = self._find_python()

    @classmethod
    def from_environment(cls) -> Optional[ExistingCluster]:
        """The cluster that the environment names, or None where it names none."""
        conf, folder = os.environ.get(CONF_VARIABLE), os.environ.get(MODULES_VARIABLE)
        if not conf:
            return None
        if not folder:
            raise HarnessError(f"{CONF_VARIABLE} is set: set {MODULES_VARIABLE} as well")
        return cls(Path(conf), Path(folder))

    def _find_python(self) -> str:
        for python in (shutil.which("python3"), "/usr/bin/python3"):
            if python and self.run_inside([python, "-c", "import rados"], check=False).rc == 0:
                return python
        raise HarnessError("no python3 here has Ceph's rados module: set PATH or PYTHONPATH")

    def popen_inside(
        self, argv: Sequence[str], *, env: Optional[Mapping[str, str]] = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """See ClusterAccess."""
        environment = {**os.environ, "CEPH_CONF": str(self.conf), **(env or {})}
        return subprocess.Popen(list(argv), env=environment, **options)

    # Modules

    def install_module(self, module: Path) -> None:
        """See ClusterAccess."""
        if not (self.module_folder / module.name).exists():
            self._installed.append(module.name)
        super().install_module(module)

    def remove_module(self, name: str) -> None:
        """See ClusterAccess."""
        super().remove_module(name)
        self._installed.remove(name)

    def enable_module(self, name: str, timeout_s: float = 90.0) -> None:
        """See ClusterAccess."""
        if name not in self.command("mgr module ls")["enabled_modules"]:
            self._enabled.add(name)
        super().enable_module(name, timeout_s)

    # Daemons

    def daemon_pid(self, daemon: str) -> int:
        """The process of a daemon ("osd.0").  Raises NotPossible where it is not ours to see."""
        kind, _, name = daemon.partition(".")
        asked = ["ceph-conf", "-c", str(self.conf), "-n", daemon, "--show-config-value", "pid_file"]
        path = self.run_inside(asked, check=False).stdout.strip()
        pid = processes.pid_from_file(Path(path)) if path else None
        if pid is None or not processes.is_alive(pid):
            raise NotPossible(f"{daemon} has no pid file of a running process ({path or 'none'})")
        argv = processes.command_line(pid)
        if os.path.basename(argv[0]) != f"ceph-{kind}" or name not in argv:
            raise NotPossible(f"{path} names process {pid}, which is not {daemon}")
        if not os.path.samefile(f"/proc/{pid}/root/", "/"):
            raise NotPossible(f"{daemon} runs in another root: run the tests inside that one")
        return pid

    def stop_daemon(self, daemon: str, *, kill: bool) -> None:
        """End one daemon and wait for its end."""
        pid = self.daemon_pid(daemon)
        raw = Path(f"/proc/{pid}/environ").read_bytes().decode("utf-8", "surrogateescape")
        environment = dict(each.split("=", 1) for each in raw.split("\0") if "=" in each)
        cwd = os.readlink(f"/proc/{pid}/cwd")
        self._stopped[daemon] = _StoppedDaemon(
            # a process of another mount namespace may be in a folder that is not seen here
            processes.command_line(pid),
            environment,
            cwd if os.path.isdir(cwd) else "/",
        )
        processes.send_signal(pid, signal.SIGKILL if kill else signal.SIGTERM)
        if not wait_until(lambda: not processes.is_alive(pid), STOP_TIMEOUT_S):
            raise HarnessError(f"{daemon} ({pid}) did not end in {STOP_TIMEOUT_S:.0f} s")

    def start_daemon(self, daemon: str) -> None:
        """Start a daemon that we stopped, with the command line it had."""
        if daemon not in self._stopped:
            raise NotPossible(f"{daemon} was not stopped by us: how it is started is not known")
        was = self._stopped.pop(daemon)
        subprocess.Popen(
            was.argv,
            env=was.environment,
            cwd=was.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def set_rotational(self, device: str, rotational: bool) -> None:
        """See ClusterAccess.  Somebody's real drives are left alone."""
        if not os.path.basename(device).startswith("loop"):
            raise NotPossible(f"{device} is not a loop device")
        super().set_rotational(device, rotational)

    def stop(self) -> None:
        """Put back what was changed; the cluster runs on."""
        atexit.unregister(self.stop)
        try:
            for daemon in list(self._stopped):
                self.start_daemon(daemon)
            while self._installed:
                self.remove_module(self._installed[-1])
            while self._enabled:
                self.disable_module(self._enabled.pop())
        finally:
            self.close_console()
            shutil.rmtree(self.folder, ignore_errors=True)

"""A real Ceph cluster on this machine, started for tests and removed without a trace."""

from __future__ import annotations

import atexit
import contextlib
import json
import shutil
import signal
import subprocess
import tempfile
import threading
import types
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from . import loops, processes
from .access import PROJECT, ClusterAccess
from .config import LONGEST_FOLDER
from .errors import HarnessError
from .roots import Root, clean_environment

STATE_FILE = "cluster.json"
# In a daemon's folder: the name of the host that it runs on as far as it can tell.
HOSTNAME_FILE = "hostname"
# `hostname NAME`, which not every root has, in a namespace of the daemon's own.
_ON_HOST = 'echo "$0" > /proc/sys/kernel/hostname; exec "$@"'
GUARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Cluster(ClusterAccess):
    """One cluster in one folder.  Made by `start.start_cluster` or `Cluster.attach`.

    As a context manager it stops at the end of the block.  The process that started it also
    stops it when it ends by itself, by Ctrl-C or by SIGTERM, until `leave_running`.
    """

    def __init__(self, folder: Path, root: Root, mgr_names: Sequence[str]) -> None:
        super().__init__()
        self.folder = folder
        self.root = root
        self.release = root.release
        self.mgr_names = list(mgr_names)
        self.conf = folder / "ceph.conf"
        self.module_folder = folder / "modules"
        self._network: Sequence[str] = ()  # what leads into the cluster's network
        self._children: List[subprocess.Popen[bytes]] = []
        self._old_handlers: Dict[signal.Signals, Any] = {}

    # Making and finding

    @classmethod
    def create(cls, folder: Optional[Path], root: Root, mgr_names: Sequence[str]) -> Cluster:
        """Make the cluster's folder, and nothing in it yet but what `stop` needs to know."""
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="wc.", dir="/tmp"))
        else:
            folder = folder.resolve()
            if folder.exists() and any(folder.iterdir()):
                raise HarnessError(f"{folder} is not empty: give a new folder")
            folder.mkdir(parents=True, exist_ok=True)
        if len(str(folder)) > LONGEST_FOLDER:
            folder.rmdir()
            raise HarnessError(
                f"{folder} is too long for socket paths: at most {LONGEST_FOLDER} characters"
            )
        cluster = cls(folder, root, mgr_names)
        state = {
            "release": root.release,
            "root": None if root.path is None else str(root.path),
            "mgrs": cluster.mgr_names,
        }
        (folder / STATE_FILE).write_text(json.dumps(state), encoding="utf-8")
        return cluster

    @classmethod
    def attach(cls, folder: Path) -> Cluster:
        """A cluster that another process started.  Raises HarnessError if there is none."""
        folder = folder.resolve()
        try:
            state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
            path = state["root"]
            root = Root(int(state["release"]), None if path is None else Path(path))
            cluster = cls(folder, root, [str(each) for each in state["mgrs"]])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HarnessError(f"{folder} holds no cluster of ours: {error}") from error
        with contextlib.suppress(HarnessError, OSError):  # one without a mon can still be stopped
            cluster._network = processes.network_entry(cluster.daemon_pid("mon.a"))
        return cluster

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Programs

    def environment(self) -> Dict[str, str]:
        """The environment of everything in this cluster."""
        return clean_environment({"CEPH_CONF": str(self.conf), processes.MARKER: str(self.folder)})

    def conf_elsewhere(self, folder: Path, address: str) -> str:
        """This cluster's ceph.conf as daemons of another host need it."""
        lines = []
        for line in self.conf.read_text(encoding="utf-8").splitlines():
            key, equals, _ = line.partition(" = ")
            own = equals and key in ("public addr", "cluster addr")
            lines.append(f"{key} = {address}" if own else line)
        return "\n".join(lines).replace(str(self.folder), str(folder)) + "\n"

    def popen_inside(
        self, argv: Sequence[str], *, env: Optional[Mapping[str, str]] = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """See ClusterAccess."""
        wrapped = self.root.wrap(argv, project=PROJECT, folder=self.folder)
        wrapped = [*self._network, *wrapped]
        return subprocess.Popen(wrapped, env={**self.environment(), **(env or {})}, **options)

    # Daemons

    def start_daemon(self, daemon: str) -> None:
        """Start a daemon in the foreground of a session of its own.  It outlives us."""
        kind, _, name = daemon.partition(".")
        argv = [f"ceph-{kind}", "-f", "-i", name, "-c", str(self.conf)]
        host = self.folder / daemon / HOSTNAME_FILE
        if host.exists():
            argv = ["unshare", "--uts", "/bin/sh", "-ec", _ON_HOST, host.read_text(), *argv]
        log = self.folder / "log" / f"{daemon}.out"
        with open(log, "ab") as out:
            process = self.popen_inside(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                start_new_session=True,
            )
        self._children.append(process)

    def daemon_pid(self, daemon: str) -> int:
        """The process of a running daemon ("osd.0").  Raises HarnessError if it is not."""
        pid = processes.pid_from_file(self.folder / f"{daemon}.pid")
        if pid is None or not processes.is_alive(pid):
            raise HarnessError(f"{daemon} does not run")
        if not processes.belongs_to(pid, self.folder):
            raise HarnessError(f"{daemon} does not run: {pid} is another process by now")
        return pid

    def stop_daemon(self, daemon: str, *, kill: bool) -> None:
        """End one daemon and wait for its end."""
        processes.end_process(self.daemon_pid(daemon), self.folder, kill=kill)
        self._reap()

    def _reap(self) -> None:
        self._children = [each for each in self._children if each.poll() is None]

    def log_tail(self, daemon: str, lines: int = 12) -> str:
        """The end of what a daemon printed and logged, for an error message."""
        said = []
        for suffix in ("out", "log"):
            path = self.folder / "log" / f"{daemon}.{suffix}"
            if path.is_file():
                text = path.read_text(encoding="utf-8", errors="replace")
                said += text.splitlines()[-lines:]
        return "\n".join(said)

    # The end

    def guard(self) -> None:
        """From now on stop the cluster when this process ends, unless by kill -9."""
        atexit.register(self.stop)
        if threading.current_thread() is not threading.main_thread():
            return
        for number in GUARDED_SIGNALS:
            if signal.getsignal(number) == signal.SIG_DFL:
                self._old_handlers[number] = signal.signal(number, _leave)

    def leave_running(self) -> None:
        """Let the cluster live on when this process ends."""
        self.close_console()
        atexit.unregister(self.stop)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        self._old_handlers.clear()

    def stop(self) -> None:
        """End all processes, detach the loop devices, remove the folder.

        Does the same whatever state the cluster is in, and nothing the second time.  The
        daemons get kill -9: nobody will read their data again.  Raises HarnessError naming
        what could not be removed.
        """
        with _CtrlCHeld():
            self.close_console()
            left = [f"process {pid}" for pid in processes.kill_all(self.folder)]
            self._reap()
            left += loops.detach_all(self.folder)
            if not left:
                shutil.rmtree(self.folder, ignore_errors=True)
                if self.folder.exists():
                    left.append(str(self.folder))
        self.leave_running()
        if left:
            raise HarnessError(f"left behind by the cluster: {', '.join(left)}")


def _leave(number: int, _frame: Optional[types.FrameType]) -> None:
    raise SystemExit(128 + number)


class _CtrlCHeld:
    """Ignore Ctrl-C and SIGTERM in a block: an impatient second one must not leave half."""

    def __enter__(self) -> None:
        self._old: Dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *GUARDED_SIGNALS):
                self._old[number] = signal.signal(number, signal.SIG_IGN)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

"""The process that a rig lives by: holds its namespaces, and removes all of it at its end.

python3 -m cephadm_rig.keeper FOLDER ADDRESS-OF-THE-BRIDGE

All processes of a rig are in one pid namespace, whose first process is the keeper's: the kernel
ends them with it, and their mounts and networks with them.  What stays (loop devices, control
groups, the folder) the keeper removes.  It ends when whoever started it does, unless it was told
that the rig stays, and by SIGTERM.  Where the keeper itself was killed, `remove` does the rest.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, Optional, Tuple

from harness import loops
from harness.errors import HarnessError, NotPossible
from harness.processes import command_line, is_alive, pid_from_file, wait_until

STAY = b"stay"
PID_FILE = "keeper.pid"
FIRST_PID_FILE = "first.pid"
START_TIMEOUT_S = 10.0
END_TIMEOUT_S = 60.0
BRIDGE = "rig"
# The first process reaps what loses its parents, and does nothing else.
_FIRST = """
mount --make-rprivate /
ip link set lo up
ip link add "$2" type bridge
ip address add "$3" dev "$2"
ip link set "$2" up
read -r pid rest < /proc/self/stat
echo "$pid" > "$1.new"
mv "$1.new" "$1"
sleep infinity &
wait $!
"""
# What a rig and its machines do, tried in namespaces that end with it.  $1 an empty folder
_TRY = """
mount --make-rprivate /
ip link add name rig type bridge
ip link add name v0 type veth peer name v1
cd "$1"
mkdir lower upper work root
unshare --fork --kill-child --pid --mount --uts --ipc --net --cgroup sh -ec '
    mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
    cd root
    mkdir proc sys group run
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount -t cgroup2 cgroup2 group
    mount -t tmpfs tmpfs run'
"""
TRY_TIMEOUT_S = 20.0


def check_possible() -> None:
    """Raise NotPossible where this machine does not let a rig have what it needs."""
    folder = tempfile.mkdtemp(prefix="wcache-try.", dir="/tmp")
    try:
        done = subprocess.run(
            ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--net", "sh", "-ec", _TRY,
             "try", folder],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TRY_TIMEOUT_S,
            check=False,
        )
        said = done.stderr.strip() if done.returncode else ""
        if not said:
            group = control_group(Path(folder))
            group.mkdir()
            group.rmdir()
    except (OSError, HarnessError, subprocess.TimeoutExpired) as error:
        said = str(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if said:
        raise NotPossible(f"no machines in namespaces here: {' '.join(said.split())}")


class Keeper:
    """A keeper as its starter sees it."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        read, self._leash = os.pipe()
        with open(folder / "keeper.log", "ab") as log:
            self._process: Optional[subprocess.Popen[bytes]] = subprocess.Popen(
                [sys.executable, "-m", "cephadm_rig.keeper", str(folder), address],
                stdin=read, stdout=log, stderr=log, start_new_session=True, cwd="/",
                env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
                     "PYTHONDONTWRITEBYTECODE": "1"},
            )
        os.close(read)
        self.first_pid = 0
        if not wait_until(self._is_up, START_TIMEOUT_S):
            said = (folder / "keeper.log").read_text(encoding="utf-8", errors="replace")
            self.end()
            raise HarnessError(f"the rig's namespaces: {said.strip() or 'nothing came up'}")

    def _is_up(self) -> bool:
        self.first_pid = pid_from_file(self.folder / FIRST_PID_FILE) or 0
        return self.first_pid != 0

    def let_stay(self) -> None:
        """The rig outlives whoever started it."""
        os.write(self._leash, STAY)
        os.close(self._leash)

    def end(self) -> None:
        """End it, and wait until all is removed; raises HarnessError naming what is not."""
        with contextlib.suppress(OSError):
            os.close(self._leash)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_TIMEOUT_S)
        remove(self.folder)


def keeper_of(folder: Path) -> int:
    """The pid of the keeper of a rig; 0 where it does not live."""
    pid = pid_from_file(folder / PID_FILE)
    if pid is None or not is_alive(pid) or str(folder) not in command_line(pid):
        return 0
    return pid


def remove(folder: Path) -> None:
    """End a rig whoever started it, and remove what is left of it; raises HarnessError."""
    keeper = keeper_of(folder)
    if keeper and keeper != os.getpid():
        os.kill(keeper, signal.SIGTERM)
        if not wait_until(lambda: not keeper_of(folder), END_TIMEOUT_S):
            raise HarnessError(f"the keeper ({keeper}) of {folder} does not end")
    if not folder.exists():
        return
    left = loops.detach_all(folder)
    left += _remove_groups(folder)
    if not left:
        shutil.rmtree(folder, ignore_errors=True)
        left += [str(folder)] if folder.exists() else []
    if left:
        raise HarnessError(f"left behind by the rig: {', '.join(left)}")


def control_group(folder: Path) -> Path:
    """The control group of a rig, below which each machine has its own."""
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, place, kind, _ = line.split(" ", 3)
        if kind == "cgroup2":
            return Path(place) / f"wcache-{folder.name}"
    raise HarnessError("no cgroup2 is mounted on this machine, which systemd needs")


def _remove_groups(folder: Path) -> List[str]:
    top = control_group(folder)

    def gone() -> bool:
        for place, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # a process that was killed may be there still
                os.rmdir(place)
        return not top.exists()

    return [] if wait_until(gone, 10.0) else [str(top)]


def _start(folder: Path, address: str) -> subprocess.Popen[bytes]:
    """The namespaces' first process; it ends with us, also by kill -9."""
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--kill-child", "--pid", "--mount",
         "--net", "sh", "-ec", _FIRST, "first", str(folder / FIRST_PID_FILE), BRIDGE, address],
        stdin=subprocess.DEVNULL,
    )


def _keep(first: subprocess.Popen[bytes]) -> None:
    """Return when the rig is to end."""
    leash: Tuple[int, ...] = (0,)
    while first.poll() is None:
        readable, _, _ = select.select(leash, (), (), 0.5)
        if readable:
            if os.read(0, len(STAY)) != STAY:
                return
            leash = ()


def main(words: List[str]) -> int:
    """Keep a rig until its end; exit code 0 where nothing of it is left."""
    folder, address = Path(words[0]), words[1]

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    (folder / PID_FILE).write_text(str(os.getpid()), encoding="ascii")
    first = _start(folder, address)
    try:
        _keep(first)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        first.kill()
        first.wait()
        remove(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

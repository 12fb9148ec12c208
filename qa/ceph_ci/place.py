"""A place where Ceph's own scripts may run: they look for processes by name and kill them.

So each place has namespaces of its own (processes, mounts, network, host name), a release's
programs as its root, and Ceph's source at /ceph.  Root and source are overlays: what is written
there is gone with the place.  Everything in it ends with it, however it ends.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Dict, List, Mapping, Optional, Sequence, Type

from harness import loops
from harness.errors import HarnessError, NotPossible
from harness.roots import RIG_FILE

from .layer import TEUTHOLOGY, ensure_layer

TREE = "/ceph"
BUILD = f"{TREE}/build"
PATH = f"{TEUTHOLOGY}/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Ends a place, its loop devices and its folder as soon as whoever opened it closes this channel
# or is gone, however that was.
# $1 folder of the place, then the command that is to live in it
_KEEP = """
folder=$1
shift
"$@" &
child=$!
echo "$child"
exec >/dev/null 2>&1
cat
kill -KILL "$child"
wait "$child"
for each in /sys/block/loop*/loop/backing_file; do
    case $(cat "$each" 2>/dev/null) in "$folder"/*)
        device=${each%/loop/backing_file}
        echo "write back" >"$device/queue/write_cache"  # its next user would inherit it
        losetup --detach "/dev/${device##*/}" ;;
    esac
done
for _ in $(seq 100); do  # the kernel is still ending the processes that have files there
    rm -rf --one-file-system "$folder" && exit
    sleep 0.1
done
"""
# unshare has made each mount a slave: what is mounted here stays here.  Then the first process
# of the namespace collects children, as vstart's daemons become its own.
# vstart.sh takes ports from 40000 on for the mon.  A client never gets one of these: where its
# connection has just ended, nobody can listen for a minute, and the mon would not start.
# $1 folder of the place, $2 root, $3 source
_ENTER = """
set -e
folder=$1 lower=$2 source=$3 root=$1/root
over() {
    mkdir -p "$folder/upper/$1" "$folder/work/$1"
    mount -t overlay overlay "$3" \
        -o "lowerdir=$2,upperdir=$folder/upper/$1,workdir=$folder/work/$1"
}
mkdir -p "$root" "$folder/build"
over root "$lower" "$root"
mkdir -p "$root/ceph" "$root/etc/ceph"
over ceph "$source" "$root/ceph"
mkdir -p "$root/ceph/build"
mount --bind "$folder/build" "$root/ceph/build"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
hostname vhost
echo 127.0.0.1 localhost vhost >"$root/etc/hosts"
chroot "$root" ip link set lo up
echo 40000-41999 >"$root/proc/sys/net/ipv4/ip_local_reserved_ports"
exec chroot "$root" python3 -c '
import os, time
print("up", flush=True)
while True:
    try:
        os.wait()
    except ChildProcessError:
        time.sleep(0.2)
'
"""


class Place:
    """Open while it is used: `with Place(20, source) as place: place.run([...])`."""

    def __init__(self, release: int, source: Path) -> None:
        self.release = release
        self._lower = ensure_layer(release)
        self._source = source
        self.folder = Path(tempfile.mkdtemp(prefix=f"wcache-place-{release}-"))
        self._keeper: Optional[subprocess.Popen[str]] = None
        self._pid = 0  # the first process in there, as it is numbered out here

    def __enter__(self) -> Place:
        alone = [
            "unshare", "--mount", "--propagation", "slave", "--uts", "--net", "--pid", "--fork",
            "--kill-child", "sh", "-c", _ENTER, "enter",
        ]
        self._keeper = subprocess.Popen(
            ["sh", "-c", _KEEP, "keep", str(self.folder), *alone,
             *map(str, (self.folder, self._lower, self._source))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )
        assert self._keeper.stdout is not None
        unshare = int(self._keeper.stdout.readline())
        if self._keeper.stdout.readline() != "up\n":
            self._end()
            raise NotPossible("namespaces and overlays cannot be made here")
        self._pid = int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()[0])
        self.outside(f"/{RIG_FILE}").touch()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._keeper is not None:
            self._keeper.communicate()  # closes its channel
            self._keeper = None

    def attach_drive(self, size_bytes: int) -> str:
        """A loop device over a sparse file of the place ("/dev/loop3"); it ends with the place."""
        drives = self.folder / "drives"
        drives.mkdir(exist_ok=True)
        return loops.attach(drives / str(len(list(drives.iterdir()))), size_bytes)

    def outside(self, path: str) -> Path:
        """The path out here of a file inside."""
        return Path(f"/proc/{self._pid}/root{path}")

    def words(self, argv: Sequence[str], environment: Mapping[str, str]) -> List[str]:
        """The command line that runs `argv` inside, from the build folder."""
        given = {
            "PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", "TERM": "dumb",
            "GEVENT_LOOP": "libuv-cffi",  # with libev's, `communicate(timeout=...)` hangs
            **environment,
        }
        return [
            "nsenter", "--target", str(self._pid), "--mount", "--uts", "--net", "--pid", "--root",
            "env", "-i", f"--chdir={BUILD}",
            *(f"{name}={value}" for name, value in given.items()), *argv,
        ]

    def check(self, argv: Sequence[str], *, timeout_s: float = 120.0) -> str:
        """As `run`; returns what it said, raises HarnessError where it fails."""
        done = self.run(argv, timeout_s=timeout_s)
        if done.returncode != 0:
            raise HarnessError(f"{argv[0]} ended with {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout

    def run(
        self, argv: Sequence[str], *, timeout_s: float = 120.0,
        environment: Optional[Dict[str, str]] = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside; what it says on both channels is `stdout`."""
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            # to a file: daemons that it starts keep the channel open
            done = subprocess.run(
                self.words(argv, environment or {}), stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT, timeout=timeout_s, check=False,
            )
            said.seek(0)
            return subprocess.CompletedProcess(argv, done.returncode, said.read(), "")

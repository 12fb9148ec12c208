"""What the hosts of the cluster live on: small and slow disks, and wires that can be cut."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, Sequence

from drive_lab import network
from harness.processes import wait_until

CLONE_NEWNS = 0x00020000  # linux/sched.h
FILLER = "filled-by-chaos"
CHUNK_BYTES = 64 << 10
UP = "up"


def enter_own_mounts() -> None:
    """Have what is mounted from now on go with the last process of this run."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no mount namespace of its own: run it as root")
    run("mount", "--make-rslave", "/")


def run(*words: str) -> str:
    """Run a program of this machine; returns what it printed."""
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


class SmallDisk:
    """A disk in memory, which can be filled."""

    def __init__(self, place: Path, size_mib: int) -> None:
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=0755", "chaos", str(place))

    def fill(self) -> None:
        """Leave no byte on it."""
        with open(self.place / FILLER, "ab", buffering=0) as file:
            for size in (CHUNK_BYTES, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def empty(self) -> None:
        """Take away what filled it."""
        (self.place / FILLER).unlink(missing_ok=True)


class Wire:
    """A network of one probe, with one wire to the cluster's."""

    def __init__(self, number: int, environment: Dict[str, str]) -> None:
        self.name, there = f"chaos{number}", f"probe{number}"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sleep", "infinity"], env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
        )
        own = os.stat("/proc/self/ns/net").st_ino
        place = f"/proc/{self._holder.pid}/ns/net"
        if not wait_until(lambda: os.stat(place).st_ino != own, 10):
            raise RuntimeError("no network namespace for a probe")
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", there)
        run("ip", "link", "set", there, "netns", str(self._holder.pid))
        run("ip", "address", "add", f"10.78.{number}.1/24", "dev", self.name)
        run("ip", "link", "set", self.name, UP)
        inside = ["nsenter", f"--net={place}", "ip"]
        for words in (
            ["link", "set", "lo", UP], ["address", "add", f"10.78.{number}.2/24", "dev", there],
            ["link", "set", there, UP], ["route", "add", "default", "via", f"10.78.{number}.1"],
        ):
            run(*inside, *words)
        self.entry: List[str] = ["nsenter", f"--net={place}", "--"]

    def set(self, state: str) -> None:
        """Cut it ("down"), or mend it ("up")."""
        run("ip", "link", "set", self.name, state)

    def end(self) -> None:
        """Give up the network."""
        self._holder.kill()
        self._holder.wait()


def set_guests_wire(state: str) -> None:
    """The same for the guest, whose OSDs are cut off too."""
    run("ip", "link", "set", network.TAP, state)


@contextmanager
def wires(hosts: Sequence[str], environment: Dict[str, str]) -> Iterator[Dict[str, Wire]]:
    """A wire for each host's probe."""
    with ExitStack() as ended:
        made = {}
        for number, name in enumerate(hosts, start=1):
            made[name] = Wire(number, environment)
            ended.callback(made[name].end)
        yield made

"""The way to the mgr: a librados client that calls two commands, in a thread of its own.

librados of Ceph 16 waits for a mgr command without end (RadosClient::mgr_command), and
resends by itself when another mgr takes over.  So each call runs in a worker thread and
is waited for with our own timeout; while one is under way no other is begun, and its late
answer is thrown away: the mgr gives the same task again.

Now and then, at twenty calls a second on a busy host, an answer is lost on its way and
librados waits for ever (seen with 18.2.7: the mgr had dispatched the command).  A call
stuck for `STUCK_S` is therefore left behind with its connection, and a new one is made.  A mgr
that was away answers in the end: then what was left behind is disconnected.

Where the configuration is, and of which cluster, is read here; librados reads the rest.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import queue
import re
import select
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple

from wcache.core.config_database import looked_in
from wcache.core.errors import (
    ConflictError,
    MalformedError,
    NotReadyError,
    RefusedError,
    VersionError,
    WcacheError,
)
from wcache.core.protocol import REPLY_BYTES_MAX, PollReply

from .linux.block.host_files import read_text
from .mgr_link import decode_reply, printable

CONF_BYTES_MAX = 1_000_000
_SECTION = re.compile(r"\s*\[([^]]*)\]")
_FSID = re.compile(r"\s*fsid\s*=\s*\"?([0-9a-fA-F-]{36})\"?\s*(?:[#;].*)?$")


def fsid_in(path: str) -> str:
    """The cluster's id that a configuration file names for all; empty where it names none."""
    section, found = "global", ""
    for line in (read_text(path, CONF_BYTES_MAX) or "").splitlines():
        head, fsid = _SECTION.match(line), _FSID.match(line)
        if head:
            section = head[1].strip()
        elif fsid and section == "global":
            found = fsid[1].lower()
    return found


def find_conf(places: Tuple[str, ...]) -> Optional[str]:
    """The first of them that can be read; None where none can."""
    readable = (each for each in places if os.access(each, os.R_OK) and not os.path.isdir(each))
    return next(readable, None)


CONNECT_S = 10
# Well within a lease, and longer than a mgr takes to fail over to a standby that is alive.
STUCK_S = 12.0
# Connections left behind hold a few MB and threads each, for as long as their call hangs; where
# so many do, only a new process helps.
LEFT_BEHIND_MAX = 20
_M_ARENA_MAX = -8  # malloc.h
# Options that Ceph's own programs take from the environment, too; under Rook it has the mons.
ENVIRONMENT = "CEPH_ARGS"
ADVICE = "see `wcache-probe run --help` for --conf, --keyring and --id"
_Answer = Tuple[int, bytes, str]


def share_one_heap() -> None:
    """Have the threads that begin from now on allocate from one heap of glibc's.

    It has up to eight for each processor.  A connection has a dozen threads, and what it freed
    stays in as many heaps: with two processors 300 connections kept 27 MiB; with one heap that
    is given back after each (see `_Line._disconnect`) 1 MiB.
    """
    with suppress(AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


@dataclass
class RadosLink:
    """MgrLink over librados.

    A byte on `interrupt_fd` (never read here) ends a wait at once with NotReadyError.
    RefusedError at once where python3-rados is missing or the files cannot be used.
    """

    hostname: str
    places: Tuple[str, ...]
    cluster: str
    keyring: str
    name: str
    interrupt_fd: int
    bindings: Any = None
    stuck_s: float = STUCK_S

    def __post_init__(self) -> None:
        self._rados = self.bindings or _bindings()
        self._left: List[_Line] = []
        self._line = _Line(self._connect)

    def poll(self, hello_json: str, timeout_s: float) -> PollReply:
        """`wcache agent poll`."""
        return decode_reply(self._call("wcache agent poll", hello_json, timeout_s))

    def post(self, post_json: str, timeout_s: float) -> PollReply:
        """`wcache agent post`."""
        return decode_reply(self._call("wcache agent post", post_json, timeout_s))

    def fsid(self) -> Optional[str]:
        """The cluster's id from the configuration file; None where it names none."""
        try:
            found = str(self._make().conf_get("fsid") or "")
        except (self._rados.Error, NotReadyError):
            return None
        return found if found.strip("0-") else None

    def close(self) -> bool:
        """Disconnect; False where a call is stuck, so that only the end of the process will."""
        if self._line.busy and not self._collect(0.0):
            return False
        return self._line.close() and not any(line.alive for line in self._left)

    # ---- the caller's side

    def _call(self, prefix: str, body: str, timeout_s: float) -> str:
        deadline_s = time.monotonic() + timeout_s
        if self._line.busy and not self._collect(timeout_s):
            raise self._late()
        argument = {"prefix": prefix, "hostname": self.hostname, "format": "json"}
        self._line.send(json.dumps(argument), body.encode("utf-8"))
        answer = self._collect(max(0.0, deadline_s - time.monotonic()))
        if answer is None:
            raise self._late()
        if isinstance(answer, WcacheError):
            raise answer
        code, out, said = answer
        if code:
            raise refusal_of(code, said, self.name)
        if len(out) > REPLY_BYTES_MAX:
            raise MalformedError(f"the mgr's reply is longer than {REPLY_BYTES_MAX} bytes")
        try:
            return str(out, "utf-8")
        except UnicodeDecodeError:
            raise MalformedError("the mgr's reply is not UTF-8 text") from None

    def _collect(self, timeout_s: float) -> Any:
        """The answer of the call under way, or None when it does not come in time."""
        ready, _, _ = select.select([self._line.done_fd, self.interrupt_fd], [], [], timeout_s)
        return self._line.take() if self._line.done_fd in ready else None

    def _late(self) -> NotReadyError:
        """Say that no answer came; a connection that is stuck is left behind."""
        if time.monotonic() - self._line.sent_at_s >= self.stuck_s:
            self._left = [line for line in self._left if line.alive]
            if len(self._left) >= LEFT_BEHIND_MAX:
                return NotReadyError(
                    "librados hung too often in this process", "restart wcache-probe"
                )
            self._line.leave()
            self._left.append(self._line)
            self._line = _Line(self._connect)
        return NotReadyError("the mgr does not answer", "it is tried again and again")

    def _make(self) -> Any:
        path = find_conf(self.places)
        if path is None:
            raise NotReadyError(looked_in(self.places), ADVICE)
        conf = {"client_mount_timeout": str(CONNECT_S)}
        if self.keyring:
            conf["keyring"] = self.keyring
        try:
            cluster = self._rados.Rados(
                name=self.name, clustername=self.cluster, conffile=path, conf=conf
            )
        except self._rados.Error as error:
            raise NotReadyError(f"{path} cannot be used ({error})", ADVICE) from None
        if os.environ.get(ENVIRONMENT):
            cluster.conf_parse_env(ENVIRONMENT)
        return cluster

    def _connect(self) -> Any:
        cluster = self._make()
        try:
            cluster.connect()
        except (self._rados.PermissionDeniedError, self._rados.PermissionError) as error:
            cluster.shutdown()
            raise RefusedError(
                f"the cluster does not accept the key of {self.name} ({error})", ADVICE
            ) from None
        except self._rados.ObjectNotFound:
            # no keyring that can be read, or none with this name in it
            looked = str(cluster.conf_get("keyring") or "").replace(",", ", ")
            cluster.shutdown()
            raise NotReadyError(f"{self.name} has no key in {looked}", ADVICE) from None
        except self._rados.Error as error:
            cluster.shutdown()
            raise NotReadyError(f"no way to the cluster as {self.name} ({error})") from None
        return cluster


def _bindings() -> Any:
    try:
        import rados
    except ImportError:
        raise RefusedError(
            "the librados bindings are missing", "install the package python3-rados"
        ) from None
    return rados


class _Line:
    """One connection and the thread that calls through it, one call at a time."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._cluster: Any = None
        self._requests: queue.SimpleQueue[Optional[Tuple[str, bytes]]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.done_fd, self._done_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.busy = False
        self.sent_at_s = 0.0
        self._worker = threading.Thread(target=self._work, name="rados", daemon=True)
        self._worker.start()

    def send(self, argument: str, body: bytes) -> None:
        """Begin a call; `done_fd` becomes readable when it has ended."""
        self.busy = True
        self.sent_at_s = time.monotonic()
        self._requests.put((argument, body))

    def take(self) -> Any:
        """The answer of a call that has ended."""
        os.read(self.done_fd, 1)
        self.busy = False
        return self._answers.get_nowait()

    @property
    def alive(self) -> bool:
        """Whether its thread and connection are still there."""
        return self._worker.is_alive()

    def leave(self) -> None:
        """Have it disconnect and end by itself once its call has ended."""
        self._requests.put(None)

    def close(self) -> bool:
        """Disconnect; False where that does not come to an end."""
        self.leave()
        self._worker.join(timeout=5.0)
        return not self.alive

    def _work(self) -> None:
        while True:
            request = self._requests.get()
            if request is None:
                self._disconnect()
                os.close(self.done_fd)
                os.close(self._done_w)
                return
            answer: object
            try:
                answer = self._command(*request)
            except WcacheError as error:
                answer = error
            except Exception as error:
                answer = NotReadyError(f"librados failed ({type(error).__name__}: {error})")
                self._disconnect()
            self._answers.put(answer)
            os.write(self._done_w, b".")

    def _command(self, argument: str, body: bytes) -> _Answer:
        if self._cluster is None:
            self._cluster = self._connect()
        code, out, said = self._cluster.mgr_command(argument, body)
        if -code in _BROKEN:
            self._disconnect()
        return int(code), bytes(out or b""), str(said or "")

    def _disconnect(self) -> None:
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            cluster.shutdown()
            with suppress(AttributeError):  # not glibc, which keeps what is freed
                ctypes.CDLL(None).malloc_trim(0)


_BROKEN = (errno.ENOTCONN, errno.ESHUTDOWN, errno.ETIMEDOUT, errno.ECONNRESET, errno.ECANCELED)


def refusal_of(code: int, said: str, name: str) -> WcacheError:
    """What an error code of a mgr command means to a probe; `said` is the mgr's own line."""
    number = abs(code)
    text = printable(said.strip()) or f"the mgr answered {errno.errorcode.get(number, number)}"
    if number == errno.EACCES:
        return RefusedError(
            f"{name} may not speak for this host",
            "its mgr caps must allow `wcache agent poll` and `wcache agent post` with "
            "hostname=HOST",
        )
    if number in (*_BROKEN, errno.EAGAIN, errno.EIO, errno.EINTR):
        return NotReadyError(text)
    if number == errno.EOPNOTSUPP:
        return RefusedError("the mgr module wcache is not loaded", "ceph mgr module enable wcache")
    for kind in (VersionError, ConflictError, RefusedError):
        if number == kind.errno:
            return kind(text)
    return MalformedError(text)

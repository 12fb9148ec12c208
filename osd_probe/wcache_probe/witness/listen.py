"""`wcache-probe witness listen`: keeps what a writer on another machine had acknowledged.

Its file has the run in its first line, then how many writes were acknowledged.
"""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import closing
from typing import Callable, Tuple

from wcache.core import versions
from wcache.core.errors import (
    ConflictError,
    MalformedError,
    NotFoundError,
    StorageError,
    WcacheError,
)
from wcache.core.text import command

from ..linux.block.host_files import printable
from ..safe_files import failure, open_new, read_bytes
from .wire import (
    BATCH_MAX,
    HELLO_BYTES_MAX,
    NUMBER_MAX,
    TOKEN_BYTES,
    Channel,
    WitnessRun,
    check_run,
    parse_address,
)

LOG_BYTES_MAX = 64_000_000
LINE_BYTES_MAX = 16
ROOM = "make room (64 MB do) or give another --log, then start both sides again"


class LogFile:
    """A new file; ConflictError where there is one, StorageError where none can be made."""

    def __init__(self, path: str, run: WitnessRun) -> None:
        with failure(f"cannot write {path}", "give a --log in a folder that takes it"):
            try:
                self._fd = open_new(path, flags=os.O_APPEND)
            except FileExistsError:
                raise ConflictError(f"{path} exists", "give another --log") from None
        self._size = 0
        self._append(versions.dumps(run) + "\n")

    def acknowledged(self, number: int) -> None:
        """Note how many writes the drive has acknowledged so far."""
        if self._size > LOG_BYTES_MAX - LINE_BYTES_MAX:
            raise StorageError("the file is full", "pull the plug sooner")
        self._append(f"{number}\n")

    def _append(self, text: str) -> None:
        data = text.encode()
        with failure("cannot write the log", ROOM):
            written = os.write(self._fd, data)
        if written != len(data):
            raise StorageError("the log's disk is full", ROOM)
        self._size += written

    def close(self) -> None:
        """Have it on stable storage."""
        os.fsync(self._fd)
        os.close(self._fd)


def read_log(path: str) -> Tuple[WitnessRun, int]:
    """The run of a log, and how many writes were acknowledged in it."""
    data = read_bytes(path, LOG_BYTES_MAX + HELLO_BYTES_MAX + 1)
    if data is None:
        raise NotFoundError(f"cannot read {path}", "copy it from the listening machine")
    first, _, rest = data.partition(b"\n")
    run = versions.loads(
        WitnessRun, first.decode("utf-8", "replace"), bytes_max=HELLO_BYTES_MAX, what="the log"
    )
    check_run(run)
    acknowledged = 0
    for line in rest.split(b"\n")[:-1]:  # what follows the last end of line is cut off
        number = int(line) if line.isdigit() and len(line) < LINE_BYTES_MAX else -1
        if not acknowledged < number < NUMBER_MAX:
            raise MalformedError(
                f"the log is damaged after {acknowledged} writes",
                "copy it once more from the listening machine",
            )
        acknowledged = number
    return run, acknowledged


HELLO_S = 10.0
Say = Callable[[str], None]


def listen(address: str, log: str, idle_s: float, say: Say) -> int:
    """Witness one run, until its writer has sent nothing for `idle_s`; 0 where there was one."""
    host, port = parse_address(address)
    token = secrets.token_bytes(TOKEN_BYTES)
    todo = "give an address of this machine (`ip address`), and port 0 for any free one"
    with failure(f"cannot listen at {address}", todo):
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        server = socket.create_server((host, port), family=family, backlog=4)
    with closing(server):
        say(f"listening at {host} port {server.getsockname()[1]}; on the drive's host run:")
        say(command(
            "wcache-probe witness write DEVICE --to {} --token {}", address_of(server), token.hex()
        ))
        while True:
            connection, peer = server.accept()
            with closing(connection):
                channel = Channel(connection, token)
                channel.wait_at_most(HELLO_S)
                try:
                    run = channel.receive_run()
                except WcacheError as error:
                    say(f"refused {printable(str(peer[0]))}: {error.message}")
                    continue
                return _witness(channel, run, log, idle_s, say)


def address_of(server: socket.socket) -> str:
    """HOST:PORT as a writer has to give it."""
    host, port = server.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _witness(channel: Channel, run: WitnessRun, log: str, idle_s: float, say: Say) -> int:
    file = LogFile(log, run)
    acknowledged = 0
    say(f"{printable(run.hostname)} writes to {printable(run.drive_id)} "
        f"({printable(str(run.drive_model))}); pull its plug while this runs")
    try:
        channel.wait_at_most(idle_s)
        channel.send_number(b"kept", 0)
        while True:
            number = channel.receive_number(b"acknowledged")
            if not acknowledged < number <= min(acknowledged + BATCH_MAX, NUMBER_MAX):
                raise MalformedError(
                    f"{number} does not follow {acknowledged}",
                    "use the same version of wcache-probe on both machines",
                )
            file.acknowledged(number)
            acknowledged = number
            channel.send_number(b"kept", number)
    except WcacheError as error:
        say(f"ended: {error.message}")
    finally:
        file.close()
    print(f"{acknowledged} writes were acknowledged; when the drive is back, copy {log} to its "
          "host and run there: " + command("wcache-probe witness check DEVICE --log {}", log))
    return 0 if acknowledged else 1

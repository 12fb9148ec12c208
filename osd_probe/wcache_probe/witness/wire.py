"""`wcache-probe witness listen`: the writes that it witnesses, as both sides say them.

Each block says of which run it is, its number and its place.  Writes are numbered from 0.  A
number's place follows from it, so that the witness needs to keep no more than how many writes
were acknowledged.  What is said has few bytes of fixed length, each authenticated:

    writer                                   listener
    "WCW1", length, a WitnessRun, mac    ->
                                         <-  number 0, mac
    acknowledged writes so far, mac      ->  written to its file
                                         <-  the same number, mac

The key is a token that the listener prints: nobody else on the network can say that a write
was acknowledged, or spoil a run.

The file of the listener has the run in its first line, then how many writes were acknowledged.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import struct
import zlib
from contextlib import closing
from dataclasses import dataclass, field
from typing import Callable, ClassVar, Optional, Tuple

from wcache.core import versions
from wcache.core.errors import (
    ConflictError,
    MalformedError,
    NotFoundError,
    NotReadyError,
    StorageError,
    WcacheError,
)
from wcache.core.model import CacheMode, DriveModel
from wcache.core.text import command

from ..linux.block.host_files import printable
from ..safe_files import failure, open_new, read_bytes

BLOCK_BYTES = 4096
# a power of two, so that each number below it has a place of its own
BLOCKS_MAX = 4096
# writes that one fdatasync acknowledges; those beyond the last acknowledged one are in flight
BATCH_MAX = 8
RUN_ID_BYTES = 16

_BLOCK_MAGIC = b"wcwitns1"
_HEADER = struct.Struct("<8s16sQQ20x")  # and the crc32 of it, over and over
_CRC = struct.Struct("<I")
# odd, so that it visits every place; far steps, so that the drive has to seek
_STEP = 0x9E3779B1


@dataclass(frozen=True)
class Written:
    """One write: its run, its number, its place."""

    run_id: bytes
    number: int
    place: int


def place_of(number: int, blocks: int) -> int:
    """Where a write goes."""
    return number * _STEP % blocks


def encode(written: Written) -> bytes:
    """The block: its header over and over, so that a torn one is seen."""
    header = _HEADER.pack(_BLOCK_MAGIC, written.run_id, written.number, written.place)
    header += _CRC.pack(zlib.crc32(header))
    return header * (BLOCK_BYTES // len(header))


def decode(data: bytes) -> Optional[Written]:
    """What a block is; None where it is torn or nothing of ours."""
    magic, run_id, number, place = _HEADER.unpack_from(data)
    if magic != _BLOCK_MAGIC:
        return None
    written = Written(run_id, number, place)
    return written if encode(written) == data else None


def judge(
    run_id: bytes, acknowledged: int, blocks: int, read: Callable[[int], bytes]
) -> Tuple[int, Tuple[int, ...]]:
    """How many writes could be checked, and which are lost; `read` gives the block at a place.

    A later write to the same place is as good: nobody wants the earlier one any more.  What
    the writes in flight went to may be torn and is not counted.
    """
    in_flight = {
        place_of(acknowledged + ahead, blocks) for ahead in range(BATCH_MAX)
    }
    checked = 0
    lost = []
    for number in range(max(0, acknowledged - blocks), acknowledged):
        place = place_of(number, blocks)
        if place in in_flight:
            continue
        checked += 1
        found = decode(read(place))
        if found is None or (found.run_id, found.place) != (run_id, place) or found.number < number:
            lost.append(number)
    return checked, tuple(lost)


TOKEN_BYTES = 16
HELLO_BYTES_MAX = 4096
NUMBER_MAX = 2**48
_HELLO = struct.Struct("<4sH")
_MAGIC = b"WCW1"
_NUMBER = struct.Struct("<Q")
_MAC_BYTES = 16


@dataclass(frozen=True)
class WitnessRun:
    """Who writes, and to what; the first line of the listener's file."""

    VERSION: ClassVar[int] = 1
    run_id: str = field(metadata={"max_chars": 2 * RUN_ID_BYTES})
    hostname: str
    boot_id: str = field(metadata={"max_chars": 64})
    drive_id: str
    drive_model: DriveModel
    mode: Optional[CacheMode]
    blocks: int = field(metadata={"min": 1, "max": BLOCKS_MAX})
    started_at_s: float


def check_run(run: WitnessRun) -> bytes:
    """The run's id in bytes; MalformedError where it is none, or its blocks make no sense."""
    try:
        run_id = bytes.fromhex(run.run_id)
    except ValueError:
        run_id = b""
    if len(run_id) != RUN_ID_BYTES or run.blocks & (run.blocks - 1):
        raise MalformedError(
            "the test's id or its number of blocks makes no sense",
            "use the same version of wcache-probe on both machines",
        )
    return run_id


def parse_address(text: str) -> Tuple[str, int]:
    """HOST:PORT, or [HOST]:PORT where the host is an IPv6 address."""
    host, colon, port = text.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or not host or not port.isdecimal() or not 0 <= int(port) < 2**16:
        raise MalformedError(f"{text[:80]!r} is no address", "give HOST:PORT")
    return host, int(port)


def parse_token(text: str) -> bytes:
    """The key out of what the listener printed."""
    try:
        token = bytes.fromhex(text)
    except ValueError:
        token = b""
    if len(token) != TOKEN_BYTES:
        raise MalformedError("this is no token", "give the one that `witness listen` printed")
    return token


@dataclass
class Channel:
    """A connection, from either side."""

    connection: socket.socket
    token: bytes = field(repr=False)
    _run_id: bytes = b""

    def wait_at_most(self, seconds: float) -> None:
        """How long each of the following may take; NotReadyError after that."""
        self.connection.settimeout(seconds)

    def send_run(self, run: WitnessRun) -> None:
        """The writer's first word."""
        self._run_id = check_run(run)
        body = versions.dumps(run).encode()
        head = _HELLO.pack(_MAGIC, len(body))
        self._send(head + body + self._mac(b"run", head + body))

    def receive_run(self) -> WitnessRun:
        """The same, at the listener; MalformedError where it is not that of our writer."""
        head = self._receive(_HELLO.size)
        magic, length = _HELLO.unpack(head)
        if magic != _MAGIC or length > HELLO_BYTES_MAX:
            raise MalformedError(
                "this is no witness write", "something else talks to this port; still listening"
            )
        body = self._receive(length)
        self._prove(b"run", head + body)
        run = versions.loads(
            WitnessRun, body.decode("utf-8", "replace"), bytes_max=HELLO_BYTES_MAX, what="run"
        )
        self._run_id = check_run(run)
        return run

    def send_number(self, what: bytes, number: int) -> None:
        """So many writes are acknowledged; `what` keeps the two directions apart."""
        packed = _NUMBER.pack(number)
        self._send(packed + self._mac(what, self._run_id + packed))

    def receive_number(self, what: bytes) -> int:
        """The number that the other side has sent."""
        packed = self._receive(_NUMBER.size)
        self._prove(what, self._run_id + packed)
        (number,) = _NUMBER.unpack(packed)
        return int(number)

    def _mac(self, what: bytes, data: bytes) -> bytes:
        return hmac.new(self.token, what + b"\0" + data, hashlib.sha256).digest()[:_MAC_BYTES]

    def _prove(self, what: bytes, data: bytes) -> None:
        if not hmac.compare_digest(self._receive(_MAC_BYTES), self._mac(what, data)):
            raise MalformedError(
                "what came does not carry our token's seal",
                "start the writer with the --token that the listener printed last",
            )

    def _send(self, data: bytes) -> None:
        try:
            self.connection.sendall(data)
        except OSError as error:
            raise _gone(error) from None

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                piece = self.connection.recv(size - len(data))
            except OSError as error:
                raise _gone(error) from None
            if not piece:
                raise NotReadyError(
                    "the other side has closed the connection",
                    "see what it printed, and start both sides again where it was no power cut",
                )
            data += piece
        return data


def _gone(error: OSError) -> StorageError:
    if isinstance(error, socket.timeout):
        return StorageError("the other side says nothing any more")
    return StorageError(f"the connection is lost ({error.strerror or error})")


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
        bound, port = server.getsockname()[:2]
        to = f"[{bound}]:{port}" if ":" in bound else f"{bound}:{port}"
        say(f"listening at {host} port {port}; on the drive's host run:")
        say(command("wcache-probe witness write DEVICE --to {} --token {}", to, token.hex()))
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

"""`wcache-probe witness listen`: keeps what a writer on another machine had acknowledged."""

from __future__ import annotations

import secrets
import socket
from contextlib import closing
from typing import Callable

from wcache.core.errors import MalformedError, StorageError, WcacheError
from wcache.core.shell import command

from ..linux.block.host_files import printable
from .blocks import BATCH_MAX
from .log_file import LogFile
from .wire import NUMBER_MAX, TOKEN_BYTES, Channel, WitnessRun, parse_address

HELLO_S = 10.0
Say = Callable[[str], None]


def listen(address: str, log: str, idle_s: float, say: Say) -> int:
    """Witness one run, until its writer has sent nothing for `idle_s`; 0 where there was one."""
    host, port = parse_address(address)
    token = secrets.token_bytes(TOKEN_BYTES)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        server = socket.create_server((host, port), family=family, backlog=4)
    except OSError as error:
        raise StorageError(
            f"cannot listen at {address} ({error.strerror})",
            "give an address of this machine (`ip address`), and port 0 for any free one",
        ) from None
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

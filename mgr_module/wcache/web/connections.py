"""The page's connections: one thread reads requests and sends answers, and waits for nobody.

Whoever connects may be slow, silent, or many.  So no thread belongs to a connection; a request
gets one of a few threads when all of it has come, and its answer is sent as fast as it is taken.
Where there is no room, what has been least busy longest goes, of whoever has most connections.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from email.utils import formatdate
from enum import IntEnum
from http import HTTPStatus
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Tuple

from ..core.codec import one_line
from .http_request import BODY_BYTES_MAX, HEAD_BYTES_MAX, BadRequestError, request_of
from .waiting_line import WaitingLine, network_of

THREADS = 3
CONNECTIONS_MAX, OF_ONE_MAX = 256, 64
WAITING_MAX, WAITING_OF_ONE_MAX = 64, 16
# Answers of a large cluster are half a megabyte; so many are kept for slow readers.
SENDING_MAX = 32
# A browser opens connections before it needs them; a request on its way takes seconds at most.
REQUEST_S, ANSWER_S, LEAVE_S = 5.0, 30.0, 1.0
AT_ONCE, PIECE_BYTES = 16, 65536
# The mgr's modules share one interpreter: after some work this thread rests so much longer.
RESTS, REST_MAX_S = 3.0, 0.25
END_S = 5.0
WsgiApp = Callable[..., Iterable[bytes]]
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Stage(IntEnum):
    """Where a connection stands; the first ones go first where there is no room."""

    LEAVING = 0  # all is sent: what still comes is read and forgotten, or it would be a reset
    ARRIVING = 1  # a handshake, a request that is not whole
    SENDING = 2
    WAITING = 3  # for its answer


class Connection:
    """One client, for one request."""

    def __init__(self, sock: socket.socket, address: str, until_s: float) -> None:
        self.sock = sock
        self.address = address
        self.whose = network_of(address)
        self.until_s = until_s
        self.stage = Stage.ARRIVING
        self.received = b""
        self.answer = memoryview(b"")


class Server:
    """Serves a WSGI application, with TLS where a context is given."""

    def __init__(
        self, address: str, port: int, app: WsgiApp, *, tls: Optional[ssl.SSLContext],
        log: Callable[[str], None],
    ) -> None:
        """Listen.  Raises OSError."""
        self._app = app
        self._tls = tls
        self._log = log
        self._line: WaitingLine[Tuple[Connection, Dict[str, Any]]] = WaitingLine(
            WAITING_MAX, WAITING_OF_ONE_MAX
        )
        self._answers: Deque[Tuple[Connection, bytes]] = deque()
        self._clients: Dict[Connection, None] = {}  # in the order in which they came
        self._of_one: Counter[str] = Counter()
        self._stopping = False
        self._listening = _listening(address, port)
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        for sock in (self._listening, self._woken):
            self._selector.register(sock, selectors.EVENT_READ)

    def stop(self) -> None:
        """End `serve`, from another thread."""
        self._stopping = True
        self._wake()

    def serve(self) -> None:
        """Serve until `stop`."""
        workers = [
            threading.Thread(target=self._work, daemon=True, name=f"wcache-web-{number}")
            for number in range(THREADS)
        ]
        for worker in workers:
            worker.start()
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._line.close()
            self._listening.close()
            for client in list(self._clients):
                self._close(client)
            end_s = time.monotonic() + END_S
            for worker in workers:
                worker.join(timeout=max(0.0, end_s - time.monotonic()))
            self._selector.close()
            self._woken.close()
            self._waker.close()

    def _turn(self) -> None:
        events = self._selector.select(LEAVE_S if self._clients else None)
        began_s = time.thread_time()
        for key, _ in events:
            if key.fileobj is self._listening:
                self._arrive()
            elif key.fileobj is self._woken:
                self._woken.recv(4096)
            elif key.data in self._clients:
                self._go_on(key.data)
        while self._answers:
            self._send(*self._answers.popleft())
        now_s = time.monotonic()
        for client in [one for one in self._clients if one.until_s < now_s]:
            self._close(client)
        time.sleep(min(RESTS * (time.thread_time() - began_s), REST_MAX_S))

    def _arrive(self) -> None:
        for _ in range(AT_ONCE):
            try:
                sock, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError:
                time.sleep(REST_MAX_S)  # no file descriptors: others of the mgr need them first
                return
            self._welcome(sock, str(address[0]))

    def _welcome(self, sock: socket.socket, address: str) -> None:
        client = Connection(sock, address, time.monotonic() + REQUEST_S)
        if not self._room_for(client.whose):
            sock.close()
            return
        try:
            sock.setblocking(False)
            if self._tls is not None:
                client.sock = self._tls.wrap_socket(
                    sock, server_side=True, do_handshake_on_connect=False
                )
        except OSError:  # it has gone already
            sock.close()
            return
        self._clients[client] = None
        self._of_one[client.whose] += 1
        self._selector.register(client.sock, selectors.EVENT_READ, client)
        self._go_on(client)

    def _room_for(self, whose: str) -> bool:
        """Whether there is room for one more, also by sending somebody away."""
        if self._of_one[whose] >= OF_ONE_MAX:
            whom = {whose}
        elif len(self._clients) < CONNECTIONS_MAX:
            return True
        else:
            most = max(self._of_one.values())
            whom = {name for name, count in self._of_one.items() if count == most}
        going = [
            one for one in self._clients if one.whose in whom and one.stage is not Stage.WAITING
        ]
        if not going:
            return False
        self._close(min(going, key=lambda one: one.stage))  # the oldest of these
        return True

    def _go_on(self, client: Connection) -> None:
        """Do what a connection is ready for."""
        try:
            if client.stage is Stage.SENDING:
                self._push(client)
            elif client.stage is Stage.LEAVING:
                if not client.sock.recv(PIECE_BYTES):
                    self._close(client)
            else:
                self._read(client)
        except _NOT_YET as wants:
            if not isinstance(wants, BlockingIOError):
                self._await(client, isinstance(wants, ssl.SSLWantWriteError))
        except (OSError, ValueError):  # ssl.SSLError is an OSError; what clients do wrong is theirs
            self._close(client)

    def _await(self, client: Connection, writing: bool) -> None:
        self._selector.modify(
            client.sock, selectors.EVENT_WRITE if writing else selectors.EVENT_READ, client
        )

    def _read(self, client: Connection) -> None:
        if isinstance(client.sock, ssl.SSLSocket):
            client.sock.do_handshake()  # nothing where it is done
        while len(client.received) < HEAD_BYTES_MAX + BODY_BYTES_MAX:
            piece = client.sock.recv(PIECE_BYTES)
            if not piece:
                self._close(client)
                return
            client.received += piece
            try:
                environ = request_of(client.received, client.address)
            except BadRequestError as error:
                self._send(client, plain(error.code, str(error)))
                return
            if environ is not None:
                self._line_up(client, environ)
                return

    def _line_up(self, client: Connection, environ: Dict[str, Any]) -> None:
        client.stage, client.received = Stage.WAITING, b""
        client.until_s = float("inf")
        self._selector.unregister(client.sock)
        gone = self._line.put(client.whose, (client, environ))
        if gone is not None:
            self._send(gone[0], plain(HTTPStatus.SERVICE_UNAVAILABLE, "busy: try in a moment"))

    def _send(self, client: Connection, answer: bytes) -> None:
        if client not in self._clients:
            return
        client.stage, client.answer = Stage.SENDING, memoryview(answer)
        client.until_s = time.monotonic() + ANSWER_S
        if client.sock not in self._selector.get_map():
            self._selector.register(client.sock, selectors.EVENT_WRITE, client)
        else:
            self._await(client, writing=True)
        self._go_on(client)
        sending = [one for one in self._clients if one.stage is Stage.SENDING]
        if len(sending) > SENDING_MAX:
            self._close(sending[0])

    def _push(self, client: Connection) -> None:
        while client.answer:
            sent = client.sock.send(client.answer[:PIECE_BYTES])
            client.answer = client.answer[sent:]
        client.stage, client.until_s = Stage.LEAVING, time.monotonic() + LEAVE_S
        self._await(client, writing=False)
        if isinstance(client.sock, ssl.SSLSocket):
            with suppress(OSError):  # the client has not said goodbye yet
                client.sock.unwrap()
        client.sock.shutdown(socket.SHUT_WR)

    def _close(self, client: Connection) -> None:
        if client not in self._clients:
            return
        del self._clients[client]
        self._of_one[client.whose] -= 1
        if not self._of_one[client.whose]:
            del self._of_one[client.whose]
        if client.sock in self._selector.get_map():
            self._selector.unregister(client.sock)
        client.sock.close()

    # ---- other threads

    def _work(self) -> None:
        while True:
            item = self._line.take()
            if item is None:
                return
            client, environ = item
            try:
                answer = answered(self._app, environ)
            except Exception as error:
                self._log(one_line(f"the web page failed: {error!r}", 200))
                answer = plain(HTTPStatus.INTERNAL_SERVER_ERROR, "an internal error")
            self._answers.append((client, answer))
            self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # it has been woken often enough, or has ended
            self._waker.send(b"x")


def _listening(address: str, port: int) -> socket.socket:
    family, kind, _, _, where = socket.getaddrinfo(
        address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and address == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(where)
        sock.listen(socket.SOMAXCONN)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def answered(app: WsgiApp, environ: Dict[str, Any]) -> bytes:
    """The bytes of an application's answer."""
    said: List[Any] = []
    body = b"".join(app(environ, lambda status, headers: said.extend((status, headers))))
    status, headers = said
    return _head(status, headers) + body


def plain(code: HTTPStatus, text: str) -> bytes:
    """An answer of one line."""
    body = f"{text}\n".encode()
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"), ("Retry-After", "5"),
    ]
    return _head(f"{code.value} {code.phrase}", headers) + body


def _head(status: str, headers: List[Tuple[str, str]]) -> bytes:
    """Raises ValueError where a header would be two."""
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers),
             f"Date: {formatdate(usegmt=True)}", "Server: wcache", "Connection: close"]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header has more than one line")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")

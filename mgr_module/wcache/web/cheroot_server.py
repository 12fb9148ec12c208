"""The page's web server: cheroot's, as other modules of the mgr use it.

Its defaults set no bounds, so each bound is set here.  CherryPy's engine, which those modules
share, is never used.  cheroot is imported here only, when the page is switched on: a mgr may lack
it.
"""

from __future__ import annotations

import logging
import queue
import socket
import ssl
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Optional, Set

from cheroot.server import HTTPConnection
from cheroot.wsgi import Server

from ..core.codec import one_line

SETTINGS: Dict[str, Any] = {
    "numthreads": 3, "max": 3, "accepted_queue_size": 16, "accepted_queue_timeout": 0.1,
    "request_queue_size": 16, "timeout": 5, "shutdown_timeout": 2,
}
# What clients send cannot fill the mgr's log.
LOG_EVERY_S = 60.0


class Connection(HTTPConnection):
    """A client.  The thread that serves it makes the TLS handshake, not the one that accepts."""

    def __init__(self, server: PageServer, sock: socket.socket, *makefile: Any) -> None:
        if server.tls is not None:
            sock = server.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        super().__init__(server, sock, *makefile)
        server.opened(self)

    def communicate(self) -> bool:
        """Serve one request; tell whether the connection stays open.

        An error that cheroot cannot report to the client would end a thread of its version 9.
        """
        try:
            if isinstance(self.socket, ssl.SSLSocket):
                self.socket.do_handshake()  # returns at once when it is done
            return bool(super().communicate())
        except Exception:
            return False

    def close(self) -> None:
        """Close the socket, whatever its state."""
        self.server.closed(self)
        with suppress(OSError):
            super().close()
        self.wfile.raw.close()  # else the rest of an answer is written when this is collected

    def cut(self) -> None:
        """Wake the thread that waits for this client."""
        with suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


class PageServer(Server):
    """Serves a WSGI application, with TLS where a context is given."""

    ConnectionClass = Connection
    keep_alive_conn_limit = 8
    max_request_header_size = 16384
    max_request_body_size = 4096

    def __init__(
        self, address: str, port: int, app: Callable[..., Any], *, tls: Optional[ssl.SSLContext],
        log: Callable[[str], None],
    ) -> None:
        """Listen.  Raises OSError."""
        super().__init__((address, port), app, server_name="wcache", **SETTINGS)
        # cheroot keeps the statistics of each server for ever, and with them the server
        getattr(logging, "statistics", {}).pop(f"Cheroot HTTPServer {id(self)}", None)
        self.tls = tls
        self._log = log
        self._quiet_until_s = 0.0
        self._open: Set[Connection] = set()
        self._stopping = False
        self.prepare()

    def opened(self, client: Connection) -> None:
        """Remember a connection until it is closed."""
        self._open.add(client)
        if self._stopping:
            client.cut()

    def closed(self, client: Connection) -> None:
        """Forget a connection."""
        self._open.discard(client)

    def process_conn(self, conn: Connection) -> None:
        """Queue a connection for the threads; close it where the queue is full.

        cheroot 11 would answer it with a 503, from a queue without a bound.
        """
        try:
            self.requests.put(conn)
        except queue.Full:
            conn.close()

    def stop(self) -> None:
        """Stop without waiting for clients."""
        self._stopping = True
        for client in list(self._open):
            client.cut()
        super().stop()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Log an error of the server, not too often; what clients do wrong is no error."""
        now_s = time.monotonic()
        if level >= logging.ERROR and now_s >= self._quiet_until_s:
            self._quiet_until_s = now_s + LOG_EVERY_S
            self._log(one_line(f"the web server: {msg}", 200))

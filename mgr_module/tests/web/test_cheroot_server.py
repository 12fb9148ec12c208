"""Clients may be slow, silent, hostile, or many: the page has bounds, and the mgr goes on."""

import gc
import logging
import socket
import ssl
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from module_world import a_mgr
from wcache.web import cheroot_server
from wcache.web.cheroot_server import PageServer
from web_world import free_port, self_signed

GET = b"GET /x?a=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
PLAIN, TLS = "plain", "tls"


class Echo:
    """Answers with the path; `/slow` waits, `/large` is more than any buffer holds."""

    def __init__(self):
        self.heard = []
        self.release = threading.Event()

    def __call__(self, environ, start_response):
        self.heard.append(environ)
        path = environ["PATH_INFO"]
        if path == "/slow":
            self.release.wait(20)
        body = b"x" * 3_000_000 if path == "/large" else path.encode("latin-1")
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(*self_signed(tmp_path_factory.mktemp("pem") / "one"))
    return found


@contextmanager
def running(tls=None):
    app, logged = Echo(), []
    server = PageServer("127.0.0.1", free_port(), app, tls=tls, log=logged.append)
    server.expiration_interval = 0.05  # for the tests' sake: how often it looks whether it ends
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    server.app, server.logged, server.thread = app, logged, thread
    yield server
    app.release.set()
    server.stop()
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture(params=[PLAIN, TLS])
def server(request, context):
    with running(context if request.param == TLS else None) as found:
        yield found


def connected(server):
    return socket.create_connection(server.bind_addr, timeout=20)


def secured(server, client):
    if server.tls is None:
        return client
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    return blind.wrap_socket(client)


def asked(server, request=GET):
    """What comes back until the connection ends."""
    with secured(server, connected(server)) as client:
        client.sendall(request)
        return all_of(client)


def all_of(client):
    got = b""
    with suppress(ConnectionResetError):
        while piece := client.recv(65536):
            got += piece
    return got


def until_answered(server, seconds):
    end = time.monotonic() + seconds
    while True:
        with suppress(OSError):
            if asked(server).endswith(b"/x"):
                return
        assert time.monotonic() < end, "the page did not come back"
        time.sleep(0.05)


def silent(server, count):
    """So many connections of which nothing is heard, as far as there is room."""
    held = []
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(server.bind_addr)
        held.append(one)
    return held


def test_a_request_is_answered(server):
    answer = asked(server)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n/x")
    assert b"\r\nServer: wcache\r\n" in answer
    (heard,) = server.app.heard
    assert (heard["REMOTE_ADDR"], heard["QUERY_STRING"]) == ("127.0.0.1", "a=1")
    assert len(asked(server, GET.replace(b"/x", b"/large"))) > 3_000_000


def test_a_connection_takes_one_request_after_another(server):
    again = GET.replace(b"Connection: close\r\n", b"")
    with secured(server, connected(server)) as client:
        for _ in range(2):
            client.sendall(again)
            got = b""
            while not got.endswith(b"\r\n\r\n/x"):
                got += client.recv(65536)
        client.sendall(GET)
        assert all_of(client).endswith(b"/x")
    assert len({heard["REMOTE_PORT"] for heard in server.app.heard}) == 1


def test_silent_clients_below_the_number_of_threads_keep_nobody_waiting(server):
    held = silent(server, cheroot_server.SETTINGS["numthreads"] - 1)
    time.sleep(0.1)
    began = time.monotonic()
    assert asked(server).endswith(b"/x")
    assert time.monotonic() - began < cheroot_server.SETTINGS["timeout"] / 2
    for one in held:
        one.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PLAIN, TLS])
def test_silent_clients_are_sent_away(context, kind, monkeypatch):
    monkeypatch.setitem(cheroot_server.SETTINGS, "timeout", 0.1)
    with running(context if kind == TLS else None) as server:
        held = silent(server, 3 * cheroot_server.SETTINGS["numthreads"])
        until_answered(server, 10)
        for one in held:
            one.close()


@pytest.mark.slow
def test_among_200_silent_clients_the_mgr_answers_commands_and_ends(server):
    mgr = a_mgr()
    began = time.monotonic()
    held = silent(server, 200)
    for _ in range(20):
        assert mgr.command("status")[0] == 0
        time.sleep(0.02)
    assert len(server._open) <= 3 + 16 + 1
    assert time.monotonic() - began < 4.0
    began = time.monotonic()
    server.stop()
    server.thread.join(10)
    assert not server.thread.is_alive()
    assert time.monotonic() - began < 5.0
    for one in held:
        one.close()


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\nHost: "])
def test_nobody_who_is_connected_is_waited_for_at_the_end(server, begun):
    with connected(server) as client:
        client.sendall(begun)
        time.sleep(0.1)
        began = time.monotonic()
        server.stop()
        server.thread.join(10)
        assert time.monotonic() - began < 2.5  # as long as a look for new connections takes
        assert all_of(client) == b""


@pytest.mark.slow
def test_where_all_threads_are_busy_and_enough_wait_who_comes_is_sent_away(server):
    held = []
    for _ in range(3):
        held.append(secured(server, connected(server)))
        held[-1].sendall(GET.replace(b"/x", b"/slow"))
    while len(server.app.heard) < 3:
        time.sleep(0.01)
    held += [connected(server) for _ in range(16)]
    time.sleep(0.3)
    with connected(server) as late:
        began = time.monotonic()
        assert all_of(late) == b""
        assert time.monotonic() - began < 2.0
    for one in held:
        one.close()
    server.app.release.set()
    until_answered(server, 10)


@pytest.mark.parametrize(("request_", "codes"), [
    (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", (b"414", b"400")),
    (b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", (b"413",)),
    (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", (b"413",)),
    (b"POST /login HTTP/1.1\r\nContent-Length: 4097\r\n\r\n", (b"413",)),
    (b"POST /login HTTP/1.1\r\nContent-Length: x\r\n\r\n", (b"400",)),
    (b"GET http://other/ HTTP/1.1\r\n\r\n", (b"400",)),
    (b"GET / HTTP/2.0\r\n\r\n", (b"505",)),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", (b"400",)),
], ids=range(8))
def test_what_is_too_large_or_no_request_never_reaches_the_page(server, request_, codes):
    with secured(server, connected(server)) as client:
        with suppress(OSError):
            client.sendall(request_)
        assert client.recv(65536)[9:12] in codes
    assert server.app.heard == []


@pytest.mark.slow
def test_threads_outlive_clients_that_break_off(server, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(str(args)))
    for begun in (GET, b"\x16\x03\x01\x00\x05hello", b"\x00" * 100) * 3:
        with connected(server) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            with suppress(OSError):
                client.sendall(begun)
    for _ in range(3):
        with secured(server, connected(server)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.sendall(GET.replace(b"/x", b"/large"))
            client.recv(100)
    until_answered(server, 10)
    gc.collect()
    assert unraisable == []


def test_what_clients_send_fills_no_log(server, capfd):
    for _ in range(5):
        asked(server, b"GET //[ HTTP/1.1\r\n\r\n")
    assert len(server.logged) <= 1
    assert capfd.readouterr().err == ""


def test_a_server_that_has_ended_is_not_kept(context):
    kept = dict(getattr(logging, "statistics", {}))
    with running(context):
        assert getattr(logging, "statistics", {}) == kept


def test_an_address_that_is_taken_is_refused():
    with running() as server, pytest.raises(OSError, match="in use"):
        PageServer(*server.bind_addr, Echo(), tls=None, log=print)

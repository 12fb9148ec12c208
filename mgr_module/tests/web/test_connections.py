"""Whoever connects may be slow, silent, or many: others are answered all the same."""

import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count
from types import SimpleNamespace

import pytest
from wcache.web import connections
from wcache.web.connections import OF_ONE_MAX, SENDING_MAX, Server, Stage
from web_world import free_port, self_signed

ATTACKER, FRIEND = "127.0.0.2", "127.0.0.3"
GET = b"GET /x?a=1 HTTP/1.1\r\nHost: h\r\n\r\n"


class Echo:
    """Answers with what it heard; `/slow` waits, `/large` is more than any buffer holds."""

    def __init__(self):
        self.heard = []
        self.release = threading.Event()

    def __call__(self, environ, start_response):
        self.heard.append(environ)
        path = environ["PATH_INFO"]
        if path == "/slow":
            self.release.wait(10)
        if path == "/broken":
            raise RuntimeError("broken")
        body = b"x" * 8_000_000 if path == "/large" else path.encode("latin-1")
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]


@contextmanager
def running(tls=None):
    app, logged = Echo(), []
    port = free_port()
    server = Server("127.0.0.1", port, app, tls=tls, log=logged.append)
    thread = threading.Thread(target=server.serve)
    thread.start()
    server.app, server.port, server.logged = app, port, logged
    yield server
    app.release.set()
    server.stop()
    thread.join(10)
    assert not thread.is_alive()


@pytest.fixture
def server():
    with running() as found:
        yield found


def connected(server, source=FRIEND):
    return socket.create_connection(
        ("127.0.0.1", server.port), timeout=10, source_address=(source, 0)
    )


def asked(server, request=GET, source=FRIEND):
    """What comes back until the server is done."""
    with connected(server, source) as client:
        client.sendall(request)
        return all_of(client)


def all_of(client):
    got = b""
    with suppress(ConnectionResetError):
        while piece := client.recv(65536):
            got += piece
    return got


def until(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.005)


def test_a_request_is_answered_once_and_the_connection_ends(server):
    answer = asked(server, GET + GET)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n/x")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"\r\nConnection: close\r\n" in answer
    (heard,) = server.app.heard
    assert (heard["REMOTE_ADDR"], heard["QUERY_STRING"]) == (FRIEND, "a=1")


def test_a_request_may_come_byte_by_byte(server):
    body = b"POST /login HTTP/1.1\r\nContent-Length: 7\r\n\r\ntoken=x"
    with connected(server) as client:
        for byte in body:
            client.sendall(bytes([byte]))
        assert all_of(client).endswith(b"/login")
    assert server.app.heard[0]["wsgi.input"].read() == b"token=x"


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: ", GET[:-1]], ids=range(3))
def test_silent_and_slow_clients_of_one_address_keep_nobody_waiting(server, begun):
    held = [connected(server, ATTACKER) for _ in range(3 * OF_ONE_MAX)]
    for one in held:
        with suppress(OSError):  # it has been sent away
            one.sendall(begun)
    for source in (FRIEND, ATTACKER):  # whoever shares the address, too
        began = time.monotonic()
        assert asked(server, source=source).endswith(b"/x")
        assert time.monotonic() - began < 4.5  # REQUEST_S of those who are silent
    assert server._of_one[ATTACKER] <= OF_ONE_MAX
    for one in held:
        one.close()


def test_silent_clients_of_many_addresses_leave_room_for_one_more(server, monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 40)
    held = [connected(server, f"127.1.{n}.1") for n in range(60)]
    assert asked(server).endswith(b"/x")
    assert len(server._clients) <= 40
    for one in held:
        one.close()


@pytest.mark.slow
def test_who_never_ends_a_request_is_sent_away(server, monkeypatch):
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    with connected(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nA: b\r\n")
        assert all_of(client) == b""


@pytest.mark.parametrize(("request_", "code"), [
    (b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", b"431"),
    (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n", b"431"),
    (b"POST /login HTTP/1.1\r\nContent-Length: 999999\r\n\r\n", b"413"),
    (b"POST /login HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", b"400"),
    (b"POST /login HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
    (b"POST /login HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", b"411"),
    (b"GET  / HTTP/1.1\r\n\r\n", b"400"),
    (b"GET http://other/ HTTP/1.1\r\n\r\n", b"400"),
    (b"GET / HTTP/2\r\n\r\n", b"400"),
    (b"G\x00T / HTTP/1.1\r\n\r\n", b"400"),
    (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", b"400"),
    (b"GET / HTTP/1.1\r\n folded\r\n\r\n", b"400"),
    (b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", b"400"),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
], ids=range(14))
def test_what_is_no_proper_request_is_refused_in_a_line(server, request_, code):
    answer = asked(server, request_)
    assert answer.startswith(b"HTTP/1.1 " + code)
    assert server.app.heard == []


def test_a_name_with_an_underscore_stands_for_no_other(server):
    asked(server, b"GET / HTTP/1.1\r\nRemote_Addr: 1\r\nContent_Length: 9\r\nCookie: a=1\r\n"
                  b"Cookie: b=2\r\n\r\n")
    (heard,) = server.app.heard
    assert (heard["REMOTE_ADDR"], heard["CONTENT_LENGTH"]) == (FRIEND, "0")
    assert heard["HTTP_COOKIE"] == "a=1; b=2"


def test_slow_pages_of_one_network_leave_the_next_turn_to_another(server):
    threads = [
        threading.Thread(target=asked, args=(server, b"GET /slow HTTP/1.1\r\n\r\n", ATTACKER))
        for _ in range(40)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(server.app.heard) == connections.THREADS)
    friend = threading.Thread(target=asked, args=(server,))
    friend.start()
    until(lambda: FRIEND in server._of_one)
    time.sleep(0.05)
    server.app.release.set()
    for thread in [friend, *threads]:
        thread.join()
    order = [one["REMOTE_ADDR"] for one in server.app.heard]
    assert order.index(FRIEND) <= connections.THREADS + 1
    assert len(order) <= connections.THREADS + connections.WAITING_OF_ONE_MAX + 1


@pytest.mark.slow
def test_who_does_not_take_the_answer_holds_no_thread_and_little_memory(server):
    held = []
    for number in range(SENDING_MAX + 8):
        one = connected(server, f"127.2.{number}.1")
        one.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        held.append(one)
    until(lambda: len(server.app.heard) == len(held))
    assert asked(server).endswith(b"/x")
    sending = [one for one in list(server._clients) if one.stage is Stage.SENDING]
    assert len(sending) <= SENDING_MAX
    for one in held:
        one.close()


def test_a_large_answer_arrives_whole(server):
    assert len(asked(server, b"GET /large HTTP/1.1\r\n\r\n")) > 8_000_000


def test_a_failure_is_told_and_logged(server):
    assert asked(server, b"GET /broken HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 500")
    assert server.logged == ["the web page failed: RuntimeError('broken')"]


def test_a_header_of_two_lines_is_none():
    def app(environ, start_response):
        start_response("200 OK", [("Location", "/\r\nSet-Cookie: a=b")])
        return [b""]

    with pytest.raises(ValueError, match="more than one line"):
        connections.answered(app, {})


def test_after_work_the_thread_of_the_connections_rests(monkeypatch, server):
    """So a flood takes no more than a share of the interpreter."""
    slept, worked_s = [], 0.05
    monkeypatch.setattr(connections, "time", SimpleNamespace(
        thread_time=count(0.0, worked_s).__next__, monotonic=time.monotonic, sleep=slept.append,
    ))
    assert asked(server).endswith(b"/x")
    until(lambda: slept)
    assert slept[-1] == pytest.approx(connections.RESTS * worked_s)


def blind():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.slow
def test_under_tls_silent_handshakes_keep_nobody_waiting(tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path / "one"))
    with running(context) as server:
        held = [connected(server, ATTACKER) for _ in range(100)]
        for one in held[::2]:
            one.sendall(b"\x16\x03\x01")  # the first bytes of a handshake
        with connected(server, ATTACKER) as plain:
            plain.sendall(GET)
            all_of(plain)
        for source in (FRIEND, ATTACKER):
            with blind().wrap_socket(connected(server, source)) as client:
                client.sendall(GET)
                assert all_of(client).endswith(b"/x")
        with blind().wrap_socket(connected(server)) as client:
            client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
            time.sleep(0.3)  # a slow reader
            assert len(all_of(client)) > 8_000_000
        for one in held:
            one.close()

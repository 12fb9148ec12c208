"""The dashboard's token goes to the dashboard alone; whom it knows is let in by their rights."""

import json
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from wcache.web.dashboard_login import (
    BAD_S,
    GOOD_S,
    KEPT_MAX,
    NEW,
    DashboardLogin,
    NotLetInError,
    ders_of,
    is_own_address,
)
from web_world import self_signed

ANN = {"username": "ann", "permissions": {"osd": ["read"], "pool": ["read"]}, "sso": False}
ANSWERS = {
    "good": ANN,
    "poor": {"username": "bob", "permissions": {"pool": ["read"]}},
    "stale": {"username": "cid", "permissions": ANN["permissions"], "pwdUpdateRequired": True},
}
ONE = "192.0.2.9"  # the network that asks
UNKNOWN = {"login_url": "#/login", "cluster_status": "POST_INSTALLED"}  # dashboard's `check`


class Dashboard:
    """Answers as `POST /api/auth/check` does, and notes every token that it was sent."""

    def __init__(self, tls=None, prefix=""):
        asked = self.asked = []
        self.raw = None

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler):
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                asked.append((handler.path, body["token"], handler.headers["Accept"]))
                answer = self.raw or json.dumps(ANSWERS.get(body["token"], UNKNOWN)).encode()
                handler.send_response(201)
                handler.end_headers()
                handler.wfile.write(answer)

            def log_message(handler, *args):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        scheme = "http" if tls is None else "https"
        self.uri = f"{scheme}://127.0.0.1:{self.server.server_port}{prefix}/"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def dashboard():
    found = Dashboard()
    yield found
    found.close()


def login(uri, certificates=(), clock=lambda: 0.0):
    return DashboardLogin(uri=lambda: uri, certificates=lambda: list(certificates), clock=clock)


def refusal(one, token):
    with pytest.raises(NotLetInError) as caught:
        one.user(token, ONE)
    return str(caught.value), caught.value.known


@pytest.mark.parametrize("prefix", ["", "/ceph"])
def test_a_user_who_may_read_osds_is_let_in(prefix):
    found = Dashboard(prefix=prefix)
    assert login(found.uri).user("good", ONE) == "ann"
    assert found.asked == [
        (f"{prefix}/api/auth/check", "good", "application/vnd.ceph.api.v1.0+json")
    ]
    found.close()


def test_others_are_refused_with_the_reason(dashboard):
    one = login(dashboard.uri)
    assert refusal(one, "old") == (
        "the dashboard does not know this login, or it has expired: log in to the dashboard again",
        False,
    )
    said, known = refusal(one, "poor")
    assert known
    assert "bob may not read OSDs: a role with `read` of `osd` is needed" in said
    assert "set a new password" in refusal(one, "stale")[0]
    assert "the dashboard is off" in refusal(login(""), "good")[0]
    for bad in ("", "x" * 5000, "é"):
        assert "malformed" in refusal(one, bad)[0]


@pytest.mark.parametrize("raw", [
    b"", b"[]", b"{}", b"null", b"<html>", b'{"permissions": {"osd": ["read"]}}', b"\xff",
    b'{"permissions": ["osd"], "username": "x"}', b"[" * 70_000,
    b"[" * 60_000, b'{"username": "x", "permissions": {"osd": "read"}}',
], ids=range(11))
def test_an_answer_that_is_none_lets_nobody_in(dashboard, raw):
    dashboard.raw = raw or b" "
    assert refusal(login(dashboard.uri), "good")[0]


def test_a_dashboard_that_does_not_answer_is_said():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{nobody.getsockname()[1]}/"
        assert "could not be asked" in refusal(login(uri), "good")[0]
    for uri in ("ftp://x/", "nonsense", "http:///x", "http://[::1", "http://127.0.0.1:99999/"):
        assert refusal(login(uri), "good")[0]


def test_over_plain_http_the_token_stays_on_this_machine(monkeypatch):
    """Another host's dashboard without TLS never gets it."""
    def no_connection(*_, **__):
        raise AssertionError("connected")

    monkeypatch.setattr(socket, "create_connection", no_connection)
    # as with net.ipv4.ip_nonlocal_bind, which cephadm sets on ingress hosts
    monkeypatch.setattr(socket.socket, "bind", lambda *_: None)
    said = refusal(login("http://192.0.2.1:8080/"), "good")[0]
    assert "on another host and without TLS: its token is not sent there" in said
    assert is_own_address(socket.AF_INET, "127.0.0.1")
    for host in ("192.0.2.1", "0.0.0.0", "not-an-address"):
        assert not is_own_address(socket.AF_INET, host)


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pems")
    return [self_signed(folder / name) for name in ("mine", "other")]


def test_over_tls_only_the_stored_certificate_gets_the_token(pems):
    mine, other = pems
    found = Dashboard(mine)
    stored = [other[0].read_text(), mine[0].read_text()]
    assert login(found.uri, stored).user("good", ONE) == "ann"
    assert len(found.asked) == 1
    assert "not the one in the mons' store" in refusal(
        login(found.uri, [other[0].read_text()]), "good")[0]
    # the second of a chain is who signed it, and may have signed others
    chain = other[0].read_text() + mine[0].read_text()
    assert "not the one" in refusal(login(found.uri, [chain]), "good")[0]
    empty = "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----"
    for none in ([], [""], ["junk"], [empty]):
        assert "no certificate of the dashboard" in refusal(login(found.uri, none), "good")[0]
    assert len(found.asked) == 1
    found.close()
    assert len(ders_of(chain)) == 2


def test_an_answer_counts_for_a_moment(dashboard):
    now = [0.0]
    one = login(dashboard.uri, clock=lambda: now[0])
    for _ in range(5):
        one.user("good", ONE)
        refusal(one, "old")
    assert len(dashboard.asked) == 2
    now[0] = BAD_S + 1
    refusal(one, "old")
    one.user("good", ONE)
    assert len(dashboard.asked) == 3
    now[0] = GOOD_S + 1
    one.user("good", ONE)
    assert len(dashboard.asked) == 4


def test_tokens_that_nobody_knows_fill_no_memory(dashboard):
    now = [0.0]
    one = login(dashboard.uri, clock=lambda: now[0])
    for number in range(KEPT_MAX + 20):
        now[0] += 10.0
        refusal(one, f"t{number}")
    assert len(one._kept) == KEPT_MAX


def test_unknown_tokens_ask_the_dashboard_no_more_than_their_share(dashboard):
    now = [0.0]
    one = login(dashboard.uri, clock=lambda: now[0])
    for number in range(300):
        refusal(one, f"t{number}")
    assert len(dashboard.asked) == NEW[0]
    assert "log in with `ceph wcache web token`" in refusal(one, "t")[0]
    assert one.user("good", "192.0.2.10") == "ann"  # from elsewhere
    now[0] += GOOD_S + 1
    while "too many" not in refusal(one, f"again{now[0]}")[0]:
        now[0] += 0.001
    assert one.user("good", ONE) == "ann"  # a login that was good before
    before = len(dashboard.asked)
    for number in range(300):
        with pytest.raises(NotLetInError):
            one.user(f"u{number}", f"net{number}")
    assert len(dashboard.asked) - before <= NEW[2]


def test_a_login_that_has_ended_is_not_good_for_ever(dashboard, monkeypatch):
    now = [0.0]
    one = login(dashboard.uri, clock=lambda: now[0])
    one.user("good", ONE)
    monkeypatch.delitem(ANSWERS, "good")
    now[0] += GOOD_S + 1
    assert "does not know this login" in refusal(one, "good")[0]
    assert one._good == {}


def test_a_dashboard_that_hangs_takes_two_questions_and_no_more(monkeypatch):
    monkeypatch.setattr("wcache.web.dashboard_login.TIMEOUT_S", 20.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        one = login(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        asking = [
            threading.Thread(target=refusal, args=(one, f"t{number}")) for number in range(2)
        ]
        for thread in asking:
            thread.start()
        while one._places._value:
            time.sleep(0.01)
        began = time.monotonic()
        assert "too many" in refusal(one, "t2")[0]
        assert time.monotonic() - began < 15.0
        silent.close()
        for thread in asking:
            thread.join()

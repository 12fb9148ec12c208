"""The server follows the options while the mgr runs; what it cannot do is a finding."""

import http.client
import os
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from types import SimpleNamespace

import pytest
from module_world import a_mgr
from wcache.ceph.web_host import Certificate, WebSettings, WebTokens
from wcache.web import server
from wcache.web.app import App
from wcache.web.server import WebPage, redirecting, tls_context, uri_of
from web_world import FakeHost, Site, free_port, self_signed, words


@pytest.fixture
def served():
    pages = []

    def serve(host, make_app=None):
        site = Site(a_mgr())
        tokens = site.tokens = WebTokens()
        site.app._tokens = tokens
        logged = []
        page = WebPage(
            host, make_app=make_app or (lambda secure: site.app), tokens=tokens, log=logged.append
        )
        page.logged = logged
        page.tokens = tokens
        pages.append(page)
        page.start()
        return page

    yield serve
    for page in pages:
        page.close()


def until(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.01)


def get(host, path="/", token="", tls=None):
    make = http.client.HTTPConnection if tls is None else http.client.HTTPSConnection
    more = {} if tls is None else {"context": tls}
    connection = make("127.0.0.1", host.wanted.port, timeout=5, **more)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, dict(answer.getheaders())


def refuses(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def test_the_page_comes_and_goes_with_the_option(served):
    host = FakeHost("off")
    page = served(host)
    time.sleep(0.05)
    assert host.uris == []
    host.wanted = WebSettings("loopback", "127.0.0.1", free_port())
    page._wake.set()
    until(lambda: page.uri)
    assert host.uris == [f"http://127.0.0.1:{host.wanted.port}/"]
    token = page.tokens.issue()["token"]
    assert get(host, token=token)[0] == 200
    assert get(host)[0] == 401
    assert page.findings() == []
    host.wanted = WebSettings("off")
    page._wake.set()
    until(lambda: host.uris[-1] == "")
    assert host.stored is None  # tokens end with the page
    assert page.tokens.refused(token)


@pytest.mark.slow
def test_another_port_is_taken_up_and_the_old_one_left(served):
    host = FakeHost()
    page = served(host)
    until(lambda: page.uri)
    token, old = page.tokens.issue()["token"], host.wanted.port
    host.wanted = WebSettings("loopback", "127.0.0.1", free_port())
    page._wake.set()
    until(lambda: str(host.wanted.port) in page.uri)
    assert refuses(old)
    assert get(host, token=token)[0] == 200  # the key is the same


@pytest.mark.slow
def test_a_port_that_is_taken_is_a_finding_until_it_is_free(served, monkeypatch):
    monkeypatch.setattr("wcache.web.server.RETRY_S", 0.05)
    host = FakeHost()
    with socket.socket() as other:
        other.bind(("127.0.0.1", host.wanted.port))
        other.listen()
        page = served(host)
        until(page.findings)
        (found,) = page.findings()
        assert found.code.value == "WCACHE_WEB_PAGE"
        assert f"cannot listen on 127.0.0.1 port {host.wanted.port}" in found.detail
        assert "mgr/wcache/web_port" in found.detail
        time.sleep(0.3)
        assert len(page.logged) == 1  # once, however often it is tried
        with pytest.raises(Exception, match="not there"):
            page.tokens.issue()
    until(lambda: page.uri)
    assert page.findings() == []


@pytest.mark.parametrize("missing", ["jinja2", "cheroot"])
def test_what_is_missing_is_said_with_what_to_install(monkeypatch, missing):
    for name in ("wcache.web.rendering", "wcache.web.cheroot_server"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, missing, None)

    def make_app(secure):
        return App(None, None, None, secure, print)

    page = WebPage(FakeHost(), make_app=make_app, tokens=WebTokens(), log=print)
    page.start()
    until(page.findings)
    (found,) = page.findings()
    page.close()
    assert missing in found.detail.partition("(")[2].partition(")")[0]
    assert f"python3-{missing}" in found.detail.partition("(")[0]
    assert "ceph config set mgr mgr/wcache/web off" in found.detail
    assert "\n" not in found.detail


def test_no_tls_is_spoken_that_is_older_than_1_2_whatever_python_would_take(pem, monkeypatch):
    """Before Python 3.10 that was less (bpo-43998)."""

    def older(protocol):
        made = ssl.SSLContext(protocol)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            made.minimum_version = ssl.TLSVersion.TLSv1
        return made

    monkeypatch.setattr(server, "ssl", SimpleNamespace(**{**vars(ssl), "SSLContext": older}))
    assert tls_context(pem).minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    crt, key = self_signed(tmp_path_factory.mktemp("pem") / "one")
    return Certificate(crt.read_text(), key.read_text(), "mgr/wcache/web/crt and .../key")


def test_the_key_is_in_a_file_of_its_own_until_it_is_loaded(pem, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = []

    class Watched(ssl.SSLContext):
        def load_cert_chain(self, certfile, keyfile, password):
            super().load_cert_chain(certfile, keyfile, password)
            for path in (keyfile, keyfile.parent):
                status = path.stat()
                seen.append((stat.S_IMODE(status.st_mode), status.st_uid))
            assert keyfile.parent.parent == tmp_path

    monkeypatch.setattr(server, "ssl", SimpleNamespace(**{**vars(ssl), "SSLContext": Watched}))
    old = os.umask(0)
    try:
        tls_context(pem)
    finally:
        os.umask(old)
    assert seen == [(0o600, os.getuid()), (0o700, os.getuid())]
    assert [*tmp_path.iterdir()] == []
    with pytest.raises(server.CannotServeError):
        tls_context(Certificate("junk", pem.key, "here"))
    assert [*tmp_path.iterdir()] == []


def blind():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_tls_is_served_with_the_stored_certificate(served, pem):
    host = FakeHost("tls")
    host.pem = pem
    page = served(host)
    until(lambda: page.uri)
    assert page.uri == f"https://127.0.0.1:{host.wanted.port}/"
    assert get(host, token=page.tokens.issue()["token"], tls=blind())[0] == 200
    old = blind()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        get(host, tls=old)


@pytest.mark.slow
@pytest.mark.parametrize("busy", ["a silent client", "a page that is being made"])
def test_the_mgr_ends_in_time_whoever_is_connected(served, pem, busy):
    host = FakeHost("tls")
    host.pem = pem
    release, making = threading.Event(), threading.Event()

    def app(environ, start_response):
        making.set()
        release.wait(20)
        start_response("200 OK", [("Content-Length", "0")])
        return []

    page = served(host, lambda secure: app)
    until(lambda: page.uri)
    client = socket.create_connection(("127.0.0.1", host.wanted.port))
    if busy == "a page that is being made":
        client = blind().wrap_socket(client)
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert making.wait(10)
    time.sleep(0.2)
    began = time.monotonic()
    page.close()
    assert time.monotonic() - began < 5.0
    assert making.is_set() or not page.uri  # a silent client is not even waited for
    release.set()
    client.close()


@pytest.mark.parametrize(("broken", "said"), [
    (lambda pem: None, "there is no certificate for TLS"),
    (lambda pem: Certificate(pem.chain, "", "here"), "certificate and key in here cannot be used"),
    (lambda pem: Certificate(pem.chain, "-----BEGIN x", "here"), "key without a passphrase"),
    (lambda pem: Certificate("junk", pem.key, "here"), "cannot be used"),
])
def test_a_certificate_that_is_no_good_is_a_finding(served, pem, broken, said):
    host = FakeHost("tls")
    host.pem = broken(pem)
    page = served(host)
    until(page.findings)
    assert said in page.findings()[0].detail
    assert page.uri == ""


def test_a_key_with_a_passphrase_asks_nobody_for_it(served, pem, tmp_path):
    locked = tmp_path / "locked"
    (tmp_path / "key").write_text(pem.key)
    subprocess.run(
        ["openssl", "pkey", "-in", tmp_path / "key", "-aes128", "-passout", "pass:secret",
         "-out", locked], check=True, capture_output=True,
    )
    host = FakeHost("tls")
    host.pem = Certificate(pem.chain, locked.read_text(), "here")
    page = served(host)
    until(page.findings)
    assert "(it has a passphrase)" in page.findings()[0].detail


@pytest.mark.slow
def test_the_key_of_the_tokens_outlives_the_mgr(served):
    host = FakeHost()
    page = served(host)
    until(lambda: page.uri)
    token = page.tokens.issue()["token"]
    page.close()
    assert host.stored is not None
    taken_over = served(host)
    until(lambda: taken_over.uri)
    assert taken_over.tokens.refused(token) == ""


def test_a_standby_leads_to_the_active_page(served):
    active = [""]
    host = FakeHost()
    page = served(host, make_app=lambda secure: redirecting(lambda: active[0]))
    until(lambda: page.uri)
    code, body, _ = get(host)
    assert code == 503
    assert "standby" in body
    active[0] = "https://192.0.2.1:8447/"
    code, _, headers = get(host, "/drives")
    assert (code, headers["Location"]) == (307, "https://192.0.2.1:8447/drives")
    for path in ("//evil.invalid/x", "/@evil.invalid", "/%0d%0aX: y", "/\\evil.invalid"):
        code, _, headers = get(host, path.replace(" ", "%20"))
        assert headers.get("Location", active[0]).startswith("https://192.0.2.1:8447/"), path
        assert "X" not in headers


def test_a_standby_takes_no_request_of_which_it_would_leave_a_part_unread():
    began = []
    app = redirecting(lambda: "https://192.0.2.1:8447/")
    app({"HTTP_TRANSFER_ENCODING": "chunked"}, lambda status, headers: began.append(status))
    assert began == ["413 Payload Too Large"]


def test_the_address_is_one_that_others_reach():
    assert uri_of(WebSettings("tls", "::", 8447), "2001:db8::1") == "https://[2001:db8::1]:8447/"
    assert uri_of(WebSettings("tls", "0.0.0.0", 1), "h") == "https://h:1/"
    assert uri_of(WebSettings("loopback", "127.0.0.1", 2), "h") == "http://127.0.0.1:2/"


@pytest.mark.slow
def test_two_pages_in_one_process_do_not_meet(served):
    """As 20 has it, all modules are in one interpreter."""
    one, other = FakeHost(), FakeHost()
    first, second = served(one), served(other)
    until(lambda: first.uri and second.uri)
    assert "Log in" in words(get(one)[1])
    first.close()
    assert get(other)[0] == 401

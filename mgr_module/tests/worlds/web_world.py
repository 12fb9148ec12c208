"""A web page over the whole module on fake ports, called as a WSGI server calls it."""

import re
import socket
import subprocess
from html.parser import HTMLParser
from io import BytesIO

from module_world import said
from wcache.ceph.web_host import WebSettings, WebTokens
from wcache.core.change.gate.judge import BLOCKS_BEFORE, LOOKS
from wcache.core.loads import Block, BlocksRequest, OsdBlock
from wcache.engine.gate.kept_blocks import KeptBlock
from wcache.web.app import App
from wcache.web.dashboard_login import NotLetInError
from wcache.web.pages import Reader

KEY = bytes(range(32))
URI = "http://127.0.0.1:8447/"
PLACES = ("/", "/drives", "/campaigns", "/latency", "/memory", "/rollouts", "/history")
# what somebody may call a drive, a host or a device class
HOSTILE = (
    '<script>alert(1)</script>', '"><img src=x onerror=alert(1)>', "line\nbreak\r\x00\x1b[31m",
    "\u202eevil\u2066", "x" * 10_240, "' onfocus='a", "{{ 7 * 7 }}", "\u05d0\u05d1",
)


class NoDashboard:
    def user(self, token, whose):
        raise NotLetInError("the dashboard is off")


class Answer:
    def __init__(self, status, headers, body):
        self.code = int(status.split()[0])
        self.headers = dict(headers)
        self.text = body.decode()


class Site:
    """The page of a mgr, and a token of its own."""

    def __init__(self, mgr, dashboard=None, secure=False, latencies=None, open_metrics=False):
        self.mgr = mgr
        self.failures = []
        self.tokens = WebTokens(lambda: mgr.now_s)
        self.tokens.serve(KEY, URI)
        self.token = self.tokens.issue()["token"]
        reader = Reader(
            lambda cmd: mgr.command(cmd["prefix"].partition("wcache ")[2], **{
                name: value for name, value in cmd.items() if name != "prefix"
            }), latencies or mgr.kept_blocks,
        )
        self.app = App(
            reader, self.tokens, dashboard or NoDashboard(), secure, self.failures.append,
            lambda: open_metrics,
        )

    def ask(self, path, method="GET", body=b"", **environ):
        path, _, query = path.partition("?")
        said = []
        given = {
            "REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query,
            "wsgi.input": BytesIO(body), "CONTENT_LENGTH": str(len(body)), **environ,
        }
        chunks = self.app(given, lambda status, headers: said.extend((status, headers)))
        return Answer(*said, b"".join(chunks))

    def get(self, path, **environ):
        """A page as it is now."""
        self.app.forget()
        return self.ask(path, HTTP_COOKIE=f"wcache_token={self.token}", **environ)

    def page(self, path):
        """The text of a page that must be there and well formed."""
        answer = self.get(path)
        assert (answer.code, self.failures) == (200, []), (path, answer.text, self.failures)
        Checker.check(answer.text)
        return answer.text


class Blocks:
    """Blocks at moments that a test chooses."""

    def __init__(self, *blocks):
        self.blocks = blocks

    def since(self, at_s):
        return [item for item in self.blocks if item.at_s >= at_s]


def with_changes(mgr):
    """A mgr whose changes stand in the history, and blocks around them."""
    changes = said(mgr, "history", what="change")["history"]
    at_s = changes[0]["at_s"] - 200.0
    before, after = (BlocksRequest((0,), (7,), 5.0, n, 2000.0) for n in (BLOCKS_BEFORE, LOOKS[-1]))
    blocks = tuple(
        KeptBlock(at_s + 5.0 * n, at_s if n >= 0 else at_s - 200.0, after if n >= 0 else before,
                  Block(5.0, (OsdBlock(0, 20_000.0 if n < 0 else 4_000.0, 50),
                              OsdBlock(7, 19_000.0 + n, 50)))) for n in range(-20, 41)
    )
    return Site(mgr, latencies=Blocks(*blocks)), changes


def self_signed(at):
    """A certificate and its key, as files beside `at`."""
    crt, key = at.with_suffix(".crt"), at.with_suffix(".key")
    subprocess.run(
        ["openssl", "req", "-new", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-days", "2", "-subj", "/CN=wcache.invalid", "-keyout",
         key, "-out", crt], check=True, capture_output=True,
    )
    return crt, key


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class FakeHost:
    def __init__(self, mode="loopback"):
        self.wanted = WebSettings(mode, "127.0.0.1", free_port())
        self.pem = None
        self.stored = None
        self.uris = []

    def settings(self):
        return self.wanted

    def certificate(self):
        return self.pem

    def key(self):
        return self.stored

    def put_key(self, key):
        self.stored = key

    def name(self):
        return "192.0.2.7"

    def tell(self, uri):
        self.uris.append(uri)


class Checker(HTMLParser):
    """Refuses scripts, styles in the text, links elsewhere, tags that are not closed."""

    VOID = frozenset(("meta", "link", "input", "br", "path", "rect"))

    def __init__(self):
        super().__init__()
        self.open = []
        self.ids = []
        self.words = []

    @classmethod
    def check(cls, text):
        found = cls()
        found.feed(text)
        assert found.open == []
        assert len(found.ids) == len(set(found.ids))
        return found

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "style", "iframe", "img", "object", "base")
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name != "style", tag
            if name in ("href", "src", "action"):
                assert re.match(r"(/(?!/)|#|data:,$)", value), value
            if name == "id":
                self.ids.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def words(text):
    """What a reader sees of a page."""
    return " ".join(" ".join(Checker.check(text).words).split())

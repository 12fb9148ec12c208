"""The WSGI application: who may come in, which page it is, how it goes out.

Nothing here changes anything: GET and HEAD read, and POST takes the token of the login form.

What the module tells Prometheus: few numbers, whose count grows with drive models only.

What is wrong is no metric of ours: Ceph's own exporter has each health check
(`ceph_health_detail{name="WCACHE_..."}`), on which templates/prometheus-alerts.yml rests.
"""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import Counter
from http.cookies import CookieError, SimpleCookie
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import parse_qsl, unquote

from ..ceph.web_host import WebTokens
from ..core import VERSION
from ..core.figures.prometheus_text import CONTENT_TYPE, Sample, gauge
from ..services.probes import Budget
from . import pages
from .dashboard_login import DashboardLogin, NotLetInError
from .pages import CannotReadError, Reader

_GROUPS = ("right", "undecided", "unmeasured", "went_back", "fixed")
_SIDES = (("off", "cache_off"), ("on", "cache_on"))


def metrics_text(
    status: Mapping[str, Any], campaigns: Mapping[str, Any], plans: Mapping[str, Any]
) -> str:
    """Metrics of the answers of `status`, `campaign ls` and `plan ls`."""
    summary, reported = status["summary"], status["reported"]
    rows, listed = campaigns["campaigns"], plans["plans"]
    return "".join([
        gauge("wcache_info", "The module and its version.", ({"version": VERSION}, 1)),
        gauge("wcache_probes", "Probes by whether they respond.",
              ({"state": "responding"}, status["agents"]["heard"]),
              ({"state": "silent"}, status["agents"]["known"] - status["agents"]["heard"])),
        gauge("wcache_report_age_seconds", "Age of the oldest report of a probe.",
              *_known({}, reported["oldest_s"])),
        gauge("wcache_drives", "Drives by model, by both sides of their caches, and by safety.",
              *(({name: row[name] for name in
                  ("drive_model", "device_cache", "kernel_view", "safety")}, row["drives"])
                for row in status["drive_models"])),
        gauge("wcache_drive_models", "Drive models by what is to be done about them.",
              *(({"group": f"better_{word}"}, summary[side]["drive_models"])
                for word, side in _SIDES),
              *(({"group": group}, summary[group]) for group in _GROUPS)),
        gauge("wcache_drives_to_change", "Drives that would commit faster in the other mode.",
              *(({"cache": word}, summary[side]["drives"]) for word, side in _SIDES)),
        gauge("wcache_gain_ratio",
              "How many times as fast those drives would commit: ends of the 99% interval.",
              *(sample for word, side in _SIDES for end in ("low", "high")
                for sample in _known({"cache": word, "end": end}, summary[side][f"times_{end}"]))),
        gauge("wcache_findings", "Findings by code and severity.",
              *_counted(("code", "severity"), status["findings"])),
        gauge("wcache_campaigns", "Campaigns by status.", *_counted(("status",), rows)),
        gauge("wcache_plans", "Plans by status.", *_counted(("status",), listed)),
        gauge("wcache_measured_seconds", "Drive time of all campaigns that are kept.",
              ({}, sum(row["seconds"] for row in rows))),
        gauge("wcache_measured_bytes", "What campaigns that are kept have written.",
              ({}, sum(row["bytes_written"] for row in rows))),
        _flag("wcache_measuring", "Whether OSDs are being measured.",
              bool(status["campaign"] or status["measuring"])),
        _flag("wcache_rollout_running", "Whether a plan is being applied or rolled back.",
              bool(status["rollout"])),
        _flag("wcache_frozen", "Whether an admin has frozen all work.", status["frozen"]),
    ])


def _flag(name: str, help_: str, on: bool) -> str:
    return gauge(name, help_, ({}, int(on)))


def _known(labels: Mapping[str, str], value: Any) -> List[Sample]:
    return [] if value is None else [(labels, float(value))]


def _counted(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> List[Sample]:
    names = tuple(names)
    found = Counter(tuple(str(row[name]) for name in names) for row in rows)
    return [(dict(zip(names, values)), count) for values, count in sorted(found.items())]


COOKIE = "wcache_token"
DASHBOARD_COOKIE = "token"
FORM_BYTES_MAX = 2048
QUERY_CHARS_MAX = 1024
METRICS = "metrics"
FIELDS_MAX = 8
PATH_CHARS_MAX = 300
COOKIES_CHARS_MAX = 8192
# Pages are made one at a time, and between two of them is a rest of so many times what the first
# took: the mgr's modules share one interpreter, and no flood of pages takes it from them.
WAIT_S, RESTS, REST_MAX_S = 5.0, 2.0, 2.0
# For so long a page is shown again to the same user, if it is among the last so many.
KEPT_S, KEPT_MAX = 2.0, 16
# Requests that are not let in: what they are shown costs something.  Whoever asks more often,
# from one network or from all together, gets a line in its place.
REFUSALS = (60.0, 5.0, 300.0, 50.0)
# Nothing is loaded but the page's own style sheet; nothing may frame it.
POLICY = (
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", POLICY), ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"), ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"), ("Cache-Control", "no-store"),
)
STATUS = {
    200: "200 OK", 303: "303 See Other", 400: "400 Bad Request", 401: "401 Unauthorized",
    403: "403 Forbidden", 404: "404 Not Found", 405: "405 Method Not Allowed",
    413: "413 Payload Too Large", 429: "429 Too Many Requests",
    500: "500 Internal Server Error", 503: "503 Service Unavailable",
}
Environ = Mapping[str, Any]
Headers = List[Tuple[str, str]]
StartResponse = Callable[[str, Headers], Any]


class Response(Exception):
    """An answer that is no page of `pages`; raised from wherever it is known."""

    def __init__(
        self, code: int, body: str = "", *, kind: str = "text/html",
        headers: Sequence[Tuple[str, str]] = (),
    ) -> None:
        super().__init__(code)
        self.code = code
        self.body = body
        self.kind = kind
        self.headers = list(headers)


class App:
    """The application of the active mgr.

    `open_metrics`: whether `/metrics` is read without a login.
    """

    def __init__(
        self, read: Reader, tokens: WebTokens, dashboard: DashboardLogin, secure: bool,
        log_exception: Callable[[str], None], open_metrics: Callable[[], bool] = lambda: False,
    ) -> None:
        """Raises ImportError where jinja2 is missing."""
        from .rendering import Renderer

        self._read = read
        self._render = Renderer()
        self._tokens = tokens
        self._dashboard = dashboard
        self._secure = secure  # the page itself is served over TLS
        self._log_exception = log_exception
        self._open_metrics = open_metrics
        self._making = threading.Lock()
        # pages made a moment ago: a flood of views of one page makes it once in that moment
        self._kept: Dict[Any, Tuple[float, Response]] = {}
        self.rest_until_s = 0.0
        self._style = ""
        self._refusals = Budget(*REFUSALS)

    def forget(self) -> None:
        """Make the next page anew, and at once."""
        self._kept.clear()
        self.rest_until_s = 0.0

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request, as PEP 3333 has it.  No exception leaves it."""
        try:
            answer = self._answered(environ)
        except Response as response:
            answer = response
        except Exception:
            self._log_exception("the web page failed")
            answer = Response(500, "an internal error: see the mgr's log\n", kind="text/plain")
        body = answer.body.encode("utf-8", "replace")
        headers: Headers = [
            ("Content-Type", f"{answer.kind}; charset=utf-8"),
            ("Content-Length", str(len(body))), *HEADERS, *answer.headers,
        ]
        if self._secure:
            headers.append(("Strict-Transport-Security", "max-age=31536000"))
        start_response(STATUS[answer.code], headers)
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]

    def _answered(self, environ: Environ) -> Response:
        if "HTTP_TRANSFER_ENCODING" in environ:  # what it leaves unread would be the next request
            raise Response(413, "say how long it is: no chunks here\n", kind="text/plain")
        method = str(environ.get("REQUEST_METHOD"))
        raw, text = str(environ.get("PATH_INFO") or "/"), str(environ.get("QUERY_STRING") or "")
        if len(raw) > PATH_CHARS_MAX or len(text) > QUERY_CHARS_MAX:
            raise Response(400, "the address is too long\n", kind="text/plain")
        # WSGI hands bytes over as latin-1 (PEP 3333)
        path = unquote(raw.encode("latin-1", "replace").decode("utf-8", "replace")).strip("/")
        if method == "POST" and path == "login":
            return self._log_in(environ)
        if method not in ("GET", "HEAD"):
            raise Response(405, "nothing can be changed here\n", kind="text/plain",
                           headers=[("Allow", "GET, HEAD")])
        if path == "style.css":
            self._style = self._style or self._render("style.css.j2")
            return Response(200, self._style, kind="text/css",
                            headers=[("Cache-Control", "private, max-age=300")])
        if path == "login":
            return self._login_page(200, "", _whose(environ))
        user = "" if path == METRICS and self._open_metrics() else self._user(environ)
        query = {name: value for name, value in _fields(text).items() if name in pages.ASKED}
        what = path, tuple(sorted(query.items())), user
        kept = self._lately(what)
        if kept is not None:
            return kept
        if not self._making.acquire(timeout=WAIT_S):
            raise Response(503, "busy: reload in a moment\n", kind="text/plain",
                           headers=[("Retry-After", "5")])
        try:
            kept = self._lately(what)  # made while this one waited
            if kept is not None:
                return kept
            time.sleep(max(0.0, min(self.rest_until_s - time.monotonic(), REST_MAX_S)))
            began_s = time.thread_time()
            try:
                made = self._page(path, query, user)
            finally:
                self.rest_until_s = time.monotonic() + RESTS * (time.thread_time() - began_s)
            if made.code == 200:
                self._kept.pop(what, None)
                self._kept[what] = time.monotonic(), made
                while len(self._kept) > KEPT_MAX:
                    del self._kept[next(iter(self._kept))]
            return made
        finally:
            self._making.release()

    def _lately(self, what: Any) -> Optional[Response]:
        """A page that is kept, unless it is old."""
        made_at_s, page = self._kept.get(what, (-math.inf, None))
        return page if time.monotonic() - made_at_s < KEPT_S else None

    def _page(self, path: str, query: Dict[str, str], user: str) -> Response:
        if path == METRICS:
            return self._metrics()
        try:
            page = pages.made(self._read, path, query)
        except CannotReadError as error:
            code, title = (404, "Not found") if error.missing else (503, "Not now")
            page = pages.Page("message.html.j2", title, {"message": str(error)})
        else:
            code = 200
        return Response(code, self._render(
            page.template, **page.values, title=page.title, place=path.partition("/")[0],
            user=user, read_at_s=time.time(),
        ))

    def _metrics(self) -> Response:
        """For Prometheus, which says who it is by `authorization: {credentials: TOKEN}`."""
        read = self._read
        try:
            text = metrics_text(read("status"), read("campaign ls"), read("plan ls"))
        except CannotReadError as error:
            return Response(503, f"{error}\n", kind="text/plain")
        return Response(200, text, kind=CONTENT_TYPE)

    # ---- who may come in

    def _user(self, environ: Environ) -> str:
        """Who reads; raises the page for logging in where nobody is known."""
        cookies = _cookies(environ)
        scheme, _, bearer = str(environ.get("HTTP_AUTHORIZATION") or "").partition(" ")
        own = bearer.strip() if scheme.lower() == "bearer" else cookies.get(COOKIE, "")
        why, code = "", 401
        if own:
            why = self._tokens.refused(own)
            if not why:
                return "a token"
        theirs = cookies.get(DASHBOARD_COOKIE, "")
        if theirs:
            try:
                return self._dashboard.user(theirs, _whose(environ))
            except NotLetInError as refusal:
                why = "; ".join(filter(None, (why, str(refusal))))
                code = 403 if refusal.known else 401
        raise self._login_page(code, why, _whose(environ))

    def _login_page(self, code: int, why: str, whose: str) -> Response:
        if not self._refusals.take(whose, time.monotonic()):
            return Response(429, "too many requests without a login: wait a moment\n",
                            kind="text/plain", headers=[("Retry-After", "5")])
        text = self._render("login.html.j2", title="Log in", why=why, navigation=())
        return Response(code, text)

    def _log_in(self, environ: Environ) -> Response:
        form = _form(environ)
        token = form.get("token", "").strip()
        why = self._tokens.refused(token)
        if why:
            return self._login_page(401, why, _whose(environ))
        flags = "; Secure" if self._secure else ""
        cookie = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{flags}"
        return Response(303, headers=[("Location", "/"), ("Set-Cookie", cookie)])


def network_of(address: str) -> str:
    """The network that an address counts for: an IPv4 address for itself, one of IPv6 for its /64.

    Whoever has one address of a /64 has all of it (RFC 6177).
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


def _whose(environ: Environ) -> str:
    return network_of(str(environ.get("REMOTE_ADDR") or ""))


def _cookies(environ: Environ) -> Dict[str, str]:
    text = str(environ.get("HTTP_COOKIE") or "")
    if len(text) > COOKIES_CHARS_MAX:
        return {}
    # one cookie at a time: a malformed one of somebody else makes SimpleCookie drop all
    found: Dict[str, str] = {}
    for part in text.split(";"):
        try:
            found.update((name, morsel.value) for name, morsel in SimpleCookie(part).items())
        except CookieError:
            continue
    return found


def _form(environ: Environ) -> Dict[str, str]:
    length: Optional[str] = environ.get("CONTENT_LENGTH")
    if not length or not length.isdecimal() or int(length) > FORM_BYTES_MAX:
        raise Response(413, "a token is shorter\n", kind="text/plain")
    try:
        body = environ["wsgi.input"].read(int(length))
    except OSError:
        raise Response(400, "the form did not arrive\n", kind="text/plain") from None
    return _fields(body.decode("utf-8", "replace"))


def _fields(text: str) -> Dict[str, str]:
    try:
        return dict(parse_qsl(text, max_num_fields=FIELDS_MAX, errors="replace"))
    except ValueError:
        raise Response(400, "there are too many fields\n", kind="text/plain") from None

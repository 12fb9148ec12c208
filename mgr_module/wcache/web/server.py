"""The page's server, which the module's options switch while the mgr runs.

What serves it is in `cheroot_server.py`.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Protocol, Tuple
from urllib.parse import quote

from ..ceph.web_host import KEY_BYTES, OFF, TLS, Certificate, StandbyWebHost, WebSettings, WebTokens
from ..core.codec import one_line
from ..core.model import Finding, FindingCode, Severity

WsgiApp = Callable[..., Iterable[bytes]]
# A page that is being made is not waited for: the mgr stops within seconds.
CLOSE_S = 4.0
# What cannot be served is tried again: a port may become free.
RETRY_S = 15.0
LOOK_S = 2.0
MISSING = (
    "the web page needs python3-cheroot and python3-jinja2 on this mgr's host ({error}): install "
    "them there, or `ceph config set mgr mgr/wcache/web off`"
)


class Server(Protocol):
    """What listens for browsers."""

    def serve(self) -> None:
        """Serve until `stop`."""

    def stop(self) -> None:
        """End `serve`, from another thread."""


class CannotServeError(Exception):
    """Why there is no page, in one line with what to do."""


class WebPage:
    """Follows the options in a thread of its own; a page that cannot be is a finding."""

    def __init__(
        self, host: StandbyWebHost, *, make_app: Callable[[bool], WsgiApp], tokens: WebTokens,
        log: Callable[[str], None],
    ) -> None:
        self._host = host
        self._make_app = make_app
        self._tokens = tokens
        self._log = log
        self._wake = threading.Event()
        self._stop = False
        self._thread: Optional[threading.Thread] = None
        self._server: Optional[Server] = None
        self._serving: Optional[threading.Thread] = None
        self._now = (WebSettings(), "")  # what is served, and the certificate's text
        self.trouble = ""
        self.uri = ""

    def start(self) -> None:
        """Begin to follow the options."""
        self._thread = threading.Thread(target=self.run, daemon=True, name="wcache-web")
        self._thread.start()

    def close(self) -> None:
        """The mgr stops or hands over."""
        self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=CLOSE_S)

    def findings(self) -> List[Finding]:
        """Why there is no page although it is switched on."""
        if not self.trouble:
            return []
        return [Finding(FindingCode.WEB_PAGE, Severity.WARNING, "mgr", self.trouble)]

    def run(self) -> None:
        """Follow the options until `close`."""
        while not self._stop:
            try:
                self._apply()
                said = ""
            except CannotServeError as error:
                said = str(error)
            except Exception as error:
                # the thread must live on: what is wrong may be put right
                said = one_line(f"the web page cannot be served: {error!r}", 300)
            if said and said != self.trouble:
                self._log(said)
            if said:
                self._tokens.rest(said)
            self.trouble = said
            self._wake.wait(RETRY_S if said else LOOK_S)
            self._wake.clear()
        self._end()

    def _apply(self) -> None:
        """Serve what the options say.  Raises CannotServeError."""
        wanted = self._host.settings()
        if wanted.mode == OFF:
            self._end()
            self._tokens.rest()
            if self._host.key() is not None:
                self._host.put_key(None)  # tokens end with the page
            return
        certificate = self._host.certificate() if wanted.mode == TLS else None
        now = (wanted, f"{certificate.chain}{certificate.key}" if certificate else "")
        alive = self._serving is not None and self._serving.is_alive()
        if self._server is not None and alive and now == self._now:
            return
        self._end()
        key = self._token_key()
        server = self._bound(wanted, certificate)
        self._server, self._now = server, now
        self._serving = threading.Thread(
            target=_serve, args=(server, self._log), daemon=True, name="wcache-web-server"
        )
        self._serving.start()
        self.uri = uri_of(wanted, self._host.name())
        self._tokens.serve(key, self.uri)
        self._host.tell(self.uri)

    def _bound(self, wanted: WebSettings, certificate: Optional[Certificate]) -> Server:
        """A server that listens.  Raises CannotServeError."""
        secure = wanted.mode == TLS
        try:
            from .cheroot_server import PageServer

            app = self._make_app(secure)
        except ImportError as error:
            raise CannotServeError(MISSING.format(error=one_line(str(error), 120))) from None
        tls = tls_context(certificate) if secure else None
        try:
            return PageServer(wanted.address, wanted.port, app, tls=tls, log=self._log)
        except OSError as error:
            said = one_line(str(error), 120)
            raise CannotServeError(
                f"cannot listen on {wanted.address} port {wanted.port} ({said}): choose another "
                "with `ceph config set mgr mgr/wcache/web_port`, or web_addr"
            ) from None

    def _token_key(self) -> bytes:
        stored = self._host.key() or ""
        try:
            key = bytes.fromhex(stored)
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            key = secrets.token_bytes(KEY_BYTES)
            self._host.put_key(key.hex())
        return key

    def _end(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
            if self._serving is not None:
                self._serving.join(timeout=CLOSE_S)
        if server is not None or self.uri:
            self.uri = ""
            self._host.tell("")


def _serve(server: Server, log: Callable[[str], None]) -> None:
    try:
        server.serve()
    except Exception as error:
        log(one_line(f"the web server ended: {error!r}", 200))


def tls_context(certificate: Optional[Certificate]) -> ssl.SSLContext:
    """What gives a server TLS.  Raises CannotServeError where the certificate is no good."""
    if certificate is None:
        raise CannotServeError(
            "there is no certificate for TLS: `ceph config-key set mgr/wcache/web/crt -i CERT.pem` "
            "and `ceph config-key set mgr/wcache/web/key -i KEY.pem`, or give the dashboard one"
        )

    def no_passphrase() -> str:
        raise ValueError("it has a passphrase")

    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION  # a client could ask for it for ever
        # it is read from files only; theirs are for this process alone, and gone at once
        with tempfile.TemporaryDirectory(prefix="wcache-web-") as folder:
            chain = _private(Path(folder, "crt"), certificate.chain)
            key = _private(Path(folder, "key"), certificate.key)
            context.load_cert_chain(chain, key, no_passphrase)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        said = one_line(str(error), 120)
        raise CannotServeError(
            f"the certificate and key in {certificate.source} cannot be used ({said}): set "
            "both anew as PEM, the key without a passphrase: `ceph config-key set "
            "mgr/wcache/web/crt -i CERT.pem`, `... web/key -i KEY.pem`"
        ) from None
    return context


def _private(path: Path, text: str) -> Path:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode())
    return path


def uri_of(wanted: WebSettings, name: str) -> str:
    """Where a browser finds the page."""
    anywhere = wanted.address in ("::", "0.0.0.0", "")  # noqa: S104  compared, not bound
    host = name if anywhere else wanted.address
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if wanted.mode == TLS else "http"
    return f"{scheme}://{shown}:{wanted.port}/"


def redirecting(active: Callable[[], str]) -> WsgiApp:
    """The application of a standby: it leads to the active mgr's page."""

    def app(environ: Dict[str, Any], start_response: Callable[..., Any]) -> List[bytes]:
        uri = active()
        headers: List[Tuple[str, str]] = [
            ("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"),
        ]
        if "HTTP_TRANSFER_ENCODING" in environ:  # what it leaves unread would be the next request
            start_response("413 Payload Too Large", headers)
            return [b"say how long it is: no chunks here\n"]
        if uri.startswith(("http://", "https://")):
            path = str(environ.get("PATH_INFO") or "/").lstrip("/")
            plain = quote(path) if path.isascii() and len(path) < 300 else ""
            start_response("307 Temporary Redirect", [*headers, ("Location", f"{uri}{plain}")])
            return [b"the page is on the active mgr\n"]
        start_response("503 Service Unavailable", [*headers, ("Retry-After", "5")])
        return [b"this mgr is a standby, and no active one shows the page\n"]

    return app

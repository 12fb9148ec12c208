"""What the web page needs of the mgr: options, certificates, its address, tokens.

Certificates are in the mons' store, as the dashboard's are: `ceph config-key set
mgr/wcache/web/crt -i CERT.pem`, and `mgr/wcache/ID/web/crt` for one mgr alone.

A token is an end and its signature, so nothing is stored for it: whoever has the key can check
it, also the mgr that takes over.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..core.errors import NotReadyError, StorageError
from ..core.text import when
from ..options import Options
from .command import CommandFailed, Mgr, StandbyMgr, config_key, put_config_key

OFF, LOOPBACK, TLS = "off", "loopback", "tls"
OWN_HOST = "127.0.0.1"
KEY = "web/token_key"
PEM_CHARS_MAX = 100_000
ANSWER_S = 30.0


@dataclass(frozen=True)
class WebSettings:
    """Where the page is served."""

    mode: str = OFF
    address: str = OWN_HOST
    port: int = 0


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, both as PEM; `source` says where they are from."""

    chain: str
    key: str
    source: str


def settings(options: Options) -> WebSettings:
    """Where the options want the page."""
    address = OWN_HOST if options.web == LOOPBACK else options.web_addr or any_address()
    return WebSettings(options.web, address, options.web_port)


def any_address() -> str:
    """All addresses of this host, as the mgr's other servers take them."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return "0.0.0.0"  # noqa: S104  behind TLS and a login
    return "::"


class StandbyWebHost:
    """What the page needs of a standby, which only leads to the active mgr's page."""

    def __init__(self, mgr: StandbyMgr, options: Callable[[], Options]) -> None:
        self._standby = mgr
        self._options = options

    def settings(self) -> WebSettings:
        """What the options say; another host's loopback cannot be led to."""
        found = settings(self._options())
        return found if found.mode == TLS else WebSettings()

    def certificate(self) -> Optional[Certificate]:
        """Our own certificate, of this mgr or of all: the mons cannot be asked."""
        for before in (f"{self._standby.get_mgr_id()}/", ""):
            chain, key = (self._standby.get_store(f"{before}web/{name}") for name in ("crt", "key"))
            if chain or key:
                said = f"mgr/wcache/{before}web/crt and .../key"
                return Certificate(chain or "", key or "", said)
        return None

    def key(self) -> Optional[str]:
        """The stored key of the tokens, in hex; a standby checks none."""
        return None

    def put_key(self, key: Optional[str]) -> None:
        """Store it, or remove it."""

    def name(self) -> str:
        """The address by which others reach this mgr, as the dashboard's URI has it."""
        return self._standby.get_mgr_ip()

    def tell(self, uri: str) -> None:
        """Say in the mgr map where the page is, of the active mgr."""


class CephWebHost(StandbyWebHost):
    """The same of the active mgr."""

    def __init__(self, mgr: Mgr, options: Callable[[], Options]) -> None:
        super().__init__(mgr, options)
        self._mgr = mgr

    def settings(self) -> WebSettings:
        """What the options say now."""
        return settings(self._options())

    def certificate(self) -> Optional[Certificate]:
        """Our own certificate, else the dashboard's: both are served by the same mgrs."""
        own = super().certificate()
        if own is not None:
            return own
        for before in (f"mgr/dashboard/{self._mgr.get_mgr_id()}/", "mgr/dashboard/"):
            chain, key = self._key_of(f"{before}crt"), self._key_of(f"{before}key")
            if chain and key:
                return Certificate(chain, key, f"{before}crt and .../key")
        return None

    def key(self) -> Optional[str]:
        return self._mgr.get_store(KEY)

    def put_key(self, key: Optional[str]) -> None:
        """Store it, or remove it."""
        try:
            put_config_key(self._mgr, KEY, key, ANSWER_S)
        except CommandFailed as failure:
            raise StorageError(
                f"the key of the web page's tokens is not stored: {failure}", "check `ceph health`"
            ) from None

    def tell(self, uri: str) -> None:
        """Say in the mgr map where the page is."""
        self._mgr.set_uri(uri)

    def dashboard_uri(self) -> str:
        """Where the mgr map says that the dashboard is; '' where it is off."""
        services: Mapping[str, Any] = self._mgr.get("mgr_map")["services"]
        return str(services["dashboard"]) if "dashboard" in services else ""

    def dashboard_certificates(self) -> List[str]:
        """What the mons' store holds as certificates of the dashboard, as PEM."""
        keys = (f"mgr/dashboard/{self._mgr.get_mgr_id()}/crt", "mgr/dashboard/crt")
        return [text for text in map(self._key_of, keys) if text]

    def _key_of(self, key: str) -> str:
        """A key that is not this module's, of the mons; '' where they have none."""
        text = config_key(self._mgr, key, ANSWER_S)
        return text if len(text) <= PEM_CHARS_MAX else ""


HOURS = 12.0
KEY_BYTES = 32
CHARS_MAX = 200
_VERSION = "wcache1"
SWITCH_ON = (
    "switch it on: `ceph config set mgr mgr/wcache/web loopback` (or tls), then see `ceph mgr "
    "services`"
)


class WebTokens:
    """Makes and checks tokens while the page is on; the page gives it the key."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._key = b""
        self._uri = ""
        self._why_not = ""

    def serve(self, key: bytes, uri: str) -> None:
        """From now on the page is at `uri`, and this is the key of its tokens."""
        self._key, self._uri, self._why_not = key, uri, ""

    def rest(self, why: str = "") -> None:
        """There is no page: it is off, or `why` says what is wrong."""
        self._key, self._uri, self._why_not = b"", "", why

    def issue(self) -> Dict[str, Any]:
        """A new token, with where and how long it is good.

        Raises NotReadyError while there is no page.
        """
        key = self._key
        if not key:
            if self._why_not:
                raise NotReadyError("the web page is not there", self._why_not)
            raise NotReadyError("the web page is off", SWITCH_ON)
        ends_at_s = int(self._clock() + HOURS * 3600)
        said = f"{_VERSION}.{ends_at_s:x}.{secrets.token_hex(8)}"
        return {
            "uri": self._uri, "token": f"{said}.{_signature(key, said)}",
            "expires_at_s": float(ends_at_s),
        }

    def refused(self, token: str) -> str:
        """'' where a token is good, else why it is not."""
        wrong = "this token is not one of this page: `ceph wcache web token` prints one"
        said, _, signature = token[:CHARS_MAX + 1].rpartition(".")
        key = self._key  # once: without a page it is empty, and anybody can sign with that
        if not key or len(token) > CHARS_MAX or not token.isascii():
            return wrong
        if not hmac.compare_digest(signature, _signature(key, said)):
            return wrong
        ends_at_s = int(said.split(".")[1], 16)
        if self._clock() >= ends_at_s:
            return (
                f"this token has expired at {when(ends_at_s)} UTC: `ceph wcache web token` prints "
                "a new one"
            )
        return ""


def _signature(key: bytes, said: str) -> str:
    return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()


def lines(data: Mapping[str, Any]) -> str:
    """`ceph wcache web token` in words."""
    return (
        f"page:  {data['uri']}\ntoken: {data['token']}\n"
        f"good until {when(data['expires_at_s'])} UTC; whoever has it can read the page"
    )

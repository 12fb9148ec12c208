"""What the web page needs of the mgr: its options, certificates, address, and a place in the map.

Certificates are in the mons' store, as the dashboard's are: `ceph config-key set
mgr/wcache/web/crt -i CERT.pem`, and `mgr/wcache/ID/web/crt` for one mgr alone.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Optional

from ..core.errors import StorageError
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

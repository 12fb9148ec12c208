"""What the web page needs of the mgr: its options, certificates, address, and a place in the map.

Certificates are in the mons' store, as the dashboard's are: `ceph config-key set
mgr/wcache/web/crt -i CERT.pem`, and `mgr/wcache/ID/web/crt` for one mgr alone.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Optional, Protocol

from ..core.errors import StorageError
from .command import CommandFailed, SendsCommands, ask_mon

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


class WebOptions(Protocol):
    """The options of the page."""

    @property
    def web(self) -> str:
        """off, loopback or tls."""

    @property
    def web_addr(self) -> str:
        """Where it listens with TLS."""

    @property
    def web_port(self) -> int:
        """Its port."""


class MgrOfPage(SendsCommands, Protocol):
    """The part of MgrModule that is used here."""

    module_name: str

    def get(self, data_name: str) -> Any:
        """As MgrModule.get."""

    def get_mgr_id(self) -> str:
        """As MgrModule.get_mgr_id."""

    def get_mgr_ip(self) -> str:
        """As MgrModule.get_mgr_ip."""

    def get_store(self, key: str) -> Optional[str]:
        """As MgrModule.get_store."""

    def set_uri(self, uri: str) -> None:
        """As MgrModule.set_uri."""


def settings(options: WebOptions) -> WebSettings:
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


def stored_certificate(
    get_store: Callable[[str], Optional[str]], mgr_id: str
) -> Optional[Certificate]:
    """Our own certificate, of this mgr or of all."""
    for before in (f"{mgr_id}/", ""):
        chain, key = (get_store(f"{before}web/{name}") for name in ("crt", "key"))
        if chain or key:
            return Certificate(chain or "", key or "", f"mgr/wcache/{before}web/crt and .../key")
    return None


class CephWebHost:
    """The `Host` port over the active mgr's module."""

    def __init__(self, mgr: MgrOfPage, options: Callable[[], WebOptions]) -> None:
        self._mgr = mgr
        self._options = options

    def settings(self) -> WebSettings:
        """What the options say now."""
        return settings(self._options())

    def certificate(self) -> Optional[Certificate]:
        """Our own certificate, else the dashboard's: both are served by the same mgrs."""
        own = stored_certificate(self._mgr.get_store, self._mgr.get_mgr_id())
        if own is not None:
            return own
        for before in (f"mgr/dashboard/{self._mgr.get_mgr_id()}/", "mgr/dashboard/"):
            chain, key = self._key_of(f"{before}crt"), self._key_of(f"{before}key")
            if chain and key:
                return Certificate(chain, key, f"{before}crt and .../key")
        return None

    def key(self) -> Optional[str]:
        """The stored key of the tokens, in hex."""
        return self._mgr.get_store(KEY)

    def put_key(self, key: Optional[str]) -> None:
        """Store it, or remove it."""
        command = {"prefix": "config-key rm", "key": f"mgr/{self._mgr.module_name}/{KEY}"}
        if key is not None:
            command.update(prefix="config-key set", val=key)
        try:
            ask_mon(self._mgr, command, timeout_s=ANSWER_S)
        except CommandFailed as failure:
            raise StorageError(
                f"the key of the web page's tokens is not stored: {failure}", "check `ceph health`"
            ) from None

    def name(self) -> str:
        """The address by which others reach this mgr, as the dashboard's URI has it."""
        return self._mgr.get_mgr_ip()

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
        try:
            text = ask_mon(
                self._mgr, {"prefix": "config-key get", "key": key}, timeout_s=ANSWER_S
            )
        except CommandFailed:
            return ""
        return text if len(text) <= PEM_CHARS_MAX else ""


class StandbyMgr(Protocol):
    """The part of MgrStandbyModule that is used here."""

    def get_mgr_id(self) -> str:
        """As MgrStandbyModule.get_mgr_id."""

    def get_mgr_ip(self) -> str:
        """As MgrStandbyModule.get_mgr_ip."""

    def get_store(self, key: str) -> Optional[str]:
        """As MgrStandbyModule.get_store."""


class StandbyWebHost:
    """The same of a standby, which only leads to the active mgr's page."""

    def __init__(self, mgr: StandbyMgr, options: Callable[[], WebOptions]) -> None:
        self._mgr = mgr
        self._options = options

    def settings(self) -> WebSettings:
        """What the options say; another host's loopback cannot be led to."""
        found = settings(self._options())
        return found if found.mode == TLS else WebSettings()

    def certificate(self) -> Optional[Certificate]:
        """Our own certificate: a standby cannot ask the mons for the dashboard's."""
        return stored_certificate(self._mgr.get_store, self._mgr.get_mgr_id())

    def key(self) -> Optional[str]:
        """A standby checks no tokens."""
        return None

    def put_key(self, key: Optional[str]) -> None:
        """Nothing is stored by a standby."""

    def name(self) -> str:
        """The address by which others reach this mgr."""
        return self._mgr.get_mgr_ip()

    def tell(self, uri: str) -> None:
        """A standby is not in the mgr map's services."""

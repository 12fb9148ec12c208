"""Tokens that let somebody read the web page without a login of the dashboard.

A token is an end and its signature, so nothing is stored for it: whoever has the key can check
it, also the mgr that takes over.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from typing import Any, Callable, Dict, Mapping

from ..core.errors import NotReadyError
from ..core.text import when

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

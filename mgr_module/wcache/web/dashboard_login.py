"""Lets in whoever is logged in to Ceph's dashboard: it is asked about the token of its cookie.

Cookies take no notice of ports, so a browser that is logged in to the dashboard sends its token
here too (dashboard/controllers/auth.py, `check`).  The token opens the whole dashboard: it goes
only to the address that the mgr map names for the dashboard, over TLS only to a server with the
very certificate that the mons' store holds for it, and without TLS to this machine alone.
A token that is new asks the dashboard and the mons something, so these are counted.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import SplitResult, urlsplit

from ..core.codec import parse_json
from ..core.errors import MalformedError
from ..services.probes import Budget

TOKEN_CHARS_MAX = 4096
ANSWER_BYTES_MAX = 65536
TIMEOUT_S = 4.0
# An answer counts for so long: a page and its style sheet are one question.
GOOD_S, BAD_S = 20.0, 3.0
KEPT_MAX = 64
# Tokens that were good before cost nothing; new ones, of one network and of all together, this.
NEW = (10.0, 0.2, 40.0, 2.0)
# One question at a time, and one more waits for it: the page's threads are few.
ASKING_MAX = 2
TOO_MANY = (
    "too many logins of the dashboard are asked about: reload in a few seconds, or log in with "
    "`ceph wcache web token`"
)
# Of the dashboard's API; the first version is served by every release.
ACCEPTS = "application/vnd.ceph.api.v1.0+json"
SCOPE, RIGHT = "osd", "read"


class NotLetInError(Exception):
    """Why somebody is not let in, in one line; `known` where the dashboard knows them."""

    def __init__(self, text: str, *, known: bool = False) -> None:
        super().__init__(text)
        self.known = known


@dataclass(frozen=True)
class _Answered:
    at_s: float
    name: str
    why: str
    known: bool
    heard: bool  # the dashboard itself has said so


class DashboardLogin:
    """Asks the dashboard about tokens; each answer is kept for a moment."""

    def __init__(
        self, *, uri: Callable[[], str], certificates: Callable[[], List[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uri = uri
        self._certificates = certificates
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: Dict[bytes, _Answered] = {}
        self._good: Dict[bytes, None] = {}  # by the last answer, the newest last
        self._new = Budget(*NEW)
        self._places = threading.BoundedSemaphore(ASKING_MAX)
        self._asking = threading.Lock()

    def user(self, token: str, whose: str) -> str:
        """The name of the dashboard's user; `whose` network asks.  Raises NotLetInError."""
        if not token or len(token) > TOKEN_CHARS_MAX or not token.isascii():
            raise NotLetInError("the dashboard's token is malformed: log in to the dashboard again")
        key = hashlib.sha256(token.encode()).digest()
        found = self._lately(key)
        if found is None:
            if not self._may_ask(key, whose) or not self._places.acquire(blocking=False):
                raise NotLetInError(TOO_MANY)
            try:
                with self._asking:
                    found = self._lately(key) or self._asked(key, token)
            finally:
                self._places.release()
        if found.why:
            raise NotLetInError(found.why, known=found.known)
        return found.name

    def _lately(self, key: bytes) -> Optional[_Answered]:
        with self._lock:
            found = self._kept.get(key)
        if found is not None and (
            self._clock() - found.at_s > (BAD_S if found.why else GOOD_S)
        ):
            return None
        return found

    def _may_ask(self, key: bytes, whose: str) -> bool:
        with self._lock:
            return key in self._good or self._new.take(whose, self._clock())

    def _asked(self, key: bytes, token: str) -> _Answered:
        found = self._ask(token)
        with self._lock:
            _remember(self._kept, key, found)
            if found.name:
                _remember(self._good, key, None)
            elif found.heard:
                self._good.pop(key, None)
        return found

    def _ask(self, token: str) -> _Answered:
        name, why, known, heard = "", "", False, False
        try:
            answer = self._answer(token)
            heard = True
            name = _name(answer)
        except NotLetInError as refusal:
            why, known = str(refusal), refusal.known
        except (OSError, http.client.HTTPException, ValueError, MalformedError) as error:
            why = f"the dashboard could not be asked: {error}"[:300]
        return _Answered(self._clock(), name, why, known, heard)

    def _answer(self, token: str) -> Any:
        uri = self._uri()
        if not uri:
            raise NotLetInError("the dashboard is off, so its logins are good for nothing here")
        parts = urlsplit(uri)
        connection = self._connected(parts)
        try:
            connection.request(
                "POST", f"{parts.path.rstrip('/')}/api/auth/check",
                json.dumps({"token": token}),
                {"Content-Type": "application/json", "Accept": ACCEPTS,
                 "Host": parts.netloc},
            )
            answer = connection.getresponse()
            body = answer.read(ANSWER_BYTES_MAX + 1)
        finally:
            connection.close()
        if not 200 <= answer.status < 300 or len(body) > ANSWER_BYTES_MAX:
            raise NotLetInError(f"the dashboard answered {answer.status} when it was asked")
        return parse_json(body.decode("utf-8"), bytes_max=ANSWER_BYTES_MAX, what="its answer")

    def _connected(self, parts: SplitResult) -> http.client.HTTPConnection:
        """A connection to the dashboard that may have the token."""
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NotLetInError("the mgr map has no proper address of the dashboard")
        # the address that is looked at is the one that is connected to
        family, _, _, _, address = socket.getaddrinfo(
            parts.hostname, parts.port or (443 if parts.scheme == "https" else 80),
            type=socket.SOCK_STREAM,
        )[0]
        host, port = str(address[0]), int(address[1])
        if parts.scheme == "http":
            if not is_own_address(family, host):
                raise NotLetInError(
                    "the dashboard is on another host and without TLS: its token is not sent "
                    "there; log in with `ceph wcache web token`"
                )
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
            connection.connect()
            return connection
        pinned = [ders for pem in self._certificates() for ders in ders_of(pem)[:1]]
        if not pinned:
            raise NotLetInError(
                "the mons' store has no certificate of the dashboard to check it by; log in with "
                "`ceph wcache web token`"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # most are signed by nobody: it must be the very one that the store holds
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        secure = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        secure.connect()
        if secure.sock.getpeercert(binary_form=True) not in pinned:
            secure.close()
            raise NotLetInError(
                "the dashboard's certificate is not the one in the mons' store: its token is not "
                "sent there; log in with `ceph wcache web token`"
            )
        return secure


def _remember(kept: Dict[bytes, Any], key: bytes, value: Any) -> None:
    """As the newest; the oldest goes where there are too many."""
    kept.pop(key, None)
    while len(kept) >= KEPT_MAX:
        del kept[next(iter(kept))]
    kept[key] = value


def _name(answer: Any) -> str:
    """The user of an answer of `auth/check`.  Raises NotLetInError."""
    plain = answer if isinstance(answer, dict) else {}
    rights, name = plain.get("permissions"), plain.get("username")
    if not isinstance(rights, dict) or not isinstance(name, str):
        raise NotLetInError(
            "the dashboard does not know this login, or it has expired: log in to the dashboard "
            "again"
        )
    shown = name[:60]
    if plain.get("pwdUpdateRequired"):
        raise NotLetInError(
            f"the dashboard wants {shown} to set a new password first", known=True
        )
    listed = rights.get(SCOPE)
    if not isinstance(listed, list) or RIGHT not in listed:
        raise NotLetInError(
            f"the dashboard's user {shown} may not read OSDs: a role with `{RIGHT}` of `{SCOPE}` "
            "is needed", known=True,
        )
    return shown


def is_own_address(family: int, host: str) -> bool:
    """Whether an address is one of this machine: it would talk to itself from that very address.

    That it can be bound says nothing: cephadm sets `net.ipv4.ip_nonlocal_bind` on ingress hosts.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
        if address.is_loopback:
            return True
        if address.is_unspecified:
            return False
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # a datagram socket: nothing is sent
            return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except (OSError, ValueError):
        return False


def ders_of(pem: str) -> List[bytes]:
    """The certificates of a PEM text; none where it holds none."""
    end = "-----END CERTIFICATE-----"
    found: List[bytes] = []
    for part in pem.split(end)[:-1]:
        start = part.rfind("-----BEGIN CERTIFICATE-----")
        if start < 0:
            continue
        try:
            found.append(ssl.PEM_cert_to_DER_cert(part[start:] + end))
        except ValueError:
            continue
    return [der for der in found if der]

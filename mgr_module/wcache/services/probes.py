"""What a probe's calls do: `wcache agent poll` and `post`.

Everything a probe says is judged here before the engine hears of it; a message that comes
twice changes nothing.
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Type, TypeVar

from ..core import codec, versions
from ..core.errors import RefusedError, VersionError, WcacheError
from ..core.protocol import POST_BYTES_MAX, PROTOCOL_VERSION, Hello, PollReply, Post
from ..engine.engine import Engine
from .admission import Admission, check_drives

HELLO_BYTES_MAX = 4096
REFUSAL_CHARS_MAX = 300  # in the log of the mgr
T = TypeVar("T", bound=versions.Numbered)


class ProbeService:
    """Takes what probes say and tells them what to do next."""

    def __init__(self, engine: Engine, log: logging.Logger) -> None:
        self._engine = engine
        self._log = log
        self._admission = Admission(engine.options, engine.clock)

    def poll(self, hostname: str, text: str) -> PollReply:
        """`wcache agent poll`: who asks, and what it should do next."""
        return self._logged(hostname, "poll", lambda: self._poll(hostname, text))

    def post(self, hostname: str, text: str) -> PollReply:
        """`wcache agent post`: take an outcome once; a repeated one changes nothing."""
        return self._logged(hostname, "post", lambda: self._post(hostname, text))

    def _logged(self, hostname: str, what: str, call: Callable[[], PollReply]) -> PollReply:
        """The reply; why a call is refused is in the mgr's log, unless there were too many."""
        self._log.debug("%s of %s", what, hostname)
        try:
            return call()
        except WcacheError as error:
            lines = self._admission.line(hostname)
            if lines:
                said = codec.one_line(error.line(), REFUSAL_CHARS_MAX)
                self._log.warning("refused a %s of %s: %s", what, hostname, said)
            raise

    def _poll(self, hostname: str, text: str) -> PollReply:
        self._admission.call(hostname, len(text))
        hello = self._message(hostname, Hello, text, bytes_max=HELLO_BYTES_MAX, what="hello")
        return self._engine.poll(hostname, hello, self._admission.line)

    def _post(self, hostname: str, text: str) -> PollReply:
        self._admission.call(hostname, len(text))
        post = self._message(
            hostname, Post, text, bytes_max=POST_BYTES_MAX, what="post", check=check_drives
        )
        if post.hostname != hostname:
            raise RefusedError(f"{hostname} sent a post in the name of {post.hostname[:60]}")
        hello = Hello(
            post.version, post.probe_id, post.instance_id, post.lease_id, post.simulated,
            post.changed,
        )
        return self._engine.post(hostname, hello, post, self._admission.line)

    def _message(
        self, hostname: str, cls: Type[T], text: str, *, bytes_max: int, what: str,
        check: Callable[[Any], None] = lambda plain: None,
    ) -> T:
        """A probe's message; one of another version is named as that, whatever its fields are."""
        plain = codec.parse_json(text, bytes_max=bytes_max, what=what)
        version = versions.number_in(plain)
        if version not in (0, PROTOCOL_VERSION):
            self._engine.other_version(hostname, version)
            raise VersionError(
                f"the {what} has protocol version {version}, this module speaks "
                f"{PROTOCOL_VERSION}",
                "install the probe of this module's version",
            )
        check(plain)
        return versions.take(cls, plain, what)

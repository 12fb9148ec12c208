"""What a probe's calls do: `wcache agent poll` and `post`.

Everything a probe says is judged here before the engine hears of it; a message that comes
twice changes nothing.
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Dict, Optional, Union

from ..core import across, codec, versions
from ..core.errors import RefusedError, WcacheError
from ..core.protocol import POST_BYTES_MAX, PROTOCOL_VERSION, Hello, PollReply, Post
from ..engine.across_versions import AcrossVersions
from ..engine.engine import Engine
from ..engine.probe_calls import ProbeCalls
from .admission import Admission, check_drives

HELLO_BYTES_MAX = 4096
REFUSAL_CHARS_MAX = 300  # in the log of the mgr
Reply = Union[PollReply, Dict[str, Any]]


class ProbeService:
    """Takes what probes say and tells them what to do next."""

    def __init__(self, engine: Engine, log: logging.Logger) -> None:
        self._engine = engine
        self._log = log
        self._admission = Admission(engine.ports.options, engine.clock)

    def poll(self, hostname: str, text: str) -> Reply:
        """`wcache agent poll`: who asks, and what it should do next."""
        return self._logged(hostname, "poll", lambda: self._poll(hostname, text))

    def post(self, hostname: str, text: str) -> Reply:
        """`wcache agent post`: take an outcome once; a repeated one changes nothing."""
        return self._logged(hostname, "post", lambda: self._post(hostname, text))

    def _logged(self, hostname: str, what: str, call: Callable[[], Reply]) -> Reply:
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

    def _poll(self, hostname: str, text: str) -> Reply:
        self._admission.call(hostname, len(text))
        plain = codec.parse_json(text, bytes_max=HELLO_BYTES_MAX, what="hello")
        other = self._across(hostname, plain)
        if other is not None:
            return other
        hello = versions.take(Hello, plain, "hello")
        with self._engine.orders() as orders:
            return ProbeCalls(orders.executor, self._admission.line).poll(hostname, hello)

    def _post(self, hostname: str, text: str) -> Reply:
        self._admission.call(hostname, len(text))
        plain = codec.parse_json(text, bytes_max=POST_BYTES_MAX, what="post")
        other = self._across(hostname, plain)
        if other is not None:
            return other
        check_drives(plain)
        post = versions.take(Post, plain, "post")
        if post.hostname != hostname:
            raise RefusedError(f"{hostname} sent a post in the name of {post.hostname[:60]}")
        hello = Hello(
            post.version, post.probe_id, post.instance_id, post.lease_id, post.simulated,
            post.changed,
        )
        with self._engine.orders() as orders:
            return ProbeCalls(orders.executor, self._admission.line).post(hostname, hello, post)

    def _across(self, hostname: str, plain: Any) -> Optional[Dict[str, Any]]:
        """The answer to a probe of another protocol: by its number, before any other field."""
        number = versions.number_in(plain)
        report = across.report_in(plain) if across.is_across(plain) else None
        if number in (0, PROTOCOL_VERSION):
            # it has not heard yet that the module was updated
            return None if report is None else across.Order(PROTOCOL_VERSION, 0.05).plain()
        if report is not None and report.hostname != hostname:
            raise RefusedError(f"{hostname} sent a report in the name of {report.hostname[:60]}")
        hello = across.hello_in(plain)
        with self._engine.orders() as orders:
            calls = AcrossVersions(orders.executor, self._admission.line)
            return calls.take(hostname, hello, report).plain()

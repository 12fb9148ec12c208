"""What a probe's calls do, within what one host may ask for.

Everything a probe says is judged here before the engine hears of it; a message that comes
twice changes nothing.

What one host may make the mgr do: calls, bytes, lines in the audit log, drives' reports.

A host's key is on that host.  Whoever took it may call as fast as the network lets it, so
each host has a budget of its own, which no probe of ours comes near.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import Any, Callable, Dict, Tuple, Union

from ..core import across, codec, versions
from ..core.errors import MalformedError, NotReadyError, RefusedError, WcacheError
from ..core.protocol import POST_BYTES_MAX, PROTOCOL_VERSION, Hello, PollReply, Post
from ..engine.engine import Engine
from ..engine.probe_calls import ProbeCalls
from ..options import Options

# So many may be remembered at once; full buckets are forgotten first.
BUCKETS_MAX = 20_000


class TokenBuckets:
    """A bucket for each name.  No clock: the caller gives the time."""

    def __init__(self, most: float) -> None:
        self._most = most
        self._buckets: Dict[str, Tuple[float, float]] = {}  # what is left, and when

    def take(self, name: str, cost: float, per_s: float, now_s: float) -> bool:
        """Take `cost` tokens; False, and none taken, where there are too few.

        `per_s` come in each second, up to `most`.
        """
        if name not in self._buckets:
            self._make_room(per_s, now_s)
        left, at_s = self._buckets.get(name, (self._most, now_s))
        left = min(self._most, left + max(0.0, now_s - at_s) * per_s)
        taken = left >= cost
        self._buckets[name] = left - cost if taken else left, now_s
        return taken

    def _make_room(self, per_s: float, now_s: float) -> None:
        if len(self._buckets) < BUCKETS_MAX:
            return
        full_s = self._most / per_s
        kept = {n: b for n, b in self._buckets.items() if now_s - b[1] < full_s}
        self._buckets = kept if len(kept) < BUCKETS_MAX else {}


class Budget:
    """Buckets of each network, and one of all together; thread-safe."""

    def __init__(self, most: float, per_s: float, all_most: float, all_per_s: float) -> None:
        self._lock = threading.Lock()
        self._each, self._per_s = TokenBuckets(most), per_s
        self._all, self._all_per_s = TokenBuckets(all_most), all_per_s

    def take(self, network: str, now_s: float) -> bool:
        """Count one for a network; False where that is one too many."""
        with self._lock:
            return self._each.take(network, 1.0, self._per_s, now_s) and (
                self._all.take("", 1.0, self._all_per_s, now_s)
            )


# A turn of a probe is a poll and a post for each task that it is given, which takes a switch
# of a drive or a measurement: this many calls in each `poll_busy_s`, and some more.
CALLS_PER_TURN = 4.0
CALLS_PER_S = 20.0
CALLS_BURST = 1000.0
# A call of this many bytes counts as two: decoding is what costs.
BYTES_PER_CALL = 4096
# A probe of 60 drives tells of each once, when it restores them all.
LINES_BURST = 128.0
LINES_PER_S = 0.2
DRIVE_BYTES_MAX = 8192
# Lists in outcomes with an item for each drive.
_OF_DRIVES = ("drives", "before", "after", "drive_ids")


class Admission:
    """The budgets of all hosts; thread-safe by a lock of its own."""

    def __init__(self, options: Callable[[], Options], clock: Callable[[], float]) -> None:
        self._options = options
        self._clock = clock
        self._lock = threading.Lock()
        self._calls = TokenBuckets(CALLS_BURST)
        self._lines = TokenBuckets(LINES_BURST)
        self._left_out: Dict[str, int] = {}

    def call(self, hostname: str, chars: int) -> None:
        """Count a call before it is parsed; raises NotReadyError where it is one too many."""
        per_s = CALLS_PER_S + CALLS_PER_TURN / self._options().poll_busy_s
        cost = 1.0 + chars / BYTES_PER_CALL
        with self._lock:
            taken = self._calls.take(hostname, cost, per_s, self._clock())
        if not taken:
            raise NotReadyError(
                f"{hostname} calls too often: more than {per_s:.0f} calls or "
                f"{per_s * BYTES_PER_CALL / 1000:.0f} kB a second",
                "see what uses its key; a probe goes on by itself in a moment",
            )

    def line(self, hostname: str) -> int:
        """Whether one more line of a host's probe is kept in the audit log.

        Returns 0 where not, else 1 and how many were left out before it.
        """
        with self._lock:
            if not self._lines.take(hostname, 1.0, LINES_PER_S, self._clock()):
                self._left_out[hostname] = self._left_out.get(hostname, 0) + 1
                return 0
            return 1 + self._left_out.pop(hostname, 0)


def check_drives(post: Any) -> None:
    """Raise MalformedError where a post says more of a drive than it may.

    `post` is what was parsed, of any shape.
    """
    outcome = _field(post, "outcome")
    said = [("report", _field(_field(outcome, "report"), "drives"))]
    said += [(name, _field(outcome, name)) for name in _OF_DRIVES]
    notices = _field(post, "notices")
    for notice in notices if isinstance(notices, list) else ():
        said.append(("notice", _field(notice, "prior")))
    for what, items in said:
        for index, item in enumerate(items if isinstance(items, list) else ()):
            size = len(json.dumps(item, separators=(",", ":")))
            if size > DRIVE_BYTES_MAX:
                raise MalformedError(
                    f"drive {index} of the {what} has {size} bytes, {DRIVE_BYTES_MAX} are the most"
                )


def _field(plain: Any, name: str) -> Any:
    return plain.get(name) if isinstance(plain, dict) else None


HELLO_BYTES_MAX = 4096
REFUSAL_CHARS_MAX = 300  # in the log of the mgr
Reply = Union[PollReply, Dict[str, Any]]


class ProbeService:
    """Takes what probes say and tells them what to do next."""

    def __init__(self, engine: Engine, log: logging.Logger) -> None:
        self._engine = engine
        self._log = log
        self._admission = Admission(engine.ports.options, engine.clock)
        self._probes = ProbeCalls(engine, self._admission.line)

    def poll(self, hostname: str, text: str) -> Reply:
        """`wcache agent poll`: who asks, and what it should do next."""
        return self._answer(hostname, text, is_post=False)

    def post(self, hostname: str, text: str) -> Reply:
        """`wcache agent post`: take an outcome once; a repeated one changes nothing."""
        return self._answer(hostname, text, is_post=True)

    def _answer(self, hostname: str, text: str, *, is_post: bool) -> Reply:
        """The reply; why a call is refused is in the mgr's log, unless there were too many."""
        what = "post" if is_post else "poll"
        self._log.debug("%s of %s", what, hostname)
        try:
            self._admission.call(hostname, len(text))
            plain = codec.parse_json(
                text, bytes_max=POST_BYTES_MAX if is_post else HELLO_BYTES_MAX,
                what="post" if is_post else "hello",
            )
            if versions.number_in(plain) not in (0, PROTOCOL_VERSION) or across.is_across(plain):
                return self._across(hostname, plain)
            return self._take(hostname, plain, is_post)
        except WcacheError as error:
            lines = self._admission.line(hostname)
            if lines:
                said = codec.one_line(error.line(), REFUSAL_CHARS_MAX)
                self._log.warning("refused a %s of %s: %s", what, hostname, said)
            raise

    def _take(self, hostname: str, plain: Any, is_post: bool) -> PollReply:
        if not is_post:
            hello = versions.take(Hello, plain, "hello")
        else:
            check_drives(plain)
            hello = post = versions.take(Post, plain, "post")
            if post.hostname != hostname:
                raise RefusedError(f"{hostname} sent a post in the name of {post.hostname[:60]}")
        with self._engine.orders():
            return self._probes.answer(hostname, hello)

    def _across(self, hostname: str, plain: Any) -> Dict[str, Any]:
        """The answer to a probe of another protocol: by its number, before any other field."""
        report = across.report_in(plain) if across.is_across(plain) else None
        if versions.number_in(plain) in (0, PROTOCOL_VERSION):
            # it has not heard yet that the module was updated
            return across.Order(PROTOCOL_VERSION, 0.05).plain()
        if report is not None and report.hostname != hostname:
            raise RefusedError(f"{hostname} sent a report in the name of {report.hostname[:60]}")
        hello = across.hello_in(plain)
        with self._engine.orders():
            return self._probes.answer_other(hostname, hello, report).plain()

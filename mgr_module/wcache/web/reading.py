"""What the pages are made of: the answers of commands that only look, as JSON gives them."""

from __future__ import annotations

import errno
import json
from typing import Any, Callable, Dict, List, Protocol, Tuple

from ..engine.gate.kept_blocks import KeptBlock

# The commands that a page may ask; each needs no right but to read.
READS = (
    "wcache agent ls", "wcache auto status", "wcache campaign ls", "wcache campaign record",
    "wcache campaign show", "wcache drive ls", "wcache explain", "wcache history",
    "wcache memory recommend", "wcache memory status", "wcache plan ls", "wcache plan show",
    "wcache recommend", "wcache rollout ls", "wcache rollout show", "wcache status",
)
Answer = Tuple[int, str, str]


class Latencies(Protocol):
    """Port: the blocks of commit latency that were measured lately."""

    def since(self, at_s: float) -> List[KeptBlock]:
        """The blocks that ended from a moment on, oldest first."""


class CannotReadError(Exception):
    """A command refused; its text is the one line for the reader."""

    def __init__(self, text: str, *, missing: bool) -> None:
        super().__init__(text)
        self.missing = missing  # there is nothing of that name


class Reader:
    """Asks commands for their answers; `answer` is the module's own."""

    def __init__(
        self, answer: Callable[[Dict[str, Any]], Answer], latencies: Latencies
    ) -> None:
        self._answer = answer
        self.latencies = latencies

    def __call__(self, words: str, **arguments: Any) -> Dict[str, Any]:
        """What `ceph wcache <words>` answers.  Raises CannotReadError where it refuses."""
        prefix = f"wcache {words}"
        if prefix not in READS:
            raise ValueError(f"{prefix} is no command of the page")
        given = {name: value for name, value in arguments.items() if value is not None}
        code, out, said = self._answer({"prefix": prefix, "format": "json", **given})
        if code:
            raise CannotReadError(said, missing=code == -errno.ENOENT)
        found: Dict[str, Any] = json.loads(out)
        return found

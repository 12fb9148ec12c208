"""`wcache watch`: follow a campaign, a plan or a memory trial until it is over.

On a terminal with progress bars; in a log a line when something changes, and one a minute.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
import time
from typing import Callable, List, Optional, Sequence, Set, TextIO, Union

from wcache.core.errors import NotFoundError, NotReadyError

from .answers import Answers, add_cluster_arguments, ceph_tool
from .following import Look, bar, look, what_now

NAME = "watch"
ERROR_CODE = 1
HELP = "Follow a campaign, a plan or a memory trial until it is over"
UP = "\x1b[{}A"
CLEAR_BELOW = "\x1b[J"
QUIET_S = 60.0  # a log has a line at least this often
# A mgr that takes over answers after some ten seconds; a module that is switched off may come
# again.  What goes on meanwhile goes on without us.
SILENT_MAX_S = 600.0
RETRY_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See main.Command."""
    parser.add_argument(
        "what", nargs="?", metavar="ID",
        help="a campaign (c3), a plan (p1) or a trial; default: what is under way",
    )
    parser.add_argument(
        "--interval-s", type=_interval, default=2.0, metavar="S", help="seconds between looks"
    )

    add_cluster_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """See main.Command.  The exit code is 0 for what is done, 2 for what came to nothing."""
    answers = ceph_tool(options)
    name = options.what or what_now(answers)
    try:
        return follow(answers, name, sys.stdout, interval_s=options.interval_s)
    except KeyboardInterrupt:
        print(f"\nno longer watching; {name} goes on", file=sys.stderr)
        return 130


def follow(
    answers: Answers, name: str, out: TextIO, *, interval_s: float,
    pause: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic,
) -> int:
    """Show it at every change until it is over; returns the exit code.

    Raises NotReadyError where nobody answers for too long.
    """
    show: Union[_Bars, _Log] = _Bars(out) if out.isatty() else _Log(out, clock)
    silent_since_s: Optional[float] = None
    while True:
        try:
            seen = look(answers, name)
        except NotReadyError as error:
            now_s = clock()
            silent_since_s = now_s if silent_since_s is None else silent_since_s
            if now_s - silent_since_s > SILENT_MAX_S or not show.begun:
                raise
            show.silent(error.line())
            pause(max(interval_s, RETRY_S))
            continue
        except NotFoundError:
            if silent_since_s is None:
                raise
            # a mgr that has just taken over may not have loaded what is stored yet
            if clock() - silent_since_s > SILENT_MAX_S:
                raise
            pause(max(interval_s, RETRY_S))
            continue
        silent_since_s = None
        show.look(seen)
        if seen.over:
            out.write("".join(f"{line}\n" for line in seen.ending))
            out.flush()
            return seen.code
        pause(interval_s)


class _Bars:
    """Bars that are drawn in place."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawn = 0
        self.begun = False

    def look(self, seen: Look) -> None:
        self.begun = True
        self._draw(seen.headline, [bar(part) for part in seen.parts])

    def silent(self, why: str) -> None:
        self._draw(f"waiting for the mgr: {why}")

    def _draw(self, headline: str, bars: Sequence[str] = ()) -> None:
        size = shutil.get_terminal_size()
        lines = [*textwrap.wrap(headline, max(20, size.columns - 1)), *bars]
        shown = [line[: size.columns - 1] for line in lines[: max(1, size.lines - 2)]]
        if len(shown) < len(lines):
            shown[-1] = f"and {len(lines) - len(shown) + 1} more"
        self._out.write((UP.format(self._drawn) if self._drawn else "") + CLEAR_BELOW)
        self._out.write("".join(f"{line}\n" for line in shown))
        self._out.flush()
        self._drawn = len(shown)


class _Log:
    """Lines for a log or a pipe."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        self._out = out
        self._clock = clock
        self._said: Set[str] = set()
        self._said_at_s = 0.0
        self.begun = False
        self._silent = False

    def look(self, seen: Look) -> None:
        now_s = self._clock()
        if self._silent:
            self._say(["the mgr answers again"])
            self._silent = False
        fresh = [line for line in seen.news if line not in self._said]
        self._said = set(seen.news)
        if fresh:
            self._say(fresh)
        if not self.begun or now_s - self._said_at_s >= QUIET_S:
            self._say([seen.headline])
            self._said_at_s = now_s
        self.begun = True

    def silent(self, why: str) -> None:
        if not self._silent:
            self._say([f"waiting for the mgr: {why}"])
            self._silent = True

    def _say(self, lines: List[str]) -> None:
        self._out.write("".join(f"{line}\n" for line in lines))
        self._out.flush()


def _interval(text: str) -> float:
    value: Optional[float]
    try:
        value = float(text)
    except ValueError:
        value = None
    if value is None or not 0.2 <= value <= 600:
        raise argparse.ArgumentTypeError("a number from 0.2 to 600")
    return value

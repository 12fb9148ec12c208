"""`wcache watch`: follow a campaign until it is over, with progress bars on a terminal."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from typing import Any, Callable, Dict, List, Optional, TextIO, Tuple

from wcache.core.errors import MalformedError, NotFoundError
from wcache.core.model import load_name
from wcache.core.text import amount, duration, latency, ratio

from .answers import Answers, add_cluster_arguments, ceph_tool

NAME = "watch"
ERROR_CODE = 1
HELP = "Follow a campaign until it is over (the newest one unless named)"
BAR_CHARS = 30
UP = "\x1b[{}A"
CLEAR_BELOW = "\x1b[J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See main.Command."""
    parser.add_argument("campaign", nargs="?", metavar="CAMPAIGN", help="its id, such as c3")
    parser.add_argument(
        "--interval-s", type=_interval, default=2.0, metavar="S", help="seconds between looks"
    )
    add_cluster_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """See main.Command.  The exit code is 0 for a campaign that is done, 2 for an aborted one."""
    answers = ceph_tool(options)
    campaign_id = options.campaign or newest(answers)
    try:
        return follow(answers, campaign_id, sys.stdout, interval_s=options.interval_s)
    except KeyboardInterrupt:
        print(f"\nno longer watching; campaign {campaign_id} goes on", file=sys.stderr)
        return 130


def newest(answers: Answers) -> str:
    """The id of the newest campaign; raises NotFoundError where there is none."""
    listed = answers.ask("campaign", "ls").get("campaigns")
    if not isinstance(listed, list) or not listed:
        raise NotFoundError("there is no campaign yet", "start one: ceph wcache campaign start")
    return str(listed[-1]["campaign_id"])


def follow(
    answers: Answers, campaign_id: str, out: TextIO, *, interval_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Show the campaign at every change until it is over; returns the exit code."""
    terminal = out.isatty()
    drawn = 0
    said: Dict[str, Tuple[str, int]] = {}
    while True:
        shown = answers.ask("campaign", "show", campaign_id)
        try:
            rows = shown["run_list"]
            lines = [bar(row) for row in rows] if terminal else _news(rows, said)
            over = shown["status"] != "running"
        except (KeyError, TypeError):
            raise MalformedError("the module's answer is not a campaign") from None
        if terminal:
            width = shutil.get_terminal_size().columns
            lines = [line[: width - 1] for line in lines]
            out.write((UP.format(drawn) if drawn else "") + CLEAR_BELOW)
            out.write("".join(f"{line}\n" for line in lines))
            drawn = len(lines)
        else:
            out.write("".join(f"{line}\n" for line in lines))
        out.flush()
        if over:
            out.write("".join(f"{line}\n" for line in ending(shown)))
            return 0 if shown["status"] == "done" else 2
        pause(interval_s)


def _news(rows: List[Dict[str, Any]], said: Dict[str, Tuple[str, int]]) -> List[str]:
    """Lines for a log: a run whose status changed, or that is another quarter further."""
    lines = []
    for row in rows:
        now = (row["status"], 4 * row["periods_done"] // max(1, row["periods_max"]))
        if said.get(row["run_id"]) != now:
            said[row["run_id"]] = now
            lines.append(plain(row))
    return lines


def bar(row: Dict[str, Any]) -> str:
    """One run as a progress bar."""
    done, most = row["periods_done"], max(1, row["periods_max"])
    filled = min(BAR_CHARS, BAR_CHARS * done // most)
    drawn = "#" * filled + "." * (BAR_CHARS - filled)
    return f"{row['run_id']:8} [{drawn}] {done:4}/{most} {_where(row)}"


def plain(row: Dict[str, Any]) -> str:
    """One run as a line for a log."""
    return f"{row['run_id']} {row['periods_done']}/{row['periods_max']} periods, {_where(row)}"


def ending(shown: Dict[str, Any]) -> List[str]:
    """What came out, a line for each result."""
    lines = [
        f"campaign {shown['campaign_id']}: {shown['status']}, "
        f"{duration(shown['seconds'])} of drive time, {amount(shown['bytes_written'])} written"
    ]
    for result in shown["results"]:
        back, through = (result[mode]["p50_us"] for mode in ("write_back", "write_through"))
        lines.append(
            f"osd.{result['osd_id']} {_drive(result)} {load_name(result['load_point'])}: "
            f"{result['verdict']}, write back {latency(back)}, write through {latency(through)}, "
            f"ratio {ratio(result)}"
        )
    return lines


def _where(row: Dict[str, Any]) -> str:
    reason = f": {row['reason']}" if row["reason"] else ""
    return f"{_printable(row['hostname'])} {_drive(row)} {row['status']}{_printable(reason)}"


def _drive(row: Dict[str, Any]) -> str:
    return _printable(",".join(row["dev_names"]) or row["domain_id"])


def _printable(text: str) -> str:
    """A drive's own text must not move the terminal's cursor."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _interval(text: str) -> float:
    value: Optional[float]
    try:
        value = float(text)
    except ValueError:
        value = None
    if value is None or not 0.2 <= value <= 600:
        raise argparse.ArgumentTypeError("a number from 0.2 to 600")
    return value

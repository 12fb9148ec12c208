"""`wcache try`: what `ceph wcache try` does, followed with a bar until the answer is there."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Callable, Dict, List, TextIO

from wcache.core.errors import MalformedError

from .answers import Answers, add_cluster_arguments, ceph_tool
from .watch import follow

NAME = "try"
LOOK = "--dry-run"  # begins nothing, and a forecast is an answer too
ERROR_CODE = 1
HELP = (
    "Measure a drive or two of each drive model in the cheapest way, and follow it to the "
    "answer; without --accept-cost only say what it would cost"
)
INTERVAL_S = 1.0
# A campaign that is over has its answer as soon as its last host was looked at again.
LOOKS_MAX = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See main.Command."""
    parser.add_argument(
        "scope", nargs="?", default="cluster", metavar="SCOPE",
        help="cluster (default), class:NAME, host:NAME, osd.N or model:PART",
    )
    parser.add_argument("--accept-cost", action="store_true", help="begin to measure")
    add_cluster_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """See main.Command.  The exit code is 0 with an answer or a forecast, 2 for an abort."""
    answers = ceph_tool(options)
    return tried(answers, options.scope, options.accept_cost, sys.stdout)


def tried(
    answers: Answers, scope: str, accept_cost: bool, out: TextIO,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Ask, follow what is under way, and print the answer."""
    data = answers.ask("try", scope, "--accept-cost" if accept_cost else LOOK)
    code = 0
    for _ in range(LOOKS_MAX):
        if _field(data, "state") != "measuring":
            break
        followed = follow(
            answers, str(_field(data, "campaign_id")), out, interval_s=INTERVAL_S, pause=pause
        )
        code = code or followed
        data = answers.ask("try", scope, LOOK)
    out.write("".join(f"{line}\n" for line in _lines(data)))
    return code


def _lines(data: Dict[str, Any]) -> List[str]:
    lines = [*_field(data, "lines"), f"next: {_field(data, 'next') or 'nothing'}"]
    return ["".join(c if c.isprintable() else "?" for c in str(line)) for line in lines]


def _field(data: Dict[str, Any], name: str) -> Any:
    try:
        return data[name]
    except KeyError:
        raise MalformedError(
            "the module's answer is not that of `try`", "module and tool should be of one version"
        ) from None

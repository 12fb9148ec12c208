"""`wcache report`: a self-contained HTML page of what was measured, decided and done."""

from __future__ import annotations

import argparse
from pathlib import Path

from wcache.core import codec

from .answers import (
    Answers,
    SavedAnswers,
    SavingAnswers,
    add_cluster_arguments,
    ceph_tool,
    write_text,
)
from .evidence import gather, plain
from .report_page import render

NAME = "report"
ERROR_CODE = 1
HELP = "Write a report to send on: one HTML file, and a JSON file of all samples beside it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See main.Command."""
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the page")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="DIR",
        help="read saved answers from this folder instead of asking a cluster",
    )
    parser.add_argument(
        "--save", type=Path, metavar="DIR", help="save the cluster's answers, for --from"
    )
    add_cluster_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """See main.Command."""
    answers: Answers = SavedAnswers(options.source) if options.source else ceph_tool(options)
    if options.save:
        answers = SavingAnswers(answers, options.save)
    evidence = gather(answers)
    page = render(evidence)
    write_text(_beside(options.out), codec.dumps(plain(evidence)) + "\n")
    write_text(options.out, page)
    print(f"report: {options.out}, and all samples: {_beside(options.out)}")
    return 0


def _beside(page: Path) -> Path:
    """The JSON file of a page; never the page itself."""
    return page.with_name(f"{page.name if page.suffix == '.json' else page.stem}.json")

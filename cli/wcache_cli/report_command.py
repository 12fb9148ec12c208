"""`wcache report`: a self-contained HTML page of what was measured, decided and done."""

from __future__ import annotations

import argparse
from pathlib import Path

from .answers import (
    Answers,
    SavedAnswers,
    SavingAnswers,
    add_cluster_arguments,
    ceph_tool,
    write_text,
)
from .evidence import gather
from .report_page import render

NAME = "report"
ERROR_CODE = 1
HELP = "Write an HTML report of drives, campaigns, recommendations, plans and the audit log"


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
    write_text(options.out, render(gather(answers)))
    print(f"report: {options.out}")
    return 0

"""`wcache`: the admin's terminal tool.  One small module per command, listed here."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Optional, Protocol, Sequence, Tuple

from wcache.core import VERSION
from wcache.core.errors import WcacheError

from . import analyze_command, report_command, try_command, watch
from .compare import command as compare_command

NO_ANALYSIS = "this needs numpy and scipy: install python3-numpy and python3-scipy"


class Command(Protocol):
    """What the module of a command offers."""

    NAME: str
    HELP: str
    ERROR_CODE: int  # 2 where an error is about the files given, as for bad arguments

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; returns the exit code.  A WcacheError becomes one line of error."""


COMMANDS: Tuple[Command, ...] = (
    try_command, report_command, watch, analyze_command, compare_command,
)


def make_parser() -> argparse.ArgumentParser:
    """All there is to say; the manual page is made of it."""
    parser = argparse.ArgumentParser(
        prog="wcache", description="Write caches of Ceph OSD drives: follow, report, analyse."
    )
    parser.add_argument("--version", action="version", version=f"wcache {VERSION}")
    verbs = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        verb = verbs.add_parser(command.NAME, help=command.HELP, description=command.HELP)
        command.add_arguments(verb)
        verb.set_defaults(run=command.run, error_code=command.ERROR_CODE)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run one command; returns its exit code."""
    options = make_parser().parse_args(arguments)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except WcacheError as error:
        print(f"wcache {options.command}: {error.line()}", file=sys.stderr)
        return int(options.error_code)
    except ImportError as error:
        print(f"wcache {options.command}: {NO_ANALYSIS} ({error})", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader has gone; Python would complain about it once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())

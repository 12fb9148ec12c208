"""`wcache compare`: latency files of both modes, as fio and others write them, or two times."""

from __future__ import annotations

import argparse

from wcache.core import codec
from wcache.core.errors import MalformedError
from wcache.core.loads import MATERIAL_RATIO
from wcache.core.model import CacheMode

from ..output import add_format, print_json
from ..tables import mode_table, result_lines
from .reading import UNITS, read_modes

NAME = "compare"
ERROR_CODE = 2
HELP = (
    "Compare latencies measured in both cache modes by other tools: fio JSON (json or json+), "
    "fio latency logs (--write_lat_log), or plain text with one latency per line.  Logs and text "
    "tell nothing of syncs: say --synced where each latency is that of a write with its sync.  "
    "Never pooled and never applied: only periods taken in turn can carry that.  With --before and "
    "--after, compare two times instead: saved answers of `ceph wcache campaign show` of "
    "--observe, or of `campaign record`"
)
FILES_MAX = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See main.Command."""
    for mode in CacheMode:
        option = mode.value.replace(" ", "-")
        parser.add_argument(
            f"--{option}", nargs="+", metavar="FILE", action="extend",
            help=f"files measured in {mode.value}, one per measurement or, of "
            "fio's logs, one per job of it; 4 or more measurements make the measurement the unit",
        )
    for time in ("before", "after"):
        parser.add_argument(f"--{time}", metavar="FILE", help=f"what was measured {time}")
    parser.add_argument(
        "--unit", choices=tuple(UNITS), default="us",
        help="of plain text (default: %(default)s); fio's files say theirs themselves",
    )
    parser.add_argument(
        "--synced", action="store_true",
        help="your word for files that tell nothing of syncs (logs, text): each of their latencies "
        "is that of a write with its sync",
    )
    parser.add_argument(
        "--material-ratio", type=float, default=MATERIAL_RATIO, metavar="RATIO",
        help="smaller differences are not worth a change (default: %(default)s)",
    )
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Print the table of each mode, the ratio, the verdict and the warnings."""
    modes, times = (options.write_back, options.write_through), (options.before, options.after)
    given = [all(times) and not any(modes), all(modes) and not any(times)]
    if not any(given):
        raise MalformedError(
            "this needs files of two modes, or of two times",
            "give --write-back and --write-through, or --before and --after",
        )
    return _times(options) if given[0] else _modes(options)


def _times(options: argparse.Namespace) -> int:
    from .before_after import compared

    found = compared(options.before, options.after)
    if options.format == "json":
        print_json(found)
    else:
        print("\n".join(found["lines"]))
    return 0


def _modes(options: argparse.Namespace) -> int:
    from wcache.analysis.decision import Materiality

    from .comparison import compare

    rules = codec.decode(Materiality, {"material_ratio": options.material_ratio}, "options")
    paths = {
        CacheMode.WRITE_BACK: options.write_back,
        CacheMode.WRITE_THROUGH: options.write_through,
    }
    for mode, files in paths.items():
        if len(files) > FILES_MAX:
            raise MalformedError(
                f"{len(files)} files for {mode.value}, {FILES_MAX} are the most"
            )
    result = compare(read_modes(paths, options.unit, synced=options.synced), rules)
    if options.format == "json":
        print_json(result)
        return 0
    print("\n".join(mode_table(result["per_mode"])))
    print("\n".join(result_lines(result)))
    return 0
